package chain_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/seed"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/storage/ledger"
)

// crashEnv makes the test binary the child that is killed; its value is the
// ledger file.
const crashEnv = "HOLDFAST_CRASH_CHILD"

// unhurried is a ledger whose commits are never slow: a busy machine's are, and
// the full path would be right but not what most tests look at.
type unhurried struct{ session.Ledger }

func (u unhurried) Commit(ctx context.Context, c *session.Commit) error {
	err := u.Ledger.Commit(ctx, c)
	c.Waited += time.Hour
	return err
}

// TestCrashChild serves a chain until its parent kills it or goes away.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashEnv)
	if path == "" {
		return // run as a test like any other
	}
	db, err := ledger.Open(context.Background(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Rollout.Mode = config.On
	c, err := chain.New(context.Background(), chain.Options{Ledger: unhurried{db}, Config: func() *config.Config { return &cfg },
		Upstream: upstream.NewClient(func() []string { return nil }), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(ln, c)
	fmt.Printf("serving %s\n", ln.Addr())
	io.Copy(io.Discard, os.Stdin) // ends with the parent
}

// crasher drives one ledger file through many lives.
type crasher struct {
	t    *testing.T
	path string
	up   *httptest.Server
	twin *rig
	stop atomic.Bool
	// arrived has one for every request that reached the upstream.
	arrived chan struct{}

	mu sync.Mutex
	// want are the bodies of an uninterrupted run, by step name, and folds the
	// steps in which its model folded.
	want    map[string][]string
	folds   map[string]bool
	sent    int
	folded  int
	putBack int
	retried atomic.Int64
}

const stepHeader = "X-Step"

func (c *crasher) serveUpstream(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return // the child died in the middle of sending
	}
	step := r.Header.Get(stepHeader)
	c.arrived <- struct{}{}
	c.mu.Lock()
	want := c.want[step]
	c.sent++
	if strings.Contains(string(b), "Topic: "+step) {
		c.folded++
	}
	c.mu.Unlock()
	if got := public(c.t, b); !slices.Contains(want, got) {
		n := commonPrefix(got, want[len(want)-1])
		c.t.Errorf("%s: from byte %d on\nsent %s\nwant %s", step, n, clipped(got[n:]), clipped(want[len(want)-1][n:]))
	}
	c.reply(w, step, b)
}

// reply is the model's: it folds once in a step that asks for it, and whether it
// did is read from the conversation, as models do.
func (c *crasher) reply(w http.ResponseWriter, step string, body []byte) {
	s := said{text: "answer after " + step}
	c.mu.Lock()
	folds := c.folds[step]
	c.mu.Unlock()
	asked := body[max(0, bytes.LastIndex(body, []byte(`"content":"now fold"`))):]
	if folds && !bytes.Contains(body, []byte("Topic: "+step)) {
		s = said{calls: []use{{"own_look", "hf_status", `{"view":"messages","limit":200}`}}}
		if at := bytes.Index(asked, []byte("Messages:")); at >= 0 {
			names := refs.FindAllStringSubmatch(string(asked[at:]), 6)
			s = said{calls: []use{{"own_fold", "hf_compress", fmt.Sprintf(`{"topic":%q,"content":[{"startId":%q,"endId":%q,"summary":%q}]}`,
				step, names[0][1], names[len(names)-1][1], summary)}}}
		}
	}
	(&model{}).anthropicStream(w, s)
}

// public is a body without what we add and without private rounds: a reply that
// was cut off is asked for again, with the fold that it made and without the
// rounds it made it in.
func public(t *testing.T, b []byte) string {
	b = stripped(b)
	body, err := wire.Cut(b, anthropic.Codec{}.List())
	if err != nil {
		t.Error(err)
		return string(b)
	}
	first, last := body.Elements[0], body.Elements[len(body.Elements)-1]
	out := string(b[:first.Start])
	for i := range body.Elements {
		if e := body.Element(i); !bytes.Contains(e, []byte(`"own_`)) {
			out += string(e) + "\n"
		}
	}
	return out + string(b[last.End:])
}

// client is one agent: it plays steps and repeats the one whose reply it did
// not get whole.
type client struct {
	c        *crasher
	r        *rand.Rand
	n        int // client number
	sessions int // so far
	steps    int // so far
	k        convo
	rewound  []string
	reply    string // of a step that folded, which the client has next
	// due are the steps the twin has played and the child has not; again says
	// that the child may have seen the first of them.
	due   []step
	again bool
}

// step is one request.
type step struct {
	name, id string
	body     []byte
}

// ahead is how many steps the twin is ahead of the child when one is started.
const ahead = 60

// maxList is where a client starts a new session.
const maxList = 24

// next changes the list as a client would: a new turn, a prune, an edit, a
// rewind, or the way back from one. None of it needs a re-stamp, which runs
// behind the reply and may or may not happen before the kill.
func (cl *client) next() {
	k := &cl.k
	if cl.steps == 0 || len(k.msgs) > maxList {
		cl.sessions++
		cl.rewound, cl.reply = nil, ""
		*k = convo{id: fmt.Sprintf("crash-%d-%d", cl.n, cl.sessions)}
	}
	cl.steps++
	n := len(k.msgs)
	folds := false
	switch op := cl.r.IntN(12); {
	case cl.reply != "":
		k.msgs = append(k.msgs, fmt.Sprintf(`{"role":"assistant","content":[{"text":%q,"type":"text"}]}`, cl.reply), user(fmt.Sprintf("question %d", cl.steps)))
		cl.rewound, cl.reply = nil, ""
	case op >= 9 && n > 8:
		k.msgs = append(slices.Clone(k.msgs), assistant(fmt.Sprintf("answer %d", cl.steps)), user("now fold"))
		cl.rewound, folds = nil, true
	case op == 0 && n > 5:
		at := 1 + cl.r.IntN(n-3)
		k.msgs, cl.rewound = slices.Delete(slices.Clone(k.msgs), at, at+1), nil
	case op == 1 && n > 5: // an edit at the head that reaches into a fold is a compaction, and re-stamps
		k.msgs, cl.rewound = slices.Clone(k.msgs), nil
		k.msgs[3+cl.r.IntN(n-4)] = user(fmt.Sprintf("edited in step %d", cl.steps))
	case op == 2 && n > 4:
		cut := n - 1 - cl.r.IntN(3)
		cl.rewound = k.msgs[cut:]
		k.msgs = append(slices.Clone(k.msgs[:cut]), user(fmt.Sprintf("instead in step %d", cl.steps)))
	case op == 3 && cl.rewound != nil:
		k.msgs = append(slices.Clone(k.msgs[:n-1]), cl.rewound...)
		cl.rewound = nil
	default:
		cl.rewound = nil
		if n > 0 {
			k.msgs = append(k.msgs, assistant(fmt.Sprintf("answer %d", cl.steps)))
		}
		k.msgs = append(k.msgs, user(fmt.Sprintf("question %d: %s", cl.steps, long("the file", 1500))))
	}
	name := fmt.Sprintf("%s step %d", k.id, cl.steps)
	if folds {
		cl.reply = "answer after " + name
		cl.c.mu.Lock()
		cl.c.folds[name] = true
		cl.c.mu.Unlock()
	}
	cl.expect(step{name, k.id, anthropicBody(k.msgs...)})
}

// expect plays a step on the twin.
func (cl *client) expect(s step) {
	twin := cl.c.twin
	before := len(twin.whole)
	twin.setAnswer(func(w http.ResponseWriter, _ *http.Request) { cl.c.reply(w, s.name, twin.lastWhole()) })
	twin.send(anthropicPath, s.body, sessionHeader, s.id)
	if turn := twin.lastTurn(); turn.Path != session.PathSnapshot {
		cl.c.t.Errorf("%s: the twin took path %s, gate %q", s.name, turn.Path, turn.Gate)
	}
	cl.due = append(cl.due, s)
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	for _, b := range twin.whole[before:] {
		cl.c.want[s.name] = append(cl.c.want[s.name], public(cl.c.t, b))
		if !bytes.Equal(stripped(b), s.body) {
			cl.c.putBack++
		}
	}
}

// run plays until the child dies.
func (cl *client) run(ctx context.Context, addr string) {
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	for len(cl.due) > 0 && !cl.c.stop.Load() {
		if cl.again {
			cl.c.retried.Add(1)
		}
		if cl.again = !cl.due[0].post(ctx, h, addr, cl.c.up.URL); cl.again {
			return
		}
		cl.due = cl.due[1:]
	}
}

// post sends a step and reports whether its reply came whole.
func (s *step) post(ctx context.Context, h *http.Client, addr, up string) bool {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/via/"+up+anthropicPath, bytes.NewReader(s.body))
	if err != nil {
		return false
	}
	req.Header.Set(sessionHeader, s.id)
	req.Header.Set(stepHeader, s.name)
	resp, err := h.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(b), "message_stop")
}

// TestCrash kills a process that serves, at random moments, and holds what is
// left against a run that was never interrupted: every ledger verifies, and
// every body that leaves afterwards is the one the twin sent. HOLDFAST_KILLS
// sets how often; the seed is that of the clients' programs.
func TestCrash(t *testing.T) {
	t.Parallel()
	kills, seed := envInt("HOLDFAST_KILLS", 15), seed.Of(t)
	c := &crasher{t: t, path: filepath.Join(t.TempDir(), "ledger.db"), arrived: make(chan struct{}, 1<<16), want: map[string][]string{}, folds: map[string]bool{}}
	c.up = httptest.NewServer(http.HandlerFunc(c.serveUpstream))
	defer c.up.Close()
	c.twin = newRig(t, config.On)
	c.twin.options = func(o *chain.Options) { o.Ledger = unhurried{o.Ledger} }
	c.twin.restart()
	clients := make([]*client, 4)
	for i := range clients {
		clients[i] = &client{c: c, n: i, r: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	r := rand.New(rand.NewPCG(seed, 99))
	checked := int64(0)
	for i := range kills {
		for _, cl := range clients {
			for len(cl.due) < ahead {
				cl.next()
			}
		}
		c.live(clients, r.IntN(60), time.Duration(r.IntN(4000))*time.Microsecond)
		if checked = c.check(checked); t.Failed() {
			t.Fatalf("after kill %d", i+1)
		}
	}
	t.Logf("%d kills, %d requests, %d of %d steps that fold, %d bodies other than the client's, %d steps repeated after a kill, %d bytes of ledger checked", kills, c.sent, c.folded, len(c.folds), c.putBack, c.retried.Load(), size(t, c.path))
	if c.putBack == 0 || c.folded == 0 || c.retried.Load() == 0 {
		t.Error("the programs prove nothing")
	}
}

// live starts the child, lets the clients at it and kills it some time after so
// many requests have come through.
func (c *crasher) live(clients []*client, requests int, after time.Duration) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), crashEnv+"="+c.path)
	cmd.Stderr = c.t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "serving ")
	if err != nil || !ok {
		c.t.Fatalf("the child said %q, %v", line, err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop.Store(false)
	for len(c.arrived) > 0 {
		<-c.arrived
	}
	var all sync.WaitGroup
	for _, cl := range clients {
		all.Go(func() { cl.run(ctx, addr) })
	}
	played := make(chan struct{})
	go func() { all.Wait(); close(played) }()
	for range requests {
		select {
		case <-c.arrived:
		case <-played:
		}
	}
	time.Sleep(after)
	cmd.Process.Kill()
	c.stop.Store(true)
	cmd.Wait()
	<-played
	cancel()
}

// check opens the file as it was left and verifies every ledger, and every turn
// newer than the last check; it returns the newest.
func (c *crasher) check(after int64) int64 {
	c.t.Helper()
	db, err := ledger.Open(context.Background(), c.path, ledger.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	newest := db.NextTurn() - 1
	g := &rig{t: c.t, path: c.path}
	for _, id := range ledgersOf(c.t, c.path) {
		turns := slices.DeleteFunc(g.turnsOf(id), func(n int64) bool { return n <= after })
		r, err := chain.Verify(context.Background(), db, id, turns)
		if err != nil || !r.OK() || r.Red != "" {
			c.t.Errorf("verify %s: %v %+v", id, err, r)
		}
	}
	return newest
}

func size(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
