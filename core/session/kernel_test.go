package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/usage"
)

// conversation is a program after one turn of n messages, the first of them the
// user's.
func conversation(t *testing.T, n int) *program {
	t.Helper()
	p := newProgram(1)
	for i := range n {
		role := [...]chat.Role{chat.User, chat.Assistant}[i%2]
		p.client = append(p.client, []chat.Part{{Kind: chat.Text, Role: role, Text: fmt.Sprint("m", i) + strings.Repeat(" word", 400)}})
	}
	p.turns(t)
	return p
}

// turns commits one turn of the client's list.
func (p *program) turns(t *testing.T) {
	t.Helper()
	msgs := make([]*chat.Message, len(p.client))
	for i, parts := range p.client {
		msgs[i] = message(p.wire, parts, false)
	}
	create := len(p.tb.lists) == 0
	al := p.align(msgs, p.wire, create)
	plan := MakePlan(p.st, create, &al, p.inbound(&al, msgs, p.wire))
	if bad := p.tb.commit(&plan.Commit, decoded(p.wire)); len(bad) > 0 {
		t.Fatal(bad)
	}
	p.st = plan.Settle()
}

// compress is what the kernel makes of a fold from one element to another.
func (p *program) compress(t *testing.T, from, to int64) Kernel {
	t.Helper()
	elems := p.st.Elements()
	ref := func(n int64) string { return fold.Ref{Number: p.st.Meta[n].Ref}.String() }
	args := fmt.Sprintf(`{"content":[{"startId":%q,"endId":%q,"summary":%q}]}`, ref(from), ref(to), strings.Repeat("done. ", 20))
	out := p.session(elems, p.st.Kernel, fold.Rhythm{}).Run(fold.ToolUse{Name: fold.ToolCompress, Args: []byte(args)}, p.textsOf(elems))
	if out.Failed {
		t.Fatal(out.Result)
	}
	return Kernel{out.State, out.Rhythm, out.Events}
}

// TestUnaddressedEvents: an event that does not name exactly what is there
// changes nothing.
func TestUnaddressedEvents(t *testing.T) {
	p := conversation(t, 24)
	for name, spoil := range map[string]func(*Kernel){
		"an element that is not in the list": func(k *Kernel) { k.Events[0].Elems[2] = 99 },
		"another key":                        func(k *Kernel) { k.Events[0].Keys[1] = content.ID{1}.String() },
		"an element left out":                func(k *Kernel) { k.Events[0].Elems, k.Events[0].Keys = k.Events[0].Elems[1:], k.Events[0].Keys[1:] },
		"no event at all for the change":     func(k *Kernel) { k.Events = []fold.Event{{Kind: fold.Overlay}} },
		"another body":                       func(k *Kernel) { k.Events[0].Body = &fold.Body{Summary: "else"} },
		"a body for no block":                func(k *Kernel) { k.Events[0].Block = 7 },
	} {
		k := p.compress(t, 3, 9)
		spoil(&k)
		before := copyState(p.st)
		if _, err := MakeFold(p.st, k, FoldCall{Rows: true}); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(before, copyState(p.st)) {
			t.Errorf("%s: the state changed", name)
		}
		plan := MakePlan(p.st, false, &Alignment{Row: RowTail, Kept: ascending(24), Appended: 24}, p.retry())
		want := MakePlan(p.st, false, &Alignment{Row: RowTail, Kept: ascending(24), Appended: 24}, p.retry())
		if err := plan.Fold(k); !errors.Is(err, ErrAddress) || !reflect.DeepEqual(plan.Commit, want.Commit) {
			t.Errorf("%s: %v; the turn's plan is another one", name, err)
		}
	}
}

