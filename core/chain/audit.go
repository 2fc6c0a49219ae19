package chain

import (
	"context"
	"strings"

	"holdfast/core/session"
)

// Audit re-renders one ledger while nobody waits: its rows against its list,
// every stored element against its key. What fails is recorded as gate R3, and
// the session is re-stamped behind its next turn. A busy ledger is left alone.
func (c *Chain) Audit(ctx context.Context, ledger string) (*Report, error) {
	if c.Busy(ledger) {
		return nil, nil
	}
	r, err := Verify(ctx, c.ledger, ledger, nil)
	if err != nil || r.OK() {
		return r, err
	}
	return r, c.distrust(ctx, ledger, strings.Join(r.Problems, "; "))
}

func (c *Chain) distrust(ctx context.Context, ledger, why string) error {
	st, err := c.ledger.Load(ctx, ledger)
	if err != nil {
		return err
	}
	d := session.DegradeView{At: c.now().UnixMilli(), Session: ledger, Gate: string(session.R3), Scope: "session", Cause: string(session.CauseSum),
		Evidence: "audit: " + why[:min(len(why), evidenceMax)], Served: session.PathFull}
	c.metrics.gate(session.R3)
	if d.ID, err = c.ledger.Degrade(ctx, d); err != nil {
		return err
	}
	c.publish("degrade", d)
	w := c.memory.world(st.Head.World)
	defer c.memory.release(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := c.load(ctx, w); err != nil {
		return err
	}
	for _, b := range w.branches {
		if b.st.Head.Ledger == ledger {
			b.st.Head.NeedsRestamp = string(session.R3) + ": " + string(session.CauseSum)
		}
	}
	return nil
}
