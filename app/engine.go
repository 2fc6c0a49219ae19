package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/storage/ledger"
	"holdfast/web/api"
)

// engine is what serves a home, without its listeners: the ledger, the chain
// over it and the API that shows both. Commands that find nothing running open
// one for themselves.
type engine struct {
	settings *Settings
	ledger   *ledger.DB
	upstream *upstream.Client
	chain    *chain.Chain
	kv       *kvHouse
	hub      *api.Hub
	api      *api.API
	started  time.Time
}

// openEngine opens the home's ledger; the caller holds its lock. own names our
// listeners, which /via may not reach.
func openEngine(ctx context.Context, p Paths, s *Settings, log *Log, instance string, own func() []string) (*engine, error) {
	e := &engine{settings: s, hub: api.NewHub(), started: time.Now()}
	db, err := ledger.Open(ctx, p.ledgerFile(), ledger.Options{Budget: s.Current().Ledger.Budget.Bytes()})
	if err != nil {
		return nil, ledgerFault(p, err)
	}
	if err := closeLedger(p); err != nil {
		return nil, errors.Join(&Fault{Code: exitFailed, What: "the ledger cannot be closed to other users", Err: err,
			Hint: "put HOLDFAST_HOME on a disk whose files have owners"}, db.Close())
	}
	e.ledger, e.upstream = db, upstream.NewClient(own)
	if e.kv, err = openKV(ctx, p, s, log.Logger, e.hub.Publish); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	e.upstream.Route(e.kv.sender)
	e.chain, err = chain.New(ctx, chain.Options{
		Ledger: db, Config: s.Current, Upstream: e.upstream, Log: log.Logger, Publish: e.hub.Publish,
	})
	if err != nil {
		return nil, errors.Join(err, e.kv.Close(), db.Close())
	}
	e.api = api.New(api.Options{
		Sessions: e.views(), Turns: e.views(), Bytes: e.views(), Settings: control{s, e.chain.ReleaseGroups},
		Long: func(ctx context.Context) ([]session.LongView, error) {
			return e.ledger.Long(ctx, time.Now().Add(-24*time.Hour))
		},
		Status: e.status, Verify: e.verify, Hub: e.hub, Log: log.Logger, Tier: e.kv.tier,
		Health: func() api.Health { return api.Health{OK: true, Version: version(), Instance: instance} },
	})
	return e, nil
}

// ledgerFault is the fault of a ledger that does not open. The ledger itself
// knows what helps, except that a file that is damaged as a whole can only go.
func ledgerFault(p Paths, err error) *Fault {
	f := &Fault{Code: exitFailed, What: "the ledger cannot be opened", Err: err, Hint: "look at " + p.ledgerFile()}
	var e *ledger.Error
	if errors.As(err, &e) {
		f.Err, f.Hint = e.Err, e.Hint
	}
	if errors.Is(err, ledger.ErrCorrupt) {
		f.Hint = "move " + p.ledgerFile() + " away, with the -wal and -shm files beside it; sessions start anew"
	}
	return f
}

// Close waits for the work behind finished replies and closes the ledger.
func (e *engine) Close() error {
	e.hub.Close()
	e.chain.Close()
	e.upstream.Close()
	return errors.Join(e.kv.Close(), e.ledger.Close())
}

func (e *engine) views() views {
	return views{e.ledger, e.chain.Busy, func() session.Rollout { return session.Rollout(e.settings.Current().Rollout.Mode) }, e.kv}
}

// keepBudget is how often the ledger is brought back under its budget. Trimming
// starts a twentieth below the limit; at 16 MiB, the smallest, that is a few
// busy seconds.
const keepBudget = 5 * time.Second

// keep starts the local engines and tends the ledger until ctx ends.
func (e *engine) keep(ctx context.Context, log *Log) {
	e.kv.start()
	tick, audits := time.NewTicker(keepBudget), time.NewTicker(auditEvery)
	defer tick.Stop()
	defer audits.Stop()
	budget := e.settings.Current().Ledger.Budget
	var quiet rest
	for {
		e.kv.tier.follow(ctx, log.Logger)
		e.tend(ctx, &budget, log.Logger)
		quiet.check(e.chain.Status().Seen, func() { e.rest(ctx, log.Logger) })
		select {
		case <-ctx.Done():
			return
		case <-audits.C:
			e.audit(ctx, log.Logger)
		case <-e.kv.tier.changed:
		case <-tick.C:
		}
	}
}

// rest gives memory back to the system once traffic has stopped: what a burst
// needed must not stay resident on a laptop.
type rest struct {
	seen int64
	done bool
}

// check is called every keepBudget with the number of requests seen so far; it
// calls then once each time traffic has stopped.
func (r *rest) check(seen int64, then func()) {
	if seen != r.seen {
		r.seen, r.done = seen, false
		return
	}
	if !r.done {
		then()
		r.done = true
	}
}

