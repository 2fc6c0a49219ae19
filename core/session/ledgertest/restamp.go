package ledgertest

import (
	"context"
	"testing"

	"holdfast/core/content"
	"holdfast/core/session"
)

// Restamp plans new rows for the whole list. elems are the stored elements of
// the list in order.
func (s *Script) Restamp(elems []session.Element) *session.RestampPlan {
	s.now += 1000
	p, next := session.MakeRestamp(s.State, s.Msgs, elems, session.RouteShadow, s.now)
	s.State = next
	return p
}

func listNumbers(st *session.State) []int64 {
	ns := make([]int64, len(st.List))
	for i, e := range st.List {
		ns[i] = e.N
	}
	return ns
}

// restampPlan plans one from what the ledger holds.
func restampPlan(t *testing.T, l session.Ledger, s *Script) *session.RestampPlan {
	t.Helper()
	elems, err := l.Elements(context.Background(), s.State.Head.Ledger, listNumbers(s.State))
	must(t, err)
	return s.Restamp(elems)
}

func testRestamp(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("restamp")
	s.Rows = false
	play(t, l, s, 120) // more rows than one chunk
	if st := same(t, l, s); st.Red == "" {
		t.Fatal("green without rows")
	}
	s.Rows = true
	for range 2 { // the second takes the first one's rows out
		must(t, l.Restamp(ctx, restampPlan(t, l, s)))
		if st := same(t, l, s); st.Red != "" || st.Head.NeedsRestamp != "" {
			t.Fatalf("red %q, needs %q", st.Red, st.Head.NeedsRestamp)
		}
	}
	play(t, l, s, 2)
	same(t, l, s)
}

// testRestampRemoved: what the client had removed is archived with its rows.
func testRestampRemoved(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("restamp removed")
	play(t, l, s, 3)
	n := s.State.List[1].N
	must(t, l.Commit(ctx, s.Prune(l.NextTurn(), 1)))
	if e, err := l.Elements(ctx, s.State.Head.Ledger, []int64{n}); err != nil || e[0].State != session.Removed {
		t.Fatalf("pruned element: %+v, %v", e, err)
	}
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	same(t, l, s)
	if e, err := l.Elements(ctx, s.State.Head.Ledger, []int64{n}); err != nil || e[0].State != session.Archived {
		t.Fatalf("after the re-stamp: %+v, %v", e, err)
	}
}

func testRestampStale(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("restamp stale")
	play(t, l, s, 3)
	plan := restampPlan(t, l, s.Clone())
	play(t, l, s, 1)
	wantErr(t, l.Restamp(ctx, plan), session.ErrStale)
	same(t, l, s)
	play(t, l, s, 2) // its numbers are taken by what the failed one left
	same(t, l, s)
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	same(t, l, s)
}

// testNeedsRestamp: only a re-stamp answers a reason to re-stamp.
func testNeedsRestamp(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("needs")
	play(t, l, s, 2)
	c := s.Turn(l.NextTurn())
	c.Head.NeedsRestamp = "list rewritten by the client"
	must(t, l.Commit(ctx, c))
	play(t, l, s, 1)
	st, err := l.Load(ctx, c.Head.Ledger)
	must(t, err)
	if st.Head.NeedsRestamp != c.Head.NeedsRestamp {
		t.Fatalf("needs %q", st.Head.NeedsRestamp)
	}
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	same(t, l, s)
}

// testWithoutRows: mode off writes none, and back on the rows are not current.
func testWithoutRows(t *testing.T, l session.Ledger) {
	s := NewScript("off")
	play(t, l, s, 2)
	s.Rows = false
	play(t, l, s, 1)
	if st := same(t, l, s); st.Red == "" {
		t.Fatal("green, though the list moved on without rows")
	}
	allBytes(t, l, s)
}

func testHeads(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	a, b := NewScript("heads"), NewScript("heads two")
	b.State.Head.World, b.State.Head.Branch, b.State.Head.Parent, b.State.Head.ForkElem = a.State.Head.World, 1, a.State.Head.Ledger, 3
	play(t, l, b, 1)
	play(t, l, a, 1)
	hs, err := l.Heads(ctx, a.State.Head.World)
	must(t, err)
	if len(hs) != 2 || hs[0].Ledger != a.State.Head.Ledger || hs[1].Parent != a.State.Head.Ledger || hs[1].ForkElem != 3 {
		t.Fatalf("heads %+v", hs)
	}
}

func testUnsigned(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	a, b := NewScript("unsigned a"), NewScript("unsigned b")
	for _, s := range []*Script{a, b} {
		s.State.Head.World, s.State.Head.Mode, s.Rows = session.World{}, session.Unsigned, false
		play(t, l, s, 2)
	}
	hs, err := l.Unsigned(ctx, []content.ID{content.Of(nil), b.State.Head.ListSum})
	must(t, err)
	if len(hs) != 1 || hs[0].Ledger != b.State.Head.Ledger {
		t.Fatalf("found %+v", hs)
	}
	if hs, err := l.Heads(ctx, session.World{}); err != nil || len(hs) != 0 {
		t.Fatalf("an unsigned session has no world: %v, %v", hs, err)
	}
	same(t, l, b)
}
