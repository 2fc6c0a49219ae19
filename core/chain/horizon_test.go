package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// TestLengths: how long a host's sessions went on is known once they are over,
// and of no other host's.
func TestLengths(t *testing.T) {
	var mu sync.Mutex
	now := time.UnixMilli(1_800_000_000_000)
	g := newRig(t, config.On)
	g.options = func(o *chain.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	}
	g.restart()
	for i, turns := range []int{3, 1, 5} {
		k := g.convo(fmt.Sprint("s", i))
		for range turns {
			k.say()
		}
		mu.Lock()
		now = now.Add(time.Minute)
		mu.Unlock()
	}
	at := func(ago time.Duration) int64 { mu.Lock(); defer mu.Unlock(); return now.Add(-ago).UnixMilli() }
	for ago, want := range map[time.Duration][]int{0: {5, 1, 3}, 90 * time.Second: {1, 3}, time.Hour: nil} {
		got, err := g.db.Lengths(t.Context(), "x-claude-code-session-id", at(ago))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v ago: %v, %v, want %v", ago, got, err, want)
		}
	}
	if got, err := g.db.Lengths(t.Context(), "another-host", at(0)); err != nil || got != nil {
		t.Errorf("of another host: %v, %v", got, err)
	}
}

// history is a ledger with past sessions of these lengths.
type history struct {
	session.Ledger
	turns []int
}

func (h history) Lengths(context.Context, string, int64) ([]int, error) { return h.turns, nil }

// TestHorizon: where a host's sessions end soon no fold is asked for below
// pressure; where they go on, or nothing is known, it is.
func TestHorizon(t *testing.T) {
	const turns = 30
	for name, c := range map[string]struct {
		past  []int
		asked bool
	}{"nothing is known": {nil, true}, "they go on": {[]int{200, 300, 400}, true}, "they end soon": {[]int{26, 27, 28, 29, 30, 31}, false}} {
		g := newRig(t, config.On)
		g.options = func(o *chain.Options) { o.Ledger = history{o.Ledger, c.past} }
		g.restart()
		g.folding(true)
		g.setAnswer(g.countsCached)
		k := g.convo("talk")
		asked := 0
		for i := 0; i < turns && asked == 0; i++ {
			k.msgs = append(k.msgs, user(fmt.Sprintf("task %d: %s", i, long("the file", 2500))))
			g.send(anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)
			if bytes.Contains(g.lastWhole(), []byte(reminder)) {
				asked = i
			}
			k.msgs = append(k.msgs, assistant("done"))
		}
		if (asked > 0) != c.asked {
			t.Errorf("%s: asked on turn %d", name, asked)
		}
	}
}

// countsCached answers and reports what it really got, all but a little of it
// from cache.
func (g *rig) countsCached(w http.ResponseWriter, _ *http.Request) {
	n := usage.EstimateBytes(len(g.lastWhole()))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"cache_read_input_tokens":%d,"output_tokens":2}}`, n-100)
}
