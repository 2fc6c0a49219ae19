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
	for _, s := range []State{NewState(), {Version: StateVersion, Structure: 41}} {
		text, sum := s.Seal()
		back, err := OpenState(text, sum)
		if err != nil || back != s {
			t.Errorf("%s came back as %+v (%v)", text, back, err)
		}
		again, sumAgain := back.Seal()
		if string(again) != string(text) || sumAgain != sum {
			t.Errorf("%s is sealed as %s the second time", text, again)
		}
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
		{`{"v":2,"structure":1}`, "version 2"},
		{`{"structure":1}`, "version 0"},
		{`{`, "unexpected end"},
		{``, "unexpected end"},
	} {
		if _, err := OpenState([]byte(c.text), content.Of([]byte(c.text))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestRewriteIsTheIdentity: this kernel folds nothing, asks for nothing and
// hands back what it was given, whatever the window says.
func TestRewriteIsTheIdentity(t *testing.T) {
	for _, elems := range [][]Element{nil, {}, {{N: 1, Tokens: 9}}, {{N: 3, Tokens: 90_000}, {N: 1, Tokens: 200_000}, {N: 2}}} {
		before := append([]Element(nil), elems...)
		st := State{Version: StateVersion, Structure: 7}
		view, next, events, nudge := Rewrite(elems, st, Limits{Window: 100}, usage.Usage{})
		if len(view) != len(before) || len(view) > 0 && !reflect.DeepEqual(view, before) || next != st || events != nil || nudge != nil {
			t.Errorf("%v became %v, state %+v, events %v, nudge %v", before, view, next, events, nudge)
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
