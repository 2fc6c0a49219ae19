package tier

import (
	"context"
	"errors"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/kv"
)

// Errors of lifecycle operations: mistakes of whoever asked.
var (
	ErrNotActive = &Refusal{Op: "change the cache", Reason: "not_active", What: "the KV tier is not open",
		Hint: "see why with holdfast kv status; turn it on with kv.disk.mode"}
	ErrNoTarget = &Refusal{Op: "prune", Reason: "no_target", What: "there is no budget, so there is no size to prune to",
		Hint: "give a target, or use clear to delete everything"}
)

// PruneRequest says how far to prune. Models are compared exactly.
type PruneRequest struct {
	Target *kv.Bytes // nil is 85 % of the budget
	Model  *kv.ModelIdentity
	DryRun bool
}

// Pruned is what a prune or clear did, or with DryRun would do.
type Pruned struct {
	Plan  kv.Plan
	Freed kv.Bytes
}

// Prune evicts the least useful states until the store is down to the target.
// The newest state of each branch and what is in use stay.
func (m *Manager) Prune(ctx context.Context, r PruneRequest) (Pruned, error) {
	m.mu.Lock()
	g := kv.Goal{Target: kv.LowWater(m.budget), Model: r.Model}
	zero := m.budget == 0
	m.mu.Unlock()
	if r.Target != nil {
		g.Target = *r.Target
	} else if zero && m.usable() {
		return Pruned{}, ErrNoTarget
	}
	return m.lifecycle(ctx, g, r.DryRun, false)
}

// Clear deletes every state, or every one of a model, and what is in quarantine.
// What is in use at this moment stays.
func (m *Manager) Clear(ctx context.Context, model *kv.ModelIdentity, dryRun bool) (Pruned, error) {
	return m.lifecycle(ctx, kv.Goal{All: true, Model: model}, dryRun, model == nil)
}

// lifecycle plans and, unless it is for show, carries out alone: spills and fills
// under way end first, and new fills go cold meanwhile.
func (m *Manager) lifecycle(ctx context.Context, g kv.Goal, dryRun, quarantine bool) (out Pruned, err error) {
	if !m.usable() {
		return out, ErrNotActive
	}
	if dryRun {
		if !m.share() {
			return out, ErrNotActive
		}
		defer m.gate.RUnlock()
	} else {
		m.condition(func(c *conditions) { c.pruning++ })
		defer m.condition(func(c *conditions) { c.pruning-- })
		if !m.alone() {
			return out, ErrNotActive
		}
		defer m.gate.Unlock()
	}
	m.admission.Lock()
	defer m.admission.Unlock()
	if g, err = m.goal(g); err != nil {
		return out, fmt.Errorf("tier: %w", err)
	}
	if out.Plan = kv.PlanEvict(m.contents(), g); dryRun {
		return out, nil
	}
	if out.Freed, err = m.carryOut(ctx, out.Plan); err != nil {
		return out, fmt.Errorf("tier: %w", err)
	}
	if quarantine {
		freed, err := m.manifests.EmptyQuarantine()
		out.Freed += kv.Bytes(freed)
		return out, err
	}
	return out, nil
}

// SetLimits takes new limits up. A smaller budget evicts at once; what is pinned
// stays, and writes are refused until it fits. The caller has persisted the
// limits before: an eviction cannot be taken back.
func (m *Manager) SetLimits(ctx context.Context, l Limits) error {
	if !m.usable() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.limits, m.budget = l, l.Budget
		return nil
	}
	if !m.alone() {
		return ErrNotActive
	}
	defer m.gate.Unlock()
	m.mu.Lock()
	m.limits = l
	m.mu.Unlock()
	return m.settleBudget(ctx)
}

// Verification is the outcome of reading everything back.
type Verification struct {
	Packs, Blocks int
	Bytes         kv.Bytes
	Bad           int // blocks that were not what their ID names
	Manifests     int // put aside because of them
	Entries       int // that are left
}

