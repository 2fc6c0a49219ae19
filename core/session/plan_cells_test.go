package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
)

// elemNamed makes an element of one text from "role:text".
func elemNamed(word string) *chat.Message {
	role, text, _ := strings.Cut(word, ":")
	return message("w", []chat.Part{{Kind: chat.Text, Role: chat.Role(role), Text: text}}, false)
}

func inboundNamed(turn int64, words string) *Inbound {
	in := &Inbound{Now: 1, Turn: Turn{ID: turn}, Rows: true, Wire: "w", Model: "m", Route: RouteSnapshot}
	for _, w := range strings.Fields(words) {
		m := elemNamed(w)
		in.Keys, in.Raws, in.Messages = append(in.Keys, m.Key), append(in.Raws, content.Of(m.Raw)), append(in.Messages, m)
	}
	return in
}

func newState() *State {
	return &State{Head: Head{Ledger: "L", World: World{Signal: "s", SessRaw: "raw", Lane: MainLane}, NextRow: 1, NextElem: 1, NextRef: 1, NextBlock: 1}}
}

// turnOf plans one turn on st the way the chain does: kept elements are not
// decoded.
func turnOf(st *State, turn int64, words string) *Plan {
	in := inboundNamed(turn, words)
	al := Align(Keys(st.List), in.Keys)
	for j, i := range al.Kept {
		if i >= 0 {
			in.Messages[j] = nil
		}
	}
	return MakePlan(st, len(st.List) == 0, &al, in)
}

// TestRefs: system, developer and the first user element never fold, so they
// get no ref; past the last ref elements stay without one.
func TestRefs(t *testing.T) {
	refs := func(p *Plan) (out []int64) {
		for _, e := range p.Commit.Elements {
			out = append(out, e.Ref)
		}
		return out
	}
	for _, c := range []struct {
		words string
		want  []int64
	}{
		{"user:a assistant:b user:c", []int64{0, 1, 2}},
		{"system:s developer:d user:a user:b", []int64{0, 0, 0, 1}},
		{"system:s assistant:b user:a user:b", []int64{0, 1, 0, 2}},
	} {
		if got := refs(turnOf(newState(), 1, c.words)); !slices.Equal(got, c.want) {
			t.Errorf("%s: refs %v, want %v", c.words, got, c.want)
		}
	}
	st := turnOf(newState(), 1, "system:s user:a").Settle()
	if got := refs(turnOf(st, 2, "system:s user:a assistant:b system:r user:c")); !slices.Equal(got, []int64{1, 0, 2}) {
		t.Errorf("later elements: refs %v", got)
	}
	st.Head.NextRef = fold.MaxRef
	p := turnOf(st, 2, "system:s user:a assistant:b assistant:c")
	if got := refs(p); !slices.Equal(got, []int64{fold.MaxRef, 0}) || p.Commit.Head.NextRef != fold.MaxRef+1 {
		t.Errorf("at the last ref: refs %v, next %d", got, p.Commit.Head.NextRef)
	}
}

// TestFirstSight: a long first list is numbered and stored with the turn, its
// rows follow in a re-stamp.
func TestFirstSight(t *testing.T) {
	for n, rows := range map[int]int{FirstSightRows: FirstSightRows, FirstSightRows + 1: 0} {
		var words []string
		for i := range n {
			words = append(words, fmt.Sprint("user:", i))
		}
		p := turnOf(newState(), 1, strings.Join(words, " "))
		c := &p.Commit
		if len(c.Rows) != rows || len(c.Elements) != n || (c.Check != nil) != (rows > 0) || (c.World != nil) != (rows > 0) {
			t.Errorf("%d elements: %d stored, %d rows, checkpoint %v, world %v", n, len(c.Elements), len(c.Rows), c.Check, c.World)
		}
		if (c.Head.NeedsRestamp == "") != (rows > 0) || (p.Next.Red == "") != (rows > 0) {
			t.Errorf("%d elements: needs %q, red %q", n, c.Head.NeedsRestamp, p.Next.Red)
		}
	}
}

// TestRetryWritesATurnAndNothingElse.
func TestRetryWritesATurnAndNothingElse(t *testing.T) {
	st := turnOf(newState(), 1, "user:a assistant:b").Settle()
	c := turnOf(st, 2, "user:a assistant:b").Commit
	if n := len(c.Elements) + len(c.States) + len(c.Reblobs) + len(c.Blobs) + len(c.Rows) + len(c.Flips); n > 0 || c.Check != nil || c.World != nil {
		t.Errorf("a retry writes %+v", c)
	}
	if c.Head.Version != st.Head.Version || c.Base != st.Head.Version || c.Head.ListTurn != 2 || c.Turn.List.Common != 2 || len(c.Turn.List.Tail) != 0 {
		t.Errorf("a retry moves the head to %+v", c.Head)
	}
}

