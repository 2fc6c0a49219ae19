//go:build engine

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/usage"
)

// TestEngineAmplification grows a conversation by unaligned turns and wants
// hardly more written than rows that became storable.
func TestEngineAmplification(t *testing.T) {
	for _, c := range []struct{ tokens, turns int }{{50, 20}, {300, 10}, {1000, 5}} {
		t.Run(fmt.Sprintf("KV16 KV63 turns of %d", c.tokens), func(t *testing.T) {
			s := settings(t, "tiny")
			s.Slots, s.Context = 1, 8192
			h := open(t, home{t.TempDir()}, s)
			talk := []map[string]any{say("system", "You keep the log of a harbour.")}
			for i := range c.turns {
				talk = append(talk, say("user", prose(c.tokens/2+i%3, i)))
				r := h.chat(3, talk...)
				talk = append(talk, say("assistant", r.text()))
				h.settled()
			}
			h.close()
			var payload, storable, records kv.Bytes
			for i, k := range h.kept {
				payload, storable, records = payload+k.Payload, storable+k.Storable, records+k.Record
				if k.Payload*100 > k.Storable*110 {
					t.Errorf("spill %d wrote %d bytes for %d that became storable", i, k.Payload, k.Storable)
				}
			}
			if len(h.kept) == 0 || payload*100 > storable*105 {
				t.Errorf("%d spills wrote %d bytes for %d", len(h.kept), payload, storable)
			}
			t.Logf("%d spills, %d bytes for %d: %.3f; manifests %d bytes", len(h.kept), payload, storable, float64(payload)/float64(storable), records)
		})
	}
}

// TestEngineLifecycle clears and prunes the store while clients talk: every
// request is answered, and status answers whatever goes on.
func TestEngineLifecycle(t *testing.T) {
	h := open(t, home{t.TempDir()}, settings(t, "tiny"))
	ctx, stop := context.WithCancel(t.Context())
	var clients, owners sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			talk := []map[string]any{say("user", prose(120, i))}
			for turn := range 6 {
				r, err := h.try(t.Context(), "/v1/chat/completions", map[string]any{"messages": talk, "max_tokens": 4, "temperature": 0})
				if err != nil || r.status != http.StatusOK {
					t.Errorf("client %d turn %d: %d %v %s", i, turn, r.status, err, r.body)
					return
				}
				talk = append(talk, say("assistant", r.text()), say("user", prose(60, i+turn)))
			}
		})
	}
	target := kv.Bytes(1 << 20)
	owners.Go(func() {
		for ctx.Err() == nil {
			if _, err := h.tier.Clear(ctx, nil, false); err != nil && ctx.Err() == nil {
				t.Errorf("clear: %v", err)
			}
			if _, err := h.tier.Prune(ctx, tier.PruneRequest{Target: &target}); err != nil && ctx.Err() == nil {
				t.Errorf("prune: %v", err)
			}
			if s := h.tier.Status(); s.Version != kv.StatusVersion {
				t.Errorf("status %+v", s)
			}
			time.Sleep(time.Millisecond)
		}
	})
	clients.Wait()
	stop()
	owners.Wait()
}

