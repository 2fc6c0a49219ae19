package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
)

// ViewItem is one place of a view: the client's own element at inbound index
// Inbound; or (Inbound -1) a stored element put back, or the carrier of Block.
type ViewItem struct {
	Inbound int
	// Elem is the element, 0 for a carrier.
	Elem int64
	// Row is where the stored element is read from; 0 on the full path.
	Row int64
	// Block is the block whose carrier stands here, 0 for an element.
	Block int64
	// Overlays shorten results of the element.
	Overlays []fold.Shortened
}

// Errors of a view; each is gate R3.
var (
	// ErrViewDiffers: the live rows and the inbound list disagree.
	ErrViewDiffers = errors.New("session: rows and inbound list disagree")
	// ErrViewOpen: a call without its result, or the reverse.
	ErrViewOpen = errors.New("session: view is not closed")
)

// FullView is the view of the full path: the inbound list, with the folds of
// the kernel's state. meta describes every element while there are any.
func FullView(list []Elem, meta map[int64]fold.Element, k fold.State) []ViewItem {
	return WholeView(ofList(list, func(n int64) fold.Element { return meta[n] }), list, k)
}

// WholeView is the full path's view of elements: those of the inbound list and
// what else is put back (Inbound -1).
func WholeView(elements []fold.Element, list []Elem, k fold.State) []ViewItem {
	at := make(map[int64]int, len(list))
	for j := range list {
		at[list[j].N] = j
	}
	view := make([]ViewItem, 0, len(elements))
	for _, it := range fold.View(elements, k) {
		v := ViewItem{Inbound: -1, Elem: it.N, Block: it.Block, Overlays: byPart(it.Overlays)}
		if j, sent := at[it.N]; sent {
			v.Inbound = j
		}
		view = append(view, v)
	}
	return view
}

// byPart are overlays in the order of the parts they shorten.
func byPart(overlays []fold.Shortened) []fold.Shortened {
	out := slices.Clone(overlays)
	slices.SortFunc(out, func(a, b fold.Shortened) int { return a.Core - b.Core })
	return out
}

// SameView reports whether two views show the same, wherever it is read from.
func SameView(a, b []ViewItem) bool {
	return slices.EqualFunc(a, b, func(x, y ViewItem) bool {
		return x.Inbound == y.Inbound && x.Elem == y.Elem && x.Block == y.Block && slices.Equal(x.Overlays, y.Overlays)
	})
}

// PlainView reports whether a view is the inbound list of n elements itself.
func PlainView(view []ViewItem, n int) bool {
	if len(view) != n {
		return false
	}
	for j := range view {
		if view[j].Inbound != j || len(view[j].Overlays) > 0 {
			return false
		}
	}
	return true
}

// SnapshotView is the view of the snapshot path: the live rows in order, each
// element once. An element the inbound carries is the client's; a removed one
// is put back; carriers stand where their blocks began. Anything else is an
// error, never a guess.
func SnapshotView(rows []RowIndex, list []Elem) ([]ViewItem, error) {
	s := viewer{list: list, view: make([]ViewItem, 0, len(list))}
	for i := range rows {
		if err := s.row(&rows[i]); err != nil {
			return nil, err
		}
	}
	if s.j != len(list) {
		return nil, fmt.Errorf("%w: element %d has no row", ErrViewDiffers, list[s.j].N)
	}
	return s.view, nil
}

// viewer reads rows into a view. j is the next inbound element, last the
// element of the row before.
type viewer struct {
	list []Elem
	view []ViewItem
	j    int
	last int64
}

func (s *viewer) row(ix *RowIndex) error {
	if ix.Carrier != 0 {
		s.view = append(s.view, ViewItem{Inbound: -1, Row: ix.Row, Block: ix.Carrier})
		return nil
	}
	if ix.Elem != s.last {
		v := ViewItem{Inbound: -1, Elem: ix.Elem, Row: ix.Row}
		switch {
		case s.j < len(s.list) && ix.Elem == s.list[s.j].N:
			v.Inbound, v.Row = s.j, 0
			s.j++
		case !ix.Removed:
			return fmt.Errorf("%w: element %d has rows and is not in the list", ErrViewDiffers, ix.Elem)
		}
		s.last = ix.Elem
		if ix.Live() {
			s.view = append(s.view, v)
		}
	}
	return s.overlay(ix)
}

// overlay adds a row's overlay to its element, which is the last of the view.
func (s *viewer) overlay(ix *RowIndex) error {
	if ix.Overlay == "" || !ix.Live() {
		return nil
	}
	var o fold.Shortened
	if err := json.Unmarshal([]byte(ix.Overlay), &o); err != nil || o.Elem != ix.Elem || o.Core != int(ix.Sub) {
		return fmt.Errorf("%w: the overlay of row %d does not read", ErrViewDiffers, ix.Row)
	}
	v := &s.view[len(s.view)-1]
	v.Overlays = append(v.Overlays, o)
	return nil
}

