package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"holdfast/web/layout"
)

// change is one difference between two bodies: where, and the two texts.
type change struct {
	Path     string
	Kind     string // added, removed, changed
	Old, New string
	Note     string      // beside the path, "" for none
	Pieces   []piecewise // of a changed text
}

// piecewise is a run of equal, removed or added characters.
type piecewise struct {
	Op   string // "", "del", "ins"
	Text string
}

// maxChanges bounds how many differences a page lists, maxTree how deep two
// bodies are compared.
const (
	maxChanges = 200
	maxTree    = 40
)

// differ compares two JSON bodies without white space structurally: members by
// name, lists by the longest run of equal items.
type differ struct {
	out  []change
	more int // differences beyond maxChanges
}

// compare lists what changes from a to b. Bodies that are not JSON are compared
// as text.
func compare(a, b []byte) ([]change, int) {
	var d differ
	if bytes.Equal(a, b) {
		return nil, 0
	}
	var x, y bytes.Buffer // without white space: what is equal then is equal
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		d.text("$", string(a), string(b))
		return d.out, d.more
	}
	d.value("$", x.Bytes(), y.Bytes(), 0)
	if len(d.out) == 0 {
		d.add(change{Path: "$", Kind: "changed", Old: "other white space or order of members", New: "the same values"})
	}
	return d.out, d.more
}

func (d *differ) add(c change) {
	if len(d.out) >= maxChanges {
		d.more++
		return
	}
	d.out = append(d.out, c)
}

func (d *differ) value(path string, a, b json.RawMessage, deep int) {
	if bytes.Equal(a, b) {
		return
	}
	if deep < maxTree && kind(a) == kind(b) {
		switch kind(a) {
		case '{':
			d.object(path, a, b, deep)
			return
		case '[':
			d.list(path, a, b, deep)
			return
		}
	}
	d.text(path, spelled(a), spelled(b))
}

func kind(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// spelled is a value as a person reads it: text without its quotes.
func spelled(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return pretty(raw)
}

func (d *differ) object(path string, a, b json.RawMessage, deep int) {
	x, y := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		d.text(path, string(a), string(b))
		return
	}
	names := map[string]bool{}
	for n := range x {
		names[n] = true
	}
	for n := range y {
		names[n] = true
	}
	for _, n := range sorted(names) {
		old, had := x[n]
		now, has := y[n]
		switch {
		case !had:
			d.add(change{Path: path + "." + n, Kind: "added", New: spelled(now)})
		case !has:
			d.add(change{Path: path + "." + n, Kind: "removed", Old: spelled(old)})
		default:
			d.value(path+"."+n, old, now, deep+1)
		}
	}
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// list pairs the items of two lists: equal ones at both ends first, then what
// is left by the longest common run. Items that only one side has were added or
// removed; a long run of removed ones is told as one.
func (d *differ) list(path string, a, b json.RawMessage, deep int) {
	var x, y []json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		d.text(path, string(a), string(b))
		return
	}
	head, tail := ends(len(x), len(y), func(i, j int) bool { return bytes.Equal(x[i], y[j]) })
	mx, my := x[head:len(x)-tail], y[head:len(y)-tail]
	if len(mx) == len(my) {
		for i := range mx {
			d.value(fmt.Sprintf("%s[%d]", path, head+i), mx[i], my[i], deep+1)
		}
		return
	}
	ops := script(len(mx), len(my), func(i, j int) bool { return bytes.Equal(mx[i], my[j]) })
	for k := 0; k < len(ops); k++ {
		switch op := ops[k]; op.kind {
		case 'd':
			n := runOf(ops[k:])
			d.gone(path, head+op.i, mx[op.i:op.i+n])
			k += n - 1
		case 'i':
			d.add(change{Path: fmt.Sprintf("%s[%d]", path, head+op.j), Kind: "added", New: spelled(my[op.j])})
		}
	}
}

// runOf counts the removals that a script begins with.
func runOf(ops []edit) (n int) {
	for n < len(ops) && ops[n].kind == 'd' {
		n++
	}
	return n
}

// runShown is the longest run of removed items that is told item by item.
const runShown = 3

// gone tells items that were removed from place at on.
func (d *differ) gone(path string, at int, items []json.RawMessage) {
	if len(items) <= runShown {
		for i, it := range items {
			d.add(change{Path: fmt.Sprintf("%s[%d]", path, at+i), Kind: "removed", Old: spelled(it)})
		}
		return
	}
	var lines []string
	size := 0
	for _, it := range items {
		size += len(it)
		lines = append(lines, oneLine(it))
	}
	d.add(change{Path: fmt.Sprintf("%s[%d…%d]", path, at, at+len(items)-1), Kind: "removed", Old: strings.Join(lines, "\n"),
		Note: fmt.Sprintf("%d items, %s; each told by its first line", len(items), layout.Bytes(int64(size)))})
}

