package session

import "fmt"

// Gate is one of the reasons to leave the snapshot path.
type Gate string

// The gates of design section 6; NoGate lets the turn pass.
const (
	NoGate Gate = ""
	R1     Gate = "R1" // identity
	R2     Gate = "R2" // address
	R3     Gate = "R3" // storage
	R4     Gate = "R4" // pending
)

// Cause is the closed list of what a degrade event can be caused by.
type Cause string

// The causes, grouped by the gate they belong to. The last group steps down to
// the client's own bytes without a gate.
const (
	CauseNone Cause = ""

	CauseIDs          Cause = "ids_missing_or_misaligned" // row 3
	CauseOrder        Cause = "elements_reordered"        // row 8, anchors out of order
	CauseBlockLost    Cause = "block_lost_an_element"
	CauseModeChange   Cause = "identity_mode_changed"
	CauseConcurrent   Cause = "two_requests_in_flight"
	CauseEventAddress Cause = "event_without_address"
	CauseUnreadable   Cause = "table_unreadable"
	CauseSum          Cause = "checksum_mismatch"
	CauseReadBack     Cause = "read_back_mismatch"
	CauseTripwire     Cause = "paths_differ"
	CauseOpenView     Cause = "view_not_closed"
	CauseSlow         Cause = "commit_slow"
	CauseStorage      Cause = "commit_failed"
	CausePending      Cause = "structural_pending_lost"

	CauseNotJSON      Cause = "body_not_json"
	CauseShape        Cause = "body_unknown_shape"
	CauseDuplicateKey Cause = "body_duplicate_key"
	CauseTooDeep      Cause = "body_nested_too_deep"
	CauseEncoding     Cause = "body_encoding_unknown"
	CauseInternal     Cause = "internal_error"
	CauseLedgerFull   Cause = "ledger_full"
	CauseStale        Cause = "lost_the_race_twice"
	CauseEcho         Cause = "reply_came_back_changed"
	CauseSignature    Cause = "private_reasoning_refused"
)

// Pending is the state of a structural-pending mark seen by a turn.
type Pending int

// The pending states: none, a young one of the same owner (the turn waits),
// one whose owner is lost or that is older than PendingMax.
const (
	PendingNone Pending = iota
	PendingYoung
	PendingLost
)

const (
	// PendingMaxMs is how long a mark of the same owner is waited for.
	PendingMaxMs = 10_000
	// SlowCommitMs is the budget of a commit, counted from the write lock.
	SlowCommitMs = 200
)

// Facts is everything the gates look at. The group Harmless is listed so that
// the matrix can assert that none of it ever fires.
type Facts struct {
	// R1
	IDsBroken, AnchorsOut, BlockLost, ModeChanged, Concurrent bool
	// R2
	EventUnaddressed bool
	// R3
	Unreadable, SumMismatch, ReadBack, PathsDiffer, ViewOpen, CommitFailed bool
	CommitMs                                                               float64
	// Exempt marks first sights and re-stamps, which go in chunks.
	Exempt bool
	// R4
	Pending Pending

	Harmless
}

// Harmless are things that must never be red.
type Harmless struct {
	ModelSwitched, WireSwitched, ImageLimits, ToolsArmed, ClientCompacted bool
}

// Decision is what a gate does.
type Decision struct {
	Gate  Gate
	Cause Cause
	// Scope is "turn" or "session": whether the next turn is normal again or the
	// session stays on the full path until it was re-stamped or audited.
	Scope string
	// Feeds says the breaker counts it.
	Feeds bool
}

// Decide is the gate table: the first that fires wins, in the order in which
// doubt is worst.
func Decide(f Facts) Decision {
	for _, g := range gates {
		if g.fires(f) {
			return g.Decision
		}
	}
	return Decision{}
}

