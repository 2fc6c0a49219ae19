package fold

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// The rules of a range.
const (
	minChars   = 5_000 // of elements, in a range between two messages
	minSummary = 50    // characters
	maxSummary = 20_000
	maxWiden   = 20 // places a range may grow on either side to keep pairs together
	maxTier    = 3
)

// chosen is one range that will be folded.
type chosen struct {
	said     string // as the model named it
	lo, hi   int    // places it was asked for, in order
	places   []int  // elements to fold, rising
	children []int64
	tier     int
	request  request
}

// chooser resolves the ranges of one call against one picture: always the whole
// list, never what an earlier fold left to be seen of it.
type chooser struct {
	p       *picture
	groups  groups
	guards  []guard
	byRef   map[int64]int
	nextRef int64
	taken   map[int]bool // places of ranges already chosen
	notes   []string
	refused []string
}

func newChooser(p *picture, lim *Limits, nextRef int64) *chooser {
	c := &chooser{p: p, groups: p.groups(), guards: p.guards(lim), byRef: map[int64]int{}, nextRef: nextRef, taken: map[int]bool{}}
	for i := range p.elems {
		if r := p.elems[i].Ref; r != 0 {
			c.byRef[r] = i
			c.nextRef = max(c.nextRef, r+1)
		}
	}
	return c
}

func (c *chooser) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func (c *chooser) refuse(format string, args ...any) {
	c.refused = append(c.refused, fmt.Sprintf(format, args...))
}

// foldable reports whether the element at place i may be folded with all that
// goes with it.
func (c *chooser) foldable(i int) bool {
	return !c.groups.any(i, func(k int) bool { return c.guards[k] != free || !c.p.shown(k) || c.taken[k] })
}

// within are the places that a range folds: whole groups, grown past its ends
// where a group needs it.
func (c *chooser) within(lo, hi int) (places []int) {
	seen := map[int]bool{}
	for i := lo; i <= hi; i++ {
		g := c.groups.of(i)
		if seen[g[0]] || !c.foldable(i) || g[0] < lo-maxWiden || g[len(g)-1] > hi+maxWiden {
			continue
		}
		seen[g[0]] = true
		places = append(places, g...)
	}
	slices.Sort(places)
	return places
}

func (c *chooser) chars(places []int) (n int) {
	for _, i := range places {
		n += c.p.elems[i].Chars
	}
	return n
}

// end is one resolved end of a range.
type end struct {
	place int
	block bool
}

// end resolves a ref to a place: an element's own, or its block's carrier's.
func (c *chooser) end(said, ref string) (end, bool) {
	r, ok := ParseRef(ref)
	switch {
	case !ok:
		c.refuse(refuseShape, said, ref)
	case r.Block:
		return c.blockEnd(said, r)
	default:
		return c.elementEnd(said, r)
	}
	return end{}, false
}

func (c *chooser) blockEnd(said string, r Ref) (end, bool) {
	b := c.p.st.Block(r.Number)
	if b == nil {
		c.refuse(refuseUnknown, said, r)
		return end{}, false
	}
	top := c.p.st.ancestor(b)
	if top == nil {
		c.refuse(refuseDead, said, r)
		return end{}, false
	}
	if top.ID != b.ID {
		c.note(noteSnapped, said, r, blockRef(top.ID))
	}
	at, stands := c.p.anchor[top.ID]
	if !stands {
		c.refuse(refuseDead, said, r)
	}
	return end{at, true}, stands
}

// elementEnd: an element a consumed block holds stands for the block that
// consumed it; one that an active block folded itself is a refusal that names
// the block.
func (c *chooser) elementEnd(said string, r Ref) (end, bool) {
	i, there := c.byRef[r.Number]
	switch {
	case !there && (r.Number >= c.nextRef || r.Number > MaxRef):
		c.refuse(refuseUnknown, said, r)
		return end{}, false
	case !there:
		c.refuse(refuseDead, said, r)
		return end{}, false
	}
	owner := c.p.covered(i)
	if owner == 0 {
		return end{place: i}, true
	}
	if slices.Contains(c.p.st.Block(owner).Elems, c.p.elems[i].N) {
		c.refuse(refuseFolded, said, blockRef(owner), blockRef(owner))
		return end{}, false
	}
	c.note(noteSnapped, said, r, blockRef(owner))
	return end{c.p.anchor[owner], true}, true
}

