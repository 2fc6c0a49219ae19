package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/core/config"
	llama "holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/local"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/core/wire"
	"holdfast/web/api"
)

// llamaServer is the engine setting of a route that the KV tier serves.
const llamaServer = "llamacpp"

// flushTime is what saving the slots may take before the engine is ended.
const flushTime = 20 * time.Second

// kvHouse is the disk KV tier with the engines that use it: the store, a driver
// for each local route, and the engines that are ours to run.
type kvHouse struct {
	cfg     func() *config.Config
	log     *slog.Logger
	tier    *kvTier
	weights *llama.Weights
	found   *local.Findings
	// handover is the folder of managed engines' slot files, by engine name.
	handover func(name string) (string, error)

	publish func(kind string, v any)

	mu      sync.Mutex // guards the rest
	drivers map[string]*driver
	closed  bool
}

// engineEnd is the event of an engine that ended unasked.
type engineEnd struct {
	Route     string `json:"route"`
	Error     string `json:"error"`
	Restarted bool   `json:"restarted"`
}

// driver is one local route.
type driver struct {
	engine     *local.Engine
	supervisor *llama.Supervisor // nil for an attached engine
	client     *llama.Client     // of an attached one
	problem    error             // why there is no engine
}

// openKV opens the tier. Engines are started by start, or by their first
// request: a command that only looks at the home runs none.
func openKV(ctx context.Context, p Paths, s *Settings, log *slog.Logger, publish func(string, any)) (*kvHouse, error) {
	m, err := openTier(ctx, p, s, log, publish)
	if err != nil {
		return nil, err
	}
	h := &kvHouse{cfg: s.Current, log: log, tier: m, publish: publish, drivers: map[string]*driver{},
		weights:  llama.OpenWeights(filepath.Join(p.Data, "models.json")),
		found:    local.OpenFindings(filepath.Join(p.Data, "engines.json")),
		handover: func(name string) (string, error) { return llama.Handover(p.Data + "\x00" + name) }}
	m.engines = h.warnings
	return h, nil
}

// start starts the engines that are ours, so that the first request does not
// wait for a model to load.
func (h *kvHouse) start() {
	for name, r := range h.cfg().Routes {
		if r.Engine != llamaServer || h.cfg().Engine[name].Model == "" {
			continue
		}
		if e, ok := h.sender(name).(*local.Engine); ok {
			e.Greet()
		}
	}
}

// sender is the driver of a route, nil for a route without a local engine.
func (h *kvHouse) sender(name string) upstream.Sender {
	r := h.cfg().Routes[name]
	if r.Engine != llamaServer {
		return nil
	}
	managed := h.cfg().Engine[name].Model != ""
	if !managed && h.cfg().KV.Disk.Mode == "off" {
		return nil // an engine of somebody else's, and nothing to do for it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	d := h.drivers[name]
	if d == nil {
		d = h.drive(name, r)
		h.drivers[name] = d
	}
	if d.engine == nil {
		return broken{d.problem}
	}
	return d.engine
}

// drive makes the driver of a route.
func (h *kvHouse) drive(name string, r config.Route) *driver {
	log := h.log.With("route", name)
	o := local.Options{Route: name, Weights: h.weights, Findings: h.found, Log: h.log}
	if h.cfg().KV.Disk.Mode != "off" {
		o.Tier = h.tier.Manager
	}
	if e := h.cfg().Engine[name]; e.Model != "" {
		return h.manage(name, e, o)
	}
	if err := llama.CheckHandover(r.SlotDir); err != nil {
		log.Warn("the KV tier stays out of this route", "err", err)
		o.Tier = nil
	}
	client := llama.NewClient(origin(r.URL), os.Getenv(r.KeyEnv))
	o.Host, o.Handover = attached{client}, r.SlotDir
	return &driver{engine: local.New(o), client: client}
}

// manage starts an engine of ours.
func (h *kvHouse) manage(name string, e config.Engine, o local.Options) *driver {
	dir, err := h.handover(name)
	if err != nil {
		h.log.Error("the engine is not started", "route", name, "err", err)
		return &driver{problem: err}
	}
	s := llama.Settings{Command: e.Command, Model: e.Model, Slots: e.Slots, Context: kv.Tokens(e.Context)}.Normal()
	sup := llama.Start(s, dir, h.log.With("route", name), llama.Hooks{Ended: func(e llama.End) { h.publish("engine", engineEnd{name, e.Err.Error(), !e.Last}) }})
	o.Host, o.Handover, o.Settings = sup, dir, &s
	return &driver{engine: local.New(o), supervisor: sup}
}

// origin is the part of a route's URL that the engine's own paths stand behind.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
}