// TestHeadOfATurn: what the session row says after a turn.
func TestHeadOfATurn(t *testing.T) {
	in := inboundNamed(9, "user:a assistant:b")
	in.Now, in.Model, in.Tools, in.Window, in.Title = 77, "model", true, 500, strings.Repeat("ä", 100)
	al := Align(nil, in.Keys)
	p := MakePlan(newState(), true, &al, in)
	h := p.Commit.Head
	if h.Model != "model" || h.Wire != "w" || !h.Tools || h.Window != 500 || h.CreatedAt != 77 || h.LastSeen != 77 || h.ListTurn != 9 || h.Version != 1 {
		t.Errorf("%+v", h)
	}
	if h.Title != strings.Repeat("ä", 79)+"…" {
		t.Errorf("title %q", h.Title)
	}
	in.Title = strings.Repeat("deep water ", 9)
	if p := MakePlan(newState(), true, &al, in); p.Commit.Head.Title != strings.TrimSuffix(strings.Repeat("deep water ", 7), " ")+"…" {
		t.Errorf("title %q", p.Commit.Head.Title)
	}
	if h.ListLen != 2 || h.ListSum != ChainSum(in.Keys) {
		t.Error("the list cannot be found by its sum")
	}
	for _, r := range p.Commit.Rows {
		if r.Wire != "w" || r.SessRaw != "raw" || r.BornCk != 1 || r.CreatedAt != 77 {
			t.Errorf("row %+v", r)
		}
	}
	if w := p.Commit.World; w == nil || w.Ledger != "L" || w.SessRaw != "raw" || w.Route != RouteSnapshot {
		t.Errorf("world row %+v", w)
	}
}

// TestUnsignedHasNoWorldRow and none of its rows.
func TestUnsignedHasNoWorldRow(t *testing.T) {
	st := newState()
	st.Head.World = World{Lane: MainLane}
	in := inboundNamed(1, "user:a")
	in.Rows = false
	al := Align(nil, in.Keys)
	p := MakePlan(st, true, &al, in)
	if c := p.Commit; c.World != nil || len(c.Rows) > 0 || c.Head.NeedsRestamp != "" || len(c.Elements) != 1 {
		t.Errorf("%+v", c)
	}
}

// TestStoredBytes: elements are stored without markers, the client's spelling
// beside them, an unmarked one once.
func TestStoredBytes(t *testing.T) {
	in := inboundNamed(1, "user:a")
	marked := message("w", []chat.Part{{Kind: chat.Text, Role: chat.User, Text: "b"}}, true)
	in.Keys, in.Raws, in.Messages = append(in.Keys, marked.Key), append(in.Raws, content.Of(marked.Raw)), append(in.Messages, marked)
	al := Align(nil, in.Keys)
	c := MakePlan(newState(), true, &al, in).Commit
	var blobs []string
	for _, b := range c.Blobs {
		if b.ID != content.Of(b.Raw) {
			t.Errorf("%q is kept under another hash", b.Raw)
		}
		blobs = append(blobs, string(b.Raw))
	}
	want := []string{"w user|text|||a", "w user|text|||b", "w user|text|||b #marker"}
	if !slices.Equal(blobs, want) {
		t.Errorf("blobs %q", blobs)
	}
	if c.Elements[1].Blob != content.Of(marked.Stripped) || c.Turn.List.Whole[1].Raw != content.Of(marked.Raw) || c.Rows[1].Raw != c.Elements[1].Blob {
		t.Error("the stored bytes and the turn's spelling are mixed up")
	}
}

// TestRepeatSuffix: the first of its kind has none, later ones count on, over
// turns, and a removed or archived element keeps its number taken.
func TestRepeatSuffix(t *testing.T) {
	var ids []string
	st := newState()
	for i, words := range []string{"user:go user:go", "user:go user:go user:x user:go", "user:go user:y user:x user:go", "user:go user:y user:x user:go user:go"} {
		p := turnOf(st, int64(i+1), words)
		for _, r := range p.Commit.Rows {
			if _, suffix, ok := strings.Cut(r.CanonID[2:], "_"); ok {
				ids = append(ids, suffix)
				continue
			}
			ids = append(ids, "-")
		}
		st = p.Settle()
	}
	if got := strings.Join(ids, " "); got != "- 2 - 3 - 4" {
		t.Errorf("suffixes %s", got)
	}
}

