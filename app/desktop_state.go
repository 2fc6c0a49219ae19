//go:build !headless

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/session"
	"holdfast/ui"
	"holdfast/web/api"
)

// Times of the desktop. Bursts of events are gathered; steady traffic redraws
// once a second at most; a tray at rest looks once a minute, for the disk.
const (
	gatherTime = 250 * time.Millisecond
	drawPause  = time.Second
	lookPause  = time.Minute
	// busyTime is how long after a turn the icon still says working: an agent
	// that pauses to run a tool should not make it blink.
	busyTime = 20 * time.Second
)

// desk is the desktop's end of the API: it turns events into snapshots and
// commands into requests. Tray and window use it alike, over loopback, so what
// a click does is what any client of the API could do.
type desk struct {
	b      *backend
	getenv func(string) string
	log    *slog.Logger

	updates    chan ui.Snapshot // of one: a newer snapshot replaces one not yet drawn
	poke       chan struct{}    // of one: look again now
	work       sync.WaitGroup
	windowOpen atomic.Bool

	// The rest belongs to the goroutine of follow.
	shown    *ui.Snapshot
	lastTurn time.Time
	notifier ui.Notifier
	switches map[ui.Topic]bool
}

func newDesk(b *backend, getenv func(string) string, log *slog.Logger) *desk {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &desk{b: b, getenv: getenv, log: log, updates: make(chan ui.Snapshot, 1), poke: make(chan struct{}, 1)}
}

// look asks for a fresh snapshot.
func (d *desk) look() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// follow draws from events until ctx ends or Holdfast is gone.
func (d *desk) follow(ctx context.Context) {
	for {
		events := make(chan event, 16)
		d.work.Go(func() { defer close(events); d.listen(ctx, events) })
		d.gather(ctx, events)
		for range events { // until listen has ended
		}
		if _, ok := findRunning(ctx, d.b.paths); !ok || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(drawPause):
		case <-ctx.Done():
		}
	}
}

// gather draws now and after events, until the stream of events ends.
func (d *desk) gather(ctx context.Context, events <-chan event) {
	d.refresh(ctx)
	drawn := time.Now()
	due := time.NewTimer(lookPause)
	defer due.Stop()
	waiting := false // due is set for an event already
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			d.heard(e, time.Now())
			if !waiting {
				waiting = true
				due.Reset(max(gatherTime, drawPause-time.Since(drawn)))
			}
			continue
		case <-d.poke:
		case <-due.C:
		}
		waiting = false
		d.refresh(ctx)
		drawn = time.Now()
		due.Reset(d.rest(drawn))
	}
}

// rest is when to look again without an event: at the end of being busy.
func (d *desk) rest(now time.Time) time.Duration {
	if left := busyTime - now.Sub(d.lastTurn); left > 0 && left < lookPause {
		return left + time.Millisecond
	}
	return lookPause
}

// event is one message of the event stream.
type event struct {
	name string
	data []byte
}

// listen reads the event stream until it ends.
func (d *desk) listen(ctx context.Context, out chan<- event) {
	req, err := d.b.request(ctx, http.MethodGet, "/hf/v1/events", nil)
	if err != nil {
		return
	}
	res, err := d.b.send(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20) // a turn with its fold on one line
	var e event
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			e.name = name
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			e.data = []byte(data)
		} else if line == "" && e.name != "" {
			select {
			case out <- e:
			case <-ctx.Done():
			}
			e = event{}
		}
	}
}

// heard notes what an event means beyond a fresh snapshot.
func (d *desk) heard(e event, now time.Time) {
	switch {
	case strings.HasPrefix(e.name, "turn."):
		d.lastTurn = now
	case e.name == "engine":
		var v engineEnd
		if json.Unmarshal(e.data, &v) == nil {
			d.tell(ui.Event{Topic: ui.TopicEngine, About: v.Route + " " + strconv.FormatBool(v.Restarted), What: v.Route, Lasting: !v.Restarted}, now)
		}
	case e.name == "degrade":
		var v session.DegradeView
		if json.Unmarshal(e.data, &v) == nil && v.Scope != "group" {
			d.tell(ui.Event{Topic: ui.TopicDegrade, About: v.Session, What: v.Gate + ", " + strings.ReplaceAll(v.Cause, "_", " ")}, now)
		}
	}
}

// refresh reads the state and hands on a snapshot that differs.
func (d *desk) refresh(ctx context.Context) {
	seen, err := d.read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.log.Warn("the desktop could not read the state", "error", err)
		}
		return
	}
	d.switches = seen.switches()
	d.warn(seen)
	s := seen.snapshot()
	if d.shown != nil && reflect.DeepEqual(*d.shown, s) {
		return
	}
	d.shown = &s
	select {
	case <-d.updates: // never drawn
	default:
	}
	d.updates <- s
}

