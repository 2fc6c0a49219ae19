//go:build engine

package local

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// TestEngineMoreConversationsThanSlots: where four conversations take turns in
// two slots, each finds its own again. No slot is idle between two requests, so
// what it holds must be saved by whoever overwrites it.
func TestEngineMoreConversationsThanSlots(t *testing.T) {
	h := open(t, home{t.TempDir()}, settings(t, "tiny"))
	const clients = 4
	var talks [clients][]map[string]any
	for i := range talks {
		talks[i] = []map[string]any{say("user", prose(250, 60+i))}
	}
	for turn := range 3 {
		var all sync.WaitGroup
		var got [clients]reply
		for i := range clients {
			all.Go(func() { got[i] = h.turn(t, string(rune('a'+i)), talks[i]) })
		}
		all.Wait()
		if t.Failed() {
			return
		}
		h.settled() // a queue that is full on a slow disk would drop what this is about
		for i, r := range got {
			t.Logf("turn %d of %d: %+v", turn, i, r.receipt)
			if turn > 0 && (r.receipt.Source == usage.Computed || r.receipt.Restored < 256) {
				t.Errorf("conversation %d lost its prefix in turn %d: %+v", i, turn, r.receipt)
			}
			talks[i] = append(slices.Clone(talks[i]), say("assistant", r.text()), say("user", prose(40, 70+i+turn)))
		}
	}
}

// turn is one request of a conversation of its own.
func (h *house) turn(t *testing.T, conversation string, messages []map[string]any) reply {
	body, err := marshal(map[string]any{"messages": messages, "max_tokens": 4, "temperature": 0})
	if err != nil {
		t.Error(err)
		return reply{}
	}
	r, err := h.tryAs(t.Context(), upstream.Call{Conversation: conversation}, "/v1/chat/completions", body)
	if err != nil || r.status != http.StatusOK {
		t.Errorf("%d %v %s", r.status, err, r.body)
	}
	return r
}
