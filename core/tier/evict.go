package tier

import (
	"context"
	"errors"
	"iter"
	"slices"

	"holdfast/core/content"
	"holdfast/core/kv"
)

// contents is the store as the planners see it. The store is never asked with
// mu held: it asks back which blocks are wanted.
func (m *Manager) contents() kv.Contents {
	c := kv.Contents{Cost: m.cost, Packs: m.packs()}
	used := kv.Bytes(m.segments.Used())
	m.mu.Lock()
	defer m.mu.Unlock()
	var known kv.Bytes
	for _, e := range m.entries {
		s := e.stored()
		s.Stale = m.stale(e)
		c.Manifests = append(c.Manifests, s)
		known += e.size
	}
	for i, p := range c.Packs {
		known += p.Size
		for _, b := range p.Pieces {
			c.Packs[i].Held = c.Packs[i].Held || m.held[b.ID] > 0
		}
	}
	c.Other = max(0, used-known) + m.inflight
	inOrder(c)
	return c
}

// inOrder sorts what came out of maps, so that equal stores give equal plans.
func inOrder(c kv.Contents) {
	slices.SortFunc(c.Manifests, func(a, b kv.Stored) int { return slices.Compare(a.ID[:], b.ID[:]) })
	slices.SortFunc(c.Packs, func(a, b kv.PackFile) int { return slices.Compare(a.ID[:], b.ID[:]) })
}

func (m *Manager) packs() (out []kv.PackFile) {
	m.segments.EachPack(func(id content.ID, size int64, busy bool, blocks iter.Seq2[content.ID, int64]) {
		p := kv.PackFile{ID: kv.PackID(id), Size: kv.Bytes(size), Held: busy}
		for b, n := range blocks {
			p.Pieces = append(p.Pieces, kv.Piece{ID: kv.BlockID(b), Size: kv.Bytes(n)})
		}
		out = append(out, p)
	})
	return out
}

func (e *entry) stored() kv.Stored {
	return kv.Stored{ID: e.id, Model: e.model, State: e.state, Tokens: e.tokens, Bytes: e.size, Pieces: e.pieces,
		Use: e.use, Pinned: e.pins > 0, PerToken: e.perToken, Session: e.session, Branch: e.branch}
}

// goal completes a goal with what holds for every eviction.
func (m *Manager) goal(g kv.Goal) (kv.Goal, error) {
	room, err := m.measure()
	if err != nil {
		return g, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g.Budget, g.Now = room.Budget, m.now()
	g.Spare = max(0, room.Free-room.Inflight-room.Reserve)
	if cap := m.limits.DailyWrites; cap > 0 {
		g.Spare = min(g.Spare, max(0, cap-m.wear.today(g.Now)))
	}
	return g, nil
}

// makeRoom evicts down to a target, for a write of so many bytes; the caller
// holds admission.
func (m *Manager) makeRoom(ctx context.Context, target, incoming kv.Bytes) error {
	m.condition(func(c *conditions) { c.pruning++ })
	defer m.condition(func(c *conditions) { c.pruning-- })
	g, err := m.goal(kv.Goal{Target: target, Incoming: incoming})
	if err != nil {
		return err
	}
	_, err = m.carryOut(ctx, kv.PlanEvict(m.contents(), g))
	return err
}

// carryOut does what a plan says, step by step, and returns the bytes it freed.
// The plan is a moment old: a manifest that was pinned since stays, and so do the
// packs it needs; a pack that somebody reads is left for the next plan. The
// caller holds admission.
func (m *Manager) carryOut(ctx context.Context, p kv.Plan) (freed kv.Bytes, err error) {
	before := m.segments.Used()
	moved := map[kv.PackID]kv.PackID{} // compacted packs by the name the plan has for them
	for _, s := range p.Steps {
		if err = ctx.Err(); err != nil {
			break
		}
		if err = m.step(ctx, s, moved); err != nil && !m.segments.Busy(err) {
			break
		}
		err = nil
	}
	_, swept := m.segments.Sweep(m.wanted)
	m.publish()
	return kv.Bytes(before - m.segments.Used()), errors.Join(err, swept)
}

func (m *Manager) step(ctx context.Context, s kv.Step, moved map[kv.PackID]kv.PackID) error {
	pack := s.Pack
	if to, ok := moved[pack]; ok {
		pack = to
	}
	switch s.Kind {
	case kv.RemoveManifest:
		return m.evict(s.Manifest, true)
	case kv.DeletePack:
		_, err := m.segments.DropPack(content.ID(pack), m.wanted)
		return err
	case kv.CompactPack:
		made, err := m.compact(ctx, pack, s.Writes, false)
		moved[s.Pack] = made
		return err
	}
	return nil
}

// evict forgets one manifest and deletes it. It is forgotten first: nobody may
// find what is about to go.
func (m *Manager) evict(id kv.ManifestID, counted bool) error {
	m.mu.Lock()
	if e := m.entries[id]; e == nil || e.pins > 0 {
		m.mu.Unlock()
		return nil // used meanwhile, or gone
	}
	m.remove(id, true, m.now())
	if counted {
		m.activity.Evictions++
	}
	m.noteDirty = true
	m.mu.Unlock()
	return m.manifests.DropManifest(content.ID(id))
}

// compact rewrites a pack without what nobody wants. The new file is claimed
// like any write: for a moment both are there, within the budget.
func (m *Manager) compact(ctx context.Context, pack kv.PackID, writes kv.Bytes, keep bool) (kv.PackID, error) {
	release := m.claim(writes)
	defer release()
	made, size, err := m.segments.Compact(ctx, content.ID(pack), m.wanted, keep)
	if err == nil {
		m.booked(kv.Bytes(size))
	}
	return kv.PackID(made), err
}

// discarded deletes what no manifest wants, after something was given up or
// found damaged.
func (m *Manager) discarded() error {
	_, err := m.segments.Sweep(m.wanted)
	m.publish()
	return err
}