// TestRepeatsOf: rows made again carry the repeats of first storage, also when
// the bytes came from another wire with other reasoning.
func TestRepeatsOf(t *testing.T) {
	part := func(s string) chat.Part {
		m := message("w", []chat.Part{{Kind: chat.Text, Role: chat.User, Text: s}}, false)
		return m.Parts[0]
	}
	a, b, r := part("a"), part("b"), part("thought")
	cores := []CoreRef{{Canon: a.Canon, Repeat: 3}, {Canon: b.Canon, Repeat: 1}, {Canon: a.Canon, Repeat: 4}}
	for _, c := range []struct {
		name  string
		parts []chat.Part
		want  []int32
	}{
		{"as stored", []chat.Part{a, b, a}, []int32{3, 1, 4}},
		{"new reasoning in front", []chat.Part{r, a, b, a}, []int32{0, 3, 1, 4}},
		{"reasoning dropped", []chat.Part{b, a}, []int32{1, 4}},
		{"more parts than cores", []chat.Part{r, r, r, a, b, a, r}, []int32{0, 0, 0, 3, 1, 4, 0}},
	} {
		if got := repeatsOf(c.parts, cores); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCheckpointReasons: the most telling event names the checkpoint.
func TestCheckpointReasons(t *testing.T) {
	const start = "user:a assistant:b user:c assistant:d"
	for words, want := range map[string]fold.EventKind{
		start + " user:e":                          fold.Append,
		"user:a assistant:b":                       fold.Rewind,
		"user:a assistant:b user:x":                fold.Rewind,
		"user:a assistant:X user:c assistant:d":    fold.Replace,
		"user:a assistant:X user:c user:e":         fold.Replace,
		"user:a user:c assistant:d":                "remove",
		"user:a user:c assistant:d user:e user:e2": fold.Append,
	} {
		st := turnOf(newState(), 1, start).Settle()
		if c := turnOf(st, 2, words).Commit; c.Check == nil || c.Check.Reason != string(want) {
			t.Errorf("%s: checkpoint %+v, want %s", words, c.Check, want)
		}
	}
}

// TestEventsCarryWitnesses: an event is addressed by element numbers alone and
// says on what keys it was decided.
func TestEventsCarryWitnesses(t *testing.T) {
	st := turnOf(newState(), 1, "user:a assistant:b user:c assistant:d").Settle()
	p := turnOf(st, 2, "user:a assistant:X user:c user:e")
	want := []fold.Event{
		{Kind: fold.Rewind, After: 3, Elems: []int64{4}},
		{Kind: fold.Replace, Elems: []int64{5}, Old: []int64{2}, Keys: []string{elemNamed("assistant:b").Key.String()}},
		{Kind: fold.Append, After: 3, Elems: []int64{6}},
	}
	if got := fmt.Sprintf("%+v", p.Commit.Check.Meta.Events); got != fmt.Sprintf("%+v", want) {
		t.Errorf("events\n%s\nwant\n%+v", got, want)
	}
}

// TestMediaIsNotText: base64 payloads do not count as tokens.
func TestMediaIsNotText(t *testing.T) {
	m := elemNamed("user:" + strings.Repeat("x", 4000))
	all := tokensOf(m)
	m.Media = []chat.Span{{Start: 20, End: 3620}}
	if left := tokensOf(m); left*5 > all {
		t.Errorf("%d tokens with the payload, %d without", all, left)
	}
}

// TestWireSwitch: kept elements get the new wire's bytes and
// the rows wait for the re-stamp.
func TestWireSwitch(t *testing.T) {
	st := turnOf(newState(), 1, "user:a assistant:b").Settle()
	in := &Inbound{Turn: Turn{ID: 2}, Rows: true, Wire: "v"}
	for _, text := range []string{"a", "c"} {
		m := message("v", []chat.Part{{Kind: chat.Text, Role: chat.User, Text: text}}, true)
		in.Keys, in.Raws, in.Messages = append(in.Keys, m.Key), append(in.Raws, content.Of(m.Raw)), append(in.Messages, m)
	}
	stored := [][]chat.CanonID{{elemNamed("user:a").Parts[0].Canon}, {elemNamed("assistant:b").Parts[0].Canon}}
	inbound := [][]chat.CanonID{{in.Messages[0].Parts[0].Canon}, {in.Messages[1].Parts[0].Canon}}
	al := AlignCores(stored, inbound)
	p := MakePlan(st, false, &al, in)
	c := p.Commit
	if al.Row != RowWire || len(c.Rows)+len(c.Flips) > 0 || c.Head.NeedsRestamp != "wire switch" || p.Next.Red != "wire switch" {
		t.Errorf("row %d, %d rows, %d flips, needs %q", al.Row, len(c.Rows), len(c.Flips), c.Head.NeedsRestamp)
	}
	if want := []Reblob{{1, content.Of(in.Messages[0].Stripped)}}; !slices.Equal(c.Reblobs, want) {
		t.Errorf("reblobs %v, want %v", c.Reblobs, want)
	}
	if want := []StateChange{{2, Archived, -1}}; !slices.Equal(c.States, want) {
		t.Errorf("states %v, want %v", c.States, want)
	}
}
