package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// countsOf turns a reply's counts into usage; without a report both sides are
// estimated from their bytes and marked so.
func countsOf(n wire.Counts, in int, out int64) usage.Usage {
	if !n.Seen {
		return usage.Usage{Input: usage.EstimateBytes(in), Output: usage.EstimateBytes(int(out)), Source: usage.Estimate}
	}
	return usage.Usage{Input: usage.Tokens(n.Input), Cached: usage.Tokens(n.Cached), CacheWrite: usage.Tokens(n.CacheWrite), Output: usage.Tokens(n.Output), Source: usage.Exact}
}

// finish ends an exchange: bookkeeping goes behind the reply, and a reply that
// the upstream cut is cut for the client too.
func (c *Chain) finish(x *Exchange) {
	defer c.metrics.closed(x) // last: what is no longer in flight is in the queue
	if x.world != nil {
		x.world.land(x.flight) // before the client can know that it has everything
	}
	if x.codec != nil {
		c.after.add(func() { c.complete(x) })
	}
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}

// complete is the work behind a reply. It runs in order, one at a time; its
// failures are logged, the user has been served.
func (c *Chain) complete(x *Exchange) {
	ctx := context.Background()
	if x.world != nil {
		defer c.memory.release(x.world)
	}
	defer func() { // a broken helper costs this turn's bookkeeping, not the program
		if p := recover(); p != nil {
			c.log.Error("bookkeeping failed", "turn", x.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	if x.world != nil {
		c.settleWorld(x)
	}
	c.fill(x)
	if !x.committed {
		t := x.turn(x.start.UnixMilli())
		t.Ledger = ""
		c.logged(x, "record", c.ledger.Record(ctx, t))
	}
	c.report(x)
	c.nameNext(x)
	c.logged(x, "finish", c.ledger.Finish(ctx, &x.done))
	for _, d := range x.degrades {
		d.Served, d.BytesChanged = x.path, !bytes.Equal(x.out, x.raw)
		id, err := c.ledger.Degrade(ctx, d)
		c.logged(x, "degrade", err)
		d.ID = id
		c.publish("degrade", d)
	}
	c.finished(x)
	c.warm(x)
	c.restampIfNeeded(ctx, x)
}

func (c *Chain) logged(x *Exchange, what string, err error) {
	if err != nil {
		c.log.Error("bookkeeping failed", "what", what, "turn", x.id, "err", err)
	}
}

// settleWorld compares the paths in shadow and moves the breaker on.
func (c *Chain) settleWorld(x *Exchange) {
	if x.committed && x.path == session.PathFull && x.home == session.HomeShadow {
		c.shadow(x)
	}
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	if x.key.Signed() && c.groups.turn(c.now(), x.key.Signal, string(x.codec.Family()), x.gate.Feeds) {
		c.log.Error("a group of clients is held in shadow after too many faults", "signal", x.key.Signal, "wire", string(x.codec.Family()))
	}
	if !x.committed {
		x.world.missed(x)
		return
	}
	b := x.world.find(x)
	if b == nil {
		return
	}
	x.world.faults = nil
	h := &b.st.Head
	if x.overlong { // the window is not learned from it
		h.Rhythm = fold.OpenRhythm(h.Rhythm).Overflow().Text()
	}
	h.Breaker = h.Breaker.Next(x.judged, x.gate.Feeds)
	x.done.Breaker = &h.Breaker
	if x.gate.Gate != session.NoGate {
		h.LastGate = string(x.gate.Gate)
		x.done.LastGate = &h.LastGate
	}
	if x.gate.Scope == "session" && h.NeedsRestamp == "" {
		h.NeedsRestamp = string(x.gate.Gate) + ": " + string(x.gate.Cause)
	}
	needs := h.NeedsRestamp
	x.done.NeedsRestamp = &needs
	if h.ListTurn == x.id && b.st.Kernel.Armed {
		x.done.Rhythm = h.Rhythm
	}
}

// nameNext remembers the head of the list by one hash, for the next turn.
func (c *Chain) nameNext(x *Exchange) {
	if !x.committed || len(x.keys) <= headSlack {
		return
	}
	h := head{n: len(x.keys) - headSlack, list: x.next.List, wire: string(x.codec.Family())}
	h.sum = content.Of(x.body.Head(h.n))
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	for _, b := range x.world.branches {
		if b.st.Head.Ledger == x.next.Head.Ledger && b.st.Head.ListTurn == x.id {
			b.head = h
		}
	}
}

// fill completes the turn row from the reply.
func (c *Chain) fill(x *Exchange) {
	d := &x.done
	d.ID, d.FinishedAt, d.Ms, d.Rounds = x.id, c.now().UnixMilli(), x.ms, 1
	d.BytesOut = int64(len(x.out))
	if x.committed {
		d.Ledger = x.next.Head.Ledger
		d.Path, d.Gate = x.path, string(x.gate.Gate)
		d.Plain = x.plan.Commit.Turn.View != nil && sameBytes(x.out, x.raw)
	}
	if x.tap == nil {
		d.Usage, d.ResponseWhy = usage.Usage{Source: usage.Estimate}, "the upstream sent no reply"
		return
	}
	info := x.reply.info()
	d.Model, d.StopReason, d.Reported = info.Model, info.StopReason, info.Counts.Seen
	d.Usage = countsOf(info.Counts, len(x.out), x.tap.Total())
	if len(x.rounds) > 1 {
		d.Rounds, d.Usage = len(x.rounds), x.allRounds()
	}
	if d.Status != http.StatusOK {
		d.Usage = usage.Usage{Source: usage.Exact}
	}
	if info.Err != "" && d.Error == "" {
		d.Error = "upstream_error"
	}
	d.CostMicros, d.Priced = usage.Cost(x.frame.Model, d.Usage)
	d.ResponseHash, d.ResponseBytes, d.Marks = content.ID(x.tap.Sum()), x.tap.Total(), x.tap.Marks()
	switch d.Response = x.tap.Kept(); {
	case !x.committed:
		d.Response, d.ResponseWhy = nil, "recorded by size and hash only"
	case d.Response == nil && x.tap.Total() > 0:
		d.ResponseWhy = "the reply was longer than 8 MiB"
	}
}

// allRounds is what the model calls of one reply used together.
func (x *Exchange) allRounds() usage.Usage {
	sum := countsOf(x.rounds[0].Counts, len(x.out), 0)
	for _, info := range x.rounds[1:] {
		sum = sum.Add(countsOf(info.Counts, len(x.out), 0))
	}
	return sum
}

// restampIfNeeded writes the rows of a session anew when they do not follow
// its list. The world is locked: its next turn waits instead of racing, which
// at a millisecond per ten elements is shorter than any reply.
func (c *Chain) restampIfNeeded(ctx context.Context, x *Exchange) {
	if x.world == nil || x.traffic.Rollout == session.Off {
		return
	}
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	b := x.world.find(x)
	if b == nil || b.st.Head.NeedsRestamp == "" && b.st.Red == "" {
		return
	}
	st, start := b.st, time.Now()
	if err := c.restamp(ctx, x, b); err != nil {
		if !errors.Is(err, session.ErrStale) {
			c.log.Error("re-stamp failed", "ledger", st.Head.Ledger, "err", err)
		}
		x.world.forget()
		return
	}
	c.log.Info("re-stamped", "ledger", st.Head.Ledger, "why", st.Head.NeedsRestamp, "rows", len(b.st.Rows), "ms", msSince(start))
}
