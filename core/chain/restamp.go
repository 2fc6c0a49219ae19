package chain

import (
	"context"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// restamp writes rows of the next epoch from the stored elements of the last
// inbound list. The caller holds the world's lock.
func (c *Chain) restamp(ctx context.Context, x *Exchange, b *branch) error {
	st := b.st
	codec := c.codecs[wire.Family(st.Head.Wire)]
	if codec == nil {
		return fmt.Errorf("no codec for wire %q", st.Head.Wire)
	}
	elems, err := c.ledger.Elements(ctx, st.Head.Ledger, numbers(st.List))
	if err != nil {
		return err
	}
	msgs := make([]*chat.Message, len(elems))
	for i := range elems {
		raw, err := c.ledger.Blob(ctx, elems[i].Blob)
		if err != nil {
			return err
		}
		m, err := codec.Element(raw)
		if err != nil {
			return fmt.Errorf("stored element %d: %w", elems[i].N, err)
		}
		if m.Key != elems[i].Key {
			return fmt.Errorf("stored element %d does not have its key", elems[i].N)
		}
		msgs[i] = &m
	}
	plan, next := session.MakeRestamp(st, msgs, elems, session.RouteOf(x.traffic.Rollout, st.Head.Member), c.now().UnixMilli())
	if err := c.ledger.Restamp(ctx, plan); err != nil {
		return err
	}
	b.st = next
	b.served, b.compared = 0, 0
	c.memory.grew(x.world)
	return nil
}
