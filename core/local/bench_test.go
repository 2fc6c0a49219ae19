//go:build bench

package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// TestBenchKV runs the three harnesses on a real engine and leaves run.json,
// requests.jsonl and report.md in an output folder of their own. A gate that is
// missed, or a request that failed, fails the run after its evidence is written.
//
// HOLDFAST_BENCH_OUT is the folder, HOLDFAST_BENCH_MODEL the model (bench),
// HOLDFAST_BENCH_TOKENS the length of the restart's conversation (4000),
// HOLDFAST_BENCH_HARNESS one harness of restart, amplification, lifecycle.
func TestBenchKV(t *testing.T) {
	b := openBench(t)
	defer b.close()
	for _, h := range []struct {
		name string
		run  func(*kvBench)
	}{{"restart", (*kvBench).restart}, {"amplification", (*kvBench).amplification}, {"lifecycle", (*kvBench).lifecycle}} {
		if only := os.Getenv("HOLDFAST_BENCH_HARNESS"); only == "" || only == h.name {
			t.Run(h.name, func(t *testing.T) {
				b.t, b.harness = t, h.name
				b.run.Harnesses[h.name] = map[string]any{}
				h.run(b)
			})
		}
	}
}

// kvBench is one run.
type kvBench struct {
	t        *testing.T
	all      *testing.T
	out      string
	harness  string
	settings engine.Settings
	tokens   int
	run      runFile
	mu       sync.Mutex // guards requests
	requests *os.File
	failed   int
}

// runFile is run.json.
type runFile struct {
	Schema    int                       `json:"schema"`
	At        time.Time                 `json:"at"`
	Commit    string                    `json:"commit"`
	Engine    string                    `json:"engine_version"`
	Binary    string                    `json:"engine_sha256"`
	Model     string                    `json:"model_sha256"`
	ModelSize int64                     `json:"model_bytes"`
	Hardware  map[string]any            `json:"hardware"`
	Arguments []string                  `json:"engine_arguments"`
	Manifest  string                    `json:"conversation_sha256"`
	Harnesses map[string]map[string]any `json:"harnesses"`
	Gates     []gate                    `json:"gates"`
	Failed    int                       `json:"failed_requests"`
}

// gate is one bar and what came of it.
type gate struct {
	Harness string `json:"harness"`
	Name    string `json:"name"`
	Want    string `json:"want"`
	Got     string `json:"got"`
	Passed  bool   `json:"passed"`
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func openBench(t *testing.T) *kvBench {
	eager = false
	b := &kvBench{t: t, all: t, out: env("HOLDFAST_BENCH_OUT", filepath.Join("..", "..", "build", "out", "kv"))}
	if _, err := os.Stat(filepath.Join(b.out, "run.json")); err == nil {
		t.Fatalf("%s holds a run already; remove it, or set HOLDFAST_BENCH_OUT to another folder", b.out)
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.requests, err = os.OpenFile(filepath.Join(b.out, "requests.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
		t.Fatal(err)
	}
	if b.tokens, err = strconv.Atoi(env("HOLDFAST_BENCH_TOKENS", "4000")); err != nil {
		t.Fatal(err)
	}
	b.settings = settings(t, env("HOLDFAST_BENCH_MODEL", "bench"))
	b.settings.Threads, b.settings.Context = runtime.NumCPU(), 8192
	b.describe()
	return b
}

// describe notes what is measured, and on what.
func (b *kvBench) describe() {
	b.run = runFile{Schema: 1, At: time.Now().UTC(), Harnesses: map[string]map[string]any{}, Gates: []gate{}, Arguments: b.settings.Normal().Args("SLOTS")}
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=40").Output(); err == nil {
		b.run.Commit = strings.TrimSpace(string(out))
	}
	if out, err := exec.Command(b.settings.Command, "--version").CombinedOutput(); err == nil {
		b.run.Engine, _, _ = strings.Cut(string(out), "\n")
	}
	b.run.Binary, _ = fileSum(b.t, b.settings.Command)
	b.run.Model, b.run.ModelSize = fileSum(b.t, b.settings.Model)
	cpu := ""
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(data), "model name\t: ")
		cpu, _, _ = strings.Cut(rest, "\n")
	}
	load, _ := os.ReadFile("/proc/loadavg") // "" elsewhere
	b.run.Hardware = map[string]any{"cpu": cpu, "cpus": runtime.NumCPU(), "os": runtime.GOOS, "arch": runtime.GOARCH, "load_at_start": strings.TrimSpace(string(load))}
	text, _ := json.Marshal(b.conversation())
	sum := sha256.Sum256(text)
	b.run.Manifest = hex.EncodeToString(sum[:])
}

