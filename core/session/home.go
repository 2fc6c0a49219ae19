package session

// Home is the one kind of traffic a turn belongs to. It changes only at a turn
// boundary.
type Home string

// The homes.
const (
	HomePass     Home = "passthrough" // not a model call, or bypass
	HomeVerbatim Home = "verbatim"    // a model call that cannot be held
	HomeSide     Home = "side"
	HomeOff      Home = "off"
	HomeUnsigned Home = "unsigned"
	HomeRestamp  Home = "restamping"
	HomeShadow   Home = "shadow"
	HomeSubagent Home = "subagent"
	HomeCohort   Home = "cohort"
	HomeDegraded Home = "degraded"
)

// Rollout is the owner's switch.
type Rollout string

// The rollout modes.
const (
	Off    Rollout = "off"
	Shadow Rollout = "shadow"
	On     Rollout = "on"
)

// Traffic is what decides a turn's home.
type Traffic struct {
	ModelCall bool // a POST on a known wire path with a body the codec holds
	Unheld    bool // a POST on a known wire path whose body it cannot hold
	Bypass    bool
	Side      bool
	Signed    bool
	Rollout   Rollout
	Member    bool // the session is inside the rollout percentage
	Lane      string
	Mode      Mode
	// Restamp says the rows do not follow the list yet.
	Restamp bool
	// Held says the breaker is open or the group is held in shadow.
	Held bool
}

// homes is the table; the first line that fits wins. Path is what serves the
// turn as long as no gate fires; Rows says whether snapshot rows are written.
var homes = []struct {
	fits func(Traffic) bool
	home Home
	path Path
	rows bool
}{
	{func(t Traffic) bool { return t.Bypass }, HomePass, PathVerbatim, false},
	{func(t Traffic) bool { return t.Unheld }, HomeVerbatim, PathVerbatim, false},
	{func(t Traffic) bool { return !t.ModelCall }, HomePass, PathVerbatim, false},
	{func(t Traffic) bool { return t.Side }, HomeSide, PathVerbatim, false},
	{func(t Traffic) bool { return t.Rollout == Off }, HomeOff, PathFull, false},
	{func(t Traffic) bool { return !t.Signed }, HomeUnsigned, PathFull, false},
	{func(t Traffic) bool { return t.Restamp }, HomeRestamp, PathFull, false},
	{func(t Traffic) bool { return t.Rollout == Shadow || !t.Member || t.Held }, HomeShadow, PathFull, true},
	{func(t Traffic) bool { return t.Lane != MainLane }, HomeSubagent, PathSnapshot, true},
	{func(t Traffic) bool { return t.Mode == Cohort }, HomeCohort, PathSnapshot, true},
	{func(Traffic) bool { return true }, HomeDegraded, PathSnapshot, true},
}

// HomeOf returns the home of a turn, the path that serves it before gates, and
// whether its snapshot rows are written.
func HomeOf(t Traffic) (home Home, path Path, rows bool) {
	for _, h := range homes {
		if h.fits(t) {
			return h.home, h.path, h.rows
		}
	}
	panic("session: internal error: the last home fits everything")
}

// RouteOf is a session's meant route under the rollout: mode × membership.
func RouteOf(mode Rollout, member bool) Route {
	switch {
	case mode == Off:
		return RouteFull
	case mode == On && member:
		return RouteSnapshot
	}
	return RouteShadow
}
