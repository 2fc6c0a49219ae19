package usage

import "testing"

func terms() Terms {
	return Terms{Price: Price{Input: 3, Cached: 0.3, Write: 3.75, Output: 15}, Priced: true, Turns: 20}
}

func TestRemainingTurns(t *testing.T) {
	for _, c := range []struct {
		lengths []int
		at      int
		want    float64
	}{
		{nil, 5, DefaultTurns},
		{[]int{3, 4}, 5, DefaultTurns}, // nobody got that far
		{[]int{30, 10, 50, 2}, 10, 30},
		{[]int{30, 50, 70}, 10, 40},
		{[]int{11, 12}, 10, MinTurns},
	} {
		if got := RemainingTurns(c.lengths, c.at); got != c.want {
			t.Errorf("%v at %d: %v, want %v", c.lengths, c.at, got, c.want)
		}
	}
}

func TestProject(t *testing.T) {
	c := Change{Gone: 40_000, After: 20_000, Summary: 1_000, Round: 60_000}
	for name, x := range map[string]struct {
		terms Terms
		want  Bill
	}{
		"prices":         {terms(), Bill{240_000, 102_000, UnitMicros}},
		"at least three": {Terms{Price: terms().Price, Turns: 1}, Bill{36_000, 102_000, UnitMicros}},
		"no history":     {Terms{Price: terms().Price}, Bill{240_000, 102_000, UnitMicros}},
		"cache lapses":   {Terms{Price: terms().Price, Turns: 20, Lapse: 0.5}, Bill{1_620_000, 102_000, UnitMicros}},
		"a local engine": {Terms{Local: Rates{Prefill: 400, Decode: 25}, Turns: 20}, Bill{0, 90_000, UnitMillis}},
	} {
		if got := x.terms.Project(c); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
	if b := (Bill{Saved: 5, Cost: 5}); b.Pays() || b.Net() != 0 {
		t.Error("a fold that saves what it costs does not pay")
	}
	if (Terms{}).Known() || !terms().Known() || !(Terms{Local: Rates{Prefill: 1}}).Known() {
		t.Error("terms are known with a price or a speed")
	}
}

// A session that goes as projected is booked as projected.
func TestAccountMeetsProjection(t *testing.T) {
	c := Change{Gone: 40_000, After: 20_000, Summary: 1_000, Round: 60_000}
	a := Account{Change: c}
	for i := range 20 {
		u := Usage{Input: 50, Cached: 10_000, CacheWrite: 20_000}
		if i > 0 {
			u = Usage{Input: 50, Cached: 30_000, CacheWrite: 300}
		}
		a = a.Turn(terms(), u)
	}
	if want := terms().Project(c); a.Bill != want || a.Turns != 20 {
		t.Errorf("realised %+v, projected %+v", a.Bill, want)
	}
}

// A turn that found the cache gone would have written what is folded.
func TestAccountOfALapse(t *testing.T) {
	a := Account{Change: Change{Gone: 1_000}}.Turn(terms(), Usage{Input: 500})
	if a.Bill.Saved != 3_750 {
		t.Errorf("saved %d", a.Bill.Saved)
	}
}

// TestFilledRates: what was measured is kept, what was not follows it.
func TestFilledRates(t *testing.T) {
	for _, c := range []struct{ measured, want Rates }{
		{Rates{}, AssumedRates()},
		{Rates{Prefill: 80}, Rates{80, 5}},
		{Rates{Decode: 50}, Rates{800, 50}},
		{Rates{Prefill: 33, Decode: 7}, Rates{33, 7}},
	} {
		if got := c.measured.Filled(); got != c.want {
			t.Errorf("%v: %v, want %v", c.measured, got, c.want)
		}
	}
}
