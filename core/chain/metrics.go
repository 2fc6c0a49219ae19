package chain

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/session"
)

// metrics are counters since the start, for status. The ledger holds what must
// outlive the process.
type metrics struct {
	seen, inFlight atomic.Int64
	folded         atomic.Int64 // model calls whose view held a carrier

	mu       sync.Mutex
	skipped  map[string]int64
	gates    map[session.Gate]int64
	verdicts map[session.Verdict]int64
	failures []time.Time
	commits  [commitWindow]float64 // a ring of the last commit times in ms
	commitN  int
}

const (
	// commitWindow is how many commits the percentiles look back on.
	commitWindow = 512
	// failedWindow is what "recently failed" means.
	failedWindow = 10 * time.Minute
)

func newMetrics() *metrics {
	return &metrics{skipped: map[string]int64{}, gates: map[session.Gate]int64{}, verdicts: map[session.Verdict]int64{}}
}

func (m *metrics) opened(x *Exchange) {
	m.inFlight.Add(1)
	switch {
	case x.codec == nil:
		m.skip("not_a_model_call")
	case x.traffic.Bypass:
		m.skip("bypass")
	case x.traffic.Unheld:
		m.skip("unknown_encoding")
	}
}

func (m *metrics) closed(x *Exchange) {
	m.inFlight.Add(-1)
	if slices.ContainsFunc(x.view, func(v session.ViewItem) bool { return v.Block != 0 }) {
		m.folded.Add(1)
	}
	if x.traffic.Side {
		m.skip("side_request")
	}
	if x.done.Status >= 500 {
		m.failed(time.Now())
	}
}

func (m *metrics) skip(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped[reason]++
}

func (m *metrics) gate(g session.Gate) {
	if g == session.NoGate {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates[g]++
}

func (m *metrics) tripped(v session.Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verdicts[v]++
}

func (m *metrics) failed(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures = append(recent(m.failures, at), at)
}

func recent(at []time.Time, now time.Time) []time.Time {
	i := 0
	for i < len(at) && now.Sub(at[i]) > failedWindow {
		i++
	}
	return at[i:]
}

func (m *metrics) commit(took float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits[m.commitN%commitWindow] = took
	m.commitN++
}

// Status is the chain's part of the status object.
type Status struct {
	Seen, InFlight, FailedRecent int64
	Folded                       int64 // model calls whose view held a carrier
	Skipped                      map[string]int64
	Gates                        map[string]int64 // always R1 to R4
	Sampled, Equal, Drift, Diff  int64
	TripwireSkipped              int64
	CommitP50, CommitP95         float64 // ms
	MemoryBytes                  int64
	Groups                       []session.GroupEvidence
}

// Status returns the counters at this moment.
func (c *Chain) Status() Status {
	m := c.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{Seen: m.seen.Load(), InFlight: m.inFlight.Load(), FailedRecent: int64(len(recent(m.failures, c.now()))), Folded: m.folded.Load(),
		Skipped: map[string]int64{}, Gates: map[string]int64{}, MemoryBytes: c.memory.bytes(), Groups: c.groups.evidence()}
	for k, v := range m.skipped {
		s.Skipped[k] = v
	}
	for _, g := range [...]session.Gate{session.R1, session.R2, session.R3, session.R4} {
		s.Gates[string(g)] = m.gates[g]
	}
	s.Equal, s.Drift, s.Diff, s.TripwireSkipped = m.verdicts[session.ByteEqual], m.verdicts[session.Drift], m.verdicts[session.Different], m.verdicts[session.Skipped]
	s.Sampled = s.Equal + s.Drift + s.Diff + s.TripwireSkipped
	s.CommitP50, s.CommitP95 = percentiles(m.commits[:min(m.commitN, commitWindow)])
	return s
}

func percentiles(v []float64) (p50, p95 float64) {
	if len(v) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2], s[min(len(s)-1, len(s)*95/100)]
}