// oneLine begins an item: its role and its first words.
func oneLine(it json.RawMessage) string {
	var m struct{ Role string }
	_ = json.Unmarshal(it, &m) // what has no role is shown without
	text := ""
	for _, b := range blocksOf(it) {
		if text = preview(b); text != "" {
			break
		}
	}
	if r := []rune(text); len(r) > lineRunes {
		text = string(r[:lineRunes]) + "…"
	}
	return strings.TrimSpace(m.Role + "  " + text)
}

const lineRunes = 110

// ends counts equal items at the head and at the tail of two lists.
func ends(n, m int, eq func(i, j int) bool) (head, tail int) {
	for head < min(n, m) && eq(head, head) {
		head++
	}
	for tail < min(n, m)-head && eq(n-1-tail, m-1-tail) {
		tail++
	}
	return head, tail
}

// edit is one step of a script: d removes item i, i adds item j, = keeps both.
type edit struct {
	kind byte
	i, j int
}

// scriptCells bounds the table of a comparison; longer lists are told as all
// removed and all added.
const scriptCells = 4_000_000

// script is a shortest list of removals and additions, by the longest common
// run of items.
func script(n, m int, eq func(i, j int) bool) (out []edit) {
	if n*m > scriptCells {
		for i := range n {
			out = append(out, edit{'d', i, 0})
		}
		for j := range m {
			out = append(out, edit{'i', n, j})
		}
		return out
	}
	best := make([]int32, (n+1)*(m+1)) // of the tails that begin at i and j
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			at := i*(m+1) + j
			if eq(i, j) {
				best[at] = best[at+m+2] + 1
			} else {
				best[at] = max(best[at+m+1], best[at+1])
			}
		}
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && eq(i, j):
			out = append(out, edit{'=', i, j})
			i, j = i+1, j+1
		case i < n && (j == m || best[(i+1)*(m+1)+j] >= best[i*(m+1)+j+1]):
			out = append(out, edit{'d', i, j})
			i++
		default:
			out = append(out, edit{'i', i, j})
			j++
		}
	}
	return out
}

func (d *differ) text(path, a, b string) {
	if a == b {
		return
	}
	d.add(change{Path: path, Kind: "changed", Old: a, New: b, Pieces: characters(a, b)})
}

// around is how much of what stayed the same is shown on either side.
const around = 120

// characters is the difference of two texts: equal ends are cut off, the middle
// is compared word by word and then character by character where it is short.
func characters(a, b string) (out []piecewise) {
	x, y := []rune(a), []rune(b)
	head, tail := ends(len(x), len(y), func(i, j int) bool { return x[i] == y[j] })
	out = append(out, kept(string(x[:head]), true, false)...)
	out = append(out, middle(x[head:len(x)-tail], y[head:len(y)-tail])...)
	return append(out, kept(string(x[len(x)-tail:]), false, true)...)
}

func middle(x, y []rune) (out []piecewise) {
	if len(x) == 0 || len(y) == 0 || len(x)*len(y) > scriptCells/4 {
		return some(piecewise{"del", string(x)}, piecewise{"ins", string(y)})
	}
	put := func(op string, r rune) {
		if k := len(out) - 1; k >= 0 && out[k].Op == op {
			out[k].Text += string(r)
			return
		}
		out = append(out, piecewise{op, string(r)})
	}
	for _, e := range script(len(x), len(y), func(i, j int) bool { return x[i] == y[j] }) {
		switch e.kind {
		case 'd':
			put("del", x[e.i])
		case 'i':
			put("ins", y[e.j])
		default:
			put("", x[e.i])
		}
	}
	return out
}

func some(ps ...piecewise) (out []piecewise) {
	for _, p := range ps {
		if p.Text != "" {
			out = append(out, p)
		}
	}
	return out
}

// kept is what stayed the same before or after a change, cut to its near end.
func kept(s string, before, after bool) []piecewise {
	r := []rune(s)
	switch {
	case len(r) == 0:
		return nil
	case before && len(r) > around:
		s = "… " + strings.TrimLeft(string(r[len(r)-around:]), "\n")
	case after && len(r) > around:
		s = strings.TrimRight(string(r[:around]), "\n") + " …"
	}
	return []piecewise{{"", s}}
}

// hunk draws a changed text. It is written here because a template would put
// white space between the pieces, and here every character counts.
func hunk(pieces []piecewise) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="hunk" tabindex="0">`)
		for _, p := range pieces {
			text := templ.EscapeString(clipPart(p.Text))
			if p.Op == "" {
				b.WriteString(text)
				continue
			}
			b.WriteString("<" + p.Op + ">" + text + "</" + p.Op + ">")
		}
		b.WriteString("</pre>")
		_, err := io.WriteString(w, b.String())
		return err
	})
}
