package fold

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/content"
	"holdfast/core/usage"
)

func TestStateRoundTrip(t *testing.T) {
	k := started(t, 12)
	k.fold("m1", "m6")
	k.fold("b1", "m10")
	k.st = Keep(k.st, []int64{20}, true)
	for _, s := range []State{NewState(), {Version: StateVersion, Structure: 41}, k.st} {
		text, sum := s.Seal()
		back, err := OpenState(text, sum)
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%s came back as %+v (%v)", text, back, err)
		}
		again, sumAgain := back.Seal()
		if string(again) != string(text) || sumAgain != sum {
			t.Errorf("%s is sealed as %s the second time", text, again)
		}
	}
}

// TestVersionOneIsRead: states from before there were folds open as they are,
// and a state without any is still written that way.
func TestVersionOneIsRead(t *testing.T) {
	if a, b := NewState(), Arm(NewState(), true, nil); a.Version != 1 || b.Version != StateVersion {
		t.Errorf("a new state has version %d, an armed one %d", a.Version, b.Version)
	}
	text := []byte(`{"v":1,"structure":7}`)
	s, err := OpenState(text, content.Of(text))
	if err != nil || s.Structure != 7 {
		t.Errorf("version 1 opens as %+v (%v)", s, err)
	}
}

// TestStateStaysSmall: a state holds no texts, whatever was folded.
func TestStateStaysSmall(t *testing.T) {
	k := started(t, 400)
	for i := 1; i < 780; i += 10 {
		k.fold(Ref{Number: int64(i)}.String(), Ref{Number: int64(i + 9)}.String())
	}
	text, _ := k.st.Seal()
	if n := len(k.st.Blocks); len(text)/n > 400 {
		t.Errorf("%d blocks take %d bytes", n, len(text))
	}
}

// TestStateIsNeverGuessed: what does not fit its checksum or is not known whole
// is an error.
func TestStateIsNeverGuessed(t *testing.T) {
	text, sum := NewState().Seal()
	for i := range text {
		for bit := range 8 {
			bad := []byte(string(text))
			bad[i] ^= 1 << bit
			if _, err := OpenState(bad, sum); err == nil {
				t.Errorf("bit %d of byte %d is not caught", bit, i)
			}
		}
	}
	for _, c := range []struct{ text, want string }{
		{`{"v":3,"structure":1}`, "version 3"},
		{`{"structure":1}`, "version 0"},
		{`{`, "unexpected end"},
		{``, "unexpected end"},
	} {
		if _, err := OpenState([]byte(c.text), content.Of([]byte(c.text))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestRewriteLeavesSmallTalkAlone: below every threshold the view is the list
// and nothing is changed.
func TestRewriteLeavesSmallTalkAlone(t *testing.T) {
	k := started(t, 3)
	for _, elems := range [][]Element{nil, {}, k.elems[:1], k.elems} {
		st := State{Version: StateVersion, Structure: 7}
		view, next, _, events, nudge := Rewrite(elems, st, Rhythm{}, Limits{Window: 200_000}, usage.Usage{})
		if !Plain(view, elems) || !reflect.DeepEqual(next, st) || events != nil || nudge.Text != "" {
			t.Errorf("%d elements became %v, state %+v, events %v, nudge %v", len(elems), view, next, events, nudge)
		}
	}
}

// TestEventsAreStored: all twelve kinds are written as the golden says and read
// back the same; stored checkpoints depend on it.
func TestEventsAreStored(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/events.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[EventKind]bool{}
	for _, f := range ar.Files {
		text := strings.TrimSpace(string(f.Data))
		var e Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if got, err := json.Marshal(e); err != nil || string(got) != text {
			t.Errorf("%s is written as\n%s (%v), want\n%s", f.Name, got, err, text)
		}
		if string(e.Kind) != f.Name {
			t.Errorf("%s holds an event of kind %s", f.Name, e.Kind)
		}
		seen[e.Kind] = true
	}
	for _, k := range []EventKind{Append, Folded, Unfold, Hide, Overlay, Replace, Rewind, Reactivate, Inherit, Restamp, Archive, Purge} {
		if !seen[k] {
			t.Errorf("%s has no golden", k)
		}
	}
}

// TestEventsStaySmall: what a fold of many elements is stored as does not grow
// with them, and nothing that addresses rows is lost.
func TestEventsStaySmall(t *testing.T) {
	k := started(t, 1_000)
	ev := k.fold("m1", "m2000").Events[0]
	text, err := json.Marshal(ev)
	if err != nil || len(text) > 1_000 || len(ev.Elems) != 2_000 {
		t.Fatalf("%d elements take %d bytes (%v)", len(ev.Elems), len(text), err)
	}
	var back Event
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Elems, ev.Elems) || back.Anchor != ev.Anchor || back.KeysSum != SumOfKeys(ev.Keys) {
		t.Errorf("it comes back as %+v", back)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(text) {
		t.Errorf("the second time it is %s (%v)", again, err)
	}
	const old = `{"kind":"fold","elems":[3,4,9],"block":1}`
	if err := json.Unmarshal([]byte(old), &back); err != nil || !reflect.DeepEqual(back.Elems, []int64{3, 4, 9}) {
		t.Errorf("%s is read as %+v (%v)", old, back, err)
	}
}