// resolve finds the places of one range, without what it folds.
func (c *chooser) resolve(k int, r request) (chosen, bool) {
	if r.start == "" || r.end == "" {
		c.refuse(refuseNoEnds, k+1)
		return chosen{}, false
	}
	out := chosen{said: spanSaid(r), request: r}
	from, ok := c.end(out.said, r.start)
	if !ok {
		return out, false
	}
	to, ok := c.end(out.said, r.end)
	if !ok {
		return out, false
	}
	if from.place > to.place {
		c.note(noteReversed, out.said)
		from, to = to, from
	}
	out.lo, out.hi, out.tier = from.place, to.place, 1
	if from.block || to.block {
		out.children, out.tier = c.consumed(out.lo, out.hi)
	}
	return out, true
}

// spanSaid names a range by the refs the model gave, in their usual spelling.
func spanSaid(r request) string {
	from, to := r.start, r.end
	if ref, ok := ParseRef(from); ok {
		from = ref.String()
	}
	if ref, ok := ParseRef(to); ok {
		to = ref.String()
	}
	return span(headOf(from, 20), headOf(to, 20))
}

// consumed are the blocks a range that ends on a block takes in, and the tier
// that makes: the blocks at its ends, and those between of no higher tier.
func (c *chooser) consumed(lo, hi int) (ids []int64, tier int) {
	top := max(c.tierAt(lo), c.tierAt(hi))
	for i := lo; i <= hi; i++ {
		if t := c.tierAt(i); t != 0 && t <= top {
			ids, tier = append(ids, c.p.carrier(i)), max(tier, t)
		}
	}
	return ids, min(maxTier, tier+1)
}

// tierAt is the tier of the block whose carrier stands at place i, 0 for none.
func (c *chooser) tierAt(i int) int {
	if b := c.p.st.Block(c.p.carrier(i)); b != nil {
		return b.Tier
	}
	return 0
}

// choose resolves all ranges of a call. Each stands alone; where two overlap
// the earlier in the conversation wins.
func (c *chooser) choose(requests []request) (out []chosen) {
	var found []chosen
	for k, r := range requests {
		if x, ok := c.resolve(k, r); ok {
			found = append(found, x)
		}
	}
	slices.SortStableFunc(found, func(a, b chosen) int { return a.lo - b.lo })
	for i := range found {
		x := &found[i]
		if k := slices.IndexFunc(out, func(o chosen) bool { return x.lo <= o.hi }); k >= 0 {
			c.refuse(refuseOverlap, x.said, out[k].said)
			continue
		}
		if c.fill(x) {
			out = append(out, *x)
		}
	}
	return out
}

// fill finds what a range folds and checks it against the rules.
func (c *chooser) fill(x *chosen) bool {
	if !c.summaryFits(x) {
		return false
	}
	x.places = c.within(x.lo, x.hi)
	n := c.chars(x.places)
	switch {
	case len(x.places) == 0 && len(x.children) == 0:
		c.refuseEmpty(x)
		return false
	case len(x.children) == 0 && n < minChars:
		c.refuse(refuseSmall, x.said, comma(n), comma(minChars))
		return false
	}
	for _, i := range x.places {
		c.taken[i] = true
	}
	c.say(x)
	return true
}

func (c *chooser) summaryFits(x *chosen) bool {
	switch n := utf8.RuneCountInString(x.request.summary); {
	case n < minSummary:
		c.refuse(refuseShort, x.said, comma(n), comma(minSummary))
	case n > maxSummary:
		c.refuse(refuseLong, x.said, comma(n), comma(maxSummary))
	default:
		return true
	}
	return false
}

// refuseEmpty names the folds that hold the range already, or what protects it.
func (c *chooser) refuseEmpty(x *chosen) {
	for i := x.lo; i <= x.hi; i++ {
		if b := c.p.covered(i); b != 0 {
			c.refuse(refuseFolded, x.said, blockRef(b), blockRef(b))
			return
		}
	}
	c.refuse(refuseGuarded, x.said, c.left(x))
}

// say notes what a range grew by and what it leaves alone.
func (c *chooser) say(x *chosen) {
	if n := len(x.places); n > 0 && (x.places[0] < x.lo || x.places[n-1] > x.hi) {
		c.note(noteWidened, x.said, c.span(min(x.lo, x.places[0]), max(x.hi, x.places[n-1])))
	}
	if left := c.left(x); left != "" {
		c.note(noteLeft, x.said, left)
	}
}

func (c *chooser) span(lo, hi int) string {
	return span(c.p.elems[lo].ref(), c.p.elems[hi].ref())
}

