package tier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/storage/durable"
	"holdfast/storage/segment"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Sizes for tests; every MiB is a lot of blocks of a model this small.
const (
	kib kv.Bytes = 1 << 10
	mib kv.Bytes = 1 << 20
)

// clock is time that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// model and state of the tests' engine; the number makes another one.
func model(n byte) kv.ModelIdentity {
	id, err := kv.Model{Weights: content.Of([]byte{n})}.Identity()
	if err != nil {
		panic(err)
	}
	return id
}

func state(n byte) kv.StateIdentity {
	return kv.State{Model: model(n), Engine: "llama-server", Build: "b1", Version: 4, CacheK: "f16", CacheV: "f16", Context: 4096, ByteOrder: "little"}.Identity()
}

// layout is a model of two layers: a row is 512 bytes, a block 32 KiB.
func layout() kv.Layout {
	run := kv.Run{Type: 1, Row: 128}
	return kv.Layout{Version: slotfile.Version, Memory: kv.Dense, Layers: 2, Runs: []kv.Run{run, run, run, run}}
}

// rows are the bytes of one block: they follow from all tokens so far, as an
// engine's do.
func rows(seed uint64, tokens []kv.Token, from, to int, size kv.Bytes) []byte {
	h := seed
	for _, t := range tokens[:to] {
		h = h*6364136223846793005 + uint64(t) + 1
	}
	r := rand.New(rand.NewPCG(h, uint64(from)))
	b := make([]byte, size)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}

// manifestOf describes a state of those tokens, with the bytes of its pieces.
func manifestOf(seed uint64, l kv.Layout, tokens []kv.Token) (*kv.Manifest, [][]byte) {
	m := &kv.Manifest{Model: model(1), State: state(1), Codec: kv.Raw(), Layout: l, Streams: 1, Tokens: tokens}
	var pieces [][]byte
	for from := 0; from < len(tokens); from += kv.BlockTokens {
		to := min(from+kv.BlockTokens, len(tokens))
		b := rows(seed, tokens, from, to, l.BlockBytes(to-from))
		pieces = append(pieces, b)
		if to-from == kv.BlockTokens {
			m.Blocks = append(m.Blocks, kv.BlockOf(b))
		} else {
			m.Tail = kv.BlockOf(b)
		}
	}
	return m, pieces
}

// slotFile writes what an engine would save of those tokens.
func slotFile(path string, seed uint64, l kv.Layout, tokens []kv.Token) (size int64, err error) {
	m, pieces := manifestOf(seed, l, tokens)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	a, err := slotfile.Assemble(f, m, kv.FillPlan{Tokens: len(tokens)}, slotfile.Target{Streams: 1})
	for i, p := range pieces {
		if err == nil {
			err = a.Put(i, p)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return a.Size(), a.Finish()
}

// engine is what saves: a map of slots.
type engine struct {
	dir  string
	seed uint64

	mu     sync.Mutex
	slots  map[int][]kv.Token
	saves  int
	before func() error                  // runs before a save, may fail it
	after  func(path string, size int64) // may spoil the file
	lie    int                           // added to the tokens it says it saved
	extra  int64                         // bytes that after adds, and it admits to
}

func (e *engine) Save(_ context.Context, slot int) (path string, tokens int, size int64, err error) {
	e.mu.Lock()
	held := e.slots[slot]
	e.saves++
	n := e.saves
	before, after, lie, extra := e.before, e.after, e.lie, e.extra
	e.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return "", 0, 0, err
		}
	}
	path = filepath.Join(e.dir, fmt.Sprintf("save-%d", n))
	if size, err = slotFile(path, e.seed, layout(), held); err == nil && after != nil {
		after(path, size)
	}
	return path, len(held) + lie, size + extra, err
}

func (e *engine) hold(slot int, tokens []kv.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slots[slot] = tokens
}

// talk is n tokens of a conversation; the same number begins the same way.
func talk(conversation, n int) []kv.Token {
	r := rand.New(rand.NewPCG(uint64(conversation), 99))
	out := make([]kv.Token, n)
	for i := range out {
		out[i] = kv.Token(r.IntN(30000))
	}
	return out
}

// lab is a manager over a real store, with an engine.
type lab struct {
	*Manager
	t     testing.TB
	dir   string
	store *segment.Store
	eng   *engine
	clock *clock
	told  *notices
	fill  int
}

// notices are the transitions told.
type notices struct {
	mu  sync.Mutex
	all []Transition
}

func (n *notices) add(t Transition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, t)
}

func (n *notices) states() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.all {
		s := string(t.State)
		if t.Reason != "" && t.Reason != s {
			s += " " + t.Reason
		}
		out = append(out, s)
	}
	return out
}

// quick is the machine's file system without waiting for its disk: what stops
// are about is tested on faultfs.
type quick struct{ durable.OS }

func (q quick) Create(name string, perm fs.FileMode) (durable.File, error) {
	f, err := q.OS.Create(name, perm)
	return quickFile{f}, err
}

func (quick) SyncDir(string) error { return nil }

type quickFile struct{ durable.File }

func (quickFile) Sync() error { return nil }

// setup is what a lab may be given.
type setup struct {
	dir    string
	limits Limits
	fs     durable.FS
	wrap   func(*segment.Store) (Segments, Manifests)
	clock  *clock
	seed   uint64
	memory kv.Bytes
}

