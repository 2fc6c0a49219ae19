package chain

import (
	"errors"
	"fmt"
	"time"

	"holdfast/core/session"
)

// storageError is a failure of the ledger with the cause its gate names.
type storageError struct {
	cause session.Cause
	err   error
}

func (e storageError) Error() string { return fmt.Sprintf("%s: %v", e.cause, e.err) }
func (e storageError) Unwrap() error { return e.err }

// apply is the commit point: one transaction holds the turn, its elements and
// rows, and the checkpoint that seals them, and it is durable before the
// upstream sees a byte. A crash before it leaves the previous turn's state and
// a client that retries; a crash after it leaves this turn's state, and the
// client's retry is recognised as one (row 5, nothing new) and goes out the
// same. Nothing between the two exists. What encode does after it can no
// longer refuse: it arranges bytes that decode accepted.
func (c *Chain) apply(x *Exchange) error {
	start := time.Now()
	err := c.ledger.Commit(x.ctx, &x.plan.Commit)
	took := ms(time.Since(start) - x.plan.Commit.Waited)
	switch {
	case errors.Is(err, session.ErrStale):
		return err
	case errors.Is(err, session.ErrFull):
		return storageError{session.CauseLedgerFull, err}
	case errors.Is(err, session.ErrReadBack):
		return storageError{session.CauseReadBack, err}
	case err != nil:
		return storageError{session.CauseStorage, err}
	}
	c.metrics.commit(took)
	x.committed = true
	x.next = x.plan.Settle()
	c.remember(x)
	restamps := x.create || x.al.Restamps()
	x.fire(c, session.Facts{CommitMs: took, Exempt: restamps})
	return nil
}

// remember puts the committed state into the world's memory.
func (c *Chain) remember(x *Exchange) {
	x.sent = &sentForm{}
	last := lastTurn{id: x.id, at: x.start.UnixMilli(), model: x.frame.Model, wire: string(x.codec.Family()), fields: x.fields, skeleton: x.skeleton, form: x.sent}
	if x.branch == nil {
		x.branch = &branch{echoes: map[int64]*echo{}}
		if x.prior.Head.SessRaw != x.world.key.SessRaw { // an unsigned fork has a world of its own
			return
		}
		x.world.branches = append(x.world.branches, x.branch)
	}
	x.branch.st, x.branch.last, x.branch.bypasses = x.next, last, c.bypass.ended.Load()
	x.settleEcho()
	c.memory.grew(x.world)
}

// again reports whether a failed walk is worth a second one, once: the ledger
// moved on since memory was read, or the snapshot view could not be rendered.
// The second then keeps the gate and goes as a turn to be re-stamped, so that
// the list is recorded and the next turn does not meet the same fault.
func (c *Chain) again(x *Exchange, err error) bool {
	if x.attempt > 0 || x.committed {
		return false
	}
	f, unrenderable := unrendered(err)
	switch {
	case errors.Is(err, session.ErrStale):
		x.gate, x.degrades = session.Decision{}, nil
	case unrenderable && x.path == session.PathSnapshot:
		x.fire(c, f)
		c.log.Error("the stored view cannot be served", "turn", x.id, "cause", string(x.gate.Cause), "err", err)
	default:
		return false
	}
	x.world.forget()
	x.view, x.out, x.offers = nil, x.raw, false
	return true
}

// unrendered tells which fact about the stored view an error of render is.
func unrendered(err error) (f session.Facts, ok bool) {
	var se storageError
	switch {
	case errors.Is(err, session.ErrViewDiffers):
		f.PathsDiffer = true
	case errors.Is(err, session.ErrViewOpen):
		f.ViewOpen = true
	case errors.As(err, &se) && se.cause == session.CauseSum:
		f.SumMismatch = true
	case errors.As(err, &se) && se.cause == session.CauseUnreadable:
		f.Unreadable = true
	default:
		return f, false
	}
	return f, true
}
