package chain_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"holdfast/core/config"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// warmer is a local engine's sender: it reports a receipt and notes what it is to
// compute ahead.
type warmer struct {
	mu    sync.Mutex
	ahead []string
	named []string
}

func (w *warmer) RoundTrip(r *http.Request) (*http.Response, error) {
	call := upstream.CallOf(r.Context())
	w.mu.Lock()
	w.named = append(w.named, call.Conversation)
	w.mu.Unlock()
	call.Report(usage.Receipt{Promised: 9, Restored: 8, Source: usage.FromDisk})
	return http.DefaultTransport.RoundTrip(r)
}

func (w *warmer) Warm(_ upstream.Call, path string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = append(w.ahead, path+" "+string(body))
}

// local sends the rig's requests to a named route with a sender of its own.
func (g *rig) local(w *warmer) {
	cfg := *g.cfg
	cfg.Routes = map[string]config.Route{"local": {URL: g.up.URL, Engine: "llamacpp"}}
	g.cfg, g.route = &cfg, "/r/local"
	g.client.Route(func(route string) upstream.Sender {
		if route != "local" {
			return nil
		}
		return w
	})
}

// TestWarmAfterFold: a reply in which the model folded has a local engine compute
// the new prompt; other replies and other upstreams have nothing computed.
func TestWarmAfterFold(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		w := &warmer{}
		k := g.grown("warm", chat, stream)
		g.play(stream, chat, said{text: "Tidying. ", calls: []use{compress("own_0", "m00002", "m00004")}}, said{text: "Done."})
		k.ask()
		k.takes()
		g.settle()
		g.local(w)
		k.msgs = append(k.msgs, user("on"))
		g.play(stream, chat, said{text: "I go on."})
		k.ask()
		k.takes()
		g.settle()
		if len(w.ahead) != 0 {
			t.Errorf("computed ahead without a fold on this route: %s", clipped(w.ahead[0]))
		}
		k.msgs = append(k.msgs, user("now tidy"))
		g.play(stream, chat, said{text: "I tidy. ", calls: []use{compress("own_1", "m00005", "m00009")}}, said{text: "All done."})
		k.ask()
		g.settle()
		if len(w.ahead) != 1 || !strings.Contains(w.ahead[0], "[fold b2") || !strings.Contains(w.ahead[0], "now tidy") {
			t.Fatalf("%d requests, %d prompts computed ahead: %s, reply %s", len(w.named), len(w.ahead), clipped(strings.Join(w.ahead, "\n")), k.replied)
		}
	})
}

// TestReceiptIsKept: what the sender reports stands on the turn, and the sender
// knows the conversation.
func TestReceiptIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		w := &warmer{}
		g.local(w)
		k := g.grown("receipt", chat, stream)
		k.ask()
		g.settle()
		turn := g.lastTurn()
		if turn.Receipt == nil || *turn.Receipt != (usage.Receipt{Promised: 9, Restored: 8, Source: usage.FromDisk}) {
			t.Fatalf("%+v", turn.Receipt)
		}
		stored, err := g.db.Turn(t.Context(), turn.ID)
		if err != nil || stored.Done == nil || stored.Done.Receipt == nil || *stored.Done.Receipt != *turn.Receipt {
			t.Errorf("stored %+v, %v", stored, err)
		}
		if last := w.named[len(w.named)-1]; last == "" {
			t.Error("the sender does not know the conversation")
		}
	})
}
