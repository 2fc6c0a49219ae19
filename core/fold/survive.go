package fold

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// What an emergency does to tool results: those of at least minCut tokens are
// cut to their first and last keepChars characters.
const (
	minCut    usage.Tokens = 1_000
	keepChars int          = 2_000
	// relief is how far below the emergency mark it goes, so that the next turn
	// is not one again; tooLong the part of the count that is kept when the
	// upstream refused a request the count said would fit.
	relief  = 0.9
	tooLong = 0.7
	// early is where on the way from pressure to emergency a local engine's old
	// results are shortened.
	early = 0.5
)

// survivor carries one emergency.
type survivor struct {
	elems  []Element
	next   State
	lim    *Limits
	need   usage.Tokens // still to be taken off
	events []Event
}

// survive keeps the request inside the window without a model call: the largest
// tool results are shortened first; if that is not enough, the oldest elements
// are left out; if it still does not fit, even fresh results are shortened. All
// of it is stored, so that the prefix does not flip, and nothing is lost.
func survive(p *picture, rh Rhythm, lim *Limits) (State, Rhythm, []Event) {
	count := ahead(p, rh, lim.Frame)
	goal, dire, due := lim.goal(count, rh.Overflowed)
	if !due {
		return *p.st, rh, nil
	}
	rh.Overflowed = false
	s := survivor{elems: p.elems, next: p.st.changed(), lim: lim, need: count - goal}
	s.shorten(func(g guard) bool { return g == free })
	if dire {
		s.makeFit(goal)
	}
	if len(s.events) == 0 || !dire && s.need > 0 {
		return *p.st, rh, nil
	}
	return s.next, rh.folded(count, count-goal-s.need), s.events
}

// goal is the size to come down to, whether more than old results may be touched
// for it, and whether it is time. A local engine takes longer to write a summary
// than to read a whole small window again; so there old results are shortened
// before it comes to that, if they are enough.
func (l *Limits) goal(count usage.Tokens, overflowed bool) (goal usage.Tokens, dire, due bool) {
	mark := l.at(l.Emergency)
	switch {
	case count >= mark:
		return usage.Tokens(relief * float64(mark)), true, true
	case overflowed:
		return usage.Tokens(tooLong * float64(count)), true, true
	case l.Terms.Local.Prefill > 0:
		mark = l.between(early)
		return usage.Tokens(relief * float64(mark)), false, count >= mark
	}
	return 0, false, false
}

// makeFit leaves elements out, oldest first, and shortens fresh results if even
// then the request is longer than the window, whatever is protected.
func (s *survivor) makeFit(goal usage.Tokens) {
	s.elide(false)
	s.elide(true)
	if goal+s.need > s.lim.usable() {
		s.shorten(func(g guard) bool { return g == guardRecent || g == guardTail })
	}
}

// cut is a result that may be shortened.
type cut struct {
	place, core int
	tokens      usage.Tokens
}

// shorten overlays results whose guard allows it, largest first, until enough
// is gone. Answers of our own tools are left alone.
func (s *survivor) shorten(allowed func(guard) bool) {
	p := newPicture(s.elems, &s.next)
	guards := p.guards(s.lim)
	ours := s.ownCalls()
	var cuts []cut
	for i := range s.elems {
		if !allowed(guards[i]) || !p.shown(i) {
			continue
		}
		for k, c := range s.elems[i].Cores {
			if c.Kind == chat.ToolResult && c.Tokens >= minCut && c.Chars > 2*keepChars && !ours[c.Call] && !s.cutAlready(i, k) {
				cuts = append(cuts, cut{i, k, c.Tokens})
			}
		}
	}
	sort.SliceStable(cuts, func(a, b int) bool { return cuts[a].tokens > cuts[b].tokens })
	for _, c := range cuts {
		if s.need <= 0 {
			return
		}
		s.overlay(c)
	}
}

func (s *survivor) ownCalls() map[string]bool {
	ours := map[string]bool{}
	for i := range s.elems {
		for _, c := range s.elems[i].Cores {
			if c.Kind == chat.ToolCall && c.Call != "" && s.next.Owns(c.Tool) {
				ours[c.Call] = true
			}
		}
	}
	return ours
}

func (s *survivor) cutAlready(place, core int) bool {
	n := s.elems[place].N
	return slices.ContainsFunc(s.next.Overlays, func(o Shortened) bool { return o.Elem == n && o.Core == core })
}