func fileSum(t *testing.T, name string) (sum string, size int64) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)), size
}

// close writes the evidence, then fails the run where a gate or a request did.
func (b *kvBench) close() {
	b.run.Failed = b.failed
	data, err := json.MarshalIndent(b.run, "", "\t")
	if err != nil {
		b.all.Error(err)
	}
	for name, text := range map[string][]byte{"run.json": append(data, '\n'), "report.md": b.report()} {
		if err := os.WriteFile(filepath.Join(b.out, name), text, 0o644); err != nil {
			b.all.Error(err)
		}
	}
	if err := b.requests.Close(); err != nil {
		b.all.Error(err)
	}
	b.all.Logf("%s\n%s", b.out, b.report())
	for _, g := range b.run.Gates {
		if !g.Passed {
			b.all.Errorf("%s: %s: %s, want %s", g.Harness, g.Name, g.Got, g.Want)
		}
	}
	if b.failed > 0 {
		b.all.Errorf("%d requests failed", b.failed)
	}
}

func (b *kvBench) report() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# KV tier on %s\n\n%s, commit %s, model %s (%d bytes)\n\n", b.run.Engine, b.run.Hardware["cpu"], b.run.Commit, b.run.Model[:12], b.run.ModelSize)
	fmt.Fprintf(&w, "| harness | gate | got | want | |\n|---|---|---|---|---|\n")
	for _, g := range b.run.Gates {
		verdict := "passed"
		if !g.Passed {
			verdict = "**missed**"
		}
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s |\n", g.Harness, g.Name, g.Got, g.Want, verdict)
	}
	for _, name := range []string{"restart", "amplification", "lifecycle"} {
		if figures := b.run.Harnesses[name]; figures != nil {
			data, _ := json.MarshalIndent(figures, "", "  ")
			fmt.Fprintf(&w, "\n## %s\n\n```json\n%s\n```\n", name, data)
		}
	}
	fmt.Fprintf(&w, "\nrequests failed: %d\n", b.failed)
	return w.Bytes()
}

func (b *kvBench) gate(name, want, got string, passed bool) {
	b.run.Gates = append(b.run.Gates, gate{b.harness, name, want, got, passed})
}

func (b *kvBench) figure(name string, v any) { b.run.Harnesses[b.harness][name] = v }

// sample is one line of requests.jsonl.
type sample struct {
	Harness string        `json:"harness"`
	Phase   string        `json:"phase"`
	FirstMs float64       `json:"first_ms"`
	TotalMs float64       `json:"total_ms"`
	Prompt  int64         `json:"prompt_tokens"`
	Cached  int64         `json:"cached_tokens"`
	Receipt usage.Receipt `json:"receipt"`
	Text    string        `json:"-"`
	Error   string        `json:"error,omitempty"`
}