// TestEngineMessages speaks the Anthropic wire to a real engine, both ways.
func TestEngineMessages(t *testing.T) {
	where := home{t.TempDir()}
	h := open(t, where, settings(t, "tiny"))
	tools := []any{map[string]any{"name": "read", "description": "Read a file", "input_schema": map[string]any{
		"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"}}}}
	talk := []any{
		map[string]any{"role": "user", "content": prose(300, 1)},
		map[string]any{"role": "assistant", "content": []any{
			map[string]any{"type": "text", "text": "I look."},
			map[string]any{"type": "tool_use", "id": "toolu_1", "name": "read", "input": map[string]any{"path": "a"}},
			map[string]any{"type": "tool_use", "id": "toolu_2", "name": "read", "input": map[string]any{"path": "b"}}}},
		map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
			map[string]any{"type": "tool_result", "tool_use_id": "toolu_2", "content": []any{map[string]any{"type": "text", "text": "two"}}},
			map[string]any{"type": "text", "text": "So?"}}},
	}
	body := map[string]any{"model": "tiny", "max_tokens": 12, "temperature": 0, "tools": tools, "messages": talk, "system": "Be brief."}
	whole := h.send("/v1/messages", body)
	var m message
	if err := json.Unmarshal(whole.body, &m); err != nil || whole.status != 200 || len(m.Content) == 0 || m.Content[0].Text == nil {
		t.Fatalf("%d %s", whole.status, whole.body)
	}
	if m.Usage.Input+m.Usage.CacheRead < 300 || m.Usage.Output == 0 || *m.StopReason != "max_tokens" {
		t.Errorf("%s", whole.body)
	}
	count := h.send("/v1/messages/count_tokens", body)
	if want := fmt.Sprintf(`{"input_tokens":%d}`, m.Usage.Input+m.Usage.CacheRead); string(count.body) != want {
		t.Errorf("counted %s, used %s", count.body, want)
	}
	body["stream"] = true
	streamed := h.send("/v1/messages", body)
	text := ""
	for _, line := range strings.Split(string(streamed.body), "\n") {
		var ev struct {
			Delta struct{ Text string } `json:"delta"`
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &ev) == nil {
			text += ev.Delta.Text
		}
	}
	if text != *m.Content[0].Text || !strings.HasSuffix(string(streamed.body), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("streamed %q, whole %q\n%s", text, *m.Content[0].Text, streamed.body)
	}
	if streamed.receipt.Source != usage.FromSlot || streamed.receipt.Restored == 0 {
		t.Errorf("a repeat reuses nothing: %+v", streamed.receipt)
	}
	body["tool_choice"] = map[string]any{"type": "tool", "name": "read"}
	body["max_tokens"] = 400
	called := h.send("/v1/messages", body)
	t.Logf("forced call: %d %.300s", called.status, called.body)
	h.close()

	h = open(t, where, settings(t, "tiny"))
	delete(body, "tool_choice")
	delete(body, "stream")
	body["max_tokens"] = 12
	again := h.send("/v1/messages", body)
	var n message
	if err := json.Unmarshal(again.body, &n); err != nil || n.Usage.CacheRead == 0 || again.receipt.Source != usage.FromDisk {
		t.Errorf("after a restart %+v %s", again.receipt, again.body)
	}
	if len(n.Content) == 0 || *n.Content[0].Text != *m.Content[0].Text {
		t.Errorf("after a restart %s, before %s", again.body, whole.body)
	}
}

// TestEngineAttached drives an engine that was started by somebody else, with
// flags nobody told us.
func TestEngineAttached(t *testing.T) {
	first, second := turns(300)
	where := home{t.TempDir()}
	s := settings(t, "tiny")
	s.CacheK, s.CacheV = "q8_0", "q8_0"
	h := open(t, where, s)
	stored := t.TempDir()
	a := attach(t, home{stored}, h)
	a.chat(1, first...)
	id, able, why := a.identified().reuse()
	if why != "" || able.Verdict != Proven || able.CacheK != "q8_0" || able.Flash != kv.On || able.Streams != 2 {
		t.Errorf("%+v %s", able, why)
	}
	a.detach()
	for _, other := range []struct {
		name   string
		change func(*engine.Settings)
		same   bool
	}{{"the same flags", func(*engine.Settings) {}, true}, {"another rope base", func(s *engine.Settings) { s.RoPE.FreqBase = "500000" }, false}} {
		s2 := s
		other.change(&s2)
		again := open(t, home{t.TempDir()}, s2)
		b := attach(t, home{copied(t, stored)}, again)
		got, _, _ := b.identified().reuse()
		if (got.ID() == id.ID()) != other.same {
			t.Errorf("%s: the same identity is %v", other.name, !other.same)
		}
		r := b.chat(8, second...)
		if (r.receipt.Source == usage.FromDisk) != other.same {
			t.Errorf("%s: %+v", other.name, r.receipt)
		}
		b.detach()
	}
}

