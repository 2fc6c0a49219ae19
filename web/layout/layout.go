// Package layout is what all pages of the inspector share: the shell around
// them, and the parts they are made of (badges, bars, tables, charts, empty
// states) with one way to write numbers, sizes and times.
//
// A page is a value. Its package makes a Page from what it read, the listener
// puts the shell around it. Nothing here reads, decides or keeps anything.
//
// Styles and scripts come from files alone: the content policy allows nothing
// inline, so a bar's width is an attribute of an SVG shape, never a style.
package layout

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// Frame is what the shell shows around every page.
type Frame struct {
	Theme   string // light, dark, or "" for the system's
	Form    string // token of every form
	Version string
	State   State
	Asset   func(name string) string
	Notices []Notice
	Here    Here
}

// State is the pill beside the name: what Holdfast does with traffic now. Short
// is Word where there is no room.
type State struct{ Word, Short, Tone, Detail string }

// Notice is a line above every page: something the owner should know.
type Notice struct{ Tone, Text, Link, LinkText string }

// Page is one page: what its package decided to show.
type Page struct {
	Title   string
	Section string // of the navigation
	Crumbs  []Link
	Body    templ.Component
	Keys    []Key // beside those of every page
	Status  int   // 0 for 200
}

// Link is a place to go.
type Link struct{ Text, URL string }

// Key is a key a page listens to.
type Key struct{ Press, Does string }

// Tones of badges, tiles and bars.
const (
	Good  = "good"
	Warn  = "warn"
	Bad   = "bad"
	Info  = "info"
	Quiet = "quiet"
)

// savedTone is that of a sum saved, or lost.
func savedTone(sum float64) string {
	switch {
	case sum > 0:
		return Good
	case sum < 0:
		return Warn
	}
	return Quiet
}

// Section is one entry of the navigation; Press follows g. Text begins with the
// one word that stays where there is no room.
type Section struct{ ID, Text, URL, Press string }

// words are the first of a section's name, and the rest.
func (s Section) words() (first, rest string) {
	first, rest, _ = strings.Cut(s.Text, " ")
	if rest != "" {
		rest = " " + rest
	}
	return first, rest
}

// Sections is the navigation.
func Sections() []Section {
	return []Section{
		{"overview", "Overview", "/ui/", "o"},
		{"sessions", "Sessions", "/ui/sessions", "s"},
		{"degrades", "Degrades", "/ui/degrades", "d"},
		{"cache", "Cache budgets", "/ui/cache", "c"},
		{"connect", "Connect", "/ui/connect", "n"},
		{"settings", "Settings", "/ui/settings", "t"},
		{"help", "Help", "/ui/help", "h"},
	}
}

// EveryKey are the keys of every page.
func EveryKey() []Key {
	keys := []Key{{"?", "show these keys"}, {"/", "search"}, {"j k", "next and previous row"}, {"Enter", "open the row"},
		{"] [", "next and previous page"}, {"Esc", "close, or leave a field"}}
	for _, s := range Sections() {
		keys = append(keys, Key{"g " + s.Press, "go to " + s.Text})
	}
	return keys
}

// Here is the address of the page being shown: the state of its lists.
type Here struct {
	Path  string
	Query url.Values
}

// At makes a Here of a request's address.
func At(u *url.URL) Here { return Here{u.Path, u.Query()} }

// Get is one value of the address.
func (h Here) Get(key string) string { return h.Query.Get(key) }

// With is the address with some values changed, in pairs; "" removes one.
func (h Here) With(pairs ...string) string {
	q := url.Values{}
	for k, v := range h.Query {
		q[k] = slices.Clone(v)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return h.Path
	}
	return h.Path + "?" + q.Encode()
}

// String is the address itself.
func (h Here) String() string { return h.With() }

// Int is a whole number of the address, or d where there is none.
func (h Here) Int(key string, d int) int {
	n, err := strconv.Atoi(h.Get(key))
	if err != nil || n < 0 {
		return d
	}
	return n
}

// Sorting is how a table is ordered, as its address says.
type Sorting struct {
	Here      Here
	By        string
	Ascending bool
}

// SortOf reads the order of a table; one that is not known is def, descending.
func SortOf(h Here, def string, known ...string) Sorting {
	s := Sorting{Here: h, By: h.Get("sort"), Ascending: h.Get("dir") == "asc"}
	if s.By != def && !slices.Contains(known, s.By) {
		s.By, s.Ascending = def, false
	}
	return s
}

// next is the address that a click on a column's name leads to.
func (s Sorting) next(by string) string {
	dir := ""
	if s.By == by && !s.Ascending {
		dir = "asc"
	}
	return s.Here.With("sort", by, "dir", dir, "page", "")
}

// aria is the column's order for those who do not see the arrow.
func (s Sorting) aria(by string) string {
	switch {
	case s.By != by:
		return "none"
	case s.Ascending:
		return "ascending"
	}
	return "descending"
}

// Paging is which page of a list is shown.
type Paging struct {
	Here              Here
	Page, Size, Total int
	What              string // what is counted, plural
}

// Pages is how many there are, at least one.
func (p Paging) Pages() int { return max(1, (p.Total+p.Size-1)/p.Size) }

func (p Paging) to(page int) string { return p.Here.With("page", strconv.Itoa(page), "at", "") }

// Shown says which entries these are.
func (p Paging) Shown() string {
	if p.Total == 0 {
		return "no " + p.What
	}
	from := (p.Page-1)*p.Size + 1
	return Count(int64(from)) + "–" + Count(int64(min(from+p.Size-1, p.Total))) + " of " + Count(int64(p.Total)) + " " + p.What
}

// Option is one choice of a filter.
type Option struct{ Value, Text string }

// Options makes choices of plain values.
func Options(values []string) (out []Option) {
	for _, v := range values {
		if v != "" {
			out = append(out, Option{v, v})
		}
	}
	return out
}
