package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/fold"
	"holdfast/core/usage"
)

// act lets the kernel do one thing to a list and returns what it made of it.
func (p *program) act(elems []fold.Element, k fold.State, rh fold.Rhythm) Kernel {
	n := elems[p.r.IntN(len(elems))].N
	switch op := p.r.IntN(10); {
	case op < 5:
		out := p.session(elems, k, rh).Run(fold.ToolUse{Name: fold.ToolCompress, Args: p.ranges(elems, &k)}, p.textsOf(elems))
		return Kernel{out.State, out.Rhythm, out.Events}
	case op == 5:
		next, events := fold.HideElements(elems, k, []int64{n})
		return Kernel{next, rh, events}
	case op == 6 && len(k.Blocks) > 0:
		next, events := fold.Undo(elems, k, k.Blocks[p.r.IntN(len(k.Blocks))].ID)
		return Kernel{next, rh, events}
	case op == 7 && len(k.Overlays) > 0:
		next, events := fold.Restore(elems, k, k.Overlays[p.r.IntN(len(k.Overlays))].Elem)
		return Kernel{next, rh, events}
	case op == 8:
		lim := fold.Limits{Window: usage.Tokens(3000 + p.r.IntN(20_000))}
		_, next, rhythm, events, _ := fold.Rewrite(elems, k, rh, lim, usage.Usage{})
		return Kernel{next, rhythm, events}
	}
	return Kernel{State: k, Rhythm: rh}
}

func (p *program) session(elems []fold.Element, k fold.State, rh fold.Rhythm) fold.Session {
	return fold.Session{Elements: elems, State: k, Rhythm: rh, Limits: fold.Limits{Window: 200_000}}
}

// ranges are the arguments of a fold: two refs of the list, or of folds.
func (p *program) ranges(elems []fold.Element, k *fold.State) []byte {
	pick := func() string {
		if len(k.Blocks) > 0 && p.r.IntN(3) == 0 {
			return BlockName(k.Blocks[p.r.IntN(len(k.Blocks))].ID)
		}
		return fold.Ref{Number: elems[p.r.IntN(len(elems))].Ref}.String()
	}
	p.texts++
	args, err := json.Marshal(map[string]any{"content": []map[string]string{
		{"startId": pick(), "endId": pick(), "summary": fmt.Sprint("summary ", p.texts, strings.Repeat(" of what was done", 5))}}})
	if err != nil {
		panic(err)
	}
	return args
}

func (p *program) textsOf(elems []fold.Element) fold.Texts {
	t := fold.Texts{Elements: map[int64]*chat.Message{}, Bodies: p.tb.bodies}
	for i := range elems {
		if e := p.tb.elems[elems[i].N]; e != nil {
			t.Elements[e.N] = p.tb.blobs[e.Blob]
		}
	}
	return t
}

// kernel lets the kernel act on a planned turn.
func (p *program) kernel(plan *Plan) (bad complaints) {
	before := plan.Kernel()
	for _, ev := range plan.planner.events {
		p.metEvent(&ev, &before)
	}
	if p.r.IntN(3) > 0 {
		return nil
	}
	k := p.act(plan.Elements(), before, fold.OpenRhythm(plan.Next.Head.Rhythm))
	if err := plan.Fold(k); err != nil {
		bad.check(false, "the turn's fold: %v", err)
		return bad
	}
	p.metAll(&k, plan.Commit.Check == nil)
	return bad
}

func (p *program) metAll(k *Kernel, without bool) {
	for i := range k.Events {
		p.metEvent(&k.Events[i], &k.State)
		p.met[string(k.Events[i].Kind)]++
		if without {
			p.met["fold without rows"]++
		}
		p.log = append(p.log, fmt.Sprint("  ", k.Events[i].Kind, " ", k.Events[i].Elems, " b", k.Events[i].Block, k.Events[i].Children))
	}
}

func (p *program) metEvent(ev *fold.Event, k *fold.State) {
	switch b := k.Block(ev.Block); {
	case ev.Kind == fold.Folded && len(ev.Children) > 0:
		p.met["nested fold"]++
	case ev.Kind == fold.Folded && ev.Body == nil:
		p.met["fold came back"]++
	case ev.Kind == fold.Unfold && b != nil && b.Status == fold.Dead:
		p.met["block died"]++
	}
}

