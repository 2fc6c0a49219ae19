package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/wire/wiretest"
	"holdfast/storage/ledger"
)

// rig is a chain on a real ledger in a temporary folder, in front of an
// upstream that keeps every body it gets and answers a fixed reply.
type rig struct {
	route  string // the path of a named route; "" goes there by URL
	t      testing.TB
	path   string
	db     *ledger.DB
	chain  *chain.Chain
	proxy  *httptest.Server
	client *upstream.Client
	// serving counts handlers: a client may have its whole reply before the
	// handler is through.
	serving sync.WaitGroup
	// options changes what the chain is opened with.
	options func(*chain.Options)

	mu       sync.Mutex
	cfg      *config.Config
	degraded []session.DegradeView
	turns    []session.TurnView

	up *httptest.Server
	// bodies are what reached the upstream less our additions, whole all of it.
	bodies, whole [][]byte
	// answer replaces the fixed reply when set.
	answer http.HandlerFunc
}

func newRig(t testing.TB, mode config.RolloutMode) *rig {
	t.Helper()
	g := &rig{t: t, path: filepath.Join(t.TempDir(), "ledger.db")}
	cfg := config.Default()
	cfg.Rollout.Mode = mode
	cfg.Rollout.TripwirePercent = 100
	g.cfg = &cfg
	g.up = httptest.NewServer(http.HandlerFunc(g.serveUpstream))
	t.Cleanup(g.up.Close)
	g.open()
	t.Cleanup(func() { g.close() })
	return g
}

// open starts the chain on the file; close and open is a restart.
func (g *rig) open() {
	g.t.Helper()
	var err error
	if g.db, err = ledger.Open(context.Background(), g.path, ledger.Options{}); err != nil {
		g.t.Fatal(err)
	}
	g.client = upstream.NewClient(func() []string { return nil })
	o := chain.Options{Ledger: unhurried{g.db}, Tripwire: time.Minute, Upstream: g.client, Config: g.config,
		Log: slog.New(slog.NewTextHandler(g.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Publish: g.publish}
	if g.options != nil {
		g.options(&o)
	}
	if g.chain, err = chain.New(context.Background(), o); err != nil {
		g.t.Fatal(err)
	}
	g.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serving.Add(1)
		defer g.serving.Done()
		g.chain.ServeHTTP(w, r)
	}))
}

// settle waits for the work behind the replies.
func (g *rig) settle() {
	g.serving.Wait()
	g.chain.Idle()
}

func (g *rig) close() {
	if g.proxy == nil {
		return
	}
	g.proxy.Close()
	g.chain.Close()
	g.client.Close()
	if err := g.db.Close(); err != nil {
		g.t.Error(err)
	}
	g.proxy = nil
}

func (g *rig) restart() { g.close(); g.open() }

// forget closes the rig for good and lets go of all it held. A test that makes
// many rigs needs it: package testing holds on to a rig, by the cleanups, until
// the last of a test's parallel subtests has ended.
func (g *rig) forget() {
	g.close()
	g.up.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.db, g.chain, g.client, g.options, g.answer = nil, nil, nil, nil, nil
	g.cfg, g.degraded, g.turns, g.bodies, g.whole = nil, nil, nil, nil, nil
}

func (g *rig) config() *config.Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cfg
}

func (g *rig) setMode(m config.RolloutMode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cfg := *g.cfg
	cfg.Rollout.Mode = m
	g.cfg = &cfg
}

// folding is the kill switch.
func (g *rig) folding(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cfg := *g.cfg
	cfg.Fold.Enabled = on
	g.cfg = &cfg
}

func (g *rig) publish(kind string, v any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch v := v.(type) {
	case session.DegradeView:
		g.degraded = append(g.degraded, v)
	case session.TurnView:
		if kind == "turn.finished" {
			g.turns = append(g.turns, v)
		}
	}
}

func (g *rig) serveUpstream(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.bodies, g.whole = append(g.bodies, stripped(b)), append(g.whole, b)
	answer := g.answer
	g.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":2}}`)
}

// anthropicPath and chatPath are the two wires' model calls.
const (
	anthropicPath = "/v1/messages"
	chatPath      = "/v1/chat/completions"
)

// send posts a body and returns what reached the upstream and what came back.
func (g *rig) send(path string, body []byte, header ...string) (sent []byte, reply *http.Response) {
	g.t.Helper()
	req, err := http.NewRequest("POST", g.proxy.URL+"/via/"+g.up.URL+path, bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		g.t.Fatal(err)
	}
	g.settle()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.bodies) > 0 {
		sent = g.bodies[len(g.bodies)-1]
	}
	return sent, resp
}

// lastTurn is the newest finished turn.
func (g *rig) lastTurn() session.TurnView {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) == 0 {
		g.t.Fatal("no turn has finished")
	}
	return g.turns[len(g.turns)-1]
}

// stripped is a body less what Holdfast adds to every request that offers
// tools.
func stripped(body []byte) []byte {
	return wiretest.Without(body, fold.Paragraph, fold.ToolsJSON(fold.ShapeAnthropic, ""), fold.ToolsJSON(fold.ShapeChat, ""))
}

// toolless is a body of anthropicBody that offers no tools.
func toolless(body []byte) []byte {
	return bytes.Replace(body, []byte(`"tools":[{"name":"bash","input_schema":{"type":"object"}}],`), nil, 1)
}
