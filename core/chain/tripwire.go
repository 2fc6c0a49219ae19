package chain

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"holdfast/core/session"
)

// DefaultTripwire is the budget of a comparison before sending; over it the
// turn goes out uncompared and is counted as skipped.
const DefaultTripwire = 50 * time.Millisecond

const (
	// firstTurns of a session on the snapshot path are all compared before they
	// are sent, and so is the first after a restart.
	firstTurns = 3
	// reloadEvery is how often, in compared turns, the state is read anew from
	// disk and compared with memory, aggregate included.
	reloadEvery = 20
)

// tripwire compares the two paths of a sampled snapshot turn before it leaves.
func (c *Chain) tripwire(x *Exchange) error {
	x.branch.served++
	if x.branch.served > firstTurns && rand.Float64()*100 >= x.cfg.Rollout.TripwirePercent {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, c.tripBudget)
	defer cancel()
	v, why := c.compare(ctx, x, x.branch.served <= firstTurns)
	c.compared(x, v, why)
	if v == session.Different {
		x.fire(c, session.Facts{PathsDiffer: true})
		c.floor(x)
	}
	return nil
}

// shadow compares the paths of a turn that the full path served, after the
// reply has left.
func (c *Chain) shadow(x *Exchange) {
	if !x.committed || !x.rows || x.next.Red != "" {
		return
	}
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	b := x.world.find(x)
	if b == nil {
		return
	}
	n := b.compared
	b.compared++
	v, why := c.compare(context.Background(), x, n < firstTurns || n%reloadEvery == 0)
	c.compared(x, v, why)
	if v == session.Different {
		x.fire(c, session.Facts{PathsDiffer: true})
		b.st.Head.NeedsRestamp = "R3: " + string(session.CauseTripwire)
	}
}

// compare renders the snapshot view again, from disk when reload is set, and
// holds it against the full path: the same elements in the same order, what
// was removed apart, and the same bytes.
func (c *Chain) compare(ctx context.Context, x *Exchange, reload bool) (session.Verdict, string) {
	if reload {
		if v, why := c.reload(ctx, x); v != session.ByteEqual {
			return v, why
		}
	}
	st := *x.next
	snapshot, err := snapshotView(&st)
	if err != nil {
		return session.Different, err.Error()
	}
	whole := session.WholeView(st.Elements(), st.List, st.Kernel)
	if !session.SameView(snapshot, whole) {
		return session.Different, "the views differ"
	}
	if err := c.sameBytes(x, &st, snapshot, whole); err != nil {
		return session.Drift, err.Error()
	}
	return session.ByteEqual, ""
}

// reload reads the state anew and holds its rows against those in memory. Where
// a client was quicker with its next turn than this comparison, disk is already
// ahead: then memory is compared alone.
func (c *Chain) reload(ctx context.Context, x *Exchange) (session.Verdict, string) {
	st, err := c.ledger.Load(ctx, x.next.Head.Ledger)
	switch {
	case ctx.Err() != nil:
		return session.Skipped, "over the time budget"
	case err != nil:
		return session.Different, "ledger unreadable: " + err.Error()
	case st.Head.Version != x.next.Head.Version || st.Head.Epoch != x.next.Head.Epoch:
		return session.ByteEqual, ""
	case st.Red != "":
		return session.Different, st.Red
	case !slices.Equal(st.Rows, x.next.Rows):
		return session.Different, "stored rows and memory differ"
	}
	return session.ByteEqual, ""
}

// sameBytes renders both views of one state and holds them against each other.
func (c *Chain) sameBytes(x *Exchange, st *session.State, views ...[]session.ViewItem) error {
	var first []byte
	for i, view := range views {
		b, err := c.rendered(x, st, view)
		if err != nil {
			return err
		}
		if i > 0 && !bytes.Equal(b, first) {
			return errDrift
		}
		first = b
	}
	return nil
}

var errDrift = errors.New("bytes")

// compared notes a verdict for the turn row and the status.
func (c *Chain) compared(x *Exchange, v session.Verdict, why string) {
	x.done.Verdict, x.done.VerdictWhy = v, why
	c.metrics.tripped(v)
	if v == session.Different {
		c.groups.difference(x.key.Signal, x.next.Head.Wire, x.next.Head.Ledger)
		c.log.Error("the two paths differ", "turn", x.id, "why", why)
	}
}
