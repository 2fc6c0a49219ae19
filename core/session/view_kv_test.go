package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/core/fold"
	"holdfast/core/usage"
)

// kvRows are live rows of so many tokens, one at each position.
func kvRows(tokens ...usage.Tokens) (rows []RowView) {
	for i, n := range tokens {
		rows = append(rows, RowView{Pos: int64(i), Tokens: n, State: Live})
	}
	return rows
}

func TestKVRuns(t *testing.T) {
	folded := kvRows(100, 500, 500, 100)
	folded[1].State, folded[2].State = Folded, Folded
	folded[1].CoveredBy, folded[2].CoveredBy = "b1", "b1"
	folded = slices.Insert(folded, 1, RowView{Pos: 1, Sub: CarrierSub, Tokens: 100, State: Live, Kind: string(KindCarrier)})
	gone := kvRows(100, 800, 100)
	gone[1].State, gone[1].Cause = Removed, string(fold.Hide)
	for name, c := range map[string]struct {
		rows []RowView
		hi   int64
		p    KVPrompt
		want string
	}{
		"all in the engine":           {kvRows(10, 10), 2, KVPrompt{900, 900, 0}, "[{0 2 resident}]"},
		"more on disk than in a slot": {kvRows(10, 10, 10), 3, KVPrompt{30, 10, 20}, "[{0 1 resident} {1 2 disk} {2 3 cold}]"},
		"in a slot and on disk":       {kvRows(10, 10, 10), 3, KVPrompt{30, 20, 20}, "[{0 2 resident} {2 3 cold}]"},
		"nothing anywhere":            {kvRows(10, 10), 2, KVPrompt{20, 0, 0}, "[{0 2 cold}]"},
		"a row in part":               {kvRows(10, 10), 2, KVPrompt{20, 19, 0}, "[{0 1 resident} {1 2 cold}]"},
		"estimates are scaled":        {kvRows(10, 10), 2, KVPrompt{200, 100, 199}, "[{0 1 resident} {1 2 cold}]"},
		"no estimates":                {kvRows(0, 0), 2, KVPrompt{20, 10, 0}, "[{0 2 cold}]"},
		"no prompt":                   {kvRows(10), 1, KVPrompt{}, "[{0 1 cold}]"},
		"no rows":                     {nil, 0, KVPrompt{20, 20, 0}, "[]"},
		"a fold as its carrier":       {folded, 4, KVPrompt{300, 200, 0}, "[{0 3 resident} {3 4 cold}]"},
		"positions from one on, the first row in part": {kvRows(10, 10)[1:], 2, KVPrompt{20, 19, 0}, "[{0 2 cold}]"},
		"half a carrier":               {folded, 4, KVPrompt{300, 150, 0}, "[{0 1 resident} {1 4 cold}]"},
		"what is hidden takes nothing": {gone, 3, KVPrompt{200, 100, 0}, "[{0 2 resident} {2 3 cold}]"},
	} {
		if got := fmt.Sprint(KVRuns(c.rows, c.hi, c.p)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestKVRunsOfAny: whatever the rows and counts, the runs cover the positions
// once and in order, no row is called held whose tokens end behind those that
// are, and more held never shows less.
func TestKVRunsOfAny(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 61))
		rows, hi := []RowView{}, int64(0)
		for range rnd.IntN(30) {
			state := []ElemState{Live, Overlaid, Folded, Hidden, Removed}[rnd.IntN(5)]
			rows = append(rows, RowView{Pos: hi, Tokens: usage.Tokens(rnd.IntN(4) * rnd.IntN(9000)), State: state})
			hi += rnd.Int64N(3)
		}
		total := usage.Tokens(rnd.IntN(100_000))
		p := KVPrompt{total, usage.Tokens(rnd.Int64N(int64(total) + 1)), usage.Tokens(rnd.Int64N(int64(total) + 1))}
		runs := KVRuns(rows, hi, p)
		at := int64(0)
		for _, r := range runs {
			if r.From != at || r.To <= r.From {
				t.Fatalf("seed %d: %v does not follow position %d", seed, r, at)
			}
			at = r.To
		}
		if at != hi {
			t.Fatalf("seed %d: %v of %d positions", seed, runs, hi)
		}
		notMore(t, seed, rows, runs, p)
		for _, more := range []KVPrompt{{p.Total, p.Resident + 1, p.Disk}, {p.Total, p.Resident, p.Disk + 1}} {
			if held(KVRuns(rows, hi, more)) < held(runs) {
				t.Fatalf("seed %d: %v shows less than %v", seed, more, p)
			}
		}
	}
}

// held is where what is cold begins.
func held(runs []KVView) (to int64) {
	for _, r := range runs {
		if r.State != KVCold {
			to = r.To
		}
	}
	return to
}

// notMore checks the rounding by a sum of its own.
func notMore(t *testing.T, seed uint64, rows []RowView, runs []KVView, p KVPrompt) {
	t.Helper()
	sum := 0.0
	for i := range rows {
		sum += float64(share(&rows[i]))
	}
	for _, r := range runs {
		limit := map[string]usage.Tokens{KVResident: p.Resident, KVDisk: max(p.Disk, p.Resident), KVCold: p.Total}[r.State]
		upTo := 0.0
		for i := range rows {
			if rows[i].Pos < r.To {
				upTo += float64(share(&rows[i]))
			}
		}
		if sum > 0 && upTo/sum*float64(p.Total) > float64(limit)+0.001 {
			t.Fatalf("seed %d: %v reaches %.1f tokens, there are %d", seed, r, upTo/sum*float64(p.Total), limit)
		}
	}
}
