package fold

import "slices"

// Change is what alignment did to the list, as far as folds care.
type Change struct {
	// Rewound are the elements the client went back before.
	Rewound []int64
	// Replaced maps an element to the one that took its place.
	Replaced map[int64]int64
	// Restamp says that the list is the client's alone from now on.
	Restamp bool
}

// Align brings the folds up to date with the list, before Rewrite. elements is
// the list after the change. A rewind into a block unfolds it; it returns when
// all its elements do. A replaced element is replaced inside its block. At a
// re-stamp a block dies with the first of its elements that is gone, reasoning
// apart; at any other time an element the client dropped leaves its block alone.
func Align(elements []Element, ch Change, st State) (State, []Event) {
	if len(st.Blocks)+len(st.Overlays)+len(st.Hidden)+len(st.Kept) == 0 {
		return st, nil
	}
	a := aligner{elems: elements, at: places(elements), next: st.changed()}
	a.replace(ch.Replaced)
	a.rewind(ch.Rewound)
	if ch.Restamp {
		a.restamp()
	}
	a.comeBack()
	a.releaseFirst()
	a.reclose()
	if !a.moved {
		return st, nil
	}
	return a.next, a.events
}

// aligner carries one alignment; next is its own copy of the state.
type aligner struct {
	elems  []Element
	at     map[int64]int
	next   State
	events []Event
	moved  bool
	// freed are children that stand for themselves again.
	freed map[int64]bool
}

func (a *aligner) replace(pairs map[int64]int64) {
	for old, n := range pairs {
		for i := range a.next.Blocks {
			b := &a.next.Blocks[i]
			a.swap(&b.Elems, old, n)
			a.swap(&b.Thoughts, old, n)
		}
		a.swap(&a.next.Kept, old, n)
		a.swap(&a.next.Hidden, old, n)
		a.dropOverlays(func(o Shortened) bool { return o.Elem == old })
	}
}

func (a *aligner) swap(in *Numbers, old, n int64) {
	k := slices.Index(*in, old)
	if k < 0 {
		return
	}
	*in = slices.Clone(*in)
	(*in)[k] = n
	a.moved = true
}

func (a *aligner) dropOverlays(gone func(Shortened) bool) {
	before := len(a.next.Overlays)
	a.next.Overlays = slices.DeleteFunc(a.next.Overlays, gone)
	a.moved = a.moved || len(a.next.Overlays) != before
}

// rewind takes every active block that holds a rewound element out of the view.
// What such a block had consumed stands for itself until it returns.
func (a *aligner) rewind(ns []int64) {
	if len(ns) == 0 {
		return
	}
	gone := make(map[int64]bool, len(ns))
	for _, n := range ns {
		gone[n] = true
	}
	a.unfoldWhere(Away, func(b *Block) bool {
		return slices.ContainsFunc(a.next.Effective(b.ID), func(n int64) bool { return gone[n] })
	})
	a.dropOverlays(func(o Shortened) bool { return gone[o.Elem] })
}

// restamp lets blocks die whose elements are not all there.
func (a *aligner) restamp() {
	a.unfoldWhere(Dead, func(b *Block) bool { return !a.whole(b.ID) })
	a.dropOverlays(func(o Shortened) bool { _, there := a.at[o.Elem]; return !there })
}

// releaseFirst unfolds the block that covers the first user element, which
// became the first because the ones before it went.
func (a *aligner) releaseFirst() {
	k := firstUser(a.elems)
	if k < 0 || len(a.next.Blocks) == 0 {
		return
	}
	a.unfoldWhere(Dead, func(b *Block) bool { return slices.Contains(a.next.Effective(b.ID), a.elems[k].N) })
}

// unfoldWhere unfolds blocks, parents before what they had consumed: a child is
// freed first and then looked at itself.
func (a *aligner) unfoldWhere(to BlockState, hit func(*Block) bool) {
	a.freed = map[int64]bool{}
	for i := len(a.next.Blocks) - 1; i >= 0; i-- {
		b := &a.next.Blocks[i]
		if b.Status != Active && (b.Status != Away || to == Away) || !hit(b) {
			continue
		}
		if b.Status == Active && !a.freed[b.ID] {
			a.event(Unfold, b)
		}
		delete(a.freed, b.ID)
		b.Status, a.moved = to, true
		a.free(b, to)
	}
	for i := range a.next.Blocks {
		if b := &a.next.Blocks[i]; a.freed[b.ID] {
			a.event(Folded, b)
		}
	}
}

