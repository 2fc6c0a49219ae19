package kv

import "fmt"

// Room is the state of a store's disk when a write asks for some of it.
type Room struct {
	Budget   Bytes // the hard limit of everything the store holds
	Used     Bytes // packs, manifests and quarantine
	Inflight Bytes // reserved by writes that are not done
	Free     Bytes // on the file system, for an unprivileged user
	Reserve  Bytes // that must stay free for the rest of the machine
}

// Claim is what a write needs: Write bytes of free space while it runs, Growth
// bytes of the budget once it is done.
type Claim struct{ Write, Growth Bytes }

// Verdict is what becomes of a claim.
type Verdict string

// The verdicts. Evict asks for room first; the others are final.
const (
	Admitted          Verdict = "admitted"
	Evict             Verdict = "evict"
	SkippedOversize   Verdict = "skipped_oversize"
	ReadOnlyLowSpace  Verdict = "read_only_low_space"
	InsufficientSpace Verdict = "insufficient_space"
)

// Admission is a decision and, for Evict, the usage to come down to.
type Admission struct {
	Verdict Verdict
	Target  Bytes
}

// lowWater is the share of the budget an eviction comes down to: stopping at the
// limit itself would make every later commit evict again.
const lowWater = 0.85

// LowWater is the usage an eviction comes down to.
func LowWater(budget Bytes) Bytes { return Bytes(float64(budget) * lowWater) }

// Reserve decides a claim. The caller rescans its totals before it believes a
// refusal, evicts when asked to, and asks again with evicted set.
func Reserve(r Room, c Claim, evicted bool) Admission {
	switch {
	case c.Growth > r.Budget:
		return Admission{Verdict: SkippedOversize}
	case r.Free-r.Inflight-c.Write < r.Reserve:
		return Admission{Verdict: ReadOnlyLowSpace}
	case r.Used+r.Inflight+c.Growth <= r.Budget:
		return Admission{Verdict: Admitted}
	case evicted:
		return Admission{Verdict: InsufficientSpace}
	}
	return Admission{Evict, max(0, min(LowWater(r.Budget), r.Budget-c.Growth-r.Inflight))}
}

// maxAuto is the largest budget taken without being asked for.
const maxAuto Bytes = 64 << 30

// AutoBudget is a fifth of the room there is, within what the reserve leaves.
// What the store already holds counts as room, so that the budget does not
// shrink as the store fills. 0 means the disk is too full for a store.
func AutoBudget(free, managed, reserve Bytes) Bytes {
	return max(0, min((free+managed)/5, max(free-reserve, 0)+managed, maxAuto))
}

func (c Claim) String() string { return fmt.Sprintf("write %d, growth %d", c.Write, c.Growth) }
