// Package local drives a route whose upstream is an engine on this machine. It
// stands where the transport stands for other routes, so that the chain does not
// know: requests go in as the client's wire has them and replies come out in it.
//
// What it adds is reuse. The engine keeps the attention state of a prompt in one
// of its slots and computes only what is new, but loses all of it when it ends,
// and the oldest when conversations outnumber slots. For every request the
// prompt is turned into the engine's own tokens, and the slot that holds the
// longest prefix takes it; where the disk tier holds a longer one, that is
// restored first into an idle slot. After the reply, what is worth it is saved;
// where conversations outnumber slots, before another overwrites it.
//
// The rules, in order: a request is answered, with the tier or without; output is
// the same with the tier as without; what is said to be reused is what the
// engine's own timings say. So every failure here ends in sending the request
// the ordinary way, a short count is never an error, and a slot whose restore
// failed is erased before it is used.
//
// Slots: every request names its slot, cold ones too, because one that does not
// may take the very slot another was just restored into. A slot is held from the
// choice to the end of the reply, and by a save while it lasts. Which tokens a
// slot holds is remembered, not asked: it is at least the prompt it was last
// given, and a new life of the engine empties all of them.
//
// The wire is chat completions, since the engine's Messages endpoint ignores the
// slot and keeps no timings. Messages requests are translated, and so are their
// replies; chat requests pass as they are, with four fields added at the end.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/content"
	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
)

// Host is where the engine comes from: a supervisor, or one that runs anyway.
type Host interface {
	// Running waits for an engine that answers.
	Running(ctx context.Context) (engine.Running, error)
}

// Options are an engine's neighbours and settings. All fields but Tier,
// Settings and Now are required.
type Options struct {
	Route string
	Host  Host
	// Tier is the store; nil sends everything to the engine as it is.
	Tier *tier.Manager
	// Handover is the folder the engine's slot files go through.
	Handover string
	// Settings are how a managed engine was started; nil for an attached one,
	// whose settings are read from the states it writes.
	Settings *engine.Settings
	// Weights names model files.
	Weights *engine.Weights
	// Findings remembers what engines can do.
	Findings *Findings
	Log      *slog.Logger
	Now      func() time.Time
	// Eager restores whatever it costs, where else it is weighed against computing.
	Eager bool
	// Kept is told what became of each spill; nil for nobody.
	Kept func(tier.Spilled, error)
}

// Engine is one route. Close it before its host.
type Engine struct {
	o   Options
	log *slog.Logger
	now func() time.Time

	// mu is held over the first contact with a life, so that there is one; who
	// only looks takes life as it is.
	mu   sync.Mutex
	life atomic.Pointer[life] // of the engine, nil before the first contact
	dead atomic.Int64         // the number of the life that did not answer last, 0 for none

	prompts *prompts

	speed speeds
	work  sync.WaitGroup // probes and reckonings behind replies
	stop  context.CancelFunc
	ctx   context.Context // of what runs beside requests
}

// New makes an engine; nothing is started or asked before the first request.
func New(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{o: o, log: o.Log.With("route", o.Route), now: o.Now, prompts: newPrompts()}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if o.Tier != nil {
		e.work.Go(e.tick)
	}
	return e
}

// Greet makes the first contact behind the caller, so that the engine is known
// and tried out before the first request.
func (e *Engine) Greet() {
	if e.o.Tier == nil {
		return
	}
	e.work.Go(func() {
		if _, err := e.contact(e.ctx); err != nil && e.ctx.Err() == nil {
			e.log.Warn("the local engine does not answer", "err", err)
		}
	})
}

// life is one life of the engine process: what it is and what its slots hold.
type life struct {
	number int
	client *engine.Client
	props  engine.Props
	slots  *slots
	model  kv.ModelIdentity
	// dated says that prompts hold a date unless one is set.
	dated bool
	// quick is closed once all is known, or what is left to find out takes long:
	// requests wait for it, or the first one after a restart would come too early.
	quick     chan struct{}
	quickOnce sync.Once

	mu       sync.Mutex // guards the rest
	identity *kv.StateIdentity
	ability  Ability
	// closed says why the tier stays out, "" when it does not.
	closed kv.MissReason
	// streams are the sequence streams of its slot files, as the probe saw.
	streams int
}

// answerable lets requests go on.
func (l *life) answerable() { l.quickOnce.Do(func() { close(l.quick) }) }

// reuse tells whether the tier takes part, and with which identity.
func (l *life) reuse() (id kv.StateIdentity, able Ability, why kv.MissReason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != "" {
		return kv.StateIdentity{}, l.ability, l.closed
	}
	return *l.identity, l.ability, ""
}

