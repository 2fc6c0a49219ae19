package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// Fold plans what the model asks for in the middle of a turn: messages from to
// to, both included, become one fold.
func (s *Script) Fold(from, to int) *session.Commit { return s.compress(s.ref(from), s.ref(to)) }

// Nest folds what stands between a fold and a message, the fold included.
func (s *Script) Nest(block int64, to int) *session.Commit {
	return s.compress(session.BlockName(block), s.ref(to))
}

// ref is how the model names message i.
func (s *Script) ref(i int) string {
	return fold.Ref{Number: s.State.Meta[s.State.List[i].N].Ref}.String()
}

func (s *Script) compress(from, to string) *session.Commit {
	s.said++
	args, err := json.Marshal(map[string]any{"content": []map[string]string{{"startId": from, "endId": to,
		"summary": fmt.Sprintf("summary %d: %s", s.said, strings.Repeat("what was done and why. ", 4))}}})
	if err != nil {
		panic(err)
	}
	call := fold.ToolUse{Name: fold.ToolCompress, Args: args}
	out := fold.Session{Elements: s.State.Elements(), State: s.State.Kernel,
		Rhythm: fold.OpenRhythm(s.State.Head.Rhythm)}.Run(call, s.texts())
	if out.Failed {
		panic(out.Result)
	}
	return s.call(session.Kernel{State: out.State, Rhythm: out.Rhythm, Events: out.Events}, []byte(out.Result))
}

// Unfold plans that a block leaves the view for good.
func (s *Script) Unfold(id int64) *session.Commit {
	next, events := fold.Undo(s.State.Elements(), s.State.Kernel, id)
	return s.call(session.Kernel{State: next, Events: events}, nil)
}

// Hide plans that message i is left out of the view.
func (s *Script) Hide(i int) *session.Commit {
	next, events := fold.HideElements(s.State.Elements(), s.State.Kernel, []int64{s.State.List[i].N})
	return s.call(session.Kernel{State: next, Events: events}, nil)
}

// call plans a commit without a turn.
func (s *Script) call(k session.Kernel, said []byte) *session.Commit {
	s.now += 1000
	p, err := session.MakeFold(s.State, k, session.FoldCall{Now: s.now, Cause: fmt.Sprint("cause ", s.now), Outcome: said, Rows: s.Rows})
	if err != nil {
		panic(err)
	}
	s.learn(p)
	s.State = p.Settle()
	return &p.Commit
}

// learn keeps the bytes of new bodies among those that are known.
func (s *Script) learn(p *session.Plan) {
	for _, b := range p.Commit.Blobs {
		s.known[b.ID] = b.Raw
	}
}

func (s *Script) texts() fold.Texts {
	t := fold.Texts{Elements: map[int64]*chat.Message{}, Bodies: map[content.ID]fold.Body{}}
	for i, e := range s.State.List {
		t.Elements[e.N] = s.Msgs[i]
	}
	for _, b := range s.State.Kernel.Blocks {
		if body, err := fold.OpenBody(s.known[b.Body], b.Body); err == nil {
			t.Bodies[b.Body] = body
		}
	}
	return t
}

// Shorten makes the next plan one of an emergency: the largest tool results are
// shortened, the oldest elements left out.
func (s *Script) Shorten(window usage.Tokens) {
	s.Kernel = func(p *session.Plan) {
		_, next, rhythm, events, _ := fold.Rewrite(p.Elements(), p.Kernel(), fold.Rhythm{}, fold.Limits{Window: window}, usage.Usage{})
		if err := p.Fold(session.Kernel{State: next, Rhythm: rhythm, Events: events}); err != nil {
			panic(err)
		}
	}
}

