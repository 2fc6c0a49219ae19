package tier

import (
	"slices"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
)

// table is what the manager knows of its store. Everything in it is guarded by
// the manager's mu.
type table struct {
	limits     Limits
	budget     kv.Bytes // in force: the limit, or worked out from the disk
	index      *kv.Index
	entries    map[kv.ManifestID]*entry
	refs       map[kv.BlockID]int // manifests that name a block
	held       map[kv.BlockID]int // writes that count on a block and are not committed
	claims     map[claimKey]*claim
	records    map[recordKey]bool // spills queued or under way
	rates      map[kv.StateID]kv.Rates
	rows       map[kv.StateID]kv.Bytes                  // bytes a token, of the last manifest
	met        map[kv.ModelIdentity]map[kv.StateID]bool // states engines asked with since the start
	serial     uint64                                   // of the last manifest or use
	wear       wear
	capHit     string // the day on which a spill was last declined for the cap
	mismatch   mismatch
	noteDirty  bool
	queued     kv.Bytes // estimated growth of queued spills
	queueItems int
	inflight   kv.Bytes // claimed by writes under way
	activity   kv.StatusActivity
	found      kv.StatusReconciliation
}

func newTable(l Limits) table {
	t := table{
		limits: l, budget: l.Budget, index: kv.NewIndex(),
		entries: map[kv.ManifestID]*entry{}, refs: map[kv.BlockID]int{}, held: map[kv.BlockID]int{},
		claims: map[claimKey]*claim{}, records: map[recordKey]bool{},
		rates: map[kv.StateID]kv.Rates{}, rows: map[kv.StateID]kv.Bytes{},
		met: map[kv.ModelIdentity]map[kv.StateID]bool{},
	}
	t.activity.Misses = map[kv.MissReason]int64{}
	return t
}

// mismatch is the last lookup that found the prompt under another identity of
// the same model.
type mismatch struct {
	fields []string // of the identity, that differ
	at     time.Time
}

// entry is one manifest of the store.
type entry struct {
	id       kv.ManifestID
	model    kv.ModelIdentity
	state    kv.StateID
	tokens   kv.Tokens
	size     kv.Bytes // of the manifest's file
	pieces   []kv.Piece
	session  string
	branch   string
	use      kv.Use
	perToken float64 // seconds of prefill, 0 when not known
	pins     int
}

// bytes is what the entry names and is, shared or not.
func (e *entry) bytes() (n kv.Bytes) {
	n = e.size
	for _, p := range e.pieces {
		n += p.Size
	}
	return n
}

// add makes a committed manifest known.
func (t *table) add(id kv.ManifestID, m *kv.Manifest, size kv.Bytes, use kv.Use) {
	e := &entry{id: id, model: m.Model, state: m.State.ID(), tokens: kv.Tokens(len(m.Tokens)), size: size,
		pieces: m.Pieces(), session: m.Session, branch: m.Branch, use: use}
	if r := t.rates[e.state]; r.Prefill > 0 {
		e.perToken = 1 / r.Prefill
	}
	t.entries[id] = e
	for _, p := range e.pieces {
		t.refs[p.ID]++
	}
	t.index.Add(id, m)
	t.index.Touch(id, use.Serial)
	t.serial = max(t.serial, m.Serial, use.Serial)
	t.rows[e.state] = m.Layout.RowBytes()
}

// meet notes that an engine with this state identity is in use.
func (t *table) meet(model kv.ModelIdentity, state kv.StateID) {
	if t.met[model] == nil {
		t.met[model] = map[kv.StateID]bool{}
	}
	t.met[model][state] = true
}

// stale reports whether engines of this model are in use, and none of them could
// take the entry: it was made by another build, or with other settings.
func (t *table) stale(e *entry) bool {
	states := t.met[e.model]
	return len(states) > 0 && !states[e.state]
}

// remove forgets a manifest; evicted says that it went for want of room.
func (t *table) remove(id kv.ManifestID, evicted bool, at time.Time) {
	e := t.entries[id]
	if e == nil {
		return
	}
	delete(t.entries, id)
	for _, p := range e.pieces {
		drop(t.refs, p.ID)
	}
	t.index.Remove(id, evicted, at)
}

// drop counts one down and forgets what reached zero.
func drop[K comparable](m map[K]int, k K) {
	if m[k]--; m[k] <= 0 {
		delete(m, k)
	}
}

// wanted reports whether a block must stay: a manifest names it, or a write
// under way counts on it.
func (t *table) wanted(id kv.BlockID) bool { return t.refs[id] > 0 || t.held[id] > 0 }

// wanted is the table's, for the store.
func (m *Manager) wanted(id content.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.wanted(kv.BlockID(id))
}

// hold keeps a block from being deleted, stored or not, until release is called,
// which is done once.
func (m *Manager) hold(id kv.BlockID) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[id]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		drop(m.held, id)
	}
}

// Pin keeps a manifest from being evicted, pruned or cleared until the returned
// function is called, once or more often.
func (m *Manager) Pin(id kv.ManifestID) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pin(id)
}

// pin is Pin for a caller that holds mu.
func (m *Manager) pin(id kv.ManifestID) (release func()) {
	e := m.entries[id]
	if e == nil {
		return func() {}
	}
	e.pins++
	released := false
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !released {
			released = true
			e.pins--
		}
	}
}

// touch books a use; the caller holds mu.
func (m *Manager) touch(e *entry) {
	m.serial++
	e.use = e.use.Again(m.now(), m.serial)
	m.index.Touch(e.id, m.serial)
	m.noteDirty = true
}

// naming lists the manifests that name a block.
func (t *table) naming(id kv.BlockID) (ids []kv.ManifestID) {
	for _, e := range t.entries {
		if slices.ContainsFunc(e.pieces, func(p kv.Piece) bool { return p.ID == id }) {
			ids = append(ids, e.id)
		}
	}
	return ids
}