func ascending(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// retry is the same request once more.
func (p *program) retry() *Inbound {
	in := &Inbound{Turn: Turn{ID: 2}, Rows: true, Wire: p.wire, Model: "m", Tools: true, Messages: make([]*chat.Message, len(p.st.List))}
	for _, e := range p.st.List {
		in.Keys, in.Raws = append(in.Keys, e.Key), append(in.Raws, e.Raw)
	}
	return in
}

// TestCarrierStaysInPlace: what the client removes of a fold leaves the carrier
// where it is, also the first of it; only a fold of nothing but removed elements
// still stands on the snapshot path alone.
func TestCarrierStaysInPlace(t *testing.T) {
	p := conversation(t, 24)
	plan, err := MakeFold(p.st, p.compress(t, 3, 9), FoldCall{Cause: "c", Rows: true})
	if err != nil {
		t.Fatal(err)
	}
	if bad := p.tb.commit(&plan.Commit, nil); len(bad) > 0 {
		t.Fatal(bad)
	}
	p.st = plan.Settle()
	carrier := p.st.Rows[2]
	if carrier.Carrier != 1 || carrier.Pos != 3 || carrier.Sub != CarrierSub {
		t.Fatalf("the carrier is %+v", carrier)
	}
	full := len(FullView(p.st.List, p.st.Meta, p.st.Kernel))
	for range 7 {
		p.client = append(p.client[:2:2], p.client[3:]...)
		p.turns(t)
		view, err := SnapshotView(p.st.Rows, p.st.List)
		if err != nil || len(view) != full || view[2].Block != 1 || p.st.Rows[2] != carrier {
			t.Fatalf("view %+v, %v; carrier %+v", view, err, p.st.Rows[2])
		}
	}
	if got := FullView(p.st.List, p.st.Meta, p.st.Kernel); len(got) != full-1 {
		t.Fatalf("the full path shows a fold of nothing: %+v", got)
	}
}

// TestOverlayOnAnotherWire: a wire that has the parts of an element in another
// order gives the result back whole, on both paths.
func TestOverlayOnAnotherWire(t *testing.T) {
	p := newProgram(1)
	say := func(parts ...chat.Part) { p.client = append(p.client, parts) }
	say(chat.Part{Kind: chat.Text, Role: chat.User, Text: "go"})
	for i := range 8 {
		id := fmt.Sprint("c", i)
		say(chat.Part{Kind: chat.ToolCall, Role: chat.Assistant, CallID: id, Tool: "read", Text: "{}"})
		say(chat.Part{Kind: chat.ToolResult, Role: chat.Tool, CallID: id, Text: id + strings.Repeat(" line", 3000)})
	}
	p.turns(t)
	_, next, rhythm, events, _ := fold.Rewrite(p.st.Elements(), p.st.Kernel, fold.Rhythm{}, fold.Limits{Window: 24_000}, usage.Usage{})
	if len(next.Overlays) == 0 {
		t.Fatal("nothing was shortened")
	}
	plan, err := MakeFold(p.st, Kernel{next, rhythm, events}, FoldCall{Cause: "c", Rows: true})
	if err != nil {
		t.Fatal(err)
	}
	if bad := p.tb.commit(&plan.Commit, nil); len(bad) > 0 {
		t.Fatal(bad)
	}
	p.st = plan.Settle()
	short := p.st.Kernel.Overlays[0]
	for i := range p.client {
		if p.st.List[i].N == short.Elem { // reasoning stands in front of the result there
			p.client[i] = []chat.Part{{Kind: chat.Reasoning, Role: chat.Tool, Text: "hm"}, p.client[i][0]}
		}
	}
	p.switchWire(t)
	for _, o := range p.st.Kernel.Overlays {
		if o.Elem == short.Elem {
			t.Fatalf("an overlay on %s", p.st.Meta[o.Elem].Cores[o.Core].Kind)
		}
	}
	if e := p.tb.elems[short.Elem]; e.State != Live {
		t.Fatalf("element %d is %s", short.Elem, e.State)
	}
}

// switchWire sends the client's list on the other wire.
func (p *program) switchWire(t *testing.T) {
	t.Helper()
	msgs := make([]*chat.Message, len(p.client))
	for i, parts := range p.client {
		msgs[i] = message("openai", parts, false)
	}
	al := p.align(msgs, "openai", false)
	plan := MakePlan(p.st, false, &al, p.inbound(&al, msgs, "openai"))
	if bad := p.tb.commit(&plan.Commit, decoded("openai")); len(bad) > 0 {
		t.Fatal(bad)
	}
	p.st, p.wire = plan.Settle(), "openai"
}

// BenchmarkPlanWithFolds plans an appending turn of a long session that holds a
// fold.
func BenchmarkPlanWithFolds(b *testing.B) {
	p := newProgram(1)
	p.r = rand.New(rand.NewPCG(1, 1))
	for i := range 3000 {
		p.client = append(p.client, []chat.Part{{Kind: chat.Text, Role: [...]chat.Role{chat.User, chat.Assistant}[i%2], Text: fmt.Sprint("m", i) + strings.Repeat(" word", 40)}})
	}
	al := Alignment{Row: RowUnknown, Kept: make([]int, 3000)}
	msgs := make([]*chat.Message, 3000)
	for i, parts := range p.client {
		msgs[i], al.Kept[i] = message(p.wire, parts, false), -1
	}
	plan := MakePlan(p.st, true, &al, p.inbound(&al, msgs, p.wire))
	p.tb.commit(&plan.Commit, decoded(p.wire))
	p.st = plan.Settle()
	p.restamp()
	args := fmt.Sprintf(`{"content":[{"startId":"m00003","endId":"m02000","summary":%q}]}`, strings.Repeat("done. ", 20))
	out := p.session(p.st.Elements(), p.st.Kernel, fold.Rhythm{}).Run(fold.ToolUse{Name: fold.ToolCompress, Args: []byte(args)}, p.textsOf(p.st.Elements()))
	made, err := MakeFold(p.st, Kernel{out.State, out.Rhythm, out.Events}, FoldCall{Rows: true})
	if err != nil || len(out.Events) == 0 {
		b.Fatal(out.Result, err)
	}
	p.st = made.Settle()
	in := p.retry()
	next := Alignment{Row: RowTail, Kept: ascending(3000), Appended: 3000}
	b.ReportAllocs()
	for b.Loop() {
		plan := MakePlan(p.st, false, &next, in)
		_, k, rh, events, _ := fold.Rewrite(plan.Elements(), plan.Kernel(), fold.Rhythm{}, fold.Limits{Window: 200_000}, usage.Usage{})
		if err := plan.Fold(Kernel{k, rh, events}); err != nil {
			b.Fatal(err)
		}
	}
}
