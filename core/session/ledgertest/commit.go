package ledgertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
)

func testCommit(t *testing.T, l session.Ledger) {
	s := NewScript("commit")
	for range 5 {
		must(t, l.Commit(context.Background(), s.Turn(l.NextTurn())))
		same(t, l, s)
	}
	must(t, l.Commit(context.Background(), s.Retry(l.NextTurn())))
	same(t, l, s)
	allBytes(t, l, s)
}

// allBytes reads every byte string the script named.
func allBytes(t *testing.T, l session.Ledger, s *Script) {
	t.Helper()
	for _, id := range s.Hashes() {
		b, err := l.Blob(context.Background(), id)
		must(t, err)
		if !bytes.Equal(b, s.Bytes(id)) {
			t.Fatalf("blob %v: %q, want %q", id, b, s.Bytes(id))
		}
	}
}

func testStale(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("stale")
	play(t, l, s, 2)
	before := s.Clone()
	first := s.Turn(l.NextTurn())
	second := before.Turn(l.NextTurn())
	must(t, l.Commit(ctx, first))
	wantErr(t, l.Commit(ctx, second), session.ErrStale)
	if _, err := l.Turn(ctx, second.Turn.ID); !errors.Is(err, session.ErrUnknown) {
		t.Fatalf("the loser's turn: %v, want it unknown", err)
	}
	same(t, l, s)
	again := NewScript("stale")
	wantErr(t, l.Commit(ctx, again.Turn(l.NextTurn())), session.ErrStale) // created meanwhile
	same(t, l, s)
}

func testKnownCause(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("cause")
	play(t, l, s, 1)
	c := s.Turn(l.NextTurn())
	c.Cause, c.Outcome = "cause-1", []byte("folded b1")
	must(t, l.Commit(ctx, c))
	before := s.Clone()
	again := s.Turn(l.NextTurn())
	again.Cause, again.Outcome = "cause-1", []byte("folded twice")
	var known *session.KnownCause
	if err := l.Commit(ctx, again); !errors.As(err, &known) || string(known.Outcome) != "folded b1" {
		t.Fatalf("got %v, want the outcome of the first", err)
	}
	same(t, l, before)
}

// testFull: a commit that asks for a full sync is a commit like another.
func testFull(t *testing.T, l session.Ledger) {
	s := NewScript("full")
	play(t, l, s, 1)
	c := s.Turn(l.NextTurn())
	c.Full = true
	must(t, l.Commit(context.Background(), c))
	same(t, l, s)
}

// testDangling: a plan that names bytes nobody has changes nothing.
func testDangling(t *testing.T, l session.Ledger) {
	s := NewScript("dangling")
	play(t, l, s, 2)
	before := s.Clone()
	c := s.Turn(l.NextTurn())
	c.Blobs = nil
	wantErr(t, l.Commit(context.Background(), c), session.ErrUnknown)
	same(t, l, before)
}

func testEdits(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("edits")
	play(t, l, s, 4)
	for _, c := range []*session.Commit{s.Replace(l.NextTurn(), 2), s.Prune(l.NextTurn(), 3), s.Rewind(l.NextTurn(),
		2), s.Turn(l.NextTurn())} {
		must(t, l.Commit(ctx, c))
	}
	st := same(t, l, s)
	removed := false
	for _, r := range st.Rows {
		removed = removed || r.Removed
	}
	if !removed {
		t.Fatal("no row says that the client removed its element")
	}
	allBytes(t, l, s)
}

