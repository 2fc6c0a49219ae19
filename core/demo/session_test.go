package demo

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"testing"

	"holdfast/core/wire"
)

func playAll(t *testing.T, opts PlayOptions) (Summary, []Recording) {
	t.Helper()
	turns := opts.Turns
	if turns == 0 {
		turns = DefaultTurns
	}
	model := NewModel(Options{Script: ScriptOf(Session(turns))})
	server := httptest.NewServer(model)
	defer server.Close()
	sum, err := Play(t.Context(), BaseURL(server.URL, "a"), server.Client(), opts, func(TurnResult) {})
	if err != nil {
		t.Fatal(err)
	}
	return sum, model.Recordings("a")
}

// TestPlayIsASession plays the bundled session whole: long enough, large
// enough, and growing as an agent's history does.
func TestPlayIsASession(t *testing.T) {
	sum, recs := playAll(t, PlayOptions{})
	if sum.Turns < 120 || sum.Turns != len(recs) || sum.LastBody < 300<<10 || sum.Elements < 2*120 {
		t.Fatalf("%d turns, %d recorded, %d elements, last body %d bytes", sum.Turns, len(recs), sum.Elements, sum.LastBody)
	}
	if !sum.Counts.Seen || sum.Counts.Cached == 0 || sum.Counts.Output == 0 {
		t.Fatalf("usage %+v", sum.Counts)
	}
	var last [][]byte
	for i, r := range recs {
		msgs := messagesOf(t, r.Body)
		if i > 0 && len(msgs) <= len(last) {
			t.Fatalf("turn %d: %d messages after %d", i+1, len(msgs), len(last))
		}
		// The marker moves: all but the newest old message are the same bytes.
		for j := range max(0, len(last)-1) {
			if !bytes.Equal(last[j], msgs[j]) {
				t.Fatalf("turn %d changed message %d", i+1, j)
			}
		}
		if i > 0 && bytes.Equal(last[len(last)-1], msgs[len(last)-1]) {
			t.Fatalf("turn %d kept the marker on message %d", i+1, len(last)-1)
		}
		last = msgs
	}
	t.Logf("%d turns, %d elements, last body %d bytes, %d bytes sent, %d received, %s", sum.Turns, sum.Elements, sum.LastBody, sum.Sent, sum.Received, sum.Took)
}

func messagesOf(t *testing.T, raw []byte) (out [][]byte) {
	t.Helper()
	body, err := wire.Cut(raw, listName)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body.Elements {
		out = append(out, body.Element(i))
	}
	return out
}

// TestPlayIsDeterministic plays twice and compares every byte both ways.
func TestPlayIsDeterministic(t *testing.T) {
	_, a := playAll(t, PlayOptions{Turns: 40})
	_, b := playAll(t, PlayOptions{Turns: 40, Gzip: true})
	for i := range a {
		if !bytes.Equal(a[i].Body, b[i].Body) || !bytes.Equal(a[i].Response, b[i].Response) {
			t.Fatalf("turn %d differs between two plays", i+1)
		}
		if bytes.Equal(a[i].RawBody, b[i].RawBody) {
			t.Fatalf("turn %d was not compressed", i+1)
		}
	}
}

func TestPlayStopsAtTheFirstFault(t *testing.T) {
	script := ScriptOf(Session(5))
	script[2].Cut = true
	server := httptest.NewServer(NewModel(Options{Script: script}))
	defer server.Close()
	sum, err := Play(t.Context(), server.URL, server.Client(), PlayOptions{Turns: 5}, func(TurnResult) {})
	if err == nil || sum.Turns != 2 {
		t.Fatalf("%d turns, %v; want 2 and an error", sum.Turns, err)
	}
}

// TestBothWires: the session is the same work on either wire, the model takes
// it as a strict one, and reports more from its cache than anew.
func TestBothWires(t *testing.T) {
	said := map[wire.Family][]string{}
	for _, family := range []wire.Family{wire.Anthropic, wire.OpenAI} {
		model := NewModel(Options{Script: ScriptOf(Session(30)), Strict: true, Keep: 2})
		server := httptest.NewServer(model)
		defer server.Close()
		_, err := Play(t.Context(), BaseURL(server.URL, "x"), server.Client(), PlayOptions{Turns: 30, Wire: family}, func(r TurnResult) {
			said[family] = append(said[family], r.Said)
		})
		if err != nil {
			t.Fatalf("%s: %v", family, err)
		}
		recs := model.Recordings("x")
		last := recs[len(recs)-1]
		if last.Counts.Cached < 10*(last.Counts.Input+last.Counts.CacheWrite) || last.Body == nil || recs[0].Body != nil || recs[0].Size == 0 {
			t.Errorf("%s: %+v, first body of %d bytes kept", family, last.Counts, len(recs[0].Body))
		}
	}
	if a, b := said[wire.Anthropic], said[wire.OpenAI]; !slices.Equal(a, b) {
		t.Errorf("%q\n%q", a, b)
	}
}