func (l *life) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// contact is the engine's present life, made at the first contact with it.
func (e *Engine) contact(ctx context.Context) (*life, error) {
	run, err := e.running(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.life.Load(); l != nil && l.number == run.Life {
		return l, nil
	}
	props, err := run.Client.Props(ctx)
	if err != nil {
		if engine.Gone(err) && ctx.Err() == nil {
			e.dead.Store(int64(run.Life))
		}
		return nil, err
	}
	l := &life{number: run.Life, client: run.Client, props: props, slots: newSlots(props.TotalSlots), dated: dated(props), closed: kv.MissStarting, quick: make(chan struct{})}
	e.life.Store(l)
	e.log.Info("a local engine", "build", props.Build, "slots", props.TotalSlots, "context", props.Defaults.Context)
	e.work.Go(func() { e.identify(l) })
	return l, nil
}

// lost forgets a life that does not answer any more.
func (e *Engine) lost(l *life) {
	e.dead.Store(int64(l.number))
	e.life.CompareAndSwap(l, nil)
}

// noticed bounds how long the end of a process takes to be noticed.
const noticed = 5 * time.Second

// running is the host's engine, and not the one that did not answer any more: its
// host may not know yet that it ended. One that goes on after all is taken again.
func (e *Engine) running(ctx context.Context) (engine.Running, error) {
	host, ok := e.o.Host.(interface {
		Ended(ctx context.Context, life int) error
	})
	if dead := e.dead.Load(); ok && dead != 0 {
		wait, cancel := context.WithTimeout(ctx, noticed)
		defer cancel()
		if host.Ended(wait, int(dead)) != nil && ctx.Err() == nil {
			e.dead.CompareAndSwap(dead, 0)
		}
	}
	return e.o.Host.Running(ctx)
}

// identify works out what the engine and its model are, and whether its states
// can be stored. Until it has, the tier is starting; it ends closed where
// anything is in doubt.
func (e *Engine) identify(l *life) {
	defer l.answerable()
	select {
	case <-e.o.Tier.Ready():
	case <-e.ctx.Done():
		return
	}
	weights, err := e.weights(l)
	if err != nil {
		e.log.Warn("the KV tier stays closed for this model: its file cannot be identified", "err", err)
		l.set(func() { l.closed = kv.MissNoWeights })
		return
	}
	l.model = weights
	able, err := e.able(e.ctx, l)
	if err != nil {
		if e.ctx.Err() == nil {
			e.log.Warn("the KV tier stays closed for this engine: it could not be tried out", "err", err)
		}
		l.set(func() { l.closed = kv.MissEngineUnavailable })
		return
	}
	id := e.state(l, able).Identity()
	l.set(func() {
		l.identity, l.ability, l.closed, l.streams = &id, able, "", able.Streams
		if able.Verdict == Unusable {
			l.closed = kv.MissLayout
		}
	})
	e.log.Info("what the engine can do", "verdict", able.Verdict, "why", able.Why, "memory", able.Memory, "model", l.model)
}

// weights identifies the model with everything that is applied to it.
func (e *Engine) weights(l *life) (kv.ModelIdentity, error) {
	path := l.props.ModelPath
	if e.o.Settings != nil {
		path = e.o.Settings.Model
	}
	if path == "" {
		return kv.ModelIdentity{}, errors.New("local: the engine names no model file; in router mode, point the route at one model's own server")
	}
	if !e.o.Weights.Known(path) {
		l.answerable() // reading a large model takes a minute, once
	}
	digest, err := e.o.Weights.Of(path)
	if err != nil {
		return kv.ModelIdentity{}, err
	}
	m := kv.Model{Weights: digest}
	adapters, err := l.client.Adapters(e.ctx)
	if err != nil && !engine.Refused(err) {
		return kv.ModelIdentity{}, err
	}
	for _, a := range adapters {
		d, err := e.o.Weights.Of(a.Path)
		if err != nil {
			return kv.ModelIdentity{}, err
		}
		m.LoRA = append(m.LoRA, kv.Adapter{Digest: d, Scale: a.Scale})
	}
	if l.props.Modalities.Vision {
		// The engine does not name the projector's file, so that it cannot be read. It
		// need not be: states with media in them are not stored, and those of text do
		// not depend on it. They are kept apart from the text-only model's all the same.
		m.MMProj = content.Of([]byte("vision"))
	}
	return m.Identity()
}

// state is what decides the bytes of this engine's states. What an attached
// engine was started with is not known: the types come from a state it wrote,
// and the bytes it computed for a fixed prompt stand for the rest, so that other
// overrides are another engine.
func (e *Engine) state(l *life, a Ability) kv.State {
	if s := e.o.Settings; s != nil {
		return s.Normal().State(l.model, l.props)
	}
	return kv.State{
		Model: l.model, Engine: "llama-server", Build: fmt.Sprintf("%s/%s", l.props.Build, a.Fingerprint), Version: engine.StateVersion,
		CacheK: a.CacheK, CacheV: a.CacheV, FlashAttention: a.Flash, Context: l.props.Defaults.Context, ByteOrder: engine.ByteOrder(),
	}
}

// Condition is what a person should know of the engine as it is now: what it is
// good for, and what stands in the way.
type Condition struct {
	Route   string `json:"route"`
	Build   string `json:"build"`
	Slots   int    `json:"slots"`
	Context int64  `json:"context"` // tokens of one slot
	Ability
	// Closed is why the tier stays out, "" where it takes part.
	Closed kv.MissReason `json:"closed,omitempty"`
}

// Condition tells without waiting; ok is false before the first contact.
func (e *Engine) Condition() (c Condition, ok bool) {
	l := e.life.Load()
	if l == nil {
		return Condition{Route: e.o.Route}, false
	}
	_, able, why := l.reuse()
	return Condition{e.o.Route, l.props.Build, l.props.TotalSlots, int64(l.props.Defaults.Context), able, why}, true
}

// Close ends what runs beside requests. Requests must have ended; call Flush
// before, while the engine still runs.
func (e *Engine) Close() {
	e.stop()
	e.work.Wait()
}

// RoundTrip carries one request of the route.
func (e *Engine) RoundTrip(r *http.Request) (*http.Response, error) {
	k := kindOf(r)
	if e.o.Tier == nil {
		k = otherKind
	}
	switch k {
	case chatKind:
		return e.model(r, chatWire{})
	case messagesKind:
		return e.model(r, messagesWire{})
	case countKind:
		return e.count(r)
	}
	return e.pass(r)
}
