// Package chain walks one request through six fixed stages over one stored
// truth: identify, decode, rewrite, apply, encode, send. `ls` is the walk.
//
// Two paths and a floor. The full path's view is the inbound list; the snapshot
// path's view is the live rows brought up to date by this turn's events; the
// verbatim floor is the client's own bytes. Identity, kernel, state and encoder
// are shared, so the two views are equal byte for byte whenever the client has
// removed nothing. Any doubt steps down, is recorded as a degrade event, and is
// never a guess.
//
// Locks: a world's lock is held from identify to encode, around state changes
// only, never across the upstream call. Memory is a cache keyed by the session
// version; killing the process anywhere changes no later egress.
//
// Departures from the design, with their reason: a first sight of more than
// session.FirstSightRows elements writes its base rows in the turn and its
// snapshot rows by re-stamp, since both are exempt from the commit budget and
// one mechanism is better than two. A wire switch gives kept elements the new
// wire's bytes (Reblob), so that no live row ever needs translating. The floor
// holds only what fits: where a failure of ours leaves nothing but the client's
// own bytes and those pass the window, the client is told to try again.
package chain

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
)

// Options is everything a chain needs. All fields but Memory, Publish and Now
// are required.
type Options struct {
	Ledger   session.Ledger
	Config   func() *config.Config // the settings in force; never nil
	Upstream *upstream.Client
	Log      *slog.Logger
	// Publish tells the event stream; nil for none. It must not block.
	Publish func(kind string, v any)
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Tripwire is what a comparison before sending may take; 0 for
	// DefaultTripwire.
	Tripwire time.Duration
	// Pause waits between the tries of a busy upstream; nil for a real wait.
	Pause func(ctx context.Context, d time.Duration) error
	// KeepAlive is how long a client hears nothing while its reply is held; 0 for
	// 15 seconds.
	KeepAlive time.Duration
	// Memory caps the cached session states in bytes; 0 for DefaultMemory.
	Memory int64
}

// Chain is the proxy: an http.Handler for model traffic.
type Chain struct {
	ledger   session.Ledger
	config   func() *config.Config
	upstream *upstream.Client
	log      *slog.Logger
	publish  func(kind string, v any)
	now      func() time.Time
	pause    func(ctx context.Context, d time.Duration) error
	// keepAlive is Options.KeepAlive.
	keepAlive time.Duration
	codecs    map[wire.Family]wire.Codec
	salt      []byte

	// bypass follows the switch: what ran while it was on left no trace here, so
	// each session in memory is re-stamped once after it ended.
	bypass struct {
		on    atomic.Bool
		ended atomic.Int64
	}

	tripBudget time.Duration

	memory   *memory
	horizon  horizon
	searches searches
	tools    tools
	metrics  *metrics
	groups   *groups
	after    *afterwork
}

// New makes a chain. It reads or makes the bucket salt, so the ledger must be
// open.
func New(ctx context.Context, o Options) (*Chain, error) {
	c := &Chain{ledger: o.Ledger, config: o.Config, upstream: o.Upstream, log: o.Log, publish: o.Publish, now: o.Now,
		pause: o.Pause, keepAlive: o.KeepAlive, codecs: codecs()}
	if c.pause == nil {
		c.pause = pause
	}
	if c.keepAlive == 0 {
		c.keepAlive = keepAlive
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.publish == nil {
		c.publish = func(string, any) {}
	}
	salt, err := bucketSalt(ctx, o.Ledger)
	if err != nil {
		return nil, err
	}
	c.salt = salt
	c.memory, c.tripBudget = newMemory(o.Memory), cmp.Or(o.Tripwire, DefaultTripwire)
	c.metrics = newMetrics()
	if c.groups, err = loadGroups(ctx, o.Ledger); err != nil {
		return nil, err
	}
	c.after = newAfterwork()
	return c, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// codecs are the families whose bodies can be held.
func codecs() map[wire.Family]wire.Codec {
	return map[wire.Family]wire.Codec{wire.Anthropic: anthropic.Codec{}, wire.OpenAI: openai.Codec{}}
}

// Busy reports whether a ledger has a request in flight or in its afterwork;
// the budget never touches such a one.
func (c *Chain) Busy(ledger string) bool { return c.memory.busy(ledger) }

// Close waits for the work behind finished replies. Requests must have ended.
func (c *Chain) Close() {
	c.after.close()
	c.searches.forget()
}

// ServeHTTP walks one exchange. The order of the lines is the design.
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, err := c.open(r) // route and body; the only step that may refuse
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	defer c.finish(x)
	if x.held { // a model call that a codec can hold
		c.walk(x)
	}
	c.send(w, x)
}

// walk takes an exchange through the stages that touch state. Whatever goes
// wrong leaves the client's own bytes in place.
func (c *Chain) walk(x *Exchange) {
	defer c.recovered(x)
	start := time.Now()
	err := c.identify(x)
	x.ms.Identify = msSince(start)
	if err != nil {
		c.stepDown(x, err)
		return
	}
	if x.world != nil { // a side request belongs to no world
		c.walkLocked(x)
	}
}

// walkLocked is the rest of the walk, under the world's lock; a lost race is
// recomputed once.
func (c *Chain) walkLocked(x *Exchange) {
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	defer c.recovered(x)
	for {
		err := c.settle(x)
		if err == nil {
			return
		}
		if !c.again(x, err) {
			c.stepDown(x, err)
			return
		}
		x.attempt++
	}
}

// settle is the part of the walk between lock and unlock.
func (c *Chain) settle(x *Exchange) error {
	for _, stage := range [...]struct {
		do func(*Exchange) error
		ms *float64
	}{
		{c.align, &x.ms.Identify},
		{c.decode, &x.ms.Decode},
		{c.rewrite, &x.ms.Rewrite},
		{c.apply, &x.ms.Apply},
		{c.encode, &x.ms.Encode},
	} {
		start := time.Now()
		err := stage.do(x)
		*stage.ms += msSince(start)
		if err != nil {
			return err
		}
	}
	return nil
}

func msSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

// afterwork runs what may happen after a reply has left: completing turn rows,
// comparing, re-stamping. One goroutine keeps the order; close waits.
type afterwork struct {
	jobs chan func()
	done sync.WaitGroup
}

// afterBacklog is how many replies may wait for their bookkeeping; past it the
// next reply waits, so that memory stays flat under load.
const afterBacklog = 256

func newAfterwork() *afterwork {
	a := &afterwork{jobs: make(chan func(), afterBacklog)}
	a.done.Add(1)
	go func() {
		defer a.done.Done()
		for job := range a.jobs {
			job()
		}
	}()
	return a
}

func (a *afterwork) add(job func()) { a.jobs <- job }

func (a *afterwork) close() {
	close(a.jobs)
	a.done.Wait()
}

// Idle returns once everything queued before it has run; for tests and
// shutdown.
func (c *Chain) Idle() {
	done := make(chan struct{})
	c.after.add(func() { close(done) })
	<-done
}
