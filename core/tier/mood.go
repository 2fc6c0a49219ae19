package tier

import (
	"slices"
	"sync"
	"time"

	"holdfast/core/kv"
)

// Reasons of the state degraded and of its neighbours: stable codes.
const (
	ReasonStorageUnavailable = "storage_unavailable"       // the store could not be opened
	ReasonOwnedElsewhere     = "owned_elsewhere"           // another process has it
	ReasonBudgetZero         = "budget_below_entry_floor"  // the disk is too full for any budget
	ReasonWorker             = "worker_failed"             // the spill worker panicked
	ReasonStorageError       = "storage_error"             // a write failed; the next success clears it
	ReasonInsufficient       = "insufficient_space"        // nothing more can be evicted
	ReasonLowSpace           = string(kv.ReadOnlyLowSpace) // the reserve is reached
	ReasonDailyCap           = "daily_write_cap"           // written enough today
)

// conditions are what a state is derived from.
type conditions struct {
	phase   kv.TierState // off, starting or active
	broken  string       // why there is no store, "" when there is
	zero    bool         // the budget is 0
	worker  bool         // the worker panicked
	write   bool         // the last write failed
	full    bool         // the last claim found nothing to evict
	low     bool         // the last claim would have broken the reserve
	pruning int          // lifecycle operations and evictions under way
}

// state derives what is shown. What keeps the tier from working at all comes
// first, then what is being done about it, then what keeps it from writing.
func (c conditions) state() (kv.TierState, string) {
	switch {
	case c.phase != kv.StateActive:
		return c.phase, ""
	case c.broken != "":
		return kv.StateDegraded, c.broken
	case c.worker:
		return kv.StateDegraded, ReasonWorker
	case c.zero:
		return kv.StateDegraded, ReasonBudgetZero
	case c.pruning > 0:
		return kv.StatePruningToBudget, ""
	case c.low:
		return kv.StateReadOnlyLowSpace, ReasonLowSpace
	case c.full:
		return kv.StateDegraded, ReasonInsufficient
	case c.write:
		return kv.StateDegraded, ReasonStorageError
	}
	return kv.StateActive, ""
}

// maxTransitions is how many changes of state are remembered.
const maxTransitions = 64

// mood is the state with its latest changes. Its owner is the manager; every
// change goes through set.
type mood struct {
	telling sync.Mutex // keeps notices in order; held while one is told

	mu     sync.Mutex // guards the rest
	now    conditions
	seq    uint64
	recent []Transition
}

func (m *mood) start(phase kv.TierState) { m.now.phase = phase }

func (m *mood) get() (kv.TierState, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.state()
}

// conditions returns a copy.
func (m *mood) conditions() conditions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// set changes the conditions and tells of it when the state is another one.
func (m *mood) set(at time.Time, tell func(Transition), change func(*conditions)) {
	m.telling.Lock()
	defer m.telling.Unlock()
	if t, changed := m.change(at, change); changed {
		tell(t)
	}
}

func (m *mood) change(at time.Time, change func(*conditions)) (Transition, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, why := m.now.state()
	change(&m.now)
	after, reason := m.now.state()
	if before == after && why == reason {
		return Transition{}, false
	}
	m.seq++
	t := Transition{Seq: m.seq, At: at, Previous: before, State: after, Reason: reason}
	m.recent = append(m.recent, t)
	if n := len(m.recent) - maxTransitions; n > 0 {
		m.recent = slices.Delete(m.recent, 0, n)
	}
	return t, true
}

// Transitions returns the remembered changes of state after seq, oldest first.
func (m *Manager) Transitions(after uint64) []Transition {
	m.mood.mu.Lock()
	defer m.mood.mu.Unlock()
	i, _ := slices.BinarySearchFunc(m.mood.recent, after, func(t Transition, seq uint64) int {
		if t.Seq <= seq {
			return -1
		}
		return 1
	})
	return slices.Clone(m.mood.recent[i:])
}

// note changes the conditions of the manager's state.
func (m *Manager) condition(change func(*conditions)) {
	m.mood.set(m.now(), m.notify, change)
}
