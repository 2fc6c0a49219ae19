package session

import (
	"errors"
	"fmt"

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
	return WholeView(describe(list, meta), list, k)
}

// WholeView is the full path's view of elements: the inbound list and what else
// is put back. Elements that are not in list have Inbound -1.
func WholeView(elements []fold.Element, list []Elem, k fold.State) []ViewItem { return nil }

// SameView reports whether two views show the same.
func SameView(a, b []ViewItem) bool { return false }

// PlainView reports whether a view is the inbound list of n elements itself.
func PlainView(view []ViewItem, n int) bool { return false }

// SnapshotView is the view of the snapshot path: the live rows in order, each
// element once. An element the inbound carries is the client's; a removed one
// is put back. Anything else is an error, never a guess.
func SnapshotView(rows []RowIndex, list []Elem) ([]ViewItem, error) {
	view := make([]ViewItem, 0, len(list))
	j := 0
	for i := range rows {
		if i > 0 && rows[i].Elem == rows[i-1].Elem {
			continue
		}
		switch {
		case j < len(list) && rows[i].Elem == list[j].N:
			view = append(view, ViewItem{Inbound: j, Elem: rows[i].Elem})
			j++
		case rows[i].Removed:
			view = append(view, ViewItem{Inbound: -1, Elem: rows[i].Elem, Row: rows[i].Row})
		default:
			return nil, fmt.Errorf("%w: element %d is live and not in the list", ErrViewDiffers, rows[i].Elem)
		}
	}
	if j != len(list) {
		return nil, fmt.Errorf("%w: element %d has no live row", ErrViewDiffers, list[j].N)
	}
	return view, nil
}

// Closed checks that putting removed elements back opens nothing: every call
// among the rows has its result and the reverse, except where the client's own
// list is open in the same place. Only removed rows are blamed.
func Closed(rows []RowIndex) error {
	calls, results := map[string]int{}, map[string]int{}
	for i := range rows {
		if rows[i].Call == "" {
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
		if !rows[i].Removed || rows[i].Call == "" {
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
		if rows[i].Removed {
			return true
		}
	}
	return false
}

// ViewRuns tells a view as runs, for the turn row; nil when it is the inbound
// list itself.
func ViewRuns(view []ViewItem, n int, blob func(elem int64) content.ID) []ViewRun {
	if len(view) == n {
		return nil
	}
	var runs []ViewRun
	for _, v := range view {
		if v.Inbound < 0 {
			runs = append(runs, ViewRun{N: v.Elem, Blob: blob(v.Elem)})
			continue
		}
		if k := len(runs) - 1; k >= 0 && runs[k].N == 0 && runs[k].To == v.Inbound {
			runs[k].To++
			continue
		}
		runs = append(runs, ViewRun{From: v.Inbound, To: v.Inbound + 1})
	}
	return runs
}

// MakeRestamp plans new rows for the whole list of st: epoch+1, one element
// after the other. msgs are the decoded stored bytes and elems the stored
// elements, both in list order. It returns the state once the plan is durable.
func MakeRestamp(st *State, msgs []*chat.Message, elems []Element, route Route, now int64) (*RestampPlan, *State) {
	next := *st
	h := &next.Head
	why := h.NeedsRestamp
	h.Epoch++
	h.HeadSeq++
	h.NeedsRestamp = ""
	next.Red, next.Rows = "", nil
	p := &RestampPlan{}
	for i := range elems {
		rows, ixs := RowsOf(h, elems[i].N, msgs[i], elems[i].Cores, elems[i].Blob, elems[i].Tokens, int64(i+1), h.HeadSeq, now)
		p.Rows = append(p.Rows, rows...)
		next.Rows = append(next.Rows, ixs...)
	}
	p.Check = Checkpoint{Seq: h.HeadSeq, Epoch: h.Epoch, PosHi: int64(len(elems)) + 1, RowHi: h.NextRow - 1, Reason: string(fold.Restamp), CreatedAt: now,
		Meta: Meta{V: 1, Version: h.Version, Kernel: KernelSeal{h.StructureVersion, h.Sum.String()}, S4: AggregateOf(next.Rows),
			Events: []fold.Event{{Kind: fold.Restamp, Keys: []string{why}}}}}
	p.World, next.Route = *worldRow(h, route, true), route
	p.Head = *h
	return p, &next
}