func (e *engine) rest(ctx context.Context, log *slog.Logger) {
	e.chain.Rest()
	if err := e.ledger.Rest(ctx); err != nil && ctx.Err() == nil {
		log.Warn("the ledger's caches could not be emptied", "error", err)
	}
	debug.FreeOSMemory()
}

// tend hands on a changed budget and trims the ledger to it.
func (e *engine) tend(ctx context.Context, budget *config.Size, log *slog.Logger) {
	var err error
	if b := e.settings.Current().Ledger.Budget; b != *budget {
		*budget, err = b, e.ledger.SetBudget(ctx, b.Bytes())
	}
	rep, trimErr := e.ledger.Trim(ctx, e.chain.Busy)
	switch err = errors.Join(err, trimErr); {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("the ledger could not be kept under its budget", "error", err)
	case len(rep.Steps) > 0:
		log.Info("the ledger was trimmed to its budget", "before", rep.Before, "after", rep.After, "steps", rep.Steps)
	}
}

// publishRollout tells the event stream of a changed flag.
func (e *engine) publishRollout(r config.Rollout) {
	ev, err := e.ledger.Evidence(context.Background())
	if err != nil { // the flag matters more than its evidence
		ev = session.Evidence{}
	}
	e.hub.Publish("rollout", api.RolloutStatus{Mode: r.Mode, Percent: r.Percent, Evidence: ev})
}

// handler is the API without a guard, for a command of the same process.
func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	e.api.Register(mux)
	mux.HandleFunc("/", api.NotFound)
	return mux
}

// control is the settings with what else a change means to the chain.
type control struct {
	*Settings
	release func() // lets held groups go on
}

// Change takes the settings up. Turning the rollout on again is the owner's
// word that held groups may go on.
func (c control) Change(ctx context.Context, values map[string]string) error {
	if err := c.Settings.Change(ctx, values); err != nil {
		return err
	}
	if values["rollout.mode"] == string(config.On) {
		c.release()
	}
	return nil
}

// status puts the status object together.
func (e *engine) status(ctx context.Context) (api.Status, error) {
	c, _, broken := e.settings.Config()
	st := e.chain.Status()
	ev, err := e.ledger.Evidence(ctx)
	if err != nil {
		return api.Status{}, err
	}
	room, err := e.ledger.Stats(ctx)
	if err != nil {
		return api.Status{}, err
	}
	breaker, err := e.breaker(ctx)
	if err != nil {
		return api.Status{}, err
	}
	ev.ByGroup = held(ev.ByGroup, st.Groups)
	out := api.Status{
		Version: version(), UptimeS: int64(time.Since(e.started).Seconds()), Bypass: c.Bypass,
		Rollout: api.RolloutStatus{Mode: c.Rollout.Mode, Percent: c.Rollout.Percent, Evidence: ev},
		Traffic: api.Traffic{Seen: st.Seen, Decrypted: st.Seen, Folded: st.Folded, Skipped: st.Skipped, InFlight: st.InFlight, FailedRecent: st.FailedRecent},
		Chain: api.ChainStatus{
			Gates: st.Gates, Breaker: breaker,
			Tripwire: api.Tripwire{Sampled: st.Sampled, Equal: st.Equal, Drift: st.Drift, Diff: st.Diff, Skipped: st.TripwireSkipped},
			CommitMs: api.Quantiles{P50: st.CommitP50, P95: st.CommitP95},
		},
		Ledger:      api.LedgerStatus{Bytes: int64(room.Bytes), BudgetBytes: int64(room.Budget), Sessions: room.Sessions, Blobs: room.Blobs},
		MemoryBytes: memoryBytes(),
		KV:          e.kv.status(),
	}
	if broken != nil {
		out.ConfigError = broken.Error()
	}
	return out, nil
}

// breakerSessions is how many sessions the status looks at: an open breaker
// closes or probes within ten minutes of use, so it is among the newest.
const breakerSessions = 20

// breaker is the worst of the newest sessions.
func (e *engine) breaker(ctx context.Context) (api.BreakerStatus, error) {
	list, _, err := e.views().Sessions(ctx, "", 1, breakerSessions)
	worst := api.BreakerStatus{State: session.BreakerClosed}
	for _, s := range list {
		if b := s.Breaker; b.State == session.BreakerOpen && b.Until >= worst.Until {
			worst = api.BreakerStatus{State: b.State, Until: b.Until}
		}
	}
	return worst, err
}

// held takes the chain's word for the state of a group: the ledger keeps the
// counts, the chain decides who is held in shadow.
func held(counts, states []session.GroupEvidence) []session.GroupEvidence {
	out := append([]session.GroupEvidence{}, counts...)
	for _, s := range states {
		at := -1
		for i := range out {
			if out[i].Signal == s.Signal && out[i].Wire == s.Wire {
				at = i
			}
		}
		if at < 0 {
			out = append(out, s)
			continue
		}
		out[at].State = s.State
	}
	return out
}

// memoryBytes is what the Go runtime has from the system and not given back.
func memoryBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
