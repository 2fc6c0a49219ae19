package chain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/core/session"
)

// groups watches each (signal, wire): one kind of client that faults in more
// than groupFaults of its turns over an hour, or whose paths differ in two
// sessions, goes back to shadow until the owner turns it on again.
type groups struct {
	ledger session.Ledger

	mu sync.Mutex
	by map[groupKey]*group
}

type groupKey struct{ signal, wire string }

type group struct {
	turns, faults int64 // since the start
	hour          []groupTurn
	differed      map[string]bool // ledgers
	held          bool
}

type groupTurn struct {
	at    time.Time
	fault bool
}

const (
	groupSpan     = time.Hour
	groupFaults   = 0.02
	groupMin      = 20 // turns before a share means anything
	groupLeast    = 3  // faults: one alone is the session breaker's business
	groupDiffers  = 2  // sessions
	groupMaxTurns = 5000
	heldSetting   = "groups_held"
	saltSetting   = "bucket_salt"
)

func loadGroups(ctx context.Context, l session.Ledger) (*groups, error) {
	g := &groups{ledger: l, by: map[groupKey]*group{}}
	b, err := l.Setting(ctx, heldSetting)
	if errors.Is(err, session.ErrUnknown) {
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return nil, err
	}
	for _, n := range names {
		signal, wire, _ := strings.Cut(n, "|")
		g.of(signal, wire).held = true
	}
	return g, nil
}

func (g *groups) of(signal, wire string) *group {
	k := groupKey{signal, wire}
	if g.by[k] == nil {
		g.by[k] = &group{differed: map[string]bool{}}
	}
	return g.by[k]
}

func (g *groups) held(signal, wire string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr := g.by[groupKey{signal, wire}]
	return gr != nil && gr.held
}

// turn counts one turn and reports whether the group has just been held.
func (g *groups) turn(now time.Time, signal, wire string, fault bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr := g.of(signal, wire)
	gr.turns++
	gr.hour = append(gr.hour, groupTurn{now, fault})
	for len(gr.hour) > 0 && (now.Sub(gr.hour[0].at) > groupSpan || len(gr.hour) > groupMaxTurns) {
		gr.hour = gr.hour[1:]
	}
	if !fault {
		return false
	}
	gr.faults++
	n := 0
	for _, t := range gr.hour {
		if t.fault {
			n++
		}
	}
	return len(gr.hour) >= groupMin && n >= groupLeast && float64(n) > groupFaults*float64(len(gr.hour)) && g.hold(gr)
}

func (g *groups) difference(signal, wire, ledger string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr := g.of(signal, wire)
	gr.differed[ledger] = true
	if len(gr.differed) >= groupDiffers {
		g.hold(gr)
	}
}

// hold keeps a group in shadow, also across restarts. The mark in memory
// counts even when it cannot be stored.
func (g *groups) hold(gr *group) bool {
	if gr.held {
		return false
	}
	gr.held = true
	g.save()
	return true
}

func (g *groups) save() {
	names := []string{}
	for k, gr := range g.by {
		if gr.held {
			names = append(names, k.signal+"|"+k.wire)
		}
	}
	slices.Sort(names)
	b, err := json.Marshal(names)
	if err == nil {
		g.ledger.SetSetting(context.Background(), heldSetting, b)
	}
}

// ReleaseGroups lets every held group back onto its route: the owner turned
// the rollout on again.
func (c *Chain) ReleaseGroups() {
	c.groups.mu.Lock()
	defer c.groups.mu.Unlock()
	for _, gr := range c.groups.by {
		gr.held, gr.hour, gr.differed = false, nil, map[string]bool{}
	}
	c.groups.save()
}

func (g *groups) evidence() (out []session.GroupEvidence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, gr := range g.by {
		state := "ok"
		if gr.held {
			state = "held in shadow"
		}
		out = append(out, session.GroupEvidence{Signal: k.signal, Wire: k.wire, Turns: gr.turns, Faults: gr.faults, State: state})
	}
	slices.SortFunc(out, func(a, b session.GroupEvidence) int {
		return strings.Compare(a.Signal+"|"+a.Wire, b.Signal+"|"+b.Wire)
	})
	return out
}

// bucketSalt reads the salt that makes rollout buckets this installation's
// own, or makes it.
func bucketSalt(ctx context.Context, l session.Ledger) ([]byte, error) {
	salt, err := l.Setting(ctx, saltSetting)
	if !errors.Is(err, session.ErrUnknown) {
		return salt, err
	}
	salt = make([]byte, 16)
	rand.Read(salt)
	return salt, l.SetSetting(ctx, saltSetting, salt)
}
