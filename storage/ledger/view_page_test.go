package ledger

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
	"holdfast/core/usage"
)

// foldedLedger holds one conversation with a fold inside a fold.
func foldedLedger(t *testing.T) (*DB, *ledgertest.Script) {
	t.Helper()
	ctx := context.Background()
	d, s := openNew(t), ledgertest.NewScript("pages")
	for range 18 {
		must(t, d.Commit(ctx, s.Turn(d.NextTurn())))
	}
	must(t, d.Commit(ctx, s.Fold(2, 14)))
	must(t, d.Commit(ctx, s.Turn(d.NextTurn())))
	must(t, d.Commit(ctx, s.Nest(1, 28)))
	must(t, d.Commit(ctx, s.Turn(d.NextTurn())))
	return d, s
}

// Pages put together are all rows, and every page knows its place.
func TestRowPages(t *testing.T) {
	ctx := context.Background()
	d, s := foldedLedger(t)
	id := s.State.Head.Ledger
	all, err := d.RowViews(ctx, id)
	must(t, err)
	var got []session.RowView
	for page := 1; len(got) < len(all); page++ {
		p, err := d.RowPage(ctx, id, session.RowQuery{Page: page, Size: 7})
		must(t, err)
		if p.Page != page || p.Total != len(all) || len(p.Rows) == 0 {
			t.Fatalf("page %d is page %d of %d rows with %d", page, p.Page, p.Total, len(p.Rows))
		}
		got = append(got, p.Rows...)
	}
	if !reflect.DeepEqual(got, all) {
		t.Errorf("the pages hold\n%+v, want\n%+v", got, all)
	}
	last, err := d.RowPage(ctx, id, session.RowQuery{Size: 7})
	must(t, err)
	if n := len(last.Rows); last.Rows[n-1] != all[len(all)-1] {
		t.Errorf("the last page ends with %+v", last.Rows[n-1])
	}
	at, err := d.RowPage(ctx, id, session.RowQuery{Size: 7, Pos: all[30].Pos})
	must(t, err)
	if at.Rows[0].Pos > all[30].Pos || at.Rows[len(at.Rows)-1].Pos < all[30].Pos {
		t.Errorf("the page of position %d begins at %d", all[30].Pos, at.Rows[0].Pos)
	}
	beyond, err := d.RowPage(ctx, id, session.RowQuery{Page: 99, Size: 7})
	must(t, err)
	if beyond.Page != last.Page {
		t.Errorf("page 99 is page %d", beyond.Page)
	}
}

