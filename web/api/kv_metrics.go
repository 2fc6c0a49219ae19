package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/core/kv"
)

// kvMetrics writes the counters of the KV tier.
func kvMetrics(b *strings.Builder, s kv.Status) {
	one := func(name, kind, help string, v any) {
		fmt.Fprintf(b, "# HELP holdfast_kv_%s %s\n# TYPE holdfast_kv_%s %s\nholdfast_kv_%s %v\n", name, help, name, kind, name, v)
	}
	fmt.Fprint(b, "# HELP holdfast_kv_state 1 for the state the tier is in.\n# TYPE holdfast_kv_state gauge\n")
	fmt.Fprintf(b, "holdfast_kv_state{state=%q,reason=%q} 1\n", s.Effective.State, s.Effective.Reason)
	for _, g := range []struct {
		name, help string
		v          kv.Bytes
	}{
		{"used_bytes", "Bytes the store takes.", s.Usage.UsedBytes},
		{"inflight_bytes", "Bytes claimed by writes under way.", s.Usage.ReservedInflightBytes},
		{"budget_bytes", "Budget of the store.", s.Usage.BudgetBytes},
		{"free_bytes", "Bytes free on its disk.", s.Usage.FilesystemAvailableBytes},
		{"reserve_bytes", "Bytes that stay free.", s.Usage.ReserveBytes},
	} {
		one(g.name, "gauge", g.help, int64(g.v))
	}
	one("manifests", "gauge", "Stored states.", s.Usage.Manifests)
	one("blocks", "gauge", "Stored blocks, each counted once.", s.Usage.UniqueSegments)
	one("quarantined_objects", "gauge", "Damaged objects put aside.", s.Usage.QuarantinedObjects)
	one("queue_items", "gauge", "States waiting to be written.", s.Activity.Queue.Items)
	one("seconds_saved_total", "counter", "Seconds of prefill saved, an estimate.", s.Activity.SecondsSavedEstimate)
	for _, c := range []struct {
		name, help string
		v          int64
	}{
		{"fills_total", "States read from disk.", s.Activity.Fills},
		{"hits_total", "Lookups that ended in a restored state.", s.Activity.Hits},
		{"restores_total", "States the engine took and used.", s.Activity.RestoresOK},
		{"restore_failures_total", "States the engine did not use.", s.Activity.RestoreFailures},
		{"writes_total", "States written.", s.Activity.Writes},
		{"evictions_total", "States evicted for room.", s.Activity.Evictions},
		{"corrupt_entries_total", "Damaged states taken out of use.", s.Activity.CorruptEntries},
		{"geometry_rejected_total", "Engine files whose layout is not known exactly.", s.Activity.GeometryRejected},
		{"read_bytes_total", "Bytes read from the store.", int64(s.Activity.BytesRead)},
		{"written_bytes_total", "Bytes written to the store.", int64(s.Activity.BytesWritten)},
		{"queue_dropped_total", "Writes dropped because the queue was full.", s.Activity.Queue.Dropped},
	} {
		one(c.name, "counter", c.help, c.v)
	}
	fmt.Fprint(b, "# HELP holdfast_kv_misses_total Lookups that restored nothing, by reason.\n# TYPE holdfast_kv_misses_total counter\n")
	for _, r := range slices.Sorted(maps.Keys(s.Activity.Misses)) {
		fmt.Fprintf(b, "holdfast_kv_misses_total{reason=%q} %d\n", r, s.Activity.Misses[r])
	}
}
