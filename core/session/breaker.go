package session

// Breaker is a session's fault memory. It is a value: Next returns the one
// after a turn. Times are unix ms.
type Breaker struct {
	State string `json:"state"` // BreakerClosed or BreakerOpen; shown by Phase
	// Until is when an open breaker lets one probe turn through; OpenTurns how
	// many more turns it waits at most.
	Until     int64 `json:"until,omitempty"`
	OpenTurns int   `json:"open_turns,omitempty"`
	// Recent holds the last breakerSpan turns, newest in bit 0, 1 for a fault.
	Recent uint32 `json:"recent,omitempty"`
}

// Phases of a breaker; the zero value is closed.
const (
	BreakerClosed = "closed"
	BreakerOpen   = "open"
	BreakerProbe  = "probe"
)

const (
	breakerSpan    = 20             // turns looked back on
	breakerFaults  = 3              // faults in the span that open it
	breakerOpenMs  = 10 * 60 * 1000 // longest time open
	breakerOpenFor = 20             // turns open
)

// Blocks reports whether the snapshot path is closed to the turn at now. An
// open breaker whose time or turns are over lets one probe through.
func (b Breaker) Blocks(now int64) bool {
	return b.State == BreakerOpen && now < b.Until && b.OpenTurns > 0
}

// Phase is the state a person is shown: an open breaker that waits for its one
// probe turn says so.
func (b Breaker) Phase(now int64) string {
	switch {
	case b.Blocks(now):
		return BreakerOpen
	case b.State == BreakerOpen:
		return BreakerProbe
	}
	return BreakerClosed
}

// Next is the breaker after a turn: fault says whether a gate fired that feeds
// it. now must be the time Blocks was asked with, else a turn that outlives the
// wait counts as a probe it never was.
func (b Breaker) Next(now int64, fault bool) Breaker {
	if b.Blocks(now) {
		b.OpenTurns--
		return b
	}
	probing := b.State == BreakerOpen
	b.Recent = b.Recent << 1 & (1<<breakerSpan - 1)
	if fault {
		b.Recent |= 1
	}
	switch {
	case fault && (probing || b.Recent&3 == 3 || ones(b.Recent) >= breakerFaults):
		return Breaker{State: BreakerOpen, Until: now + breakerOpenMs, OpenTurns: breakerOpenFor, Recent: b.Recent}
	case probing:
		return Breaker{State: BreakerClosed}
	}
	b.State, b.Until, b.OpenTurns = BreakerClosed, 0, 0
	return b
}

func ones(v uint32) (n int) {
	for ; v != 0; v &= v - 1 {
		n++
	}
	return n
}
