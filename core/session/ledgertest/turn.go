package ledgertest

import (
	"context"
	"reflect"
	"testing"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// doneOf is a finished turn with every figure set.
func doneOf(id int64, ledger string) *session.TurnDone {
	reply := []byte("event: message_stop\ndata: {}\n\n")
	return &session.TurnDone{ID: id, Ledger: ledger, FinishedAt: 1_700_000_500_000, Status: 200, Truncated: true,
		Error: "cut", Model: "model-1-0101", StopReason: "end_turn",
		Usage: usage.Usage{Input: 10, Cached: 200, CacheWrite: 30, Output: 4, Source: usage.Exact}, Reported: true,
		CostMicros: 1234, Priced: true, Rounds: 1,
		Receipt: &usage.Receipt{Promised: 900, Restored: 896, Source: usage.FromDisk, Ms: 12.5, SavedS: 3.25, RestReason: "never_seen"},
		Ms: session.StageTimes{Identify: 0.1, Decode: 0.2, Rewrite: 0.3, Apply: 0.4, Encode: 0.5,
			UpstreamFirst: 600, Stream: 7000},
		BytesOut: 1001, PrefixSame: 900, Change: &session.FirstChange{Offset: 900, JSONPath: "messages[3]", Old: "a",
			New: "b", Cause: "edit", By: "client"},
		Verdict: session.ByteEqual, Response: reply, ResponseType: "text/event-stream", ResponseEncoding: "gzip",
		ResponseHash: content.Of(reply), ResponseBytes: int64(len(reply)), Marks: []byte{1, 2}}
}

func testFinish(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("finish")
	c := s.Turn(l.NextTurn())
	must(t, l.Commit(ctx, c))
	done := doneOf(c.Turn.ID, c.Head.Ledger)
	must(t, l.Finish(ctx, done))
	must(t, l.Finish(ctx, done)) // counted once
	rec, err := l.Turn(ctx, c.Turn.ID)
	must(t, err)
	want := *done
	want.Response = nil
	if !reflect.DeepEqual(rec.Done, &want) {
		t.Fatalf("done\n%+v, want\n%+v", rec.Done, &want)
	}
	if b, err := l.Response(ctx, c.Turn.ID); err != nil || string(b) != string(done.Response) {
		t.Fatalf("response %q, %v", b, err)
	}
	st, err := l.Load(ctx, c.Head.Ledger)
	must(t, err)
	if got, want := st.Head.Totals, (session.Totals{Turns: 1, Input: 10, Cached: 200, CacheWrite: 30, Output: 4,
		BytesIn: c.Turn.BytesIn, BytesOut: 1001, CostMicros: 1234}); got != want {
		t.Fatalf("totals %+v, want %+v", got, want)
	}
	wantErr(t, l.Finish(ctx, doneOf(c.Turn.ID+1000, c.Head.Ledger)), session.ErrUnknown)
}

// testFinishHead: what a turn learns after its reply reaches the session row,
// and the next commit does not undo the totals.
func testFinishHead(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("finish head")
	c := s.Turn(l.NextTurn())
	must(t, l.Commit(ctx, c))
	done := doneOf(c.Turn.ID, c.Head.Ledger)
	gate, need := "R3", "tripwire"
	done.LastGate, done.NeedsRestamp, done.Breaker = &gate, &need, &session.Breaker{State: session.BreakerOpen,
		Until: 99, OpenTurns: 20, Recent: 5}
	done.Reported, done.Priced = false, false
	must(t, l.Finish(ctx, done))
	hs, err := l.Heads(ctx, c.Head.World)
	must(t, err)
	if h := hs[0]; h.LastGate != gate || h.NeedsRestamp != need || h.Breaker != *done.Breaker || h.Totals.Estimated != 1 || h.Totals.Unpriced != 1 {
		t.Fatalf("head %+v", h)
	}
	must(t, l.Commit(ctx, s.Turn(l.NextTurn())))
	st, err := l.Load(ctx, c.Head.Ledger)
	must(t, err)
	if st.Head.Totals.Turns != 1 {
		t.Fatalf("totals %+v after the next commit", st.Head.Totals)
	}
	if st.Head.NeedsRestamp != need {
		t.Fatalf("needs restamp %q: a commit planned before cleared it", st.Head.NeedsRestamp)
	}
}

func testRecord(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	id := l.NextTurn()
	side := session.Turn{ID: id, World: session.World{Signal: "s", SessRaw: "r", Lane: "main"}, At: 5,
		Home: session.HomeSide, Path: session.PathVerbatim,
		Model: "m", Route: "anthropic", WireIn: "anthropic", WireOut: "anthropic", BytesIn: 7, BytesOut: 7,
		InHash: content.Of([]byte("in")), OutHash: content.Of([]byte("in"))}
	must(t, l.Record(ctx, side))
	done := doneOf(id, "")
	done.Response, done.ResponseWhy, done.Marks = nil, "too large", nil
	must(t, l.Finish(ctx, done))
	rec, err := l.Turn(ctx, id)
	must(t, err)
	if rec.World != side.World || rec.InHash != side.InHash || rec.Kept || rec.Why == "" || rec.Done == nil || rec.Done.ResponseWhy != "too large" {
		t.Fatalf("record %+v", rec)
	}
	_, err = l.Response(ctx, id)
	wantErr(t, err, session.ErrNotKept)
}

func testInFlight(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("in flight")
	c := s.Turn(l.NextTurn())
	must(t, l.Commit(ctx, c))
	rec, err := l.Turn(ctx, c.Turn.ID)
	must(t, err)
	if rec.Done != nil {
		t.Fatalf("done %+v before it is", rec.Done)
	}
	_, err = l.Response(ctx, c.Turn.ID)
	wantErr(t, err, session.ErrNotKept)
}

func testUnknown(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("unknown")
	play(t, l, s, 1)
	_, err := l.Load(ctx, "nobody")
	wantErr(t, err, session.ErrUnknown)
	_, err = l.Turn(ctx, 9999)
	wantErr(t, err, session.ErrUnknown)
	_, err = l.Response(ctx, 9999)
	wantErr(t, err, session.ErrUnknown)
	_, err = l.Blob(ctx, content.Of([]byte("nothing")))
	wantErr(t, err, session.ErrUnknown)
	_, err = l.Elements(ctx, s.State.Head.Ledger, []int64{1, 99})
	wantErr(t, err, session.ErrUnknown)
	_, err = l.Rows(ctx, s.State.Head.Ledger, []int64{1, 99})
	wantErr(t, err, session.ErrUnknown)
	hs, err := l.Heads(ctx, session.World{Signal: "x", SessRaw: "y", Lane: "main"})
	if err != nil || len(hs) != 0 {
		t.Fatalf("heads %v, %v", hs, err)
	}
}

func testSettings(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	_, err := l.Setting(ctx, "salt")
	wantErr(t, err, session.ErrUnknown)
	for _, v := range []string{"one", "two", ""} {
		must(t, l.SetSetting(ctx, "salt", []byte(v)))
		if got, err := l.Setting(ctx, "salt"); err != nil || string(got) != v {
			t.Fatalf("setting %q, %v; want %q", got, err, v)
		}
	}
}

func testDegrade(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	a, err := l.Degrade(ctx, session.DegradeView{At: 1, Gate: "R3", Scope: "session", Cause: "sum",
		Served: session.PathFull})
	must(t, err)
	b, err := l.Degrade(ctx, session.DegradeView{At: 2, Scope: "turn", Cause: "duplicate keys",
		Served: session.PathVerbatim})
	must(t, err)
	if a <= 0 || b <= a {
		t.Fatalf("ids %d, %d", a, b)
	}
}
