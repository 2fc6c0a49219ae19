// Package cache is the page of the disk KV tier: what it holds and for whom,
// what room it may take, what it gave back, and what the next eviction would
// remove. While the tier is off the page says what it is for and how to turn it
// on.
package cache

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"holdfast/core/config"
	"holdfast/core/kv"
	"holdfast/web/layout"
)

// Source is what this page reads.
type Source interface {
	KV() kv.Status
	// Dry is what the next prune would do; nothing is done.
	Dry(ctx context.Context) (kv.Plan, error)
	Config() *config.Config
	// Written is how many bytes were written today, and the day's cap.
	Written() (today, limit kv.Bytes)
	// Mismatch is in which fields of its identity an engine differed, the last
	// time that was why a prompt got nothing.
	Mismatch() (fields []string, at time.Time)
	// Titles is what sessions are called; one that is gone has no title.
	Titles(ctx context.Context, ids []string) (map[string]string, error)
}

// Pages makes this page.
type Pages struct {
	Source Source
	Now    func() time.Time
	Form   func() string
}

const pageSize = 25

// model is the view model.
type model struct {
	kv.Status
	here    layout.Here
	now     int64
	form    string
	local   bool     // some route has a local engine
	today   kv.Bytes // written
	cap     kv.Bytes // that may be written a day
	differs []string // fields of the last identity mismatch
	differT time.Time
	titles  map[string]string // of the sessions shown
	rows    []kv.StatusEntry
	sort    layout.Sorting
	pages   layout.Paging
	groups  []modelGroup
	plan    kv.Plan
	planned bool
}

// modelGroup is what one model's states take.
type modelGroup struct {
	id     kv.ModelIdentity
	states int
	points int
	bytes  kv.Bytes
	tokens kv.Tokens
	last   time.Time
}

// Cache is the page.
func (p *Pages) Cache(r *http.Request) (layout.Page, error) {
	m := model{Status: p.Source.KV(), here: layout.At(r.URL), now: p.Now().UnixMilli(), form: p.Form()}
	c := p.Source.Config()
	for _, route := range c.Routes {
		m.local = m.local || route.Engine != ""
	}
	if m.off() {
		return layout.Page{Title: "Cache budgets", Section: "cache", Body: offPage(m)}, nil
	}
	m.today, m.cap = p.Source.Written()
	m.differs, m.differT = p.Source.Mismatch()
	m.list()
	var ids []string
	for _, e := range m.rows {
		ids = append(ids, e.Sessions...)
	}
	var err error
	if m.titles, err = p.Source.Titles(r.Context(), ids); err != nil {
		return layout.Page{}, err
	}
	if m.here.Get("dry") != "" {
		if m.plan, err = p.Source.Dry(r.Context()); err != nil {
			return layout.Page{}, err
		}
		m.planned = true
	}
	return layout.Page{Title: "Cache budgets", Section: "cache", Body: page(m),
		Keys: []layout.Key{{Press: "y", Does: "dry run: what would go"}}}, nil
}

func (m *model) off() bool { return m.Effective.State == kv.StateOff || m.Effective.State == "" }

// list sorts, groups and pages the inventory.
func (m *model) list() {
	m.sort = layout.SortOf(m.here, "used", "tokens", "bytes", "exclusive")
	all := slices.Clone(m.Inventory)
	slices.SortStableFunc(all, func(a, b kv.StatusEntry) int {
		n := 0
		switch m.sort.By {
		case "tokens":
			n = cmp.Compare(a.Tokens, b.Tokens)
		case "bytes":
			n = cmp.Compare(a.Bytes, b.Bytes)
		case "exclusive":
			n = cmp.Compare(a.ExclusiveBytes, b.ExclusiveBytes)
		default:
			n = a.LastUsed.Compare(b.LastUsed)
		}
		if !m.sort.Ascending {
			n = -n
		}
		return n
	})
	m.groups = grouped(m.Inventory)
	m.pages = layout.Paging{Here: m.here, Size: pageSize, Total: len(all), What: "stored points"}
	m.pages.Page = min(max(1, m.here.Int("page", 1)), m.pages.Pages())
	from := (m.pages.Page - 1) * pageSize
	m.rows = all[from:min(from+pageSize, len(all))]
}

