//go:build bench

package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// TestBenchKV runs the harnesses on a real engine and leaves run.json,
// requests.jsonl and report.md in an output folder of their own. A gate that is
// missed, or a request that failed, fails the run after its evidence is written.
//
// HOLDFAST_BENCH_HARNESS names the harnesses to run, comma between them;
// HOLDFAST_BENCH_OUT is the folder, HOLDFAST_BENCH_MODEL the model (bench),
// HOLDFAST_BENCH_TOKENS the length of the restart's conversation (4000),
// HOLDFAST_BENCH_TURNS the turns of the amplification's (20),
// HOLDFAST_BENCH_SECONDS what each of the four stretches lasts in which a client's
// tokens are timed (60), HOLDFAST_BENCH_THREADS the engine's threads (the CPUs).
// With the model agent, one thread and 5 seconds all of it takes minutes on a busy
// machine; its times then mean little.
func TestBenchKV(t *testing.T) {
	only := strings.Split(os.Getenv("HOLDFAST_BENCH_HARNESS"), ",")
	for _, name := range only {
		if name != "" && !slices.ContainsFunc(harnesses(), func(h harness) bool { return h.name == name }) {
			t.Fatalf("there is no harness %q", name)
		}
	}
	b := openBench(t)
	defer b.close()
	for _, h := range harnesses() {
		if only[0] == "" || slices.Contains(only, h.name) {
			t.Run(h.name, func(t *testing.T) {
				b.t, b.harness = t, h.name
				b.run.Harnesses[h.name] = map[string]any{}
				began := time.Now()
				h.run(b)
				b.figure("took_s", time.Since(began).Seconds())
				b.write()
			})
		}
	}
}

// harness is one of the things measured.
type harness struct {
	name string
	run  func(*kvBench)
}

func harnesses() []harness {
	return []harness{{"restart", (*kvBench).restart}, {"amplification", (*kvBench).amplification},
		{"lifecycle", (*kvBench).lifecycle}, {"clients", (*kvBench).clients}, {"latency", (*kvBench).latency}}
}

// kvBench is one run.
type kvBench struct {
	t        *testing.T
	all      *testing.T
	out      string
	harness  string
	settings engine.Settings
	tokens   int
	known    string  // folder of what was found out about engine and model
	perWord  float64 // tokens of the model's vocabulary for a word of prose
	talk     []map[string]any
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
	if b.settings.Threads, err = strconv.Atoi(env("HOLDFAST_BENCH_THREADS", strconv.Itoa(runtime.NumCPU()))); err != nil {
		t.Fatal(err)
	}
	b.settings.Context = 8192
	b.describe()
	b.calibrate()
	return b
}

// calibrate finds out how many words make a token, and freezes the conversation
// of the restart: the same one for everybody with the same model.
func (b *kvBench) calibrate() {
	b.known = b.t.TempDir()
	h := open(b.t, home{b.known}, b.settings)
	defer h.close()
	sample, err := h.identified().client.Tokenize(b.t.Context(), prose(1000, 0))
	if err != nil {
		b.t.Fatal(err)
	}
	b.perWord = float64(len(sample)) / 1000
	for n := b.words(b.tokens) / turnsOfTalk; ; n += 4 {
		b.talk = conversation(n)
		ids, err := promptOf(b.t.Context(), h.identified().client, mustBody(b.t, b.talk))
		if err != nil {
			b.t.Fatal(err)
		}
		if len(ids) >= b.tokens {
			break
		}
	}
	sum := sha256.Sum256(mustBody(b.t, b.talk))
	b.run.Manifest = hex.EncodeToString(sum[:])
}

// words is how much prose makes so many tokens.
func (b *kvBench) words(tokens int) int { return max(int(float64(tokens)/b.perWord), 1) }

// home is a new home that knows the engine already: finding out computes some
// two thousand tokens.
func (b *kvBench) home() home {
	dir := b.t.TempDir()
	for _, name := range []string{"engines.json", "models.json"} {
		data, err := os.ReadFile(filepath.Join(b.known, name))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	return home{dir}
}

// without is a house whose tier is off: the same engine, and requests as they are.
func (b *kvBench) without(s engine.Settings) *house {
	h := open(b.t, b.home(), s)
	o := h.driver.o
	o.Tier = nil
	h.driver.Close()
	h.driver = New(o)
	return h
}

// turnsOfTalk is how many turns the frozen conversation has.
const turnsOfTalk = 4

// conversation has n words in each of its turns and ends on the user's.
func conversation(n int) []map[string]any {
	talk := []map[string]any{say("system", "You keep the log of a harbour.")}
	for i := range turnsOfTalk {
		talk = append(talk, say("user", prose(n, i)))
		if i < turnsOfTalk-1 {
			talk = append(talk, say("assistant", "The clock stands. "+prose(8, i)))
		}
	}
	return talk
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

// write writes the evidence so far, so that a run that is ended leaves some.
func (b *kvBench) write() {
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
}

// close writes the evidence, then fails the run where a gate or a request did.
func (b *kvBench) close() {
	b.write()
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
	for _, h := range harnesses() {
		if figures := b.run.Harnesses[h.name]; figures != nil {
			data, _ := json.MarshalIndent(figures, "", "  ")
			fmt.Fprintf(&w, "\n## %s\n\n```json\n%s\n```\n", h.name, data)
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
	Gaps    []float64     `json:"-"` // ms between one text and the next
	Text    string        `json:"-"`
	Error   string        `json:"error,omitempty"`
}

// ask streams one request and notes it. A failure is noted and counted, and the
// run goes on.
func (b *kvBench) ask(h *house, phase string, n int, messages []map[string]any) sample {
	return b.askAs(h, "bench", phase, n, messages)
}

// askAs is ask in a conversation of its own.
func (b *kvBench) askAs(h *house, conversation, phase string, n int, messages []map[string]any) (s sample) {
	s.Harness, s.Phase = b.harness, phase
	if err := h.stream(&s, conversation, n, messages); err != nil {
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

func (h *house) stream(s *sample, conversation string, n int, messages []map[string]any) error {
	body, err := marshal(map[string]any{"messages": messages, "max_tokens": n, "temperature": 0, "seed": 42, "stream": true,
		"stream_options": map[string]bool{"include_usage": true}})
	if err != nil {
		return err
	}
	ctx := upstream.WithCall(context.Background(), upstream.Call{Conversation: conversation, Report: func(r usage.Receipt) { s.Receipt = r }})
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
	var last time.Time
	for lines.Scan() {
		var ev chatReply
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || json.Unmarshal([]byte(data), &ev) != nil {
			continue
		}
		for _, c := range ev.Choices {
			if c.Delta.Content == "" {
				continue
			}
			now := time.Now()
			if s.Text == "" {
				s.FirstMs = ms(now.Sub(began))
			} else {
				s.Gaps = append(s.Gaps, ms(now.Sub(last)))
			}
			s.Text += c.Delta.Content
			last = now
		}
		if ev.Usage != nil {
			s.Prompt, s.Cached = ev.Usage.Prompt, ev.Usage.Details.Cached
		}
	}
	s.TotalMs = ms(time.Since(began))
	if s.Prompt == 0 && lines.Err() == nil {
		return errors.New("the reply broke off")
	}
	return lines.Err()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile is the q-th part of values in order, 0 of none.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
