package chain_test

import (
	"slices"
	"testing"
)

// TestDegradeSaysWhetherBytesChanged: a step down says whether the request that
// left in the end was the client's own, to the byte. A body that no codec holds
// leaves as it came; a turn of a session with our tools in it does not.
func TestDegradeSaysWhetherBytesChanged(t *testing.T) {
	changed := func(g *rig) (out []bool) {
		t.Helper()
		list, err := g.db.Degrades(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			out = append(out, d.BytesChanged)
		}
		return out
	}
	g := newRig(t, "on")
	g.convo("twice").sendBody([]byte(`{"model":"a","messages":[],"model":"b"}`))
	g.settle()
	if got := changed(g); !slices.Equal(got, []bool{false}) {
		t.Errorf("a body that left as it came: changed %v", got)
	}
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("signed", chat, stream)
		g.play(stream, chat, said{think: "secret", calls: []use{status("own_1")}},
			said{status: 400, refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"Invalid signature in thinking block"}}`}, said{text: "Done."})
		k.ask()
		g.settle()
		if got := changed(g); !slices.Equal(got, []bool{true}) {
			t.Errorf("a turn with our tools in it: changed %v", got)
		}
	})
}