func grouped(all []kv.StatusEntry) (out []modelGroup) {
	at, states := map[kv.ModelIdentity]int{}, map[kv.StateID]bool{}
	for _, e := range all {
		i, ok := at[e.ModelIdentity]
		if !ok {
			i = len(out)
			at[e.ModelIdentity] = i
			out = append(out, modelGroup{id: e.ModelIdentity})
		}
		g := &out[i]
		if !states[e.StateIdentity] {
			states[e.StateIdentity] = true
			g.states++
		}
		g.points++
		g.bytes += e.ExclusiveBytes
		g.tokens = max(g.tokens, e.Tokens)
		if e.LastUsed.After(g.last) {
			g.last = e.LastUsed
		}
	}
	return out
}

// misses are the reasons why prompts got nothing, the most frequent first.
func (m *model) misses() (out []layout.Part) {
	for reason, n := range m.Activity.Misses {
		if n > 0 {
			out = append(out, layout.Part{Text: missWords(reason), Value: float64(n), Note: layout.Count(n), Class: "fill-disk"})
		}
	}
	slices.SortFunc(out, func(a, b layout.Part) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Text, b.Text))
	})
	return out
}

func (m *model) missed() (n int64) {
	for _, v := range m.Activity.Misses {
		n += v
	}
	return n
}

// room is the filesystem as one bar: what is ours, what may become ours, what
// everybody else keeps.
func (m *model) room() []layout.Part {
	u := m.Usage
	left := max(0, u.BudgetBytes-u.UsedBytes-u.ReservedInflightBytes)
	free := max(0, u.FilesystemAvailableBytes-u.ReserveBytes-left)
	part := func(text, class string, n kv.Bytes) layout.Part {
		return layout.Part{Text: text, Class: class, Value: float64(n), Note: layout.Bytes(int64(n))}
	}
	return []layout.Part{part("used", "fill-disk", u.UsedBytes), part("being written", "fill-write", u.ReservedInflightBytes),
		part("left of the budget", "fill-ghost", left), part("reserve for the rest of the machine", "fill-reserve", u.ReserveBytes), part("free beyond that", "fill-cold", free)}
}

func stateTone(s kv.TierState) string {
	switch s {
	case kv.StateActive:
		return layout.Good
	case kv.StateDegraded:
		return layout.Bad
	case kv.StateOff:
		return layout.Quiet
	}
	return layout.Warn
}

// missWords says a reason as a person would.
func missWords(r kv.MissReason) string {
	words := map[kv.MissReason]string{
		kv.MissNeverSeen: "never seen before", kv.MissEvicted: "evicted recently", kv.MissIdentity: "another model, quantisation or engine",
		kv.MissBelowMinTokens: "shorter than kv.disk.min_tokens", kv.MissNoBoundary: "no stored point on its way", kv.MissNotWorthIt: "reading it anew is faster",
		kv.MissResidentIsLonger: "the engine already holds more", kv.MissLifecycleBusy: "the store was busy", kv.MissFillInFlight: "another restore was under way",
		kv.MissNoIdleSlot: "no idle slot in the engine", kv.MissSlotTaken: "its slot was taken meanwhile", kv.MissCorrupt: "damaged on disk, put aside",
		kv.MissCodec: "a codec this version lacks", kv.MissLayout: "a layout this version lacks", kv.MissImportFailed: "the engine refused it",
		kv.MissStorageError: "the disk failed", kv.MissEngineUnavailable: "the engine did not answer", kv.MissNoWeights: "the model file has no digest yet",
		kv.MissStarting: "the tier was still starting", kv.MissTierOff: "the tier was off",
	}
	return layout.Or(words[r], layout.Words(string(r)))
}

// short is the head of an identity.
func short(id string) string {
	if len(id) > 19 {
		return id[:19] + "…"
	}
	return id
}

// perDay is a bar of today's writes against the day's cap.
func (m *model) perDay() []layout.Part {
	class := "fill-disk"
	if m.cap > 0 && m.today >= m.cap {
		class = "fill-warn"
	}
	return []layout.Part{{Text: "written today", Class: class, Value: float64(m.today), Note: layout.Bytes(int64(m.today))}}
}

func damaged(m model) string {
	if m.Activity.CorruptEntries > 0 {
		return layout.Warn
	}
	return ""
}
