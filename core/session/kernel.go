package session

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/fold"
)

// ErrAddress: an event of the kernel does not map to exactly one set of rows
// (gate R2). Nothing of it was planned.
var ErrAddress = errors.New("session: an event does not name what is there")

// Kernel is what the kernel made of a turn or a tool call. Events carry the
// bodies of new blocks.
type Kernel struct {
	State  fold.State
	Rhythm fold.Rhythm
	Events []fold.Event
}

// Undescribed are the elements the kernel will be asked about that Meta lacks:
// after a load of a branch that offers tools, all of them. The chain decodes
// their stored bytes once and puts the Describe of each into Meta.
func (st *State) Undescribed() (ns []int64) {
	if !st.Head.Tools && !st.Kernel.Armed && !structured(&st.Kernel) {
		return nil
	}
	for i := range st.List {
		if _, known := st.Meta[st.List[i].N]; !known {
			ns = append(ns, st.List[i].N)
		}
	}
	for _, n := range removedElems(st.Rows) {
		if _, known := st.Meta[n]; !known {
			ns = append(ns, n)
		}
	}
	return ns
}

// structured reports whether anything is or was folded, hidden or shortened.
func structured(k *fold.State) bool {
	return len(k.Blocks)+len(k.Overlays)+len(k.Hidden) > 0
}

// Describe is what the kernel knows of a stored element; m is its bytes decoded.
func Describe(e *Element, m *chat.Message) fold.Element {
	d := fold.Describe(m)
	d.N, d.Ref = e.N, e.Ref
	if e.Exact {
		d.Tokens = e.Tokens
	}
	return d
}

// describe keeps what the kernel will want to know of an element.
func (p *planner) describe(e *Element, m *chat.Message) {
	if p.in.Tools || p.st.Kernel.Armed || structured(&p.st.Kernel) {
		p.plan.described[e.N] = Describe(e, m)
	}
}

// Elements is the kernel's list of a committed state: the inbound elements in
// order and, while there are rows, those the client removed at their places.
func (st *State) Elements() []fold.Element {
	if st.Red == "" && len(st.Rows) > 0 {
		return ofRows(st.Rows, st.meta)
	}
	return ofList(st.List, st.meta)
}

// Shown is the kernel's list of a state that the full path served: the inbound
// elements alone.
func (st *State) Shown() []fold.Element { return ofList(st.List, st.meta) }

func (st *State) meta(n int64) fold.Element { return st.Meta[n] }

// Elements is the kernel's list as State.Elements, with this plan carried out.
func (p *Plan) Elements() []fold.Element { return p.planner.elements() }

func (p *planner) elements() []fold.Element {
	if p.rows || p.al == nil && p.st.Red == "" { // a call is decided on what the committed state shows
		return ofRows(p.plan.Next.Rows, p.meta)
	}
	return ofList(p.plan.Next.List, p.meta)
}

func (p *planner) meta(n int64) fold.Element {
	if d, fresh := p.plan.described[n]; fresh {
		return d
	}
	return p.plan.Next.Meta[n]
}

// ofRows lists elements in the order of their rows.
func ofRows(rows []RowIndex, meta func(int64) fold.Element) []fold.Element {
	out := make([]fold.Element, 0, len(rows))
	last := int64(0)
	for i := range rows {
		if rows[i].Carrier != 0 || rows[i].Elem == last {
			continue
		}
		last = rows[i].Elem
		e := meta(last)
		e.N, e.Removed = last, rows[i].Removed
		out = append(out, e)
	}
	return out
}

func ofList(list []Elem, meta func(int64) fold.Element) []fold.Element {
	out := make([]fold.Element, len(list))
	for i := range list {
		out[i] = meta(list[i].N)
		out[i].N, out[i].Key = list[i].N, list[i].Key
	}
	return out
}

// FullView is the full path's view once this plan is carried out; see FullView.
func (p *Plan) FullView() []ViewItem {
	if !structured(&p.Next.Kernel) { // nothing to be looked up
		return plainView(p.Next.List)
	}
	return WholeView(ofList(p.Next.List, p.planner.meta), p.Next.List, p.Next.Kernel)
}

