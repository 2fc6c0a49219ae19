//go:build bench

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/core/demo"
)

// The proxy bench holds Holdfast against a bare Go reverse proxy in one run:
// the same requests, in turn, through both, each proxy a process of its own.
// Figures are reported against the bars of the design, never asserted.

const bareEnv = "HOLDFAST_BENCH_BARE"

// TestMain makes the test binary serve as the bare proxy when asked to.
func TestMain(m *testing.M) {
	if target := os.Getenv(bareEnv); target != "" {
		serveBare(target)
		return
	}
	os.Exit(m.Run())
}

// serveBare is the reverse proxy of the standard library, flushing at once. It
// prints its address and serves until it is killed.
func serveBare(target string) {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	p.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, p))
}

// bench is one run: two proxies in front of one upstream.
type bench struct {
	t              *testing.T
	up             *httptest.Server
	bare, holdfast string // base URLs
	program        string
	h              *holdfast
	client         *http.Client
	lines          []line
}

// line is one figure against its bar.
type line struct {
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Bar    float64 `json:"bar"`
	Unit   string  `json:"unit"`
	Met    bool    `json:"met"`
	Detail string  `json:"detail"`
}

func (b *bench) report(what string, value, bar float64, unit, detail string) {
	b.lines = append(b.lines, line{what, value, bar, unit, value <= bar, detail})
}

