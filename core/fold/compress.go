package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holdfast/core/usage"
)

// compress runs hf_compress: every range that stands up to the rules becomes a
// block, and the answer says of each other one why not.
func (s Session) compress(f fields, t Texts) Outcome {
	requests, err := f.requests()
	if err != nil {
		return s.failed(fmt.Sprintf(badArguments, ToolCompress+s.State.Suffix, err))
	}
	m := s.maker(t)
	for _, x := range m.c.choose(requests) {
		m.fold(x)
	}
	if len(m.out.Blocks) == 0 {
		return s.failed(foldedNothing + m.c.reasons() + nextStatus)
	}
	m.out.Result = m.report(len(requests))
	return m.out
}

// maker makes blocks, one after the other, out of one call.
type maker struct {
	s     Session
	c     *chooser
	texts Texts
	count Count
	out   Outcome
	lines string
	saved usage.Tokens
}

func (s Session) maker(t Texts) *maker {
	before := s.State
	p := newPicture(s.Elements, &before)
	return &maker{s: s, c: newChooser(p, &s.Limits, s.NextRef), texts: t,
		count: CountOf(s.Elements, &s.State, s.Rhythm, s.Limits.Frame),
		out:   Outcome{State: s.State.changed(), Rhythm: s.Rhythm}}
}

// block is the block a range becomes, without its number, and its body.
func (m *maker) block(x chosen) (Block, Body) {
	p := m.c.p
	b := Block{Tier: x.tier, Children: x.children, Topic: headOf(x.request.topic, 80)}
	for _, i := range x.places {
		e := &p.elems[i]
		b.Elems = append(b.Elems, e.N)
		b.Tokens += p.tokens(i)
		if e.thought() {
			b.Thoughts = append(b.Thoughts, e.N)
		}
	}
	b.Count = len(b.Elems)
	for _, id := range x.children {
		child := m.out.State.Block(id)
		b.Count += child.Count
		b.Tokens += child.Carrier // what it replaced is counted in it already
	}
	b.From, b.To = m.ends(x)
	body := Body{Topic: b.Topic, Summary: strings.TrimSpace(x.request.summary), Artifacts: m.artifacts(x)}
	_, b.Body = body.Text()
	return b, body
}

// ends are the refs of the first and last element behind a block.
func (m *maker) ends(x chosen) (from, to string) {
	first, last := -1, -1
	take := func(at int, a, z string) {
		if first < 0 || at < first {
			first, from = at, a
		}
		if at > last {
			last, to = at, z
		}
	}
	for _, i := range x.places {
		take(i, m.c.p.elems[i].ref(), m.c.p.elems[i].ref())
	}
	for _, id := range x.children {
		b := m.out.State.Block(id)
		take(m.c.p.anchor[id], b.From, b.To)
	}
	return from, to
}

// artifacts lists what the folded elements touched; the lists of consumed blocks
// are made anew from their originals, or taken over where these were deleted.
func (m *maker) artifacts(x chosen) string {
	ns := make([]int64, 0, len(x.places))
	for _, i := range x.places {
		ns = append(ns, m.c.p.elems[i].N)
	}
	var earlier []string
	for _, id := range x.children {
		ns = append(ns, m.out.State.Effective(id)...)
		for _, b := range m.out.State.purged(id) {
			earlier = append(earlier, m.texts.Bodies[b.Body].Artifacts)
		}
	}
	ns, _ = witness(m.s.Elements, places(m.s.Elements), ns)
	return m.texts.artifacts(earlier, ns)
}

// fold makes one block, unless its carrier would be no smaller than what it
// replaces.
func (m *maker) fold(x chosen) {
	b, body := m.block(x)
	b.ID = m.out.State.LastBlock + 1
	b.Carrier = EstimateText(CarrierText(&b, body))
	if b.Carrier >= b.Tokens {
		m.c.refuse(refuseNoGain, x.said, comma(b.Carrier), comma(b.Tokens))
		return
	}
	change := m.change(x, &b)
	if terms := m.s.Limits.Terms; terms.Known() {
		b.Projected = terms.Project(change)
	}
	id := m.out.State.add(b)
	m.out.Blocks = append(m.out.Blocks, id)
	m.out.Events = append(m.out.Events, m.event(&b, body))
	gone := b.Tokens - b.Carrier
	m.out.Rhythm = m.out.Rhythm.folded(m.count.Tokens-m.saved, gone).account(id, change)
	m.saved += gone
	m.lines += fmt.Sprintf(foldedLine, blockRef(id), span(b.From, b.To), comma(b.Count), comma(b.Tokens), comma(b.Carrier))
}

// change is the fold as the bill sees it.
func (m *maker) change(x chosen, b *Block) usage.Change {
	first := len(m.c.p.elems)
	for _, i := range x.places {
		first = min(first, i)
	}
	for _, id := range x.children {
		first = min(first, m.c.p.anchor[id])
	}
	gone := b.Tokens - b.Carrier
	return usage.Change{Gone: gone, After: max(0, m.c.p.tails()[first]-gone), Summary: EstimateText(x.request.summary), Round: m.count.Tokens}
}

// event names everything the block covers, what its children covered too.
func (m *maker) event(b *Block, body Body) Event {
	ev := Event{Kind: Folded, Block: b.ID, Tier: b.Tier, Children: b.Children, Body: &body}
	ev.Elems, ev.Keys = witness(m.s.Elements, places(m.s.Elements), m.out.State.Effective(b.ID))
	ev.Anchor = ev.Elems[0]
	return ev
}

// report is the answer to a call that folded something.
func (m *maker) report(asked int) string {
	head := fmt.Sprintf(foldedAll, counted(len(m.out.Blocks), "range"), comma(m.saved))
	if len(m.out.Blocks) < asked {
		head = fmt.Sprintf(foldedSome, len(m.out.Blocks), asked, comma(m.saved))
	}
	return head + m.lines + m.c.reasons()
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// reasons lists what was refused and what the model should know.
func (c *chooser) reasons() string {
	return listed(notFolded, c.refused) + listed(noteHead, c.notes)
}

func listed(head string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return head + "- " + strings.Join(lines, "\n- ") + "\n"
}

// needsOf are the texts a call of hf_compress needs: the elements it may fold,
// those behind the blocks it takes in, for the artifact lists, and the bodies of
// such blocks whose elements were deleted.
func (s Session) needsOf(f fields) (n Need) {
	requests, err := f.requests()
	if err != nil {
		return n
	}
	m := s.maker(Texts{})
	for _, x := range m.c.choose(requests) {
		for _, i := range x.places {
			n.Elements = append(n.Elements, s.Elements[i].N)
		}
		for _, id := range x.children {
			n.Elements = append(n.Elements, s.State.Effective(id)...)
			for _, b := range s.State.purged(id) {
				n.Bodies = append(n.Bodies, b.Body)
			}
		}
	}
	slices.SortFunc(n.Elements, cmp.Compare[int64])
	n.Elements = slices.Compact(n.Elements)
	return n
}
