package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// metrics writes the counters of status in the Prometheus text format.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	s, err := a.Status(r.Context())
	if err != nil {
		return err
	}
	var b strings.Builder
	one := func(name, kind, help string, v any) {
		fmt.Fprintf(&b, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\nholdfast_%s %v\n", name, help, name, kind, name, v)
	}
	one("uptime_seconds", "gauge", "Seconds since the process started.", s.UptimeS)
	one("model_calls_total", "counter", "Model calls seen.", s.Traffic.Seen)
	one("model_calls_in_flight", "gauge", "Model calls under way.", s.Traffic.InFlight)
	one("ledger_bytes", "gauge", "Size of the ledger.", s.Ledger.Bytes)
	one("ledger_budget_bytes", "gauge", "Budget of the ledger.", s.Ledger.BudgetBytes)
	one("ledger_sessions", "gauge", "Sessions in the ledger.", s.Ledger.Sessions)
	one("memory_bytes", "gauge", "Memory obtained from the system.", s.MemoryBytes)
	one("bypass", "gauge", "1 while everything is sent untouched.", map[bool]int{true: 1}[s.Bypass])
	one("turns_compared_total", "counter", "Turns whose two paths were compared.", s.Rollout.Evidence.Turns)
	one("turns_different_total", "counter", "Compared turns that differed.", s.Rollout.Evidence.Differences)
	b.WriteString("# HELP holdfast_gates_total Turns that left the snapshot path, by gate.\n# TYPE holdfast_gates_total counter\n")
	for _, g := range slices.Sorted(maps.Keys(s.Chain.Gates)) {
		fmt.Fprintf(&b, "holdfast_gates_total{gate=%q} %d\n", g, s.Chain.Gates[g])
	}
	kvMetrics(&b, a.Tier.Status())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(b.String()))
	return nil
}
