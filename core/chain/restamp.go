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
		if m.Key != elems[i].Key || len(m.Parts) != len(elems[i].Cores) {
			if err := fitCores(&elems[i], &m); err != nil {
				return err
			}
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

// fitCores allows what equality allows: stored bytes whose reasoning differs
// from the cores first counted (a kept element given another wire's bytes).
// The cores are read again, each as the first of its kind.
func fitCores(e *session.Element, m *chat.Message) error {
	if m.Key != e.Key && chat.ReasoningOnly(m.Parts) {
		return fmt.Errorf("stored element %d does not have its key", e.N)
	}
	cores := make([]session.CoreRef, len(m.Parts))
	for i := range m.Parts {
		cores[i] = session.CoreRef{Kind: m.Parts[i].Kind, Canon: m.Parts[i].Canon, Repeat: 1}
		for _, old := range e.Cores {
			if old.Canon == m.Parts[i].Canon {
				cores[i].Repeat = old.Repeat
			}
		}
	}
	e.Cores = cores
	return nil
}