// ask streams one request and notes it. A failure is noted and counted, and the
// run goes on.
func (b *kvBench) ask(h *house, phase string, n int, messages []map[string]any) (s sample) {
	s.Harness, s.Phase = b.harness, phase
	if err := h.stream(&s, n, messages); err != nil {
		s.Error = err.Error()
	}
	line, _ := json.Marshal(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Error != "" {
		b.failed++
	}
	if _, err := b.requests.Write(append(line, '\n')); err != nil {
		b.t.Error(err)
	}
	return s
}

func (h *house) stream(s *sample, n int, messages []map[string]any) error {
	body, err := marshal(map[string]any{"messages": messages, "max_tokens": n, "temperature": 0, "seed": 42, "stream": true,
		"stream_options": map[string]bool{"include_usage": true}})
	if err != nil {
		return err
	}
	ctx := upstream.WithCall(context.Background(), upstream.Call{Conversation: "bench", Report: func(r usage.Receipt) { s.Receipt = r }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	began := time.Now()
	resp, err := h.driver.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("status %d: %s", resp.StatusCode, data)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev chatReply
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || json.Unmarshal([]byte(data), &ev) != nil {
			continue
		}
		for _, c := range ev.Choices {
			if s.Text += c.Delta.Content; s.Text != "" && s.FirstMs == 0 {
				s.FirstMs = float64(time.Since(began).Microseconds()) / 1000
			}
		}
		if ev.Usage != nil {
			s.Prompt, s.Cached = ev.Usage.Prompt, ev.Usage.Details.Cached
		}
	}
	s.TotalMs = float64(time.Since(began).Microseconds()) / 1000
	return lines.Err()
}

// conversation is frozen: the same words everywhere, ending on the user's turn.
func (b *kvBench) conversation() []map[string]any {
	const parts = 4
	talk := []map[string]any{say("system", "You keep the log of a harbour.")}
	for i := range parts {
		talk = append(talk, say("user", prose(b.tokens/parts/2, i)))
		if i < parts-1 {
			talk = append(talk, say("assistant", "The clock stands. "+prose(8, i)))
		}
	}
	return talk
}

// restart fills turn by turn, restarts, restores exactly once, repeats warm, and
// computes the same prompt from nothing.
func (b *kvBench) restart() {
	where := home{b.t.TempDir()}
	talk := b.conversation()
	h := open(b.t, where, b.settings)
	for i := 2; i <= len(talk); i += 2 {
		b.ask(h, "fill", 32, talk[:i])
	}
	want := b.ask(h, "resident", 32, talk)
	h.close()
	began := time.Now()
	h = open(b.t, where, b.settings)
	ready := time.Since(began)
	eligible := h.stableTokens(talk)
	got := b.ask(h, "restore", 32, talk)
	fills := h.tier.Status().Activity.Fills
	var warm []float64
	for range 5 {
		warm = append(warm, b.ask(h, "warm", 32, talk).FirstMs)
	}
	h.close()
	h = open(b.t, home{b.t.TempDir()}, b.settings)
	cold := b.ask(h, "cold", 32, talk)
	h.close()
	ratio, share := cold.FirstMs/got.FirstMs, float64(got.Receipt.Restored)/float64(min(eligible, kv.Tokens(got.Prompt-1)))
	b.figure("first_ms", map[string]any{"cold": cold.FirstMs, "restored": got.FirstMs, "resident": want.FirstMs, "warm_p50": median(warm)})
	b.figure("tokens", map[string]any{"prompt": got.Prompt, "eligible": eligible, "restored": got.Receipt.Restored})
	b.figure("ready_s", ready.Seconds())
	b.gate("restored from disk", "disk, one fill", fmt.Sprintf("%s, %d fills", got.Receipt.Source, fills), got.Receipt.Source == usage.FromDisk && fills == 1)
	b.gate("faster to first token", "10.0x", fmt.Sprintf("%.1fx", ratio), ratio >= 10)
	b.gate("share of the eligible prefix", "98.0 %", fmt.Sprintf("%.1f %%", 100*share), share >= 0.98)
	b.gate("output equal to the uninterrupted run", "equal", fmt.Sprint(got.Text == want.Text), got.Text == want.Text)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// amplification grows conversations by unaligned turns.
func (b *kvBench) amplification() {
	for _, tokens := range []int{50, 300, 1000} {
		s := b.settings
		s.Slots, s.Context = 1, kv.Tokens(tokens*26+2048)
		h := open(b.t, home{b.t.TempDir()}, s)
		talk := []map[string]any{say("system", "You keep the log of a harbour.")}
		turns, _ := strconv.Atoi(env("HOLDFAST_BENCH_TURNS", "20"))
		for i := range turns {
			talk = append(talk, say("user", prose(tokens/2+i%3, i)))
			r := b.ask(h, fmt.Sprintf("turns of %d", tokens), 3, talk)
			talk = append(talk, say("assistant", r.Text))
			h.settled()
		}
		h.close()
		worst, payload, storable, records := 0.0, kv.Bytes(0), kv.Bytes(0), kv.Bytes(0)
		for _, k := range h.kept {
			payload, storable, records = payload+k.Payload, storable+k.Storable, records+k.Record
			if k.Storable > 0 {
				worst = max(worst, float64(k.Payload)/float64(k.Storable))
			}
		}
		total := float64(payload) / float64(max(storable, 1))
		name := fmt.Sprintf("%d turns of %d tokens", turns, tokens)
		b.figure(name, map[string]any{"spills": len(h.kept), "payload": payload, "storable": storable, "manifests": records, "worst": worst, "cumulative": total})
		b.gate(name+", worst spill", "1.10", fmt.Sprintf("%.3f", worst), worst <= 1.10 && len(h.kept) > 0)
		b.gate(name+", cumulative", "1.05", fmt.Sprintf("%.3f", total), total <= 1.05 && len(h.kept) > 0)
	}
}

// lifecycle walks a store through everything that happens to it.
func (b *kvBench) lifecycle() {
	where := home{b.t.TempDir()}
	talk := []map[string]any{say("user", prose(300, 1))}
	h := open(b.t, where, b.settings)
	b.ask(h, "empty root", 8, talk)
	h.settled()
	grown := append(slices.Clone(talk), say("assistant", "It stands."), say("user", prose(200, 2)))
	b.ask(h, "growth", 8, grown)
	h.settled()
	b.ask(h, "same-process repeat", 8, grown)
	a := h.tier.Status().Activity
	b.gate("same-process repeat reads nothing", "0 bytes", fmt.Sprintf("%d bytes", a.BytesRead), a.BytesRead == 0)
	h.close()
	h = open(b.t, where, b.settings)
	r := b.ask(h, "restart", 8, grown)
	b.gate("restart restores", "disk", string(r.Receipt.Source), r.Receipt.Source == usage.FromDisk)
	h.close()
	h = open(b.t, where, b.settings)
	b.wave(h, "identical fill wave", 20, grown)
	h.settled()
	a = h.tier.Status().Activity
	b.gate("identical fill wave", "1 fill", fmt.Sprintf("%d fills", a.Fills), a.Fills == 1)
	b.wave(h, "identical record wave", 20, []map[string]any{say("user", prose(250, 7))})
	h.settled()
	writes := h.tier.Status().Activity.Writes - a.Writes
	b.gate("identical record wave", "1 write", fmt.Sprintf("%d writes", writes), writes == 1)
	b.owners(h)
	b.lowSpace(h)
	h.close()
	b.clients()
}

func (b *kvBench) wave(h *house, phase string, n int, messages []map[string]any) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { b.ask(h, phase, 4, messages) })
	}
	all.Wait()
}