// Call appends a tool call and its long result.
func (s *Script) Call() {
	s.next()
	id := fmt.Sprint("call", s.said)
	text := s.words(2000)
	for _, m := range [...]*chat.Message{
		{Role: chat.Assistant, Stripped: fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"tool_use","id":%q}]}`, id),
			Parts: []chat.Part{{Kind: chat.ToolCall, Role: chat.Assistant, CallID: id, Tool: "read", Text: "{}"}}},
		{Role: chat.User, Stripped: fmt.Appendf(nil, `{"role":"user","content":[{"type":"tool_result","id":%q,"text":%q}]}`, id, text),
			Parts: []chat.Part{{Kind: chat.ToolResult, Role: chat.Tool, CallID: id, Text: text}}},
	} {
		m.Raw = m.Stripped
		m.Seal()
		s.Msgs = append(s.Msgs, m)
	}
}

// folded is a script with a fold that holds another, committed.
func folded(t *testing.T, l session.Ledger, name string) *Script {
	t.Helper()
	ctx := context.Background()
	s := NewScript(name)
	play(t, l, s, 20)
	must(t, l.Commit(ctx, s.Fold(4, 16)))
	play(t, l, s, 1)
	must(t, l.Commit(ctx, s.Nest(1, 30)))
	return s
}

func testFold(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("fold")
	play(t, l, s, 20)
	must(t, l.Commit(ctx, s.Fold(4, 16)))
	same(t, l, s)
	play(t, l, s, 1)
	same(t, l, s)
	must(t, l.Commit(ctx, s.Nest(1, 30))) // takes the first one in
	must(t, l.Commit(ctx, s.Hide(33)))
	st := same(t, l, s)
	view, err := session.SnapshotView(st.Rows, st.List)
	must(t, err)
	if whole := session.WholeView(s.State.Elements(), st.List, st.Kernel); !session.SameView(view, whole) || view[4].Block != 2 {
		t.Fatalf("the view is\n%+v, want\n%+v", view, whole)
	}
	allBytes(t, l, s)
	all := append([]*chat.Message(nil), s.Msgs...)
	must(t, l.Commit(ctx, s.Rewind(l.NextTurn(), len(s.Msgs)-8))) // into the fold: it opens
	same(t, l, s)
	s.Msgs = all
	s.Returning = returning(t, l, s)
	must(t, l.Commit(ctx, s.Plan(l.NextTurn()))) // and closes again
	if st := same(t, l, s); st.Kernel.Block(2).Status != fold.Active {
		t.Fatalf("the fold did not come back: %+v", st.Kernel.Block(2))
	}
	must(t, l.Commit(ctx, s.Unfold(2)))
	must(t, l.Commit(ctx, s.Replace(l.NextTurn(), 10)))
	must(t, l.Commit(ctx, s.Prune(l.NextTurn(), 12)))
	same(t, l, s)
	allBytes(t, l, s)
}

// returning asks for all rewound elements of the script's next list.
func returning(t *testing.T, l session.Ledger, s *Script) map[int]session.Returned {
	t.Helper()
	h, out, prev := &s.State.Head, map[int]session.Returned{}, int64(0)
	for j, m := range s.Msgs {
		if j < len(s.State.List) && s.State.List[j].Key == m.Key {
			prev = s.State.List[j].N
			continue
		}
		e, rows, err := l.FindRewound(context.Background(), h.Ledger, h.Epoch, m.Key, prev)
		must(t, err)
		out[j], prev = session.Returned{Element: e, Rows: rows}, e.N
	}
	return out
}

// testFoldCause: a call that comes again gets the answer of the first, also
// where no rows are kept.
func testFoldCause(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("fold cause")
	play(t, l, s, 20)
	for _, rows := range []bool{true, false} {
		s.Rows = rows
		from := len(s.State.Kernel.Blocks)*10 + 2
		c := s.Fold(from, from+9)
		must(t, l.Commit(ctx, c))
		c.Base = c.Head.Version
		var known *session.KnownCause
		if err := l.Commit(ctx, c); !errors.As(err, &known) || !bytes.Equal(known.Outcome, c.Outcome) {
			t.Fatalf("again: %v", err)
		}
		if out, found, err := l.Outcome(ctx, c.Head.Ledger, c.Cause); err != nil || !found || !bytes.Equal(out, c.Outcome) {
			t.Fatalf("outcome %q, %v, %v", out, found, err)
		}
		same(t, l, s)
	}
	if st := same(t, l, s); st.Red == "" {
		t.Fatal("green after a fold without rows")
	}
	s.Rows = true
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	st := same(t, l, s)
	if view, err := session.SnapshotView(st.Rows, st.List); err != nil || len(view) != len(st.List)-18 {
		t.Fatalf("%d places, %v", len(view), err)
	}
}

// testFoldRestamp: folds cover the new rows; one that lost an element ends.
func testFoldRestamp(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := folded(t, l, "fold restamp")
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	if st := same(t, l, s); st.Kernel.Block(2).Status != fold.Active || st.Stands[s.State.List[8].N] != session.Folded {
		t.Fatalf("the fold is gone: %+v", st.Kernel.Block(2))
	}
	play(t, l, s, 1)
	must(t, l.Commit(ctx, s.Prune(l.NextTurn(), 20))) // covered by the outer fold
	st := same(t, l, s)
	if view, err := session.SnapshotView(st.Rows, st.List); err != nil || view[4].Block != 2 {
		t.Fatalf("the carrier moved: %+v, %v", view, err)
	}
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	if st := same(t, l, s); st.Kernel.Block(2).Status != fold.Dead || st.Kernel.Block(1).Status != fold.Active {
		t.Fatalf("after an element was lost: %+v", st.Kernel.Blocks)
	}
	play(t, l, s, 1)
	same(t, l, s)
}

func testOverlay(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("overlay")
	play(t, l, s, 2)
	for range 6 {
		s.Call()
	}
	s.Shorten(18_000)
	must(t, l.Commit(ctx, s.Turn(l.NextTurn())))
	st := same(t, l, s)
	if len(st.Kernel.Overlays) == 0 {
		t.Fatal("nothing was shortened")
	}
	s.Shorten(6_000)
	must(t, l.Commit(ctx, s.Retry(l.NextTurn())))
	if st = same(t, l, s); len(st.Kernel.Blocks) == 0 {
		t.Fatal("nothing was left out")
	}
	view, err := session.SnapshotView(st.Rows, st.List)
	must(t, err)
	if whole := session.WholeView(s.State.Elements(), st.List, st.Kernel); !session.SameView(view, whole) {
		t.Fatalf("the view is\n%+v, want\n%+v", view, whole)
	}
	must(t, l.Commit(ctx, s.Rewind(l.NextTurn(), 9)))
	same(t, l, s)
	must(t, l.Restamp(ctx, restampPlan(t, l, s)))
	same(t, l, s)
}

// testInherit: a copy of a conversation finds the folds of the first.
func testInherit(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	a := folded(t, l, "inherit a")
	b := NewScript("inherit b")
	b.Msgs, b.said = append([]*chat.Message(nil), a.Msgs...), 500
	b.next()
	keys := session.Keys(a.State.List)
	donors, err := l.Donors(ctx, keys, 4)
	must(t, err)
	if !reflect.DeepEqual(donors, []string{a.State.Head.Ledger}) {
		t.Fatalf("donors %q", donors)
	}
	if none, err := l.Donors(ctx, keys[:1], 4); err != nil || len(none) != 0 {
		t.Fatalf("the first element is folded nowhere: %q, %v", none, err)
	}
	donor, err := l.Load(ctx, donors[0])
	must(t, err)
	b.Kernel = func(p *session.Plan) { must(t, p.Inherit(donor)) }
	must(t, l.Commit(ctx, b.Plan(l.NextTurn())))
	st := same(t, l, b)
	view, err := session.SnapshotView(st.Rows, st.List)
	must(t, err)
	if len(st.Kernel.Blocks) != 2 || view[4].Block == 0 || len(view) != len(st.List)-22 {
		t.Fatalf("inherited %+v, view %+v", st.Kernel.Blocks, view)
	}
	play(t, l, b, 1)
	same(t, l, b)
}

func testEcho(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := NewScript("echo")
	c := s.Turn(l.NextTurn())
	must(t, l.Commit(ctx, c))
	done := doneOf(c.Turn.ID, c.Head.Ledger)
	done.Echo, done.Rhythm = []byte(`["round"]`), []byte(`{"used":5}`)
	must(t, l.Finish(ctx, done))
	wantEchoes(t, l, s, map[int64][]byte{0: done.Echo})
	c = s.Turn(l.NextTurn())
	c.Echoes = []session.Echo{{N: 3, Rounds: done.Echo}}
	c.Head.Rhythm = []byte(`{"used":6}`)
	must(t, l.Commit(ctx, c))
	wantEchoes(t, l, s, map[int64][]byte{3: done.Echo})
	if hs, err := l.Heads(ctx, c.Head.World); err != nil || string(hs[0].Rhythm) != `{"used":6}` {
		t.Fatalf("rhythm %q, %v", hs[0].Rhythm, err)
	}
}

func wantEchoes(t *testing.T, l session.Ledger, s *Script, want map[int64][]byte) {
	t.Helper()
	got, err := l.Echoes(context.Background(), s.State.Head.Ledger)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("echoes %v, want %v", got, want)
	}
}

// testViewOf: what was sent comes back, with what we added to it.
func testViewOf(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := folded(t, l, "view")
	c := s.Turn(l.NextTurn())
	text := []byte("fold something")
	id := content.Of(text)
	c.Blobs = append(c.Blobs, session.Blob{ID: id, Raw: text})
	overlays := []fold.Shortened{{Elem: 5, Core: 1, Head: 2000, Tail: 2000, Saved: 900}, {Elem: 5, Core: 2, Head: 1, Tail: 0}}
	c.Turn.View = []session.ViewRun{{From: 0, To: 2}, {Block: 2, Blob: s.State.Kernel.Block(2).Body}, {From: 31, To: 32},
		{From: 32, To: 33, Overlays: overlays}, {N: 7, Blob: content.Of([]byte("seven"))},
		{N: 8, Blob: content.Of([]byte("eight")), Overlays: overlays[:1]}, {Add: session.AddNudge, Blob: id}}
	must(t, l.Commit(ctx, c))
	rec, err := l.Turn(ctx, c.Turn.ID)
	must(t, err)
	if !reflect.DeepEqual(rec.View, c.Turn.View) {
		t.Fatalf("view\n%+v, want\n%+v", rec.View, c.Turn.View)
	}
	if b, err := l.Blob(ctx, id); err != nil || !bytes.Equal(b, text) {
		t.Fatalf("the addition is %q, %v", b, err)
	}
	done := doneOf(c.Turn.ID, c.Head.Ledger)
	done.Plain, done.Path = true, session.PathVerbatim
	must(t, l.Finish(ctx, done))
	rec, err = l.Turn(ctx, c.Turn.ID)
	must(t, err)
	if rec.View != nil || rec.OutHash != rec.InHash || rec.Path != session.PathVerbatim {
		t.Fatalf("sent plainly after all: %+v", rec.Turn)
	}
	if _, err := l.Blob(ctx, id); !errors.Is(err, session.ErrUnknown) {
		t.Fatalf("nobody names the addition any more: %v", err)
	}
}

// testStored: everything that can be searched, in any state.
func testStored(t *testing.T, l session.Ledger) {
	ctx := context.Background()
	s := folded(t, l, "stored")
	must(t, l.Commit(ctx, s.Rewind(l.NextTurn(), 2)))
	es, err := l.Stored(ctx, s.State.Head.Ledger)
	must(t, err)
	states := map[session.ElemState]int{}
	for i, e := range es {
		states[e.State]++
		if e.N != int64(i+1) {
			t.Fatalf("element %d at %d", e.N, i)
		}
	}
	if states[session.Folded] != 23 || states[session.Rewound] != 2 || int64(len(es)) != s.State.Head.NextElem-1 {
		t.Fatalf("stored %v", states)
	}
}