// plainView is the view of a list of which nothing is folded, hidden or
// shortened.
func plainView(list []Elem) []ViewItem {
	view := make([]ViewItem, len(list))
	for j := range list {
		view[j] = ViewItem{Inbound: j, Elem: list[j].N}
	}
	return view
}

// WholeView is the view the rows must give: FullView with what the client
// removed at its place.
func (p *Plan) WholeView() []ViewItem {
	return WholeView(p.planner.elements(), p.Next.List, p.Next.Kernel)
}

// Kernel is the kernel's state after alignment: what Rewrite goes on from.
func (p *Plan) Kernel() fold.State { return p.Next.Kernel }

// alignKernel lets the kernel follow the list.
func (p *planner) alignKernel() {
	if !structured(&p.st.Kernel) {
		return
	}
	elems := p.elements()
	p.change.Restamp = p.al.Restamps()
	next, events := fold.Align(elems, p.change, p.st.Kernel)
	next, more := soundOverlays(elems, next)
	events = append(events, more...)
	if next.Structure == p.st.Kernel.Structure && !p.edited() {
		return
	}
	named := namedBy(append(slices.Clone(p.events), events...), elems, &next)
	if p.sync(elems, &next, named) != nil { // rows and kernel no longer agree: new rows will
		p.abandon()
	}
	p.events = append(p.events, events...)
	p.adopt(next)
}

// edited reports whether alignment did more than append.
func (p *planner) edited() bool {
	return len(p.plan.Commit.States) > 0 || slices.ContainsFunc(p.events, func(e fold.Event) bool { return e.Kind != fold.Append })
}

// soundOverlays lifts overlays from parts that are no results any more: another
// wire may have another order of parts.
func soundOverlays(elems []fold.Element, k fold.State) (fold.State, []fold.Event) {
	var events []fold.Event
	for i := range elems {
		e := &elems[i]
		off := func(o fold.Shortened) bool {
			return o.Elem == e.N && (o.Core >= len(e.Cores) || e.Cores[o.Core].Kind != chat.ToolResult)
		}
		if !slices.ContainsFunc(k.Overlays, off) {
			continue
		}
		next, ev := fold.Restore(elems, k, e.N)
		k, events = next, append(events, ev...)
	}
	return k, events
}

// abandon gives the rows up: the commit leaves them as they are, and the session
// is re-stamped.
func (p *planner) abandon() {
	c := &p.plan.Commit
	c.Rows, c.Flips, c.Check, c.World = nil, nil, nil, nil
	p.rows = false
	h := p.head()
	h.NextRow, h.HeadSeq = p.st.Head.NextRow, p.st.Head.HeadSeq
	h.NeedsRestamp = "R2: " + string(CauseEventAddress)
}

// adopt makes k the kernel's state of the plan.
func (p *planner) adopt(k fold.State) {
	next := p.plan.Next
	if k.Structure == next.Head.StructureVersion {
		return
	}
	next.Kernel = k
	h := p.head()
	h.Structure, h.Sum = k.Seal()
	h.StructureVersion, h.NextBlock = k.Structure, k.LastBlock+1
}

// Fold adds the kernel's changes to the plan: rows flipped, carriers written,
// element states, coverage, bodies, and the kernel's state in the head. Call it
// before the commit. On ErrAddress the plan is as it was: the turn takes the full
// path without the events.
func (p *Plan) Fold(k Kernel) error { return p.planner.fold(k) }

func (p *planner) fold(k Kernel) error {
	elems := p.elements()
	if err := addressed(elems, &k); err != nil {
		return err
	}
	if len(k.Events) > 0 {
		if err := p.sync(elems, &k.State, namedBy(k.Events, elems, &k.State)); err != nil {
			return err
		}
	}
	p.hold(&k)
	p.events = append(p.events, k.Events...)
	p.adopt(k.State)
	p.head().Rhythm = k.Rhythm.Text()
	p.seal()
	return nil
}