// owners clears and prunes under traffic and times the status meanwhile.
func (b *kvBench) owners(h *house) {
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var slowest time.Duration
	target := kv.Bytes(1 << 20)
	work.Go(func() {
		for ctx.Err() == nil {
			h.tier.Prune(ctx, tier.PruneRequest{Target: &target}) // cut short at the end
			h.tier.Clear(ctx, nil, false)
			time.Sleep(20 * time.Millisecond)
		}
	})
	work.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			h.tier.Status()
			slowest = max(slowest, time.Since(began))
			time.Sleep(5 * time.Millisecond)
		}
	})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for turn := range 3 {
				b.ask(h, "prune and clear under traffic", 4, []map[string]any{say("user", prose(100+40*turn, 20+i))})
			}
		})
	}
	clients.Wait()
	stop()
	work.Wait()
	b.gate("status under prune and clear", "100 ms", fmt.Sprintf("%.1f ms", float64(slowest.Microseconds())/1000), slowest < 100*time.Millisecond)
}

// lowSpace asks for more reserve than the disk has, and gives it back.
func (b *kvBench) lowSpace(h *house) {
	l := limits()
	l.Reserve = 1 << 60
	if err := h.tier.SetLimits(context.Background(), l); err != nil {
		b.t.Log(err) // it says that there is no room
	}
	before := h.tier.Status().Activity.Writes
	b.ask(h, "low space", 4, []map[string]any{say("user", prose(260, 31))})
	h.settled()
	low := h.tier.Status()
	b.gate("low space writes nothing", "0 writes, "+string(kv.StateReadOnlyLowSpace), fmt.Sprintf("%d writes, %s", low.Activity.Writes-before, low.Effective.State),
		low.Activity.Writes == before && low.Effective.State == kv.StateReadOnlyLowSpace)
	if err := h.tier.SetLimits(context.Background(), limits()); err != nil {
		b.t.Error(err)
	}
	b.ask(h, "low space over", 4, []map[string]any{say("user", prose(260, 32))})
	h.settled()
	over := h.tier.Status()
	b.gate("low space recovers", "active, a write", fmt.Sprintf("%s, %d writes", over.Effective.State, over.Activity.Writes-before),
		over.Effective.State == kv.StateActive && over.Activity.Writes > before)
}

// clients compares one, four and eight clients with the tier off and on.
func (b *kvBench) clients() {
	for _, n := range []int{1, 4, 8} {
		figures := map[string]any{}
		for _, on := range []bool{false, true} {
			h := open(b.t, home{b.t.TempDir()}, b.settings)
			name := "on"
			if !on {
				name = "off"
				o := h.driver.o
				o.Tier = nil
				h.driver.Close()
				h.driver = New(o)
			}
			phase := fmt.Sprintf("%d clients, %s", n, name)
			var mu sync.Mutex
			var first []float64
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					talk := []map[string]any{say("user", prose(100, 40+i))}
					for turn := range 4 {
						r := b.ask(h, phase, 4, talk)
						mu.Lock()
						first = append(first, r.FirstMs)
						mu.Unlock()
						talk = append(talk, say("assistant", r.Text), say("user", prose(40, 40+i+turn)))
					}
				})
			}
			all.Wait()
			h.close()
			slices.Sort(first)
			figures[name] = map[string]float64{"first_ms_p50": median(first), "first_ms_max": first[len(first)-1]}
		}
		b.figure(fmt.Sprintf("%d clients", n), figures)
	}
}
