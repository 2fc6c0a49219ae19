package local

import "holdfast/core/usage"

// Rates are the engine's measured speeds, see [upstream.Gauge]. Putting out is
// not measured here.
func (e *Engine) Rates() usage.Rates { return e.speed.measured() }

func (s *speeds) measured() usage.Rates {
	s.mu.Lock()
	defer s.mu.Unlock()
	return usage.Rates{Prefill: s.rates.Prefill}
}