// read asks for everything a snapshot is made of.
func (d *desk) read(ctx context.Context) (seen seen, err error) {
	if err = d.b.get(ctx, "/hf/v1/status", &seen.status); err != nil {
		return seen, err
	}
	var list api.SessionList
	if err = d.b.get(ctx, "/hf/v1/sessions?size=5", &list); err != nil {
		return seen, err
	}
	if err = d.b.get(ctx, "/hf/v1/config", &seen.config); err != nil {
		return seen, err
	}
	var clients struct{ Clients []api.ClientView }
	if err = d.b.get(ctx, "/hf/v1/clients", &clients); err != nil {
		return seen, err
	}
	seen.sessions, seen.clients = list.Sessions, clients.Clients
	seen.atLogin = atLogin(d.getenv)
	seen.recently = time.Since(d.lastTurn) < busyTime
	free, err := freeBytes(d.b.paths.Data)
	seen.low = err == nil && free < lowSpace
	return seen, nil
}

// warn tells of what is wrong in a state, and forgets what is in order again.
func (d *desk) warn(s seen) {
	now := time.Now()
	for topic, wrong := range map[ui.Topic]bool{
		ui.TopicLowSpace: s.low, ui.TopicConfig: s.status.ConfigError != "", ui.TopicBreaker: s.status.Chain.Breaker.State == session.BreakerOpen,
	} {
		if !wrong {
			d.notifier.Over(topic, "")
			continue
		}
		d.tell(ui.Event{Topic: topic}, now)
	}
}

func (d *desk) tell(e ui.Event, now time.Time) {
	if n, ok := d.notifier.Next(now, e, func(t ui.Topic) bool { return d.switches[t] }); ok {
		d.notify(n)
	}
}

// notify shows a notice; a desktop without notifications has it in the log.
func (d *desk) notify(n ui.Notice) {
	if err := ui.Notify(n); err != nil {
		d.log.Info("a notice could not be shown", "title", n.Title, "error", err)
	}
}

// seen is everything a snapshot is made of.
type seen struct {
	status   api.Status
	config   api.ConfigView
	sessions []session.SessionView
	clients  []api.ClientView
	atLogin  bool
	recently bool // a turn was under way in the last moments
	low      bool // the disk is almost full
}

// setting is a value of the settings in force.
func (s seen) setting(key string) any {
	for _, f := range s.config.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// switches are the topics that may be told.
func (s seen) switches() map[ui.Topic]bool {
	out := map[ui.Topic]bool{}
	for _, t := range []ui.Topic{ui.TopicDegrade, ui.TopicBreaker, ui.TopicLowSpace, ui.TopicConfig, ui.TopicEngine, ui.TopicUndecrypted} {
		out[t] = s.setting("notify."+string(t)) == true
	}
	return out
}

func (s seen) snapshot() ui.Snapshot {
	mode, _ := s.setting("kv.disk.mode").(string)
	out := ui.Snapshot{
		Mode: string(s.status.Rollout.Mode), Bypass: s.status.Bypass, Busy: s.recently || s.status.Traffic.InFlight > 0,
		Trouble: s.trouble(), Doubts: ui.Doubts(s.status.Rollout.Evidence), AtLogin: s.atLogin,
		KV: ui.KV{Mode: mode, State: s.status.KV.State, Used: s.status.KV.UsedBytes, Budget: s.status.KV.BudgetBytes, Engine: s.localEngine()},
	}
	for _, c := range s.clients {
		out.Clients = append(out.Clients, ui.Client{ID: c.ID, Name: c.Name})
	}
	for _, v := range s.sessions {
		out.Recent = append(out.Recent, ui.Recent{ID: v.ID, Title: v.Title})
	}
	return out
}

// localEngine reports whether some route has one.
func (s seen) localEngine() bool {
	for _, f := range s.config.Fields {
		if strings.HasPrefix(f.Key, "routes.") && strings.HasSuffix(f.Key, ".engine") && f.Value != "" {
			return true
		}
	}
	return false
}

func (s seen) trouble() ui.Trouble {
	switch {
	case s.status.ConfigError != "":
		return ui.ConfigBroken
	case s.low || s.status.KV.State == "read_only_low_space":
		return ui.LowSpace
	case s.status.Chain.Breaker.State == session.BreakerOpen:
		return ui.BreakerOpen
	case s.status.KV.State == "degraded":
		return ui.KVDegraded
	}
	return ui.Fine
}