// foldBetween commits a tool call of its own, as the loop does in the middle of
// a turn, and holds it against the view before: everything in front of the first
// touched element is as it was.
func (p *program) foldBetween() (bad complaints) {
	if p.r.IntN(3) > 0 {
		return nil
	}
	k := p.act(p.st.Elements(), p.st.Kernel, fold.OpenRhythm(p.st.Head.Rhythm))
	before, old := copyState(p.st), WholeView(p.st.Elements(), p.st.List, p.st.Kernel)
	call := FoldCall{Now: p.turn, Cause: fmt.Sprint("cause ", p.turn), Outcome: []byte("said"), Rows: p.rowsOn}
	plan, err := MakeFold(p.st, k, call)
	if err != nil {
		bad.check(false, "the call's fold: %v", err)
		return bad
	}
	bad.check(reflect.DeepEqual(before, copyState(p.st)), "planning a fold changed the state planned from")
	p.log = append(p.log, "fold between turns")
	bad = append(bad, p.tb.commit(&plan.Commit, nil)...)
	p.metAll(&k, plan.Commit.Check == nil)
	if c := plan.Commit.Check; c != nil {
		p.met["fold between turns"]++
		bad.check(c.Cause == call.Cause, "the checkpoint's cause is %q", c.Cause)
	}
	if p.st = plan.Settle(); p.st.Red != "" {
		p.own = slices.DeleteFunc(p.own, func(o own) bool { return o.removed })
	} else {
		bad.check(samePrefix(old, WholeView(p.st.Elements(), p.st.List, p.st.Kernel), k.Events), "the view changed before the first touched element")
	}
	return append(bad, p.compare()...)
}

// samePrefix reports whether two views agree up to the first place that events
// touch.
func samePrefix(old, now []ViewItem, events []fold.Event) bool {
	touched, blocks := map[int64]bool{}, map[int64]bool{}
	for _, ev := range events {
		blocks[ev.Block] = true
		for _, c := range ev.Children {
			blocks[c] = true
		}
		for _, n := range ev.Elems {
			touched[n] = true
		}
	}
	for i, v := range old {
		if touched[v.Elem] || v.Block != 0 && blocks[v.Block] {
			return true
		}
		if i >= len(now) || !SameView(old[i:i+1], now[i:i+1]) {
			return false
		}
	}
	return len(old) == len(now)
}

// views holds the views of both paths against each other and against what the
// oracle's list gives under the kernel's state.
func (p *program) views() (bad complaints) {
	view, err := SnapshotView(p.st.Rows, p.st.List)
	bad.check(err == nil, "%v", err)
	whole := WholeView(p.st.Elements(), p.st.List, p.st.Kernel)
	bad.check(SameView(view, whole), "the rows give\n%+v\nthe full path\n%+v", view, whole)
	bad.check(SameView(view, p.told()), "the rows give\n%+v\nthe oracle\n%+v", view, p.told())
	if !slices.ContainsFunc(p.own, func(o own) bool { return o.removed }) {
		p.met["full path equals snapshot"]++
		full := FullView(p.st.List, p.st.Meta, p.st.Kernel)
		bad.check(SameView(view, full), "the rows give\n%+v\nthe full path of the client's list\n%+v", view, full)
	}
	for _, ix := range p.st.Rows {
		if ix.Carrier != 0 {
			b := p.st.Kernel.Block(ix.Carrier)
			bad.check(p.tb.rows[ix.Row].Raw == b.Body, "the carrier of b%d has another body", b.ID)
		}
	}
	return bad
}

// blocks checks what must hold of every fold that stands: the client has gone
// back before none of its elements, and names none that was replaced.
func (p *program) blocks(replaced []int64) (bad complaints) {
	k := &p.st.Kernel
	for _, b := range k.Blocks {
		for _, n := range k.Effective(b.ID) {
			bad.check(b.Status != fold.Active || p.tb.elems[n].State != Rewound, "b%d stands and element %d is rewound", b.ID, n)
			bad.check(b.Status != fold.Active || !slices.Contains(replaced, n), "b%d stands and element %d was replaced", b.ID, n)
		}
	}
	return bad
}

