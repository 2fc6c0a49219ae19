package fold

import (
	"reflect"
	"testing"

	"holdfast/core/usage"
)

func TestRhythmRoundTrip(t *testing.T) {
	k := stories(t, "growth")
	k.lim.Economics = true
	k.turn(exact(70_000))
	k.fold("m1", "m40")
	k.run(ToolCompress, ranges("m1", "m2"))
	if back := OpenRhythm(k.rh.Text()); !reflect.DeepEqual(back, k.rh) {
		t.Errorf("%s came back as %+v", k.rh.Text(), back)
	}
	if got := OpenRhythm([]byte("{")); !reflect.DeepEqual(got, Rhythm{}) {
		t.Errorf("a broken one opens as %+v", got)
	}
}

// Growth is measured from the last nudge, then from the last fold, and starts
// anew when the conversation shrinks.
func TestGrowthRhythm(t *testing.T) {
	k := stories(t, "growth")
	k.lim.Economics = false
	for _, step := range []struct {
		used usage.Tokens
		want string
	}{{66_000, ReasonGrowth}, {70_000, HeldQuiet}, {88_600, ReasonGrowth}, {100_000, HeldQuiet}} {
		if _, _, n := k.turn(exact(step.used)); n.Reason != step.want {
			t.Errorf("at %d tokens: %q, want %q", step.used, n.Reason, step.want)
		}
	}
	k.rh.Baseline = 160_000
	if _, _, n := k.turn(exact(100_001)); k.rh.Baseline != 100_001 {
		t.Errorf("after shrinking: baseline %d, %q", k.rh.Baseline, n.Reason)
	}
}

// What a fold really saved is booked turn by turn, and closed when it is undone.
func TestRealisedFigures(t *testing.T) {
	k := stories(t, "growth")
	k.rh = k.rh.Report(exact(66_000))
	k.fold("m1", "m60")
	gone := k.st.Block(1).Tokens - k.st.Block(1).Carrier
	u := usage.Usage{Input: 60, Cached: 10_000, CacheWrite: 40_000, Source: usage.Exact}
	k.turn(u)
	first := k.rh.Accounts[1]
	after := float64(first.After)
	if after > 60_000 || after < 40_000 || first.Turns != 1 {
		t.Fatalf("account %+v", first)
	}
	if want := int64(40_060*3.45 + float64(first.Summary)*15 + 66_000*0.3); first.Bill.Cost != want || first.Bill.Saved != int64(float64(gone)*0.3) {
		t.Errorf("bill %+v, want a cost of %d", first.Bill, want)
	}
	k.turn(usage.Usage{Input: 60, Cached: 50_000, Source: usage.Exact})
	if got := k.rh.Accounts[1]; got.Bill.Cost != first.Bill.Cost || got.Bill.Saved != 2*first.Bill.Saved {
		t.Errorf("the second turn: %+v", got)
	}
	k.st, _ = Undo(k.elems, k.st, 1)
	k.turn(usage.Usage{})
	k.turn(exact(60_000))
	if got := k.rh.Accounts[1]; got.Bill.Saved != 2*first.Bill.Saved {
		t.Errorf("undone, it still saves: %+v", got)
	}
}

// An estimate is no report.
func TestEstimatesAreNoReports(t *testing.T) {
	r := Rhythm{Used: 7, Credit: 3}
	if got := r.Report(usage.Usage{Input: 99, Source: usage.Estimate}); !reflect.DeepEqual(got, r) {
		t.Errorf("took %+v", got)
	}
	if got := r.Report(usage.Usage{Source: usage.Exact}); !reflect.DeepEqual(got, r) {
		t.Errorf("took an empty one: %+v", got)
	}
}

func TestEstimateText(t *testing.T) {
	for s, want := range map[string]usage.Tokens{"": 0, "abcd": 1, "abcde": 2, "日本語": 3, "日本 go": 3} {
		if got := EstimateText(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}