// attached is an engine that runs by itself. It has one life as far as we can
// tell; when it restarts, the first short count shows that its slots are empty.
type attached struct{ client *llama.Client }

func (a attached) Running(context.Context) (llama.Running, error) {
	return llama.Running{Client: a.client, Life: 1}, nil
}

// prompt tells where a session's last prompt is: as the engine says that was
// asked last, where the session went from one to another. No engine is started
// or asked for it.
func (h *kvHouse) prompt(ledger string) (out session.KVPrompt, ok bool) {
	h.mu.Lock()
	drivers := slices.Collect(maps.Values(h.drivers))
	h.mu.Unlock()
	var last local.Prompt
	for _, d := range drivers {
		if d.engine == nil {
			continue
		}
		if p, known := d.engine.Prompt(ledger); known && (!ok || p.At.After(last.At)) {
			last, ok = p, true
		}
	}
	return session.KVPrompt{Total: usage.Tokens(last.Total), Resident: usage.Tokens(last.Resident), Disk: usage.Tokens(last.Disk)}, ok
}

// recalls reports whether a route has an engine that is in use: none is started
// for somebody who only looks.
func (h *kvHouse) recalls(route string) bool { return h.using(route) != nil }

// using is the engine of a route, nil before its first use.
func (h *kvHouse) using(route string) *local.Engine {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.drivers[route]; d != nil {
		return d.engine
	}
	return nil
}

// recall has a turn's prompt rendered again, with what the engine was told of
// its session then.
func (h *kvHouse) recall(s *session.SessionView, t *session.TurnView, body []byte) {
	path := "/v1/chat/completions"
	if t.WireOut == string(wire.Anthropic) {
		path = "/v1/messages"
	}
	if e := h.using(t.Route); e != nil {
		e.Recall(upstream.Call{Conversation: s.ID, Since: time.UnixMilli(s.CreatedAt)}, time.UnixMilli(t.At), path, body)
	}
}

// warnings are what is in the way of the engines, a line each.
func (h *kvHouse) warnings() (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, d := range h.drivers {
		say := func(text string) { lines = append(lines, "route "+name+": "+text) }
		if d.problem != nil {
			say(d.problem.Error())
		}
		if d.supervisor != nil {
			if _, failed := d.supervisor.State(); failed != nil {
				say(failed.Error())
			}
		}
		if d.engine == nil {
			continue
		}
		c, ok := d.engine.Condition()
		switch {
		case !ok:
		case c.Verdict == local.Unusable || c.Verdict == local.ExactExtension:
			say(fmt.Sprintf("%s: %s", c.Verdict, c.Why))
		case c.Closed != "" && c.Closed != kv.MissStarting:
			say("the cache stays out: " + string(c.Closed))
		}
		if c.Warning != "" {
			say(c.Warning)
		}
	}
	slices.Sort(lines)
	return lines
}

// Close saves what the engines hold and ends those that are ours.
func (h *kvHouse) Close() error {
	h.mu.Lock()
	h.closed = true
	drivers := h.drivers
	h.drivers = nil
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	for _, d := range drivers {
		if d.engine != nil {
			d.engine.Flush(ctx)
			d.engine.Close()
		}
	}
	err := h.tier.Close(ctx)
	for _, d := range drivers {
		if d.supervisor != nil {
			d.supervisor.Close()
		}
		if d.client != nil {
			d.client.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("closing the KV tier: %w", err)
	}
	return nil
}

// status is the tier in the status object.
func (h *kvHouse) status() api.KVStatus {
	state, used, budget := h.tier.Totals()
	return api.KVStatus{State: string(state), UsedBytes: int64(used), BudgetBytes: int64(budget)}
}
