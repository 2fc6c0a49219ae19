package chain

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// fire asks the gates; the first that fires decides the turn: full path, a
// degrade event, and what happens to the session.
func (x *Exchange) fire(c *Chain, f session.Facts) {
	d := session.Decide(f)
	if d.Gate == session.NoGate {
		return
	}
	x.gate = d
	if x.path == session.PathSnapshot {
		x.path = session.PathFull
	}
	c.degrade(x, d, fmt.Sprintf("row %d, %d elements", x.al.Row, len(x.keys)))
}

// degrade notes a step down; it is stored and published when the turn is
// finished.
func (c *Chain) degrade(x *Exchange, d session.Decision, evidence string) {
	c.metrics.gate(d.Gate)
	x.degrades = append(x.degrades, session.DegradeView{At: c.now().UnixMilli(), Session: x.prior.Head.Ledger, Turn: x.id, Gate: string(d.Gate),
		Scope: d.Scope, Cause: string(d.Cause), Evidence: evidence})
}

// stepDown handles a failed walk. A body no codec can hold leaves verbatim; a
// ledger that fails leaves on the full path. Either way the bytes are the
// client's own.
func (c *Chain) stepDown(x *Exchange, err error) {
	c.floor(x)
	if x.world != nil {
		x.world.forget()
	}
	var se storageError
	switch {
	case errors.As(err, &se):
		x.path = session.PathFull
		x.stepStorage(c, se)
	case errors.Is(err, session.ErrStale):
		x.path = session.PathFull
		c.degrade(x, session.Decision{Cause: session.CauseStale, Scope: "turn"}, "compare-and-set failed twice")
	case errors.Is(err, session.ErrViewDiffers):
		x.path = session.PathFull
		x.fire(c, session.Facts{PathsDiffer: true})
	case errors.Is(err, session.ErrViewOpen):
		x.path = session.PathFull
		x.fire(c, session.Facts{ViewOpen: true})
	default:
		x.traffic.Unheld = true
		x.home, x.path, _ = session.HomeOf(x.traffic)
		c.degrade(x, session.Decision{Cause: causeOf(err), Scope: "turn"}, place(err))
	}
}

// floor makes the full path's body of what was planned, folds and all: the
// client's own bytes may be longer than the window by now. Where nothing was
// planned, or that fails too, those bytes are all there is.
func (c *Chain) floor(x *Exchange) {
	x.view, x.out, x.outgoing, x.offers = nil, x.raw, nil, false
	if x.floored = x.world != nil; x.plan == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("the full path failed", "turn", x.id, "panic", fmt.Sprint(p))
		}
	}()
	next := x.plan.Next
	view := x.plan.FullView()
	slots, err := c.slots(x.ctx, x, next, view)
	if err != nil {
		c.log.Error("the full path failed", "turn", x.id, "err", err)
		return
	}
	add := x.additions(&next.Kernel)
	out, err := x.codec.Render(x.body, slots, add)
	if err != nil {
		c.log.Error("the full path failed", "turn", x.id, "err", err)
		return
	}
	x.view, x.offers = view, len(add.Tools) > 0
	x.leaves(&out)
	x.floored = false
	if x.committed && !sameBytes(x.out, x.raw) {
		if !out.Nudged {
			add.Nudge = ""
		}
		x.done.View, _ = recordOf(view, slots, &next.Kernel, add)
		x.done.OutHash = content.Of(x.out)
	}
}

// outgrown refuses what can only be refused: after a failure of ours the client's
// own bytes are left, and they are longer than the window. The session goes on
// as soon as its folds can be read again, so that trying again is right.
func (c *Chain) outgrown(x *Exchange) *upstream.Refusal {
	if !x.floored || x.body == nil || usage.EstimateBytes(len(x.raw)) <= x.window {
		return nil
	}
	n := x.frameTokens()
	for i := range x.body.Elements {
		if m, err := x.codec.Element(x.body.Element(i)); err == nil { // pictures weigh less than their bytes
			n += fold.Describe(&m).Tokens
		}
	}
	if n <= x.window {
		return nil
	}
	return &upstream.Refusal{Status: http.StatusServiceUnavailable, Code: "past_window",
		Title: "This conversation is longer than the model's window, and its folds cannot be read just now.",
		Hint:  "Nothing was sent. Try again; if it stays so, holdfast doctor says what is wrong with the ledger."}
}

func (x *Exchange) stepStorage(c *Chain, se storageError) {
	switch se.cause {
	case session.CauseUnreadable:
		x.fire(c, session.Facts{Unreadable: true})
	case session.CauseSum:
		x.fire(c, session.Facts{SumMismatch: true})
	case session.CauseReadBack:
		x.fire(c, session.Facts{ReadBack: true})
	case session.CauseLedgerFull:
		c.degrade(x, session.Decision{Cause: se.cause, Scope: "turn"}, "budget reached")
	default:
		x.fire(c, session.Facts{CommitFailed: true})
	}
	c.log.Error("the ledger failed", "turn", x.id, "cause", string(se.cause), "err", se.err)
}

func causeOf(err error) session.Cause {
	for _, m := range [...]struct {
		err   error
		cause session.Cause
	}{
		{wire.ErrNotJSON, session.CauseNotJSON}, {wire.ErrShape, session.CauseShape},
		{wire.ErrDuplicateKey, session.CauseDuplicateKey}, {wire.ErrTooDeep, session.CauseTooDeep},
	} {
		if errors.Is(err, m.err) {
			return m.cause
		}
	}
	return session.CauseInternal
}

// evidenceMax keeps content out of evidence: codec errors name places, never
// values, and are short.
const evidenceMax = 120

func place(err error) string {
	s := err.Error()
	return s[:min(len(s), evidenceMax)]
}

// recovered turns a panic inside the walk into the verbatim path: a broken
// helper must be invisible to the client.
func (c *Chain) recovered(x *Exchange) {
	p := recover()
	if p == nil {
		return
	}
	c.log.Error("a stage failed", "turn", x.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	c.stepDown(x, fmt.Errorf("internal: %T", p))
}