// addressed checks that each event names elements that are there, by the keys
// it was decided on, and blocks with the bodies it brings.
func addressed(elems []fold.Element, k *Kernel) error {
	at := make(map[int64]int, len(elems))
	for i := range elems {
		at[elems[i].N] = i
	}
	for i := range k.Events {
		ev := &k.Events[i]
		if ev.Kind == fold.Purge {
			continue
		}
		for j, n := range ev.Elems {
			x, there := at[n]
			if !there || j < len(ev.Keys) && ev.Keys[j] != elems[x].Key.String() {
				return fmt.Errorf("%w: %s of element %d", ErrAddress, ev.Kind, n)
			}
		}
		if ev.Body == nil {
			continue
		}
		b := k.State.Block(ev.Block)
		if _, id := ev.Body.Text(); b == nil || b.Body != id {
			return fmt.Errorf("%w: %s of block %d with another body", ErrAddress, ev.Kind, ev.Block)
		}
	}
	return nil
}

// namedBy are the elements that events may change. A witness has only what the
// client's list holds; what the client removed before, the block of the event
// names, as the rows still hold it.
func namedBy(events []fold.Event, elems []fold.Element, k *fold.State) map[int64]bool {
	named, removed := map[int64]bool{}, map[int64]bool{}
	for i := range elems {
		removed[elems[i].N] = elems[i].Removed
	}
	for i := range events {
		for _, n := range events[i].Elems {
			named[n] = true
		}
		if k.Block(events[i].Block) == nil {
			continue
		}
		for _, n := range k.Effective(events[i].Block) {
			named[n] = named[n] || removed[n]
		}
	}
	return named
}

// hold stores the bodies of new blocks. An inherited one shares a body that the
// ledger has.
func (p *planner) hold(k *Kernel) {
	c := &p.plan.Commit
	for i := range k.Events {
		switch ev := &k.Events[i]; ev.Kind {
		case fold.Folded, fold.Inherit:
			c.Full = true
			if ev.Body != nil {
				text, id := ev.Body.Text()
				p.blob(Blob{ID: id, Raw: text})
			}
		}
	}
	for i := range k.State.Blocks {
		if b := &k.State.Blocks[i]; b.ID > p.plan.Next.Kernel.LastBlock {
			c.Holds = append(c.Holds, b.Body)
		}
	}
}

// FoldCall is the tool call behind a fold.
type FoldCall struct {
	Now     int64  // unix ms
	Cause   string // cause_id
	Outcome []byte // what the model was told
	// Rows says whether snapshot rows are kept.
	Rows bool
}

// MakeFold plans the commit of one tool call in the middle of a turn. It has a
// checkpoint of its own that bears the cause, is fully synced, and keeps the
// outcome for a call that is repeated. st is the branch as committed. Without
// events only the rhythm and the outcome are kept.
func MakeFold(st *State, k Kernel, f FoldCall) (*Plan, error) {
	p := newPlanner(st, &Inbound{Now: f.Now, Rows: f.Rows, Route: st.Route, Tools: st.Head.Tools})
	p.rows = f.Rows && st.Red == ""
	p.plan.Commit = Commit{Base: st.Head.Version, Cause: f.Cause, Outcome: f.Outcome, Head: st.Head}
	if err := p.fold(k); err != nil {
		return nil, err
	}
	return p.plan, nil
}

// Inherit takes over the folds of another ledger whose elements are all in the
// list of this plan, in order and not folded yet. Call it before Fold, best donor
// first, for a plan that creates its branch.
func (p *Plan) Inherit(donor *State) error {
	elems := p.planner.elements()
	covered := map[int64]bool{}
	for _, c := range fold.Coverage(elems, p.Next.Kernel) {
		for _, n := range c.Elems {
			covered[n] = true
		}
	}
	numbers := map[int64]int64{}
	al := Align(Keys(donor.List), Keys(p.Next.List))
	for j, i := range al.Kept {
		if n := p.Next.List[j].N; i >= 0 && !covered[n] {
			numbers[donor.List[i].N] = n
		}
	}
	next, _, events := fold.Adopt(elems, p.Next.Kernel, donor.Kernel, numbers)
	if len(events) == 0 {
		return nil
	}
	return p.planner.fold(Kernel{State: next, Rhythm: fold.OpenRhythm(p.Next.Head.Rhythm), Events: events})
}
