//go:build engine || bench

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/storage/segment"
)

// patience is how long a condition may take to come true on the slowest machine.
const patience = 20 * time.Minute

// eager: what a busy machine measures must not decide what a test sees.
var eager = true

// cached is a file that go run ./build test puts into the cache folder.
func cached(t testing.TB, parts ...string) string {
	t.Helper()
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	file, err := filepath.Abs(filepath.Join(append([]string{cache, "engine"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: go run ./build engine installs it", err)
	}
	return file
}

// settings of a small engine: one thread, since two of a test's wait for each
// other on a busy machine.
func settings(t testing.TB, model string) engine.Settings {
	return engine.Settings{Command: cached(t, "bin", "llama-server"), Model: cached(t, "models", model+".gguf"),
		Slots: 2, Context: 4096, Threads: 1}
}

// home is what survives a restart: the store's folder and what is remembered.
type home struct{ dir string }

// house is one run of everything: the tier, the engine and its driver.
type house struct {
	t       testing.TB
	log     *slog.Logger
	tier    *tier.Manager
	sup     *engine.Supervisor
	driver  *Engine
	hand    string
	home    home
	stopped bool

	mu   sync.Mutex
	kept []tier.Spilled
}

func limits() tier.Limits {
	return tier.Limits{Budget: 1 << 30, Reserve: 1 << 20, MinTokens: 64}
}

// furnish opens the tier of a home.
func furnish(t testing.TB, h home) *house {
	t.Helper()
	log := slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m, err := tier.Open(t.Context(), tier.Options{Log: log, Limits: limits(), Store: func(context.Context) (tier.Segments, tier.Manifests, error) {
		st, err := segment.Open(filepath.Join(h.dir, "kv"), segment.Options{})
		if err != nil {
			return nil, nil, err
		}
		return st, st, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-m.Ready()
	return &house{t: t, tier: m, log: log, home: h}
}

// open starts tier and engine on a home.
func open(t testing.TB, h home, s engine.Settings) *house {
	t.Helper()
	x := furnish(t, h)
	var err error
	if x.hand, err = engine.Handover(h.dir); err != nil {
		t.Fatal(err)
	}
	x.sup = engine.Start(s, x.hand, x.log, engine.Hooks{Pause: func(context.Context, time.Duration) error { return nil }})
	s = s.Normal()
	x.driver = New(Options{Route: "local", Host: x.sup, Tier: x.tier, Handover: x.hand, Settings: &s,
		Weights:  engine.OpenWeights(filepath.Join(h.dir, "models.json")),
		Findings: OpenFindings(filepath.Join(h.dir, "engines.json")), Log: x.log, Kept: x.keep, Eager: eager})
	t.Cleanup(x.close)
	x.identified()
	return x
}

func (h *house) keep(s tier.Spilled, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.kept = append(h.kept, s)
	}
}

// settled waits until everything behind the replies so far is done.
func (h *house) settled() {
	h.t.Helper()
	l := h.identified()
	until(h.t, "the slots are reckoned with", func() bool {
		for i := range l.slots.list {
			if s, ok := l.slots.peek(i); !ok || s.body != nil && s.stable == 0 {
				return false
			}
		}
		return true
	})
	for i := range l.slots.list {
		h.driver.consider(l, i) // the one behind the reply may be late; twice is once
	}
	until(h.t, "the queue is empty", func() bool { return h.tier.Status().Activity.Queue.Items == 0 })
}

// logTo sends a log to the test's.
type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// identified waits until the driver knows its engine.
func (h *house) identified() *life {
	h.t.Helper()
	l, err := h.driver.contact(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	until(h.t, "the engine is identified", func() bool {
		_, _, why := l.reuse()
		return why != kv.MissStarting
	})
	return l
}

// until waits for a condition, never for a time.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// close ends everything the orderly way; slots are saved first.
func (h *house) close() {
	if h.stopped {
		return
	}
	h.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.driver.Flush(ctx)
	h.driver.Close()
	if err := h.tier.Close(ctx); err != nil {
		h.t.Error(err)
	}
	h.sup.Close()
	if left, err := os.ReadDir(h.hand); err != nil || len(left) > 0 {
		h.t.Errorf("left in the slot folder: %v %v", left, err)
	}
	os.RemoveAll(h.hand)
}

// reply is what a request came to.
type reply struct {
	status  int
	body    []byte
	chat    chatReply
	receipt usage.Receipt
}

func (r reply) text() string { return r.chat.Choices[0].Message.Content }

// send makes one request of the route.
func (h *house) send(path string, body any) reply {
	h.t.Helper()
	r, err := h.try(h.t.Context(), path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *house) try(ctx context.Context, path string, body any) (r reply, err error) {
	data, ok := body.([]byte)
	if !ok {
		data, err = marshal(body)
		if err != nil {
			return r, err
		}
	}
	return h.tryAs(ctx, upstream.Call{Conversation: "c1"}, path, data)
}

func (h *house) tryAs(ctx context.Context, call upstream.Call, path string, data []byte) (r reply, err error) {
	call.Report = func(got usage.Receipt) { r.receipt = got }
	ctx = upstream.WithCall(ctx, call)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local"+path, bytes.NewReader(data))
	if err != nil {
		return r, err
	}
	resp, err := h.driver.RoundTrip(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return r, err
	}
	json.Unmarshal(r.body, &r.chat) // not every reply is one
	return r, nil
}

// probabilities are the log-probabilities of a reply's tokens as the engine
// wrote them.
func (r reply) probabilities() string {
	var in struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Logprob json.Number `json:"logprob"`
				} `json:"content"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(r.body, &in); err != nil || len(in.Choices) == 0 {
		return "none"
	}
	var out []string
	for _, c := range in.Choices[0].Logprobs.Content {
		out = append(out, c.Logprob.String())
	}
	return strings.Join(out, " ")
}

// chat asks for n greedy tokens.
func (h *house) chat(n int, messages ...map[string]any) reply {
	h.t.Helper()
	r := h.send("/v1/chat/completions", map[string]any{"messages": messages, "max_tokens": n, "temperature": 0, "logprobs": true})
	if r.status != http.StatusOK {
		h.t.Fatalf("status %d: %s", r.status, r.body)
	}
	return r
}

func say(role, text string) map[string]any { return map[string]any{"role": role, "content": text} }

// prose is n words of a fixed text.
func prose(n, seed int) string {
	words := strings.Fields("the harbour clock tower river boat stone winter letter copper wheel wind water morning street church bread apple bridge house door hill train picture market light rain table window piano")
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s ", words[(i*i+7*i+seed*13+i/5)%len(words)])
	}
	return b.String()
}

// turns are a conversation that grows by a canned reply: the engine's slot then
// holds exactly the first prompt, and both runs compute the rest in the same
// batches.
func turns(words int) (first, second []map[string]any) {
	first = []map[string]any{say("system", "You keep the log of a harbour."), say("user", prose(words, 1))}
	second = append(slices.Clone(first), say("assistant", "The clock stands."), say("user", "And then? "+prose(40, 2)))
	return first, second
}

// stableTokens is the part of a conversation that its next turn begins with.
func (h *house) stableTokens(messages []map[string]any) kv.Tokens {
	h.t.Helper()
	body, err := marshal(map[string]any{"messages": messages})
	if err != nil {
		h.t.Fatal(err)
	}
	_, n, err := stableOf(h.t.Context(), h.identified().client, body, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestEngineRestart ends everything after a first turn, starts again, and wants
// the second turn to be what it is without a restart: the same tokens, and the
// same probabilities to the last bit where the tail was saved.
func TestEngineRestart(t *testing.T) {
	for _, c := range []struct {
		name, model string
		change      func(*engine.Settings)
		// loose states are rebuilt up to a checkpoint of the engine's, not to the
		// end: they must be of use, and are not counted.
		loose bool
	}{
		{"K11 K12 K19 KV51 dense f16", "tiny", nil, false},
		{"dense q8_0", "tiny", func(s *engine.Settings) { s.CacheK, s.CacheV = "q8_0", "q8_0" }, false},
		{"dense q4_0", "tiny", func(s *engine.Settings) { s.CacheK, s.CacheV = "q4_0", "q4_0" }, false},
		{"transposed V", "tiny", func(s *engine.Settings) { s.NoFlash = true }, false},
		{"KV35 one slot, context left to the model", "tiny", func(s *engine.Settings) { s.Slots, s.Context = 1, 0 }, false},
		{"three-part positions", "mrope", nil, false},
		{"K1 K32 K33 K35 sliding window", "window", nil, true},
		{"K34 K36 K37 K39 hybrid", "hybrid", nil, true},
		{"K38 KV18 recurrent", "recurrent", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settings(t, c.model)
			if c.change != nil {
				c.change(&s)
			}
			first, second := turns(600)
			control := open(t, home{t.TempDir()}, s)
			control.chat(1, first...)
			want := control.chat(24, second...)
			control.close()

			h := home{t.TempDir()}
			before := open(t, h, s)
			before.chat(1, first...)
			before.close()
			after := open(t, h, s)
			eligible := after.stableTokens(first)
			got := after.chat(24, second...)
			t.Logf("eligible %d, uninterrupted %+v, restored %+v", eligible, want.receipt, got.receipt)
			if got.text() != want.text() {
				t.Errorf("after a restart %q, without %q", got.text(), want.text())
			}
			if got.receipt.Source != usage.FromDisk || got.receipt.Restored == 0 {
				t.Fatalf("nothing came from disk: %+v", got.receipt)
			}
			if share := float64(got.receipt.Restored) / float64(eligible); !c.loose && share < 0.98 {
				t.Errorf("%.1f %% of the eligible prefix restored", 100*share)
			}
			if !c.loose && got.receipt.Restored == want.receipt.Restored && got.probabilities() != want.probabilities() {
				t.Errorf("probabilities differ:\n%s\n%s", got.probabilities(), want.probabilities())
			}
			if !c.loose && got.receipt.Restored != want.receipt.Restored {
				t.Errorf("restored %d tokens with the tail, the slot held %d", got.receipt.Restored, want.receipt.Restored)
			}
		})
	}
}

func mustBody(t *testing.T, messages []map[string]any) []byte {
	t.Helper()
	body, err := marshal(map[string]any{"messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