// left counts by guard what stays in view inside a range; an element that only
// its group holds back counts under the guard of that one.
func (c *chooser) left(x *chosen) string {
	counts := map[guard]int{}
	var order []guard
	for i := x.lo; i <= x.hi; i++ {
		g := c.why(i)
		if _, folds := slices.BinarySearch(x.places, i); g == free && !folds && c.p.shown(i) {
			g = guardFar
		}
		if g == free {
			continue
		}
		if counts[g] == 0 {
			order = append(order, g)
		}
		counts[g]++
	}
	parts := make([]string, len(order))
	for k, g := range order {
		parts[k] = fmt.Sprintf(countedGuard, counts[g], g)
	}
	return strings.Join(parts, ", ")
}

// why is the guard that keeps the element at place i, by itself or by its group.
func (c *chooser) why(i int) guard {
	if c.guards[i] != free {
		return c.guards[i]
	}
	for _, k := range c.groups.of(i) {
		if c.guards[k] != free {
			return c.guards[k]
		}
	}
	return free
}

// Offer is a range that hf_compress would take as it stands.
type Offer struct {
	From, To string
	Elements int
	Tokens   usage.Tokens
	First    string
	lo, hi   int
}

// A stretch is cut into parts that a person would call one piece of work: at a
// user message once askAfter elements are in it, and at partTokens anyway.
const (
	askAfter                = 3
	partTokens usage.Tokens = 15_000
)

// offers are the ranges between messages that may be folded, oldest first: the
// parts of each stretch, joined until they are long enough; what is left over
// joins the one before it.
func (c *chooser) offers() (out []Offer) {
	for _, run := range c.runs() {
		var joined [][2]int
		n := minChars
		for _, part := range run {
			if last := len(joined) - 1; n < minChars {
				joined[last][1] = part[1]
			} else {
				joined, n = append(joined, part), 0
			}
			for i := part[0]; i <= part[1]; i++ {
				n += c.p.elems[i].Chars
			}
		}
		if last := len(joined) - 1; n < minChars && last > 0 {
			joined[last-1][1] = joined[last][1]
			joined = joined[:last]
		}
		for _, r := range joined {
			if o, ok := c.offer(r[0], r[1]); ok {
				out = append(out, o)
			}
		}
	}
	return out
}

// runs are the stretches without a gap, each cut into parts, never inside a
// group.
func (c *chooser) runs() (runs [][][2]int) {
	open, reach := false, -1 // the last place a group of this part holds
	var size usage.Tokens
	for i := range c.p.elems {
		if !c.foldable(i) {
			open = open && !c.p.shown(i) && c.p.carrier(i) == 0
			continue
		}
		switch last := len(runs) - 1; {
		case !open:
			runs, size = append(runs, [][2]int{{i, i}}), 0
		case i > reach && (size >= partTokens || c.p.elems[i].asked() && i-runs[last][len(runs[last])-1][0] >= askAfter):
			runs[last], size = append(runs[last], [2]int{i, i}), 0
		default:
			runs[last][len(runs[last])-1][1] = i
		}
		open = true
		size += c.p.tokens(i)
		c.groups.any(i, func(k int) bool { reach = max(reach, k); return false })
	}
	return runs
}

func (c *chooser) offer(lo, hi int) (Offer, bool) {
	places := c.within(lo, hi)
	o := Offer{lo: lo, hi: hi, From: c.p.elems[lo].ref(), To: c.p.elems[hi].ref(), Elements: len(places)}
	for _, i := range places {
		o.Tokens += c.p.tokens(i)
		if e := &c.p.elems[i]; o.First == "" && (e.Role == chat.User || i == places[0]) {
			o.First = e.voice() + ": " + e.First
		}
	}
	return o, c.chars(places) >= minChars && gains(o.Tokens)
}

// tierOffers are the ranges that fold blocks of one tier into the next: all of
// them that stand in the view, from the first to the last, if one block would
// take less than they do.
func (c *chooser) tierOffers(tier int) (out []Offer, pending usage.Tokens) {
	o := Offer{lo: -1}
	for i := range c.p.elems {
		id := c.p.carrier(i)
		if id == 0 || c.p.st.Block(id).Tier != tier {
			continue
		}
		b := c.p.st.Block(id)
		if o.lo < 0 {
			o.lo, o.From, o.First = i, blockRef(id), b.Topic
		}
		o.hi, o.To = i, blockRef(id)
		o.Elements += b.Count
		pending += b.Carrier
	}
	o.Tokens = pending
	if o.lo < 0 || o.lo == o.hi || !gains(pending) {
		return nil, 0
	}
	return []Offer{o}, pending
}