// told is the view of the oracle's own list: what an active block covers is one
// carrier at the first of it.
func (p *program) told() (view []ViewItem) {
	k, at := &p.st.Kernel, map[int64]int{}
	for j, e := range p.st.List {
		at[e.N] = j
	}
	carried := map[int64]bool{}
	for _, o := range p.own {
		id := p.blockOf(o.n)
		switch {
		case id != 0 && !carried[id]:
			carried[id] = true
			view = append(view, ViewItem{Inbound: -1, Block: id})
		case id != 0, slices.Contains(k.Hidden, o.n):
		default:
			v := ViewItem{Inbound: -1, Elem: o.n}
			if !o.removed {
				v.Inbound = at[o.n]
			}
			for core := range 8 {
				for _, s := range k.Overlays {
					if s.Elem == o.n && s.Core == core {
						v.Overlays = append(v.Overlays, s)
					}
				}
			}
			view = append(view, v)
		}
	}
	return view
}

// blockOf is the active block that covers an element.
func (p *program) blockOf(n int64) int64 {
	k := &p.st.Kernel
	for _, b := range k.Blocks {
		if b.Status == fold.Active && slices.Contains(k.Effective(b.ID), n) {
			return b.ID
		}
	}
	return 0
}

// stateOf is the state the kernel gives an element of the client's list.
func (p *program) stateOf(n int64) ElemState {
	k := &p.st.Kernel
	shortened := func(o fold.Shortened) bool { return o.Elem == n }
	switch {
	case p.blockOf(n) != 0:
		return Folded
	case slices.Contains(k.Hidden, n):
		return Hidden
	case slices.ContainsFunc(k.Overlays, shortened):
		return Overlaid
	}
	return Live
}

// sameFacts compares what is the same however an element's reasoning was spelled
// when it was described.
func sameFacts(a, b fold.Element) bool {
	return a.N == b.N && a.Ref == b.Ref && a.Key == b.Key && a.Role == b.Role && a.Fixed == b.Fixed && a.Removed == b.Removed
}

// copied resumes the conversation as another session, some of it cut off: it
// inherits exactly the folds all of whose elements it has, and then goes on.
func (p *program) copied() (bad complaints) {
	keep := len(p.client) - p.r.IntN(3)*p.r.IntN(8)
	if keep < 1 {
		return nil
	}
	c := newProgram(p.r.Uint64())
	c.folds, c.wire, c.met = true, p.wire, p.met
	c.tb.bodies = maps.Clone(p.tb.bodies)
	msgs := make([]*chat.Message, keep)
	for i, parts := range p.client[:keep] {
		msgs[i] = message(p.wire, parts, false)
	}
	al := c.align(msgs, p.wire, true)
	in := c.inbound(&al, msgs, p.wire)
	plan := MakePlan(c.st, true, &al, in)
	if err := plan.Inherit(p.st); err != nil {
		bad.check(false, "inheriting: %v", err)
		return bad
	}
	bad = append(bad, c.tb.commit(&plan.Commit, decoded(p.wire))...)
	c.st, c.client = plan.Settle(), p.client[:keep:keep]
	for j, m := range msgs {
		c.own = append(c.own, own{n: c.st.List[j].N, text: spellKey(m)})
	}
	bad = append(bad, c.inherits(p, keep)...)
	bad = append(bad, c.compare()...)
	for range 4 {
		_, more := c.step()
		bad = append(bad, more...)
	}
	return bad
}

// inherits checks the carriers of a copy of the first elements of o.
func (p *program) inherits(o *program, keep int) (bad complaints) {
	place := map[int64]int{}
	for j, e := range o.st.List[:keep] {
		place[e.N] = j
	}
	first := slices.IndexFunc(p.st.Elements(), func(e fold.Element) bool { return e.Role == chat.User })
	var want, got []string
	for _, b := range o.st.Kernel.Blocks {
		if b.Status != fold.Active {
			continue
		}
		var at []int
		for _, n := range o.st.Kernel.Effective(b.ID) {
			j, there := place[n]
			if at = append(at, j); !there {
				at = nil
				p.met["not all inherited"]++
				break
			}
		}
		if slices.Contains(at, first) { // the client removed what was the first user element before, and no fold covers that
			continue
		}
		if slices.Sort(at); at != nil {
			p.met["inherited fold"]++
			want = append(want, fmt.Sprint(b.Body, at))
		}
	}
	for _, b := range p.st.Kernel.Blocks {
		if b.Status == fold.Active {
			var at []int
			for _, n := range p.st.Kernel.Effective(b.ID) {
				at = append(at, slices.IndexFunc(p.st.List, func(e Elem) bool { return e.N == n }))
			}
			slices.Sort(at)
			got = append(got, fmt.Sprint(b.Body, at))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	bad.check(slices.Equal(want, got), "inherited\n%v\nwant\n%v", got, want)
	return bad
}