// Closed checks that putting removed elements back opens nothing: every call
// among the rows has its result and the reverse, except where the client's own
// list is open in the same place. Only removed rows are blamed.
func Closed(rows []RowIndex) error {
	calls, results := map[string]int{}, map[string]int{}
	for i := range rows {
		if rows[i].Call == "" || !rows[i].Live() {
			continue
		}
		switch rows[i].Kind {
		case chat.ToolCall:
			calls[rows[i].Call]++
		case chat.ToolResult:
			results[rows[i].Call]++
		}
	}
	for i := range rows {
		if !rows[i].Removed || rows[i].Call == "" || !rows[i].Live() {
			continue
		}
		if calls[rows[i].Call] == 0 || results[rows[i].Call] == 0 {
			return fmt.Errorf("%w: element %d put back has an unmatched call", ErrViewOpen, rows[i].Elem)
		}
	}
	return nil
}

// HasRemoved reports whether the view puts anything back.
func HasRemoved(rows []RowIndex) bool {
	for i := range rows {
		if rows[i].Removed && rows[i].Live() {
			return true
		}
	}
	return false
}

// ViewRuns tells a view as runs, for the turn row; nil when it is the inbound
// list of n elements itself. blob names the bytes of what is put back.
func ViewRuns(view []ViewItem, n int, blob func(ViewItem) content.ID) []ViewRun {
	if PlainView(view, n) {
		return nil
	}
	var runs []ViewRun
	for _, v := range view {
		switch k := len(runs) - 1; {
		case v.Block != 0:
			runs = append(runs, ViewRun{Block: v.Block, Blob: blob(v)})
		case v.Inbound < 0:
			runs = append(runs, ViewRun{N: v.Elem, Blob: blob(v), Overlays: v.Overlays})
		case k >= 0 && len(v.Overlays) == 0 && runs[k].goesOn(v.Inbound):
			runs[k].To++
		default:
			runs = append(runs, ViewRun{From: v.Inbound, To: v.Inbound + 1, Overlays: v.Overlays})
		}
	}
	return runs
}

// goesOn reports whether inbound element j simply follows.
func (r *ViewRun) goesOn(j int) bool {
	return r.N == 0 && r.Block == 0 && r.Add == "" && len(r.Overlays) == 0 && r.To == j
}

// MakeRestamp plans new rows for the whole list of st: epoch+1, one element
// after the other. msgs are the decoded stored bytes and elems the stored
// elements, both in list order. Folds that lost an element end with it; the
// others cover their elements' new rows. It returns the state once the plan is
// durable.
func MakeRestamp(st *State, msgs []*chat.Message, elems []Element, route Route, now int64) (*RestampPlan, *State) {
	p := newPlanner(st, &Inbound{Now: now})
	p.rows = true
	next, h := p.plan.Next, p.head()
	p.events = []fold.Event{{Kind: fold.Restamp, Keys: []string{h.NeedsRestamp}}}
	h.Epoch, h.HeadSeq, h.NeedsRestamp = h.Epoch+1, p.ck, ""
	next.Red, next.Rows = "", nil
	for _, n := range removedElems(st.Rows) {
		p.stands(n, Archived)
	}
	for i := range elems {
		rows, ixs := RowsOf(h, elems[i].N, msgs[i], elems[i].Cores, elems[i].Blob, elems[i].Tokens, int64(i+1), p.ck, now)
		p.bear(rows, ixs)
	}
	p.refold(elems, msgs)
	check := p.checkpoint()
	check.Reason = string(fold.Restamp)
	plan := &RestampPlan{Base: st.Head.Version, Head: *h, Rows: p.plan.Commit.Rows, States: p.plan.Commit.States,
		World: *worldRow(h, route, true), Check: *check}
	next.Route = route
	return plan, p.plan.Settle()
}

// refold lets the folds of a re-stamp cover their elements' new rows.
func (p *planner) refold(stored []Element, msgs []*chat.Message) {
	if !structured(&p.st.Kernel) {
		return
	}
	for i := range stored {
		if _, known := p.plan.Next.Meta[stored[i].N]; !known {
			p.describe(&stored[i], msgs[i])
		}
	}
	elems := p.elements()
	next, events := fold.Align(elems, fold.Change{Restamp: true}, p.st.Kernel)
	_ = p.sync(elems, &next, nil) // where every element may change, nothing is refused
	p.events = append(p.events, events...)
	if next.Structure != p.st.Kernel.Structure {
		p.adopt(next)
		p.head().Version = p.st.Head.Version + 1
	}
}