// free lets children stand for themselves; those of a block that may return
// remember it.
func (a *aligner) free(b *Block, to BlockState) {
	for _, c := range b.Children {
		child := a.next.Block(c)
		if child.Parent != b.ID {
			continue // another block has it by now
		}
		if child.Status == Consumed {
			child.Status = Active
			a.freed[c] = true
		}
		if to == Dead {
			child.Parent = 0
		}
	}
}

// reclose shows again what would tear a call from its result, or reasoning from
// its companion, or hide the first user element, because the list around it is
// another one now.
func (a *aligner) reclose() {
	p := newPicture(a.elems, &a.next)
	g := p.groups()
	torn := map[int64]bool{}
	var shown Numbers
	for i := range a.elems {
		if p.shown(i) || !g.any(i, func(k int) bool { return k == p.first || p.shown(k) }) {
			continue
		}
		if b := p.covered(i); b != 0 {
			torn[b] = true
		}
		if n := a.elems[i].N; p.hidden[n] {
			shown = append(shown, n)
		}
	}
	if len(torn) > 0 {
		a.unfoldWhere(Dead, func(b *Block) bool { return torn[b.ID] })
	}
	a.reveal(shown)
}

func (a *aligner) reveal(ns Numbers) {
	if len(ns) == 0 {
		return
	}
	a.next.Hidden = slices.DeleteFunc(a.next.Hidden, func(n int64) bool { return slices.Contains(ns, n) })
	a.moved = true
	ev := Event{Kind: Unfold}
	ev.Elems, ev.Keys = witness(a.elems, a.at, ns)
	a.events = append(a.events, ev)
}

// whole reports whether every element of the block is in the list, those of
// reasoning alone apart.
func (a *aligner) whole(id int64) bool {
	b := a.next.Block(id)
	for _, n := range b.Elems {
		if _, there := a.at[n]; !there && !slices.Contains(b.Thoughts, n) {
			return false
		}
	}
	return !slices.ContainsFunc(b.Children, func(c int64) bool { return !a.whole(c) })
}

// comeBack folds again what the client had gone back before, children first.
func (a *aligner) comeBack() {
	for i := range a.next.Blocks {
		b := &a.next.Blocks[i]
		if b.Status != Away || !a.whole(b.ID) || a.taken(b.ID) {
			continue
		}
		b.Status, a.moved = Active, true
		for _, c := range b.Children {
			a.next.Block(c).Status = Consumed
		}
		a.event(Folded, b)
	}
}

// taken reports whether another block, not one of its own children, holds an
// element of this one by now.
func (a *aligner) taken(id int64) bool {
	mine := a.next.Effective(id)
	for i := range a.next.Blocks {
		b := &a.next.Blocks[i]
		if b.Status != Active || a.under(b, id) {
			continue
		}
		if slices.ContainsFunc(a.next.Effective(b.ID), func(n int64) bool { return slices.Contains(mine, n) }) {
			return true
		}
	}
	return false
}

func (a *aligner) under(b *Block, id int64) bool {
	for ; b != nil; b = a.next.Block(b.Parent) {
		if b.ID == id {
			return true
		}
	}
	return false
}

func (a *aligner) event(kind EventKind, b *Block) {
	ev := Event{Kind: kind, Block: b.ID, Tier: b.Tier, Children: b.Children}
	ev.Elems, ev.Keys = witness(a.elems, a.at, a.next.Effective(b.ID))
	if len(ev.Elems) > 0 {
		ev.Anchor = ev.Elems[0]
	}
	a.events = append(a.events, ev)
}