func TestRowFilters(t *testing.T) {
	ctx := context.Background()
	d, s := foldedLedger(t)
	id := s.State.Head.Ledger
	all, err := d.RowViews(ctx, id)
	must(t, err)
	for name, c := range map[string]struct {
		q    session.RowQuery
		fits func(session.RowView) bool
	}{
		"role":    {session.RowQuery{Role: "assistant"}, func(v session.RowView) bool { return v.Role == "assistant" }},
		"kind":    {session.RowQuery{Kind: "carrier"}, func(v session.RowView) bool { return v.Kind == "carrier" }},
		"block":   {session.RowQuery{Block: "b2"}, func(v session.RowView) bool { return v.CoveredBy == "b2" }},
		"nothing": {session.RowQuery{Role: "nobody"}, func(session.RowView) bool { return false }},
	} {
		want := 0
		for _, v := range all {
			if c.fits(v) {
				want++
			}
		}
		c.q.Page, c.q.Size = 1, 500
		p, err := d.RowPage(ctx, id, c.q)
		must(t, err)
		if p.Total != want || len(p.Rows) != want {
			t.Errorf("%s: %d of %d rows, want %d", name, len(p.Rows), p.Total, want)
		}
		for _, v := range p.Rows {
			if !c.fits(v) {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
	if _, err := d.RowPage(ctx, "none", session.RowQuery{Size: 5}); err == nil {
		t.Error("a session there is not has rows")
	}
}

// A fold inside a fold is in the coverage, behind those that stand, and says
// who holds it.
func TestCoverageOfNestedFolds(t *testing.T) {
	d, s := foldedLedger(t)
	c, err := d.Coverage(context.Background(), s.State.Head.Ledger)
	must(t, err)
	within := map[string]string{}
	for _, v := range c.Spans {
		within[v.Block] = v.Within
		if v.From < 1 || v.To <= v.From {
			t.Errorf("%s covers %d to %d", v.Block, v.From, v.To)
		}
	}
	if len(within) != 2 || within["b1"] != "b2" || within["b2"] != "" || c.Spans[0].Block != "b2" {
		t.Errorf("spans %+v", c.Spans)
	}
}

func TestFindSessions(t *testing.T) {
	ctx := context.Background()
	d := openNew(t)
	for i := range 6 {
		s := ledgertest.NewScript(fmt.Sprint("find ", i))
		id := d.NextTurn()
		must(t, d.Commit(ctx, s.Turn(id)))
		must(t, d.Finish(ctx, &session.TurnDone{ID: id, Ledger: s.State.Head.Ledger, FinishedAt: 5, Status: 200, Priced: true, CostMicros: int64(1000 * (i % 3)),
			Usage: usage.Usage{Input: usage.Tokens(100 - i), Cached: usage.Tokens(10 * i), Source: usage.Exact}}))
	}
	ids := func(q session.SessionQuery) (out []string) {
		t.Helper()
		q.Page, q.Size = max(q.Page, 1), max(q.Size, 50)
		list, total, err := d.FindSessions(ctx, q)
		must(t, err)
		if q.Size >= 50 && total != len(list) {
			t.Errorf("%d of %d sessions", len(list), total)
		}
		for _, v := range list {
			out = append(out, v.ID)
		}
		return out
	}
	up, down := ids(session.SessionQuery{Sort: session.SortHit, Ascending: true}), ids(session.SessionQuery{Sort: session.SortHit})
	if len(up) != 6 || up[0] != "l_find 0" || down[0] != "l_find 5" {
		t.Errorf("by hit rate %v, and back %v", up, down)
	}
	if got := ids(session.SessionQuery{Sort: session.SortCost}); got[0] != "l_find 2" || got[5] != "l_find 3" {
		t.Errorf("by cost %v", got)
	}
	for name, c := range map[string]struct {
		q    session.SessionQuery
		want int
	}{
		"all": {session.SessionQuery{}, 6}, "host": {session.SessionQuery{Signal: "x-claude-code-session-id"}, 6}, "no host": {session.SessionQuery{Signal: "-"}, 0},
		"model": {session.SessionQuery{Model: "model-1"}, 6}, "wire": {session.SessionQuery{Wire: "openai"}, 0}, "path": {session.SessionQuery{Path: session.PathFull}, 6},
		"other path": {session.SessionQuery{Path: session.PathSnapshot}, 0}, "text": {session.SessionQuery{Q: "FIND 3"}, 1}, "odd order": {session.SessionQuery{Sort: "1; DROP TABLE session"}, 6},
	} {
		if got := ids(c.q); len(got) != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
	totals, err := d.TotalsByClient(ctx)
	must(t, err)
	if len(totals) != 1 || totals[0].Sessions != 6 || totals[0].Totals.Turns != 6 || totals[0].Totals.Cached != 150 {
		t.Errorf("totals %+v", totals)
	}
	f, err := d.SessionFacets(ctx)
	must(t, err)
	if len(f.Models) != 1 || len(f.Wires) != 1 || len(f.Signals) != 1 {
		t.Errorf("facets %+v", f)
	}
}

func TestFindTurns(t *testing.T) {
	ctx := context.Background()
	d, s := openNew(t), ledgertest.NewScript("turns")
	id := s.State.Head.Ledger
	for i := range 5 {
		turn := d.NextTurn()
		must(t, d.Commit(ctx, s.Turn(turn)))
		done := session.TurnDone{ID: turn, Ledger: id, FinishedAt: 5, Status: 200, Usage: usage.Usage{Input: usage.Tokens(10 * (i % 3)), Source: usage.Exact}}
		if i == 2 {
			done.Change = &session.FirstChange{Cause: session.ChangeEdit, By: "client"}
		}
		must(t, d.Finish(ctx, &done))
	}
	list, total, err := d.FindTurns(ctx, session.TurnQuery{Ledger: id, Sort: session.SortInput, Page: 1, Size: 2})
	must(t, err)
	if total != 5 || len(list) != 2 || list[0].Usage.Input != 20 {
		t.Errorf("%d of %d turns, first %+v", len(list), total, list[0])
	}
	list, total, err = d.FindTurns(ctx, session.TurnQuery{Ledger: id, Changed: true, Page: 1, Size: 9})
	must(t, err)
	if total != 1 || list[0].ID != 3 {
		t.Errorf("changed turns: %d, %+v", total, list)
	}
	points, err := d.TurnPoints(ctx, id, 3)
	must(t, err)
	if len(points) != 3 || points[0].ID != 3 || points[2].ID != 5 || !points[0].Changed || points[1].Changed {
		t.Errorf("points %+v", points)
	}
	n, err := d.TurnNeighbours(ctx, id, 3)
	must(t, err)
	first, err := d.TurnNeighbours(ctx, id, 1)
	must(t, err)
	if n != (session.Neighbours{Before: 2, After: 4}) || first != (session.Neighbours{After: 2}) {
		t.Errorf("neighbours %+v, of the first %+v", n, first)
	}
}

func TestDegradesPage(t *testing.T) {
	ctx := context.Background()
	d := openNew(t)
	for i, g := range []string{"R1", "R3", "", "R3"} {
		_, err := d.Degrade(ctx, session.DegradeView{At: int64(100 + i), Gate: g, Scope: "turn", Cause: fmt.Sprint("cause ", i%2), Served: session.PathFull, BytesChanged: i == 3})
		must(t, err)
	}
	for name, c := range map[string]struct {
		q    session.DegradeQuery
		want int
	}{
		"all": {session.DegradeQuery{}, 4}, "gate": {session.DegradeQuery{Gate: "R3"}, 2}, "no gate": {session.DegradeQuery{Gate: "-"}, 1}, "cause": {session.DegradeQuery{Cause: "cause 0"}, 2},
		"changed": {session.DegradeQuery{Changed: true}, 1}, "since": {session.DegradeQuery{Since: 102}, 2},
	} {
		c.q.Page, c.q.Size = 1, 10
		list, total, err := d.DegradesPage(ctx, c.q)
		must(t, err)
		if len(list) != c.want || total != c.want {
			t.Errorf("%s: %d of %d, want %d", name, len(list), total, c.want)
		}
	}
	n, err := d.DegradeCounts(ctx, 0)
	must(t, err)
	if n.Total != 4 || n.Gates["R3"] != 2 || n.Gates[""] != 1 || n.Causes["cause 1"] != 2 || n.Changed != 1 {
		t.Errorf("counts %+v", n)
	}
}