// Sound reports whether nothing was damaged.
func (v Verification) Sound() bool { return v.Bad == 0 && v.Manifests == 0 }

// Verify reads every block of a model, or of all, and checks it against its ID. States that
// need a damaged one are put aside, and the pack is rewritten without it. It
// gives way between entries, so that a prune does not wait for all of it.
func (m *Manager) Verify(ctx context.Context, model *kv.ModelIdentity) (v Verification, err error) {
	if !m.usable() {
		return v, ErrNotActive
	}
	seen := map[kv.BlockID]bool{}
	packs := map[content.ID]bool{}
	for _, id := range m.entriesOf(model) {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		if err := m.verifyEntry(ctx, id, seen, packs, &v); err != nil {
			return v, err
		}
	}
	v.Packs = len(packs)
	v.Entries = len(m.entriesOf(model))
	return v, nil
}

func (m *Manager) entriesOf(model *kv.ModelIdentity) (ids []kv.ManifestID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.entries {
		if model == nil || e.model == *model {
			ids = append(ids, id)
		}
	}
	return ids
}

// verifyEntry checks one manifest and those of its blocks not seen yet.
func (m *Manager) verifyEntry(ctx context.Context, id kv.ManifestID, seen map[kv.BlockID]bool, packs map[content.ID]bool, v *Verification) error {
	if !m.share() {
		return ErrNotActive
	}
	defer m.gate.RUnlock()
	before := m.corrupt()
	defer func() { v.Manifests += int(m.corrupt() - before) }()
	man, err := m.load(id)
	if err != nil {
		return onlyCorrupt(err)
	}
	for _, p := range man.Pieces() {
		if seen[p.ID] {
			continue
		}
		seen[p.ID] = true
		pack, _, _, _ := m.segments.Where(content.ID(p.ID))
		packs[pack] = true
		v.Blocks++
		v.Bytes += p.Size
		if err := m.readBack(ctx, p, pack, id); err != nil {
			v.Bad++
			return onlyCorrupt(err) // the entry is out of use; its other blocks are its neighbours' matter
		}
	}
	return nil
}

// readBack reads one block; a damaged one takes the manifests that name it out
// of use, and its pack is rewritten without it.
func (m *Manager) readBack(ctx context.Context, p kv.Piece, pack content.ID, id kv.ManifestID) error {
	one := []content.ID{content.ID(p.ID)}
	err := m.segments.Read(ctx, one, func(_ int, b []byte) error {
		if kv.BlockOf(b) != p.ID {
			return &content.MismatchError{ID: content.ID(p.ID)}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	err = m.spoilt(err, id)
	var miss *Miss
	if errors.As(err, &miss) && miss.Reason == kv.MissCorrupt {
		m.salvage(ctx, pack)
	}
	return err
}

// salvage rewrites a pack without its damaged blocks and puts the old one aside.
// Where there is no room the pack stays; nobody names the damaged blocks any
// more.
func (m *Manager) salvage(ctx context.Context, pack content.ID) {
	m.admission.Lock()
	defer m.admission.Unlock()
	for _, p := range m.packs() {
		if content.ID(p.ID) != pack {
			continue
		}
		a, err := m.decide(kv.Claim{Write: p.Size, Growth: p.Size}, true)
		if err != nil || a.Verdict != kv.Admitted {
			return
		}
		if _, err := m.compact(ctx, p.ID, p.Size, true); err != nil && !m.segments.Busy(err) {
			m.log.Warn("a damaged pack could not be rewritten", "error", err)
		}
	}
}

func (m *Manager) corrupt() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.activity.CorruptEntries
}

// onlyCorrupt passes on what is not damage that was dealt with.
func onlyCorrupt(err error) error {
	var miss *Miss
	if errors.As(err, &miss) && (miss.Reason == kv.MissCorrupt || miss.Reason == kv.MissCodec) {
		return nil
	}
	return err
}