func (s *survivor) overlay(c cut) {
	e := &s.elems[c.place]
	core := e.Cores[c.core]
	kept := core.Tokens * usage.Tokens(2*keepChars) / usage.Tokens(core.Chars)
	saved := core.Tokens - kept - EstimateText(overlayMarker)
	s.next.Overlays = append(s.next.Overlays, Shortened{Elem: e.N, Core: c.core, Head: keepChars, Tail: keepChars, Saved: saved})
	s.events = append(s.events, Event{Kind: Overlay, Elems: []int64{e.N}, Keys: []string{e.Key.String()}, Cores: []int{c.core}})
	s.need -= saved
}

// elide leaves out whole stretches, oldest first, each replaced by a carrier
// that says so. Folds the model wrote go with them only when messages are not
// enough: they say much in little.
func (s *survivor) elide(folds bool) {
	for s.need > 0 {
		p := newPicture(s.elems, &s.next)
		c := newChooser(p, s.lim, 0)
		x, gone, ok := s.stretch(c, folds)
		if !ok {
			return
		}
		before := s.need
		s.leaveOut(c, x, gone)
		if s.need >= before {
			return
		}
	}
}

// stretch is the oldest run of foldable elements and of folds, as long as is
// needed; runs that would free nothing are passed over.
func (s *survivor) stretch(c *chooser, folds bool) (x chosen, gone usage.Tokens, ok bool) {
	seen := map[int]bool{}
	for i := range s.elems {
		id := c.p.carrier(i)
		switch {
		case id != 0 && (folds || s.next.Block(id).Elided):
			x.children = append(x.children, id)
			gone += s.next.Block(id).Carrier
		case id != 0 || c.foldable(i):
			for _, k := range c.groups.of(i) {
				if id == 0 && !seen[k] {
					seen[k] = true
					x.places = append(x.places, k)
					gone += c.p.tokens(k)
				}
			}
		case c.p.shown(i): // a gap: what lies before it is one stretch
			if gone > 2*elisionTokens {
				slices.Sort(x.places)
				return x, gone, true
			}
			x, gone = chosen{}, 0
		}
		if gone >= s.need+elisionTokens {
			break
		}
	}
	slices.Sort(x.places)
	return x, gone, gone > 2*elisionTokens
}

// elisionTokens is an upper estimate of an elision's carrier.
const elisionTokens usage.Tokens = 250

func (s *survivor) leaveOut(c *chooser, x chosen, gone usage.Tokens) {
	m := maker{s: Session{Elements: s.elems, State: s.next, Limits: *s.lim}, c: c, out: Outcome{State: s.next}}
	x.tier = 1
	if len(x.children) > 0 {
		x.tier = maxTier
	}
	b, _ := m.block(x)
	body := Body{Summary: s.inventory(x, c)}
	b.Elided, b.ID = true, s.next.LastBlock+1
	_, b.Body = body.Text()
	b.Carrier = EstimateText(CarrierText(&b, body))
	s.next.add(b)
	m.out.State = s.next
	s.events = append(s.events, m.event(&b, body))
	s.need -= gone - b.Carrier
}

// maxInventory is how many tools the note on left out elements names.
const maxInventory = 12

// inventory says what was left out, from the figures alone: who spoke, which
// tools were called, how it began.
func (s *survivor) inventory(x chosen, c *chooser) string {
	calls := map[string]int{}
	first := ""
	for _, i := range x.places {
		e := &s.elems[i]
		for _, core := range e.Cores {
			if core.Kind == chat.ToolCall && core.Tool != "" {
				calls[core.Tool]++
			}
		}
		if first == "" && e.Role == chat.User {
			first = e.First
		}
	}
	names := make([]string, 0, len(calls))
	for name := range calls {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool {
		if calls[names[a]] != calls[names[b]] {
			return calls[names[a]] > calls[names[b]]
		}
		return names[a] < names[b]
	})
	for k := range names {
		names[k] = fmt.Sprintf(elisionTool, headOf(names[k], 40), calls[names[k]])
	}
	return elisionNote(names[:min(len(names), maxInventory)], first, x.children)
}

func elisionNote(calls []string, first string, blocks []int64) string {
	var lines []string
	if first != "" {
		lines = append(lines, "Began with: "+first)
	}
	if len(calls) > 0 {
		lines = append(lines, "Calls: "+strings.Join(calls, ", "))
	}
	if len(blocks) > 0 {
		lines = append(lines, "Folds inside: "+blockRefs(blocks))
	}
	if len(lines) == 0 {
		return "Nothing is known of them but their number."
	}
	return strings.Join(lines, "\n")
}