func TestBenchProxy(t *testing.T) {
	b := &bench{t: t, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	b.up = httptest.NewServer(http.HandlerFunc(benchUpstream))
	defer b.up.Close()
	b.program = buildProgram(t)
	b.h = startHoldfast(t, b.program, "shadow")
	b.bare = b.startBare() + "/v1/messages"
	b.holdfast = "http://" + b.h.addr + "/via/" + b.up.URL + "/v1/messages"

	time.Sleep(2 * time.Second)
	idle := rss(t, b.h)
	b.report("idle resident memory, headless", idle, 40, "MB", "")
	b.latency("2 KB turn that appends", leg{name: "2", url: b.holdfast, elems: 4, text: 400, turns: 40, n: 1200}, 0.35, 1.5)
	b.latency("1 MB turn of 800 elements growing by two", leg{name: "1", url: b.holdfast, elems: 800, text: 1200, turns: 40, n: 240}, 3, 8)
	b.commits()
	b.firstToken()
	b.withFolds()
	b.foldCommits()
	b.manySessions()
	b.ledgerSize()
	b.print()
}

func (b *bench) startBare() string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareEnv+"="+b.up.URL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	if err != nil {
		b.t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(string(buf[:n]))
}

const benchReply = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":2}}`

// benchUpstream answers at once; a request for a stream gets thirty events,
// the first without delay.
func benchUpstream(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if call := foldCall(body); call != "" {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, call)
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, benchReply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	fmt.Fprintf(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude-sonnet-4-5\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n")
	flush()
	for range 30 {
		fmt.Fprintf(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n")
		flush()
	}
	fmt.Fprintf(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":30}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	flush()
}

// conversation grows by an answer and a question each turn.
type conversation struct {
	id, filler string
	stream     bool
	msgs       []string
}

func newConversation(id string, elems, text int, stream bool) *conversation {
	c := &conversation{id: id, filler: strings.Repeat("lorem ipsum ", text/12), stream: stream}
	for i := range elems {
		c.add([]string{"user", "assistant"}[i%2])
	}
	return c
}

func (c *conversation) add(role string) {
	c.msgs = append(c.msgs, fmt.Sprintf(`{"role":%q,"content":"%s %d %s"}`, role, c.id, len(c.msgs), c.filler))
}

func (c *conversation) body() []byte {
	return []byte(fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":%t,"tools":[{"name":"bash","input_schema":{"type":"object"}}],"messages":[%s]}`, c.stream, strings.Join(c.msgs, ",")))
}

// post sends a body and returns the time to the first byte of the reply's body
// and to its end, in ms.
func (b *bench) post(url, id string, body []byte) (first, total float64) {
	req, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Claude-Code-Session-Id", id)
	start := time.Now()
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		b.t.Fatal(err)
	}
	first = float64(time.Since(start).Microseconds()) / 1000
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("status %d", resp.StatusCode)
	}
	return first, float64(time.Since(start).Microseconds()) / 1000
}

// think is the pause between two requests: an agent's is longer, the
// bookkeeping behind a reply must not fall into the next measurement.
const think = 3 * time.Millisecond

// leg is one way of measuring added latency: conversations of so many elements
// of so much text, n turns in all, a new conversation every so many.
type leg struct {
	name, url             string
	elems, text, turns, n int
	stream                bool
	// begin is what is said in a conversation before it is measured; nil for
	// its elements alone.
	begin func(c *conversation)
}

// pairs plays turns through both proxies, swapping who goes first, and returns
// sorted times. First sights are not counted.
func (b *bench) pairs(l leg) (bare, holdfast []float64) {
	var c *conversation
	for i := range l.n {
		if i%l.turns == 0 {
			c = newConversation(fmt.Sprintf("%s-%d", l.name, i), l.elems, l.text, l.stream)
			b.post(l.url, c.id, c.body())
			if l.begin != nil {
				l.begin(c)
			}
			b.post(b.bare, c.id, c.body())
			time.Sleep(100 * time.Millisecond)
		}
		c.add("assistant")
		c.add("user")
		body := c.body()
		for k := range 2 {
			time.Sleep(think)
			viaHoldfast := (i+k)%2 == 0
			url := b.bare
			if viaHoldfast {
				url = l.url
			}
			first, total := b.post(url, c.id, body)
			if l.stream {
				total = first
			}
			if viaHoldfast {
				holdfast = append(holdfast, total)
			} else {
				bare = append(bare, total)
			}
		}
	}
	slices.Sort(bare)
	slices.Sort(holdfast)
	return bare, holdfast
}

func at(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]
}

func (b *bench) latency(what string, l leg, bar50, bar99 float64) {
	bare, holdfast := b.pairs(l)
	for _, q := range []struct {
		name string
		p    float64
		bar  float64
	}{{"p50", 0.5, bar50}, {"p99", 0.99, bar99}} {
		x, y := at(bare, q.p), at(holdfast, q.p)
		b.report("added latency, "+what+", "+q.name, y-x, q.bar, "ms", fmt.Sprintf("bare %.2f, Holdfast %.2f, ratio %.2f, n %d", x, y, y/x, l.n))
	}
}

func (b *bench) firstToken() {
	bare, holdfast := b.pairs(leg{name: "stream", url: b.holdfast, elems: 4, text: 400, turns: 20, n: 600, stream: true})
	x, y := at(bare, 0.5), at(holdfast, 0.5)
	b.report("added time to first token, streaming, p50", y-x, 0.3, "ms", fmt.Sprintf("bare %.2f, Holdfast %.2f, of which the commit is in the request's own latency", x, y))
}

// commits reads the commit percentiles of the turns before.
func (b *bench) commits() {
	s := b.status(b.h)
	b.report("commit p95, normal", s.Chain.CommitMs.P95, 1, "ms", fmt.Sprintf("p50 %.3f, the last 512 commits", s.Chain.CommitMs.P50))
}

// chainStatus is what the program's status says of its chain.
type chainStatus struct {
	Chain struct {
		CommitMs struct{ P50, P95 float64 } `json:"commit_ms"`
	} `json:"chain"`
	Traffic struct {
		Folded int `json:"folded"`
	} `json:"traffic"`
}

func (b *bench) status(h *holdfast) (s chainStatus) {
	if err := json.Unmarshal(h.get(b.t, "/hf/v1/status"), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// manySessions stores 1,000 sessions and looks at the memory of a process that
// did, and of one started on the file.
func (b *bench) manySessions() {
	h := startHoldfast(b.t, b.program, "shadow")
	url := "http://" + h.addr + "/via/" + b.up.URL + "/v1/messages"
	time.Sleep(2 * time.Second)
	before := rss(b.t, h)
	for i := range 1000 {
		c := newConversation(fmt.Sprintf("many-%d", i), 20, 600, false)
		for range 3 {
			b.post(url, c.id, c.body())
			c.add("assistant")
			c.add("user")
		}
	}
	time.Sleep(12 * time.Second) // idle: nothing for two of the program's own rounds
	after := rss(b.t, h)
	b.report("memory at rest after 3,000 turns in 1,000 sessions, over idle", after-before, 10, "MB", fmt.Sprintf("%.1f MB idle before, %.1f MB after", before, after))
	h.stop(b.t)
	h.start(b.t)
	time.Sleep(12 * time.Second)
	stored := rss(b.t, h)
	b.report("memory with 1,000 sessions stored, over idle", stored-before, 10, "MB", fmt.Sprintf("%.1f MB idle when started on that ledger", stored))
}

// rss is a process's resident memory in MB.
func rss(t *testing.T, h *holdfast) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(raw), "\n") {
		if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				t.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// ledgerSize plays a session of 1,000 turns and measures the file after a
// clean end.
func (b *bench) ledgerSize() {
	const turns = 1000
	model := httptest.NewServer(demo.NewModel(demo.Options{Script: demo.ScriptOf(demo.Session(turns))}))
	defer model.Close()
	h := startHoldfast(b.t, b.program, "on")
	sum, err := demo.Play(context.Background(), "http://"+h.addr+"/via/"+model.URL, b.client, demo.PlayOptions{Turns: turns}, func(demo.TurnResult) {})
	if err != nil {
		b.t.Fatal(err)
	}
	h.stop(b.t)
	var size int64
	files, err := filepath.Glob(filepath.Join(h.home, "ledger.db*"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range files {
		if fi, err := os.Stat(f); err == nil {
			size += fi.Size()
		}
	}
	b.report("ledger size, 1,000-turn session", float64(size)/(1<<20), 15, "MB", fmt.Sprintf("%d turns, %.0f MB of bodies sent", sum.Turns, float64(sum.Sent)/(1<<20)))
}

// print writes the table and keeps it under build/out.
func (b *bench) print() {
	slices.SortStableFunc(b.lines, func(x, y line) int { return cmp.Compare(x.What, y.What) })
	for _, l := range b.lines {
		mark := "met"
		if !l.Met {
			mark = "MISSED"
		}
		b.t.Logf("%-62s %8.3f %-3s bar %6.2f  %-6s %s", l.What, l.Value, l.Unit, l.Bar, mark, l.Detail)
	}
	out, err := json.MarshalIndent(b.lines, "", "  ")
	if err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join("..", "build", "out")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bench-proxy.json"), out, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
