package tier

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"holdfast/core/kv"
)

// inventory is the store as it was after the last change, for readers that must
// not wait for the next one.
type inventory struct {
	entries []kv.StatusEntry
	blocks  int
}

// publish makes what is stored now visible to Status. Whoever changes the store
// calls it.
func (m *Manager) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	inv := &inventory{blocks: len(m.refs), entries: make([]kv.StatusEntry, 0, len(m.entries))}
	for _, e := range m.entries {
		inv.entries = append(inv.entries, m.statusOf(e))
	}
	slices.SortFunc(inv.entries, func(a, b kv.StatusEntry) int {
		return cmp.Or(slices.Compare(a.ModelIdentity[:], b.ModelIdentity[:]), slices.Compare(a.StateIdentity[:], b.StateIdentity[:]),
			cmp.Compare(b.Tokens, a.Tokens), b.LastUsed.Compare(a.LastUsed))
	})
	m.shown.Store(inv)
}

// statusOf describes one entry; the caller holds mu.
func (t *table) statusOf(e *entry) kv.StatusEntry {
	s := kv.StatusEntry{ModelIdentity: e.model, StateIdentity: e.state, Tokens: e.tokens, Bytes: e.bytes(),
		ExclusiveBytes: e.size, LastUsed: e.use.At, Sessions: []string{}}
	for _, p := range e.pieces {
		if t.refs[p.ID] == 1 {
			s.ExclusiveBytes += p.Size
		}
	}
	if e.session != "" {
		s.Sessions = append(s.Sessions, e.session)
	}
	return s
}

// Status is the status JSON. It waits for no read, write or lifecycle operation.
func (m *Manager) Status() kv.Status {
	s := kv.Status{Version: kv.StatusVersion, FormatVersion: kv.ManifestVersion, Configured: m.configured()}
	open := m.usable()
	if open {
		m.recheck()
	}
	s.Effective.State, s.Effective.Reason = m.mood.get()
	s.Effective.PendingRestart, s.Effective.Warnings, s.Effective.StalePaths = []string{}, []string{}, []string{}
	inv := m.shown.Load()
	s.Inventory = slices.Clone(inv.entries)
	if s.Inventory == nil {
		s.Inventory = []kv.StatusEntry{}
	}
	if open {
		s.Usage = m.usage()
		s.Usage.Manifests, s.Usage.UniqueSegments = len(inv.entries), inv.blocks
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Activity, s.Reconciliation = m.activity, m.found
	s.Activity.Misses = maps.Clone(m.activity.Misses)
	s.Activity.Queue.Items, s.Activity.Queue.Bytes = m.queueItems, m.queued
	s.Usage.BudgetBytes, s.Usage.ReserveBytes, s.Usage.ReservedInflightBytes = m.budget, m.limits.Reserve, m.inflight
	if m.capHit == m.now().Format(time.DateOnly) {
		s.Effective.Warnings = append(s.Effective.Warnings, "today's kv.disk.daily_write_cap is reached; nothing more is written until tomorrow")
	}
	return s
}

// usage is the disk's part of the status.
func (m *Manager) usage() kv.StatusUsage {
	free, _ := m.room.get()
	objects, _ := m.manifests.Quarantined()
	return kv.StatusUsage{UsedBytes: kv.Bytes(m.segments.Used()), FilesystemAvailableBytes: free, QuarantinedObjects: objects}
}

// Totals are the few figures that are shown everywhere.
func (m *Manager) Totals() (state kv.TierState, used, budget kv.Bytes) {
	state, _ = m.mood.get()
	if m.usable() {
		used = kv.Bytes(m.segments.Used())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return state, used, m.budget
}

// Written is how many bytes were written today, and the day's cap.
func (m *Manager) Written() (today, limit kv.Bytes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wear.today(m.now()), m.limits.DailyWrites
}