// attach opens a second house on the engine of another.
func attach(t *testing.T, where home, of *house) *house {
	t.Helper()
	x := furnish(t, where)
	x.hand = of.hand
	x.driver = New(Options{Route: "local", Host: of.sup, Tier: x.tier, Handover: of.hand,
		Weights:  engine.OpenWeights(where.dir + "/models.json"),
		Findings: OpenFindings(where.dir + "/engines.json"), Log: x.log, Kept: x.keep, Eager: eager})
	x.identified()
	return x
}

// detach saves and leaves the engine running.
func (h *house) detach() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.driver.Flush(ctx)
	h.driver.Close()
	if err := h.tier.Close(ctx); err != nil {
		h.t.Error(err)
	}
}

// TestEngineUnified drives an engine with its own defaults: one pool for all
// slots and a RAM cache, with which every request empties the other slots. The
// probe finds out and says what to change.
func TestEngineUnified(t *testing.T) {
	x, end := unmanaged(t, "tiny", "-np", "2", "-kvu")
	defer end()
	x.identified()
	c, ok := x.driver.Condition()
	if !ok || c.Streams != 1 || !strings.Contains(c.Warning, "-no-kvu") {
		t.Errorf("%+v", c)
	}
	x.detach()
}

// unmanaged is a house on an engine somebody started with flags of their own.
func unmanaged(t *testing.T, model string, flags ...string) (x *house, end func()) {
	t.Helper()
	dir := t.TempDir()
	s := settings(t, model)
	args := append([]string{"-m", s.Model, "--host", "127.0.0.1", "--port", "0", "--no-ui", "-c", "4096", "-t", "1", "--slot-save-path", dir}, flags...)
	cmd := exec.Command(s.Command, args...)
	cmd.Env = append(os.Environ(), "GGML_NO_BACKTRACE=1")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := ""
	for lines := bufio.NewScanner(out); at == "" && lines.Scan(); {
		_, at, _ = strings.Cut(lines.Text(), "listening on ")
	}
	go io.Copy(io.Discard, out)
	x = furnish(t, home{t.TempDir()})
	client := engine.NewClient(at, "")
	x.hand = dir
	x.driver = New(Options{Route: "local", Host: standing{client}, Tier: x.tier, Handover: dir, Weights: engine.OpenWeights(x.home.dir + "/w"),
		Findings: OpenFindings(x.home.dir + "/f"), Log: x.log})
	return x, func() {
		client.Close()
		cmd.Process.Kill()
		cmd.Wait() // killed: the error says so
	}
}

// TestEngineUnsupported meets an engine that keeps all rows of a sliding window,
// of which its files have the last ones only: gone back a little, a restored state
// answers wrongly and says nothing. It is tried out once and declined with the
// reason, goes on answering, and nothing is written or read for it.
func TestEngineUnsupported(t *testing.T) {
	first, second := turns(300)
	x, end := unmanaged(t, "window", "-np", "1", "--swa-full")
	defer end()
	x.identified()
	got, _ := x.driver.Condition()
	if got.Verdict != Unusable || got.Closed != kv.MissLayout || !strings.Contains(got.Why, "--swa-full") {
		t.Errorf("%+v", got)
	}
	for _, talk := range [][]map[string]any{first, second} {
		if r := x.chat(4, talk...); r.receipt.RestReason != string(kv.MissLayout) || r.text() == "" {
			t.Errorf("%+v %q", r.receipt, r.text())
		}
	}
	x.detach()
	if a := x.tier.Status().Activity; a.Writes != 0 || a.BytesRead != 0 || a.LastError != "" {
		t.Errorf("%+v", a)
	}
	known, err := os.ReadFile(x.home.dir + "/f")
	if err != nil || strings.Count(string(known), string(Unusable)) != 1 {
		t.Errorf("what was found out is not remembered once: %v %s", err, known)
	}
}