// witness are the elements of ns that are in the list, in its order, with their
// keys.
func witness(elems []Element, at map[int64]int, ns []int64) (there []int64, keys []string) {
	var ks []int
	for _, n := range ns {
		if k, ok := at[n]; ok {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	for _, k := range ks {
		there = append(there, elems[k].N)
		keys = append(keys, elems[k].Key.String())
	}
	return there, keys
}

// Adopt takes over the blocks of another ledger whose elements, all of them,
// are in this list: numbers maps its elements to ours. Blocks get numbers of
// our own; bodies are shared by hash. It returns the new number of each.
func Adopt(elements []Element, st, from State, numbers map[int64]int64) (State, map[int64]int64, []Event) {
	next, at := st.changed(), places(elements)
	given := map[int64]int64{}
	var events []Event
	for i := range from.Blocks {
		b := &from.Blocks[i]
		if b.Status != Active || !carriedOver(&from, b.ID, numbers, at, firstUser(elements)) {
			continue
		}
		id := next.adopt(&from, b, numbers, given)
		ev := Event{Kind: Inherit, Block: id, Tier: b.Tier}
		ev.Elems, ev.Keys = witness(elements, at, next.Effective(id))
		ev.Anchor = ev.Elems[0]
		events = append(events, ev)
	}
	if len(events) == 0 {
		return st, nil, nil
	}
	return next, given, events
}

// carriedOver reports whether all elements of a block are in the new list, in
// the order they had, and none of them is its first user element.
func carriedOver(from *State, id int64, numbers map[int64]int64, at map[int64]int, first int) bool {
	b, last := from.Block(id), -1
	for _, n := range b.Elems {
		k, there := at[numbers[n]]
		if !there || k == first || k < last {
			return false
		}
		last = k
	}
	return !slices.ContainsFunc(b.Children, func(c int64) bool { return !carriedOver(from, c, numbers, at, first) })
}

// adopt copies a block and what it consumed.
func (s *State) adopt(from *State, b *Block, numbers, given map[int64]int64) int64 {
	mine := *b
	mine.Children, mine.Elems, mine.Thoughts = nil, mapped(b.Elems, numbers), mapped(b.Thoughts, numbers)
	for _, c := range b.Children {
		mine.Children = append(mine.Children, s.adopt(from, from.Block(c), numbers, given))
	}
	mine.Status, mine.Parent = Active, 0
	id := s.add(mine)
	given[b.ID] = id
	return id
}

func mapped(ns Numbers, numbers map[int64]int64) (out Numbers) {
	for _, n := range ns {
		out = append(out, numbers[n])
	}
	return out
}

// PurgeBlocks stamps blocks whose originals were deleted, so that they are
// answered for honestly.
func PurgeBlocks(st State, ids []int64) (State, []Event) {
	next := st.changed()
	var events []Event
	for _, id := range ids {
		b := next.Block(id)
		if b == nil || b.Gone {
			continue
		}
		b.Gone = true
		events = append(events, Event{Kind: Purge, Block: id, Elems: next.Effective(id)})
	}
	if len(events) == 0 {
		return st, nil
	}
	return next, events
}

// Undo takes a block out of the view for good; what it had consumed stands for
// itself again. Elisions are undone this way.
func Undo(elements []Element, st State, id int64) (State, []Event) {
	a := aligner{elems: elements, at: places(elements), next: st.changed()}
	a.unfoldWhere(Dead, func(b *Block) bool { return b.ID == id })
	if !a.moved {
		return st, nil
	}
	return a.next, a.events
}

// Restore lifts the overlays of an element. The event is an unfold without a
// block.
func Restore(elements []Element, st State, n int64) (State, []Event) {
	a := aligner{elems: elements, at: places(elements), next: st.changed()}
	a.dropOverlays(func(o Shortened) bool { return o.Elem == n })
	if !a.moved {
		return st, nil
	}
	ev := Event{Kind: Unfold}
	ev.Elems, ev.Keys = witness(elements, a.at, []int64{n})
	return a.next, []Event{ev}
}

// HideElements leaves elements out of the view, each with the calls, results and
// reasoning that belong to it. What can never be folded is never hidden, nor is
// what a block covers.
func HideElements(elements []Element, st State, ns []int64) (State, []Event) {
	p := newPicture(elements, &st)
	g, at, next := p.groups(), places(elements), st.changed()
	var hidden []int64
	for _, n := range ns {
		i, there := at[n]
		if !there || slices.ContainsFunc(g.of(i), func(k int) bool { return p.always(k).hard() || !p.shown(k) }) {
			continue
		}
		for _, k := range g.of(i) {
			if m := elements[k].N; !slices.Contains(hidden, m) {
				hidden = append(hidden, m)
			}
		}
	}
	if len(hidden) == 0 {
		return st, nil
	}
	next.Hidden = append(next.Hidden, hidden...)
	ev := Event{Kind: Hide}
	ev.Elems, ev.Keys = witness(elements, at, hidden)
	return next, []Event{ev}
}
