package kv

import (
	"testing"

	"holdfast/core/seed"
)

func TestReserve(t *testing.T) {
	room := Room{Budget: 1000, Used: 600, Inflight: 100, Free: 5000, Reserve: 1000}
	for name, c := range map[string]struct {
		change  func(*Room)
		claim   Claim
		evicted bool
		want    Admission
	}{
		"fits":                        {nil, Claim{300, 300}, false, Admission{Verdict: Admitted}},
		"by one byte too much":        {nil, Claim{301, 301}, false, Admission{Evict, 599}},
		"much too much":               {nil, Claim{900, 900}, false, Admission{Evict, 0}},
		"a little":                    {func(r *Room) { r.Used, r.Inflight = 1000, 0 }, Claim{10, 10}, false, Admission{Evict, 850}},
		"after an eviction":           {nil, Claim{301, 301}, true, Admission{Verdict: InsufficientSpace}},
		"evicted enough":              {func(r *Room) { r.Used = 500 }, Claim{301, 301}, true, Admission{Verdict: Admitted}},
		"larger than the budget":      {nil, Claim{1001, 1001}, false, Admission{Verdict: SkippedOversize}},
		"oversize before low space":   {func(r *Room) { r.Free = 0 }, Claim{1001, 1001}, false, Admission{Verdict: SkippedOversize}},
		"the reserve":                 {func(r *Room) { r.Free = 1399 }, Claim{300, 300}, false, Admission{Verdict: ReadOnlyLowSpace}},
		"the reserve, exactly":        {func(r *Room) { r.Free = 1400 }, Claim{300, 300}, false, Admission{Verdict: Admitted}},
		"a replacement needs space":   {func(r *Room) { r.Free = 1399 }, Claim{300, 0}, false, Admission{Verdict: ReadOnlyLowSpace}},
		"a replacement does not grow": {func(r *Room) { r.Used = 900 }, Claim{300, 0}, false, Admission{Verdict: Admitted}},
		"no budget":                   {func(r *Room) { *r = Room{Free: 100} }, Claim{1, 1}, false, Admission{Verdict: SkippedOversize}},
	} {
		r := room
		if c.change != nil {
			c.change(&r)
		}
		if got := Reserve(r, c.claim, c.evicted); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Whatever is admitted keeps both limits, whatever is evicted for fits afterwards.
func TestReserveHolds(t *testing.T) {
	r := seeded(seed.Of(t), 0)
	for range 20_000 {
		room := Room{Bytes(r.IntN(2000)), Bytes(r.IntN(2500)), Bytes(r.IntN(500)), Bytes(r.IntN(4000)), Bytes(r.IntN(2000))}
		claim := Claim{Bytes(r.IntN(1500)), Bytes(r.IntN(1500))}
		switch a := Reserve(room, claim, false); a.Verdict {
		case Admitted:
			if room.Used+room.Inflight+claim.Growth > room.Budget || room.Free-room.Inflight-claim.Write < room.Reserve {
				t.Fatalf("%+v admitted into %+v", claim, room)
			}
		case Evict:
			room.Used = a.Target
			if b := Reserve(room, claim, true); b.Verdict != Admitted && room.Inflight+claim.Growth <= room.Budget {
				t.Fatalf("%+v after evicting to %d: %+v", claim, a.Target, b)
			}
		}
	}
}

func TestAutoBudget(t *testing.T) {
	const gib = Bytes(1) << 30
	for _, c := range []struct{ free, managed, reserve, want Bytes }{
		{100 * gib, 0, 16 * gib, 20 * gib},
		{84 * gib, 16 * gib, 16 * gib, 20 * gib},
		{8 * gib, 0, 16 * gib, 0},
		{18 * gib, 0, 16 * gib, 2 * gib},
		{1000 * gib, 0, 16 * gib, 64 * gib},
		{0, 10 * gib, 16 * gib, 2 * gib},
		{0, 0, 0, 0},
	} {
		if got := AutoBudget(c.free, c.managed, c.reserve); got != c.want {
			t.Errorf("free %d, managed %d, reserve %d: %d, want %d", c.free/gib, c.managed/gib, c.reserve/gib, got, c.want)
		}
	}
}
