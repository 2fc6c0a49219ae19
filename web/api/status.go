package api

import (
	"net/http"

	"holdfast/core/config"
	"holdfast/core/session"
)

// Status is the JSON object status of the contract, version 1.
type Status struct {
	Version     string        `json:"version"`
	UptimeS     int64         `json:"uptime_s"`
	Rollout     RolloutStatus `json:"rollout"`
	Bypass      bool          `json:"bypass"`
	Traffic     Traffic       `json:"traffic"`
	Chain       ChainStatus   `json:"chain"`
	Ledger      LedgerStatus  `json:"ledger"`
	MemoryBytes int64         `json:"memory_bytes"`
	KV          KVStatus      `json:"kv"`
	// ConfigError says what is wrong with config.toml while the last good
	// settings are in force.
	ConfigError string `json:"config_error,omitempty"`
}

// RolloutStatus is the rollout flag with the evidence for turning it.
type RolloutStatus struct {
	Mode     config.RolloutMode `json:"mode"`
	Percent  float64            `json:"percent"`
	Evidence session.Evidence   `json:"evidence"`
}

// Traffic counts model calls since the process started.
type Traffic struct {
	Seen         int64            `json:"seen"`
	Decrypted    int64            `json:"decrypted"`
	Folded       int64            `json:"folded"`
	Skipped      map[string]int64 `json:"skipped"` // by home, calls that went out verbatim or aside
	InFlight     int64            `json:"in_flight"`
	FailedRecent int64            `json:"failed_recent"` // in the last ten minutes
}

// ChainStatus is the health of the chain.
type ChainStatus struct {
	Gates    map[string]int64 `json:"gates"` // R1 to R4
	Breaker  BreakerStatus    `json:"breaker"`
	Pending  int64            `json:"pending"` // structural-pending marks
	Tripwire Tripwire         `json:"tripwire"`
	CommitMs Quantiles        `json:"commit_ms"`
}

// BreakerStatus is the worst breaker of all sessions.
type BreakerStatus struct {
	State string `json:"state"`
	Until int64  `json:"until"` // unix ms, 0 when closed
}

// Tripwire counts comparisons of the two paths.
type Tripwire struct {
	Sampled int64 `json:"sampled"`
	Equal   int64 `json:"equal"`
	Drift   int64 `json:"drift"`
	Diff    int64 `json:"diff"`
	Skipped int64 `json:"skipped"`
}

// Quantiles are milliseconds over the recent past.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// LedgerStatus is what the ledger takes.
type LedgerStatus struct {
	Bytes       int64 `json:"bytes"`
	BudgetBytes int64 `json:"budget_bytes"`
	Sessions    int64 `json:"sessions"`
	Blobs       int64 `json:"blobs"`
}

// KVStatus is the short state of the KV tier.
type KVStatus struct {
	State       string `json:"state"`
	UsedBytes   int64  `json:"used_bytes"`
	BudgetBytes int64  `json:"budget_bytes"`
}

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	s, err := a.Status(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, s)
}
