package session

import (
	"holdfast/core/fold"
	"holdfast/core/usage"
)

// Where a part of a prompt is for a local engine: in its memory, in the store,
// nowhere.
const (
	KVResident = "resident"
	KVDisk     = "disk"
	KVCold     = "cold"
)

// KVPrompt is a prompt as a local engine counts it. Resident and Disk count its
// tokens from the beginning that are in the engine and in the store.
type KVPrompt struct {
	Total, Resident, Disk usage.Tokens
}

// KVRuns lays a prompt along the positions [0, hi) of the rows it was made of:
// what the engine holds, then what the store holds beyond that, then the rest.
// The runs do not overlap and leave nothing out; empty ones are not there.
//
// The engine counts tokens of the whole prompt and does not say which row they
// are of. So the live rows' own estimates stand for their shares: they are scaled
// so that their sum is the prompt's real length, with the system prompt, the
// tools and the template's marks spread over all rows. A row counts for a state
// only when all of it is there by this reckoning: boundaries are rounded down,
// and a row that is there in part is shown as what its end is. What a block
// folded takes the place of its carrier.
//
// Rows must be in the order of their positions.
func KVRuns(rows []RowView, hi int64, p KVPrompt) []KVView {
	out := []KVView{}
	from := int64(0)
	add := func(to int64, s string) {
		if to > from {
			out = append(out, KVView{From: from, To: to, State: s})
			from = to
		}
	}
	add(reach(rows, hi, p.Total, p.Resident), KVResident)
	add(reach(rows, hi, p.Total, p.Disk), KVDisk)
	add(hi, KVCold)
	return out
}

// reach is the position up to which the first n of total tokens cover the rows
// whole.
func reach(rows []RowView, hi int64, total, n usage.Tokens) int64 {
	sum := usage.Tokens(0)
	for i := range rows {
		sum += share(&rows[i])
	}
	switch {
	case n <= 0 || total <= 0:
		return 0
	case n >= total:
		return hi
	case sum == 0:
		return 0
	}
	upTo := usage.Tokens(0)
	for i := range rows {
		before := upTo
		if upTo += share(&rows[i]); upTo*total <= n*sum {
			continue
		}
		if before == 0 {
			return 0 // the places in front of the first row are as it is
		}
		return min(rows[i].Pos, hi)
	}
	return hi
}

// share is what a row takes of the prompt, by estimate. A removed one stays in
// it unless it was folded or hidden before.
func share(r *RowView) usage.Tokens {
	switch r.State {
	case Live, Overlaid, Removed:
	default:
		return 0
	}
	if r.CoveredBy != "" || r.Cause == string(fold.Hide) {
		return 0
	}
	return max(r.Tokens, 0)
}
