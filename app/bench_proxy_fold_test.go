//go:build bench

package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/storage/ledger"
)

// The legs with folds: the same measurements on sessions whose history the
// model has folded, nests included, and what it takes to commit a fold.

// foldWish asks the upstream of the bench, in a user's words, to fold a range.
const foldWish = "FOLD "

// foldCall is the reply that folds what the last message asks for, "" when it
// asks for nothing or nothing can be folded.
func foldCall(body []byte) string {
	last := body[max(0, bytes.LastIndex(body, []byte(`"role":"assistant"`))):]
	at := bytes.LastIndex(last, []byte(foldWish))
	if at < 0 || !bytes.Contains(body, []byte(`"hf_compress"`)) {
		return ""
	}
	words, _, _ := strings.Cut(string(last[at+len(foldWish):]), ".")
	from, to, _ := strings.Cut(words, " ")
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"toolu_%s_%s","name":"hf_compress","input":{"content":[`+
		`{"startId":%q,"endId":%q,"summary":"What was asked for up to here was done and found to be in order, and no question is left open about any of it."}]}}],`+
		`"stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":20}}`, from, to, from, to)
}

// fold has a range folded and takes the reply into the list.
func (b *bench) fold(url string, c *conversation, from, to string) {
	c.msgs = append(c.msgs, fmt.Sprintf(`{"role":"user","content":"%s%s %s."}`, foldWish, from, to))
	b.post(url, c.id, c.body())
	c.msgs = append(c.msgs, `{"role":"assistant","content":[{"type":"text","text":"ok"}]}`)
}

// withFolds measures turns of sessions in mode on that hold a fold and a nest.
// A window is set for each leg: a share of it is the end that is never folded.
// The shortest conversation that can be nested is some 16 KB, of which 6 KB
// leave.
func (b *bench) withFolds() {
	route := func(name string, window int) string {
		return fmt.Sprintf("[routes.%s]\nurl = %q\nwindow = %d\n", name, b.up.URL, window)
	}
	h := startHoldfast(b.t, b.program, "on", "[fold]\neconomics = false\n", route("small", 16_000), route("large", 1_000_000))
	folded := func(l leg, route, last, nest string) leg {
		l.name, l.url = "folded-"+route, "http://"+h.addr+"/r/"+route+"/v1/messages"
		l.begin = func(c *conversation) {
			b.fold(l.url, c, "m00001", last)
			b.fold(l.url, c, "b1", nest)
			c.add("user")
			b.post(l.url, c.id, c.body())
		}
		return l
	}
	b.latency("2 KB turn that appends, folded session", folded(leg{elems: 40, text: 400, turns: 20, n: 1200}, "small", "m00014", "m00028"), 0.35, 1.5)
	b.latency("1 MB turn of 800 elements growing by two, folded session", folded(leg{elems: 800, text: 1200, turns: 40, n: 240}, "large", "m00400", "m00500"), 3, 8)
	if n := b.status(h).Traffic.Folded; n < 1200 {
		b.t.Errorf("%d turns carried a fold", n)
	}
}

// timedLedger keeps how long commits take, the wait for their turn apart.
type timedLedger struct {
	session.Ledger
	mu           sync.Mutex
	normal, fold []float64 // ms
}

func (l *timedLedger) Commit(ctx context.Context, c *session.Commit) error {
	start := time.Now()
	err := l.Ledger.Commit(ctx, c)
	took := float64((time.Since(start) - c.Waited).Microseconds()) / 1000
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil || c.Create:
	case c.Full: // asks for the sync that folds ask for
		l.fold = append(l.fold, took)
	case len(c.Elements) > 0:
		l.normal = append(l.normal, took)
	}
	return err
}

// The sessions of foldCommits.
const (
	foldSessions = 12
	foldElements = 300
	foldsEach    = 15 // every third takes in the fold before it
	foldRange    = 14 // elements; less text than this comes to is not folded
)

// foldCommits commits real folds through a chain of this process, in sessions
// of a few hundred rows, and normal turns between them.
func (b *bench) foldCommits() {
	dir := b.t.TempDir()
	db, err := ledger.Open(context.Background(), filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	timed := &timedLedger{Ledger: db}
	url, closeChain := b.chainOn(timed)
	disk := newDisk(b.t, dir)
	for s := range foldSessions {
		b.foldSession(url, fmt.Sprintf("commits-%d", s), disk)
	}
	closeChain()
	b.reportFolds(timed, disk)
}

// chainOn serves a chain in mode on from a ledger.
func (b *bench) chainOn(l session.Ledger) (url string, end func()) {
	cfg := config.Default()
	cfg.Rollout.Mode, cfg.Fold.Economics = config.On, false
	client := upstream.NewClient(func() []string { return nil })
	c, err := chain.New(context.Background(), chain.Options{Ledger: l, Config: func() *config.Config { return &cfg }, Upstream: client,
		Log: slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		b.t.Fatal(err)
	}
	proxy := httptest.NewServer(c)
	return proxy.URL + "/via/" + b.up.URL + "/v1/messages", func() { proxy.Close(); c.Close(); client.Close() }
}

// foldSession plays a session that folds and grows in turns, and syncs the disk
// between them.
func (b *bench) foldSession(url, id string, disk *disk) {
	c := newConversation(id, foldElements, 400, false)
	b.post(url, c.id, c.body())
	for i := range foldsEach {
		from := fmt.Sprintf("m%05d", foldRange*i+1)
		if i%3 == 2 {
			from = fmt.Sprintf("b%d", i)
		}
		time.Sleep(think)
		b.fold(url, c, from, fmt.Sprintf("m%05d", foldRange*(i+1)))
		c.add("user")
		time.Sleep(think)
		disk.sync()
		b.post(url, c.id, c.body())
		c.add("assistant")
	}
}

// reportFolds reports the commits of folds beside the normal ones, and beside
// what this disk takes for the sync that only a fold waits for.
func (b *bench) reportFolds(l *timedLedger, disk *disk) {
	if want := foldSessions * foldsEach; len(l.fold) != want {
		b.t.Errorf("%d folds were committed, want %d", len(l.fold), want)
	}
	if len(l.fold) == 0 || len(l.normal) == 0 {
		return
	}
	slices.Sort(disk.took)
	slices.Sort(l.fold)
	slices.Sort(l.normal)
	f50, f95, n50, n95 := at(l.fold, 0.5), at(l.fold, 0.95), at(l.normal, 0.5), at(l.normal, 0.95)
	b.report("commit p95, fold", f95, 5, "ms", fmt.Sprintf("p50 %.3f; normal in the same sessions p50 %.3f, p95 %.3f; ratio %.2f, %.2f; writing and syncing 64 KB in between p50 %.3f, p95 %.3f; %d folds, a third of them nests, in ledgers of %d rows",
		f50, n50, n95, f50/n50, f95/n95, at(disk.took, 0.5), at(disk.took, 0.95), len(l.fold), foldElements))
}

// disk keeps how long writes and syncs of 64 KB take, in ms.
type disk struct {
	t    *testing.T
	file *os.File
	took []float64
}

func newDisk(t *testing.T, dir string) *disk {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &disk{t: t, file: f}
}

func (d *disk) sync() {
	d.t.Helper()
	block := make([]byte, 64<<10)
	start := time.Now()
	if _, err := d.file.Write(block); err != nil {
		d.t.Fatal(err)
	}
	if err := d.file.Sync(); err != nil {
		d.t.Fatal(err)
	}
	d.took = append(d.took, float64(time.Since(start).Microseconds())/1000)
}