func testReactivate(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("reactivate")
	play(t, l, s, 3)
	all := append([]*chat.Message(nil), s.Msgs...)
	list := s.State.List
	back := list[len(list)-1]
	must(t, l.Commit(ctx, s.Rewind(l.NextTurn(), 1)))
	same(t, l, s)
	e, rows, err := l.FindRewound(ctx, s.State.Head.Ledger, s.State.Head.Epoch, back.Key, list[len(list)-2].N)
	must(t, err)
	if e.N != back.N || e.State != session.Rewound || len(rows) != 1 || rows[0].Elem != e.N || rows[0].Active {
		t.Fatalf("found %+v with rows %+v", e, rows)
	}
	if _, _, err := l.FindRewound(ctx, s.State.Head.Ledger, s.State.Head.Epoch, back.Key, back.N); !errors.Is(err,
		session.ErrUnknown) {
		t.Fatalf("behind another element: %v, want unknown", err)
	}
	s.Msgs = all
	s.Returning = map[int]session.Returned{len(all) - 1: {Element: e, Rows: rows}}
	must(t, l.Commit(ctx, s.Plan(l.NextTurn())))
	same(t, l, s)
	if got, err := l.Elements(ctx, s.State.Head.Ledger, []int64{e.N}); err != nil || got[0].State != session.Live {
		t.Fatalf("the element that came back is %+v, %v", got, err)
	}
}

func testReblob(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("reblob")
	play(t, l, s, 2)
	c := s.Turn(l.NextTurn())
	raw := []byte(`{"role":"user","on":"another wire"}`)
	c.Reblobs = []session.Reblob{{N: 1, Blob: content.Of(raw)}}
	c.Blobs = append(c.Blobs, session.Blob{ID: content.Of(raw), Raw: raw})
	must(t, l.Commit(ctx, c))
	es, err := l.Elements(ctx, c.Head.Ledger, []int64{1})
	must(t, err)
	if b, err := l.Blob(ctx, es[0].Blob); err != nil || !bytes.Equal(b, raw) {
		t.Fatalf("element 1 holds %q, %v", b, err)
	}
	allBytes(t, l, s) // the old bytes are still named by the lists
}

// testLists: every list comes back whole, across key frames.
func testLists(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("lists")
	want := map[int64]session.Turn{}
	for i := range 2*session.KeyFrameEvery + 10 {
		id := l.NextTurn()
		c := s.Turn
		if i%5 == 4 {
			c = s.Retry
		}
		plan := c(id)
		must(t, l.Commit(ctx, plan))
		want[id] = plan.Turn
	}
	for id, w := range want {
		got, err := l.Turn(ctx, id)
		must(t, err)
		if d := diffAt(got.Items, w.List.Whole); d != "" {
			t.Fatalf("turn %d: %s", id, d)
		}
		if d := diffAt(got.AllFields, w.AllFields); d != "" {
			t.Fatalf("turn %d: fields %s", id, d)
		}
		if !bytes.Equal(got.Skeleton,
			w.Skeleton) || got.InHash != w.InHash || got.World != w.World || !got.Kept || got.Why != "" || got.Done != nil {
			t.Fatalf("turn %d: %+v", id, got)
		}
	}
}

func testMedia(t *testing.T, l session.Ledger) {
	s := NewScript("media")
	play(t, l, s, 1)
	standard := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("picture", 400)))
	for _, payload := range []string{standard, standard[:len(standard)-3] + "\\/=",
		base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 999)), standard[:2001], ""} {
		s.Attach(payload, standard)
		must(t, l.Commit(context.Background(), s.Plan(l.NextTurn())))
	}
	same(t, l, s)
	allBytes(t, l, s)
}

// testTogether: commits of several sessions at once.
func testTogether(t *testing.T, l session.Ledger) {
	var wg sync.WaitGroup
	scripts := make([]*Script, 4)
	ids := make(chan int64, 100)
	for i := range scripts {
		scripts[i] = NewScript("together" + string(rune('a'+i)))
		wg.Go(func() {
			for range 10 {
				id := l.NextTurn()
				ids <- id
				if err := l.Commit(context.Background(), scripts[i].Turn(id)); err != nil {
					t.Error(err)
				}
				if _, err := l.Load(context.Background(), scripts[i].State.Head.Ledger); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(ids)
	seen := map[int64]bool{}
	for id := range ids {
		if seen[id] {
			t.Errorf("turn id %d was given twice", id)
		}
		seen[id] = true
	}
	for _, s := range scripts {
		same(t, l, s)
	}
}
