package session

import "testing"

// traffics returns every combination of what a home is decided by.
func traffics() (all []Traffic) {
	for bits := range 1 << 8 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		for _, roll := range []Rollout{Off, Shadow, On} {
			for _, lane := range []string{MainLane, "agent-7"} {
				for _, mode := range []Mode{Cohort, Degraded, Unsigned} {
					all = append(all, Traffic{ModelCall: on(0), Unheld: on(1), Bypass: on(2), Side: on(3), Signed: on(4),
						Member: on(5), Restamp: on(6), Held: on(7), Rollout: roll, Lane: lane, Mode: mode})
				}
			}
		}
	}
	return all
}

// homeByWords says the home again, as nested questions instead of a table.
func homeByWords(t Traffic) (Home, Path, bool) {
	if t.Bypass || !t.ModelCall || t.Unheld {
		if t.Unheld && !t.Bypass {
			return "verbatim", "verbatim", false
		}
		return "passthrough", "verbatim", false
	}
	if t.Side {
		return "side", "verbatim", false
	}
	switch {
	case t.Rollout == "off":
		return "off", "full", false
	case !t.Signed:
		return "unsigned", "full", false
	case t.Restamp:
		return "restamping", "full", false
	}
	if served := t.Rollout == "on" && t.Member && !t.Held; !served {
		return "shadow", "full", true
	}
	switch {
	case t.Lane != "main":
		return "subagent", "snapshot", true
	case t.Mode == "cohort":
		return "cohort", "snapshot", true
	}
	return "degraded", "snapshot", true
}

func TestHomeOfEveryTraffic(t *testing.T) {
	seen := map[Home]int{}
	for _, tr := range traffics() {
		h, p, rows := HomeOf(tr)
		wh, wp, wrows := homeByWords(tr)
		if h != wh || p != wp || rows != wrows {
			t.Fatalf("%+v\nlives in %s, %s, rows %v; want %s, %s, %v", tr, h, p, rows, wh, wp, wrows)
		}
		seen[h]++
		if p == PathSnapshot && !rows {
			t.Errorf("%s is served from rows that are not written", h)
		}
	}
	for _, h := range homes {
		if seen[h.home] == 0 {
			t.Errorf("nothing ever lives in %s", h.home)
		}
	}
}

func TestRouteOf(t *testing.T) {
	for _, c := range []struct {
		mode   Rollout
		member bool
		want   Route
	}{
		{Off, true, RouteFull}, {Off, false, RouteFull},
		{Shadow, true, RouteShadow}, {Shadow, false, RouteShadow},
		{On, true, RouteSnapshot}, {On, false, RouteShadow},
	} {
		if got := RouteOf(c.mode, c.member); got != c.want {
			t.Errorf("mode %s, member %v: %s, want %s", c.mode, c.member, got, c.want)
		}
	}
}
