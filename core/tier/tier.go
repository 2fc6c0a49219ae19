// Package tier carries out the plans of package kv: it keeps attention states of
// a local engine on disk and hands them back, and owns everything that makes
// this safe on a machine that others use as well.
//
// A Manager stands between three neighbours it knows by interface only: Segments
// and Manifests, a store of bytes, and Slots, an engine. The walk of a state:
// the engine driver asks Due and queues a Spill; the one worker has the engine
// save, cuts the file into blocks, writes those that are missing and commits the
// manifest. For a prompt the driver calls Lookup, Fill and Settle, in that order.
//
// Three locks, taken in this order and never the other way round:
//
//	gate       lifecycle: spills share it, fills try to and otherwise go cold,
//	           prune, clear and limits take it alone
//	admission  room on the disk: one claim is decided and made room for at a time
//	mu         the tables in memory; held for moments, never over I/O
//
// Status takes none of the first two, so it answers during a clear.
//
// The cache is never an authority: every doubt is a Miss with its reason, and
// the caller computes. Budget and reserve hold during writes, because bytes are
// claimed before the first of them is written.
package tier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/kv"
)

// Limits are the settings that take effect while running.
type Limits struct {
	// Budget is the most the store may hold. Auto works it out from the room on
	// the disk instead, at start and whenever limits are set.
	Budget kv.Bytes
	Auto   bool
	// Reserve is the space that stays free for the rest of the machine.
	Reserve kv.Bytes
	// MinTokens is the shortest prefix worth storing or restoring.
	MinTokens kv.Tokens
	// DailyWrites caps the bytes written a day, to spare the disk.
	DailyWrites kv.Bytes
}

// Transition is one change of the tier's state.
type Transition struct {
	Seq      uint64       `json:"seq"` // counts from 1; a gap means some were dropped
	At       time.Time    `json:"at"`
	Previous kv.TierState `json:"previous"`
	State    kv.TierState `json:"state"`
	Reason   string       `json:"reason"` // a stable code, "" for none
}

// Options are a manager's neighbours and settings.
type Options struct {
	// Store opens the store; it runs beside the caller, who is told by Ready. nil
	// means that the tier is off.
	Store  func(context.Context) (Segments, Manifests, error)
	Limits Limits
	// Configured is what Status shows of the settings; nil shows nothing.
	Configured func() kv.StatusConfigured
	// Memory of the machine, for the bound of the spill queue.
	Memory kv.Bytes
	Now    func() time.Time
	Log    *slog.Logger
	// Notify is told of every transition, one at a time. It must not call back.
	Notify func(Transition)
}

// Manager is the tier of one store. Its methods may be called at the same time.
type Manager struct {
	now        func() time.Time
	log        *slog.Logger
	notify     func(Transition)
	configured func() kv.StatusConfigured
	memory     kv.Bytes

	// Set before ready is closed and not changed after.
	segments  Segments
	manifests Manifests
	cost      kv.PackCost
	off       bool
	ready     chan struct{}

	gate      sync.RWMutex
	closed    bool // written under gate alone
	admission sync.Mutex

	mu sync.Mutex // guards everything in table
	table

	room roomState
	mood mood

	shown   atomic.Pointer[inventory]
	queue   chan *job
	done    chan struct{} // closed to stop the worker
	workers sync.WaitGroup
	stop    context.CancelFunc
	once    sync.Once
}

// Open makes a manager and begins to open its store. Until Ready the tier is
// starting: lookups miss and spills are declined. An error here is a mistake in
// the options; a store that cannot be opened leaves a manager that is degraded
// and says why.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(Transition) {}
	}
	if o.Configured == nil {
		o.Configured = func() kv.StatusConfigured { return kv.StatusConfigured{} }
	}
	if o.Limits.Reserve < 0 || o.Limits.Budget < 0 || o.Limits.DailyWrites < 0 {
		return nil, errors.New("tier: limits must not be negative")
	}
	m := &Manager{
		now: o.Now, log: o.Log, notify: o.Notify, memory: o.Memory, off: o.Store == nil,
		ready: make(chan struct{}), done: make(chan struct{}), queue: make(chan *job, queueItems),
		configured: o.Configured, table: newTable(o.Limits),
	}
	m.shown.Store(&inventory{})
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	if m.off {
		m.mood.start(kv.StateOff)
		close(m.ready)
		return m, nil
	}
	m.mood.start(kv.StateStarting)
	m.workers.Go(func() { m.run(working, o.Store) })
	return m, nil
}

// run opens the store and then works until Close.
func (m *Manager) run(ctx context.Context, open func(context.Context) (Segments, Manifests, error)) {
	err := m.begin(ctx, open)
	close(m.ready)
	if err != nil {
		m.log.Warn("the KV tier goes without its store", "error", err)
		return
	}
	stepBehind()
	m.work(ctx)
}

// Ready is closed once the store is open, or known not to be.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// share enters the gate beside others, alone by itself; both wait, and are false
// once the store has been given back. enter is share for who cannot wait.
func (m *Manager) share() bool {
	m.gate.RLock()
	return m.stay(m.gate.RUnlock)
}

func (m *Manager) alone() bool {
	m.gate.Lock()
	return m.stay(m.gate.Unlock)
}

func (m *Manager) enter() bool { return m.gate.TryRLock() && m.stay(m.gate.RUnlock) }

// stay leaves again when the store is closed.
func (m *Manager) stay(leave func()) bool {
	if m.closed {
		leave()
		return false
	}
	return true
}

// usable reports whether there is an open store.
func (m *Manager) usable() bool {
	select {
	case <-m.ready:
		return m.segments != nil
	default:
		return false
	}
}

// Close stops taking spills, finishes those that are queued while ctx lasts,
// writes what is remembered of uses, and gives the store back.
func (m *Manager) Close(ctx context.Context) (err error) {
	m.once.Do(func() {
		close(m.done)
		stopped := make(chan struct{})
		go func() {
			m.workers.Wait()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-ctx.Done():
			m.stop() // cuts the spill under way; its bytes are discarded
			<-stopped
		}
		m.stop()
		if m.segments == nil {
			return
		}
		m.gate.Lock()
		defer m.gate.Unlock()
		m.closed = true
		err = errors.Join(m.saveNote(), m.manifests.Close())
	})
	return err
}

// Refusal is why the tier did not do what it was asked to: what a person reads
// and what to do about it.
type Refusal struct {
	Op     string
	Reason string // a stable code
	What   string
	Hint   string
	Err    error // the cause, nil for none
}

func (r *Refusal) Error() string {
	s := fmt.Sprintf("tier: %s: %s", r.Op, r.What)
	if r.Err != nil {
		s += ": " + r.Err.Error()
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.Err }

// Is makes refusals of the same reason equal, for errors.Is.
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other.Reason == r.Reason
}