var gates = []struct {
	Decision
	fires func(Facts) bool
}{
	{Decision{R3, CauseUnreadable, "session", true}, func(f Facts) bool { return f.Unreadable }},
	{Decision{R3, CauseSum, "session", true}, func(f Facts) bool { return f.SumMismatch }},
	{Decision{R3, CauseReadBack, "session", true}, func(f Facts) bool { return f.ReadBack }},
	{Decision{R3, CauseTripwire, "session", true}, func(f Facts) bool { return f.PathsDiffer }},
	{Decision{R3, CauseOpenView, "session", true}, func(f Facts) bool { return f.ViewOpen }},
	{Decision{R3, CauseStorage, "session", true}, func(f Facts) bool { return f.CommitFailed }},
	{Decision{R4, CausePending, "session", false}, func(f Facts) bool { return f.Pending == PendingLost }},
	{Decision{R1, CauseIDs, "session", true}, func(f Facts) bool { return f.IDsBroken }},
	{Decision{R1, CauseModeChange, "session", true}, func(f Facts) bool { return f.ModeChanged }},
	{Decision{R1, CauseConcurrent, "session", true}, func(f Facts) bool { return f.Concurrent }},
	{Decision{R1, CauseOrder, "session", true}, func(f Facts) bool { return f.AnchorsOut }},
	{Decision{R1, CauseBlockLost, "session", true}, func(f Facts) bool { return f.BlockLost }},
	{Decision{R2, CauseEventAddress, "turn", false}, func(f Facts) bool { return f.EventUnaddressed }},
	{Decision{R3, CauseSlow, "turn", true}, func(f Facts) bool { return f.CommitMs > SlowCommitMs && !f.Exempt }},
}

// Explain is the sentence a person reads about a cause: what happened, what it
// means for them, what to do.
func (c Cause) Explain() string {
	if s, ok := explanations[c]; ok {
		return s
	}
	return fmt.Sprintf("Holdfast stepped down (%s). Your request was sent from your own bytes.", string(c))
}

var explanations = map[Cause]string{
	CauseIDs:          "The client's element ids were missing or did not line up. This turn was sent from the complete request; nothing was recorded for it. If it repeats, update the plugin.",
	CauseOrder:        "The client sent known messages in another order. This turn was sent from the complete request and the session is being re-stamped; nothing to do.",
	CauseBlockLost:    "A folded stretch lost a message on the client's side. This turn was sent from the complete request and the session is being re-stamped; nothing to do.",
	CauseModeChange:   "The client changed how it names messages. This turn was sent from the complete request and the session is being re-stamped; nothing to do.",
	CauseConcurrent:   "Two requests of one conversation were in flight at once and neither continued the other. Both were sent from their complete requests; nothing to do.",
	CauseEventAddress: "A change could not be tied to exactly one set of rows, so it was not made. This turn was sent from the complete request; nothing to do.",
	CauseUnreadable:   "The stored rows of this session could not be read. It stays on the full path until they are re-stamped. If it repeats, run: holdfast sessions verify.",
	CauseSum:          "A stored row does not match its checksum. The session stays on the full path until it is re-stamped. Check the disk if it repeats.",
	CauseReadBack:     "What was written did not read back the same. The session stays on the full path until it is re-stamped. Check the disk if it repeats.",
	CauseTripwire:     "The stored view and the complete request differ. The complete request was sent and the session stays on the full path until it is re-stamped. Please report this.",
	CauseOpenView:     "The stored view had a call without its result, or the reverse. The complete request was sent and the session is being re-stamped.",
	CauseSlow:         "Writing this turn took longer than 200 ms. It was sent from the complete request. A slow or busy disk is the usual reason.",
	CauseStorage:      "This turn could not be written to the ledger. It was sent as the client made it but is missing from the record. Check free disk space.",
	CausePending:      "A change was begun and its outcome is unknown. The session stays on the full path until its next complete request is re-stamped; nothing to do.",
	CauseNotJSON:      "The request body is not JSON. It was passed on untouched and not recorded.",
	CauseShape:        "The request body has a shape this version does not know. It was passed on untouched and only its size was recorded.",
	CauseDuplicateKey: "The request body names a key twice, so readers may disagree on it. It was passed on untouched and only its size was recorded.",
	CauseTooDeep:      "The request body is nested too deep to be read safely. It was passed on untouched and only its size was recorded.",
	CauseEncoding:     "The request body has an encoding this version does not know. It was passed on untouched and only its size was recorded.",
	CauseInternal:     "Something failed inside Holdfast. The request was passed on untouched. Please report it with: holdfast doctor --bundle.",
	CauseLedgerFull:   "The ledger has used up its budget and nothing may be removed. Turns are served but recorded without bodies. Raise ledger.budget or delete sessions.",
	CauseEcho:         "The client changed a reply in which the model had used Holdfast's tools. The model sees it as the client sent it; nothing to do.",
	CauseSignature:    "The provider refused the model's own reasoning from an earlier round. It was sent once more without; nothing to do.",
	CauseStale:        "Two requests raced for one session twice in a row. This one was sent from its complete request and recorded without bodies.",
}