func roomy() Limits { return Limits{Budget: 64 * mib, Reserve: 1, MinTokens: 64} }

// newLab opens a store and waits until it is ready.
func newLab(t testing.TB, o setup) *lab {
	t.Helper()
	l := &lab{t: t, dir: o.dir, clock: o.clock, told: &notices{}}
	if l.dir == "" {
		l.dir = filepath.Join(t.TempDir(), "kv")
	}
	if l.clock == nil {
		l.clock = newClock()
	}
	if o.fs == nil {
		o.fs = quick{}
	}
	if o.limits == (Limits{}) {
		o.limits = roomy()
	}
	l.eng = &engine{dir: t.TempDir(), seed: o.seed, slots: map[int][]kv.Token{}}
	var err error
	l.Manager, err = Open(context.Background(), Options{
		Limits: o.limits, Now: l.clock.now, Notify: l.told.add, Memory: o.memory,
		Store: func(context.Context) (Segments, Manifests, error) {
			s, err := segment.Open(l.dir, segment.Options{FS: o.fs})
			if err != nil {
				return nil, nil, err
			}
			l.store = s
			if o.wrap != nil {
				a, b := o.wrap(s)
				return a, b, nil
			}
			return s, s, nil
		},
	})
	must(t, err)
	<-l.Ready()
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// spill queues a state and waits for what became of it.
func (l *lab) spill(slot int, tokens []kv.Token, with ...func(*Request)) (Spilled, error) {
	l.t.Helper()
	l.eng.hold(slot, tokens)
	type result struct {
		s   Spilled
		err error
	}
	done := make(chan result, 1)
	r := Request{Model: model(1), State: state(1), Slots: l.eng, Slot: slot, Tokens: tokens, Session: fmt.Sprint("s", slot),
		Done: func(s Spilled, err error) { done <- result{s, err} }}
	for _, w := range with {
		w(&r)
	}
	if err := l.Spill(r); err != nil {
		return Spilled{}, err
	}
	got := <-done
	return got.s, got.err
}

func (l *lab) lookup(tokens []kv.Token) *Hit {
	return l.Lookup(Query{Model: model(1), State: state(1), Tokens: tokens})
}

// restore does everything a driver does, and compares the file with what the
// engine would have saved at that length.
func (l *lab) restore(tokens []kv.Token) (*Hit, error) {
	l.t.Helper()
	h := l.lookup(tokens)
	if !h.Found() {
		return h, &Miss{Reason: h.Miss}
	}
	f, path, err := l.take(h)
	if err != nil {
		return h, err
	}
	defer os.Remove(path)
	same := l.sameAsEngine(path, tokens[:h.Tokens])
	if err := l.Settle(f, Restored, h.Tokens, time.Millisecond); err != nil {
		return h, err
	}
	if !same {
		l.t.Fatalf("a restored file of %d tokens is not what the engine would have saved", h.Tokens)
	}
	return h, nil
}

func (l *lab) take(h *Hit) (*Filled, string, error) {
	l.fill++
	path := filepath.Join(l.eng.dir, fmt.Sprintf("fill-%d", l.fill))
	f, err := l.Fill(context.Background(), h, path, slotfile.Target{Streams: 1})
	if err != nil {
		if _, statErr := os.Stat(path); !errors.Is(statErr, fs.ErrNotExist) {
			l.t.Fatalf("a failed fill left its file: %v", statErr)
		}
	}
	return f, path, err
}

func (l *lab) sameAsEngine(path string, tokens []kv.Token) bool {
	l.t.Helper()
	want := path + ".want"
	_, err := slotFile(want, l.eng.seed, layout(), tokens)
	must(l.t, err)
	defer os.Remove(want)
	a, err := os.ReadFile(path)
	must(l.t, err)
	b, err := os.ReadFile(want)
	must(l.t, err)
	return string(a) == string(b)
}

// exact: at rest every total is what a full count from outside gives, and the
// budget holds. The gate keeps the worker from writing its note meanwhile.
func (l *lab) exact() {
	l.t.Helper()
	l.gate.Lock()
	defer l.gate.Unlock()
	total := onDisk(l.t, l.dir)
	s := l.Status()
	if s.Usage.UsedBytes != total || kv.Bytes(l.store.Used()) != total {
		l.t.Fatalf("used %d, the files are %d", s.Usage.UsedBytes, total)
	}
	if total > s.Usage.BudgetBytes {
		l.t.Fatalf("KV16 the budget of %d is exceeded: %d", s.Usage.BudgetBytes, total)
	}
	if s.Usage.ReservedInflightBytes != 0 {
		l.t.Fatalf("%d bytes are claimed by nobody", s.Usage.ReservedInflightBytes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) != 0 || len(l.claims) != 0 || len(l.records) != 0 {
		l.t.Fatalf("held %d, claims %d, records %d at rest", len(l.held), len(l.claims), len(l.records))
	}
	for id, e := range l.entries {
		if e.pins != 0 {
			l.t.Fatalf("%v is pinned at rest", id)
		}
	}
}

func onDisk(t testing.TB, dir string) (n kv.Bytes) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			n += kv.Bytes(info.Size())
		}
		return err
	}))
	return n
}
