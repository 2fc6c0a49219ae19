package fold

import (
	"path"
	"slices"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// picture is the list with its folds laid over it. Indexes are places in the
// list; a carrier stands at the place of the first element its block covers.
type picture struct {
	elems []Element
	st    *State
	// owner is the active block that covers a place, 0 for none; nil when nothing
	// is folded.
	owner []int64
	// anchor is the place of each active block's carrier.
	anchor map[int64]int
	hidden map[int64]bool
	saved  map[int64]usage.Tokens // by overlays
	first  int                    // the first user element, -1 for none
}

func newPicture(elements []Element, st *State) *picture {
	p := &picture{elems: elements, st: st, first: firstUser(elements)}
	if len(st.Hidden) > 0 {
		p.hidden = make(map[int64]bool, len(st.Hidden))
		for _, n := range st.Hidden {
			p.hidden[n] = true
		}
	}
	if len(st.Overlays) > 0 {
		p.saved = make(map[int64]usage.Tokens, len(st.Overlays))
		for _, o := range st.Overlays {
			p.saved[o.Elem] += o.Saved
		}
	}
	if len(st.Blocks) > 0 {
		p.cover()
	}
	return p
}

func firstUser(elements []Element) int {
	return slices.IndexFunc(elements, func(e Element) bool { return e.Role == chat.User })
}

// cover lays the active blocks over the list. The first user element is never
// covered, whatever a block says.
func (p *picture) cover() {
	at := places(p.elems)
	p.owner = make([]int64, len(p.elems))
	p.anchor = make(map[int64]int)
	for i := range p.st.Blocks {
		b := &p.st.Blocks[i]
		if b.Status != Active {
			continue
		}
		for _, n := range p.st.Effective(b.ID) {
			k, there := at[n]
			if !there || k == p.first {
				continue
			}
			p.owner[k] = b.ID
			if a, seen := p.anchor[b.ID]; !seen || k < a {
				p.anchor[b.ID] = k
			}
		}
	}
}

func places(elements []Element) map[int64]int {
	at := make(map[int64]int, len(elements))
	for i := range elements {
		at[elements[i].N] = i
	}
	return at
}

// covered is the active block over place i, 0 for none.
func (p *picture) covered(i int) int64 {
	if p.owner == nil {
		return 0
	}
	return p.owner[i]
}

// carrier is the block whose carrier stands at place i, 0 for none.
func (p *picture) carrier(i int) int64 {
	if b := p.covered(i); b != 0 && p.anchor[b] == i {
		return b
	}
	return 0
}

func (p *picture) shown(i int) bool { return p.covered(i) == 0 && !p.hidden[p.elems[i].N] }

// tokens of a shown element, overlays taken off.
func (p *picture) tokens(i int) usage.Tokens {
	return max(0, p.elems[i].Tokens-p.saved[p.elems[i].N])
}

// weight is what stands at place i in the view.
func (p *picture) weight(i int) usage.Tokens {
	if b := p.carrier(i); b != 0 {
		return p.st.Block(b).Carrier
	}
	if p.shown(i) {
		return p.tokens(i)
	}
	return 0
}

// size estimates the elements and carriers of the view.
func (p *picture) size() (n usage.Tokens) {
	for i := range p.elems {
		n += p.weight(i)
	}
	return n
}

// tails are the sizes of the view from each place to the end.
func (p *picture) tails() []usage.Tokens {
	out := make([]usage.Tokens, len(p.elems)+1)
	for i := len(p.elems) - 1; i >= 0; i-- {
		out[i] = out[i+1] + p.weight(i)
	}
	return out
}

// listens reports whether the list ends with what the user or a tool says: a
// reminder has no place after anything else. Some requests end with a system
// text, the model's own words or the order to compact.
func (p *picture) listens() bool {
	for i := len(p.elems) - 1; i >= 0; i-- {
		if e := &p.elems[i]; !e.Removed {
			return e.Fixed == "" && (e.Role == chat.User || e.Role == chat.Tool)
		}
	}
	return false
}

// guard says why an element is left alone; "" when it may be folded.
type guard string

// The guards. Those up to guardNoRef hold for ever, the others for now.
const (
	free          guard = ""
	guardSystem   guard = "system text"
	guardFirst    guard = "the first user message"
	guardDef      guard = "a definition"
	guardCompact  guard = "a compaction item"
	guardNoRef    guard = "without a ref"
	guardLastUser guard = "the latest user message"
	guardRecent   guard = "one of the last 5 messages"
	guardTail     guard = "too near the end"
	guardTool     guard = "a protected tool"
	guardKept     guard = "marked to be kept"
	guardFar      guard = "too far from its call or result"
)

// hard reports whether an element with this guard can never be folded.
func (g guard) hard() bool {
	switch g {
	case guardSystem, guardFirst, guardDef, guardCompact, guardNoRef:
		return true
	}
	return false
}

// Soft protection of the end of the list: so many elements, and so many tokens
// or percent of the window, whichever is less. In a window of 32,000 tokens
// 5,000 would be a third of what the system text leaves, and each fold would
// have them written anew.
const (
	recentElements              = 5
	recentTokens   usage.Tokens = 5_000
	recentPercent               = 5.0
)

// recent are the last tokens that stay as they are.
func (l *Limits) recent() usage.Tokens { return min(recentTokens, l.at(recentPercent)) }

// TailFrom is where the soft protection of the end begins in a view of elements
// with these sizes, in a window of so many tokens; 0 for the default. A request
// that keeps much of a small window for its reply protects less.
func TailFrom(sizes []usage.Tokens, window usage.Tokens) int {
	lim := Limits{Window: window}.filled()
	return tailFrom(len(sizes), func(i int) usage.Tokens { return sizes[i] }, lim.recent())
}

// tailFrom is the first of n places that are among the last recentElements, or
// lie whole within the last tokens.
func tailFrom(n int, weight func(int) usage.Tokens, recent usage.Tokens) int {
	var tokens usage.Tokens
	for i := n - 1; i >= 0; i-- {
		tokens += weight(i)
		if n-i > recentElements && tokens > recent {
			return i + 1
		}
	}
	return 0
}

// guards says for each place why it is left alone. A call and its result are
// guarded together by their group.
func (p *picture) guards(lim *Limits) []guard {
	out := make([]guard, len(p.elems))
	tools := protectedTools{globs: lim.Protect, known: map[string]bool{ToolCompress + p.st.Suffix: true}}
	for i := range p.elems {
		out[i] = p.always(i)
		if out[i] == free && slices.Contains(p.st.Kept, p.elems[i].N) {
			out[i] = guardKept
		}
		if out[i] == free && tools.in(&p.elems[i]) {
			out[i] = guardTool
		}
	}
	p.guardEnd(out, lim.recent())
	return out
}

func (p *picture) always(i int) guard {
	switch e := &p.elems[i]; {
	case e.system():
		return guardSystem
	case i == p.first:
		return guardFirst
	case e.Fixed == Definition:
		return guardDef
	case e.Fixed == Compaction:
		return guardCompact
	case e.Ref == 0:
		return guardNoRef
	}
	return free
}

// protectedTools remembers which tools the globs name. Our own fold calls are
// always among them, where a host keeps them in its history.
type protectedTools struct {
	globs []string
	known map[string]bool
}

// in reports whether the element calls one.
func (t protectedTools) in(e *Element) bool {
	return slices.ContainsFunc(e.Cores, func(c Core) bool { return c.Kind == chat.ToolCall && t.has(c.Tool) })
}

func (t protectedTools) has(tool string) bool {
	is, seen := t.known[tool]
	if !seen {
		is = slices.ContainsFunc(t.globs, func(g string) bool { return globMatch(g, tool) })
		t.known[tool] = is
	}
	return is
}

// globMatch ignores case, and lets "*" stand for slashes too.
func globMatch(glob, name string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(flat.Replace(strings.ToLower(glob)), flat.Replace(strings.ToLower(name)))
	return err == nil && ok
}

// guardEnd protects the latest user message and the end of the list.
func (p *picture) guardEnd(out []guard, recent usage.Tokens) {
	n := len(p.elems)
	for i := tailFrom(n, p.weight, recent); i < n; i++ {
		switch {
		case out[i] != free:
		case n-i <= recentElements:
			out[i] = guardRecent
		default:
			out[i] = guardTail
		}
	}
	for i := n - 1; i >= 0; i-- {
		if p.elems[i].asked() {
			if !out[i].hard() {
				out[i] = guardLastUser
			}
			return
		}
	}
}

// groups joins what only makes sense together: a call with its results, and
// reasoning with the element after it. Each group is a ring of places: the
// value at a place is the next of its group.
type groups []int

func (p *picture) groups() groups {
	g := make(groups, len(p.elems))
	for i := range g {
		g[i] = i
	}
	named := map[string]int{} // the latest call of an id: some models use one id again and again
	var unnamed []int         // calls without an id, answered in order
	for i := range p.elems {
		for k := range p.elems[i].Cores {
			switch c := &p.elems[i].Cores[k]; {
			case c.Kind == chat.ToolCall && c.Call == "":
				unnamed = append(unnamed, i)
			case c.Kind == chat.ToolCall:
				named[c.Call] = i
			case c.Kind == chat.ToolResult && c.Call == "" && len(unnamed) > 0:
				g.join(unnamed[0], i)
				unnamed = unnamed[1:]
			case c.Kind == chat.ToolResult && c.Call != "":
				if call, ok := named[c.Call]; ok {
					g.join(call, i)
				}
			}
		}
		if i > 0 && p.elems[i-1].thought() {
			g.join(i-1, i)
		}
	}
	return g
}

// join makes one ring of two; places that are in one already stay so.
func (g groups) join(a, b int) {
	for i := g[a]; ; i = g[i] {
		if i == b {
			return
		}
		if i == a {
			break
		}
	}
	g[a], g[b] = g[b], g[a]
}

// any reports whether something holds for a place that goes with i, or i.
func (g groups) any(i int, is func(int) bool) bool {
	for k := i; ; {
		if is(k) {
			return true
		}
		if k = g[k]; k == i {
			return false
		}
	}
}

// of are the places that go with i, itself among them, rising.
func (g groups) of(i int) []int {
	out := []int{i}
	for k := g[i]; k != i; k = g[k] {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
