package session

// Home is the one kind of traffic a turn belongs to.
type Home string

// The homes.
const (
	HomePass     Home = "passthrough" // not a model call, or bypass
	HomeVerbatim Home = "verbatim"    // a model call the codec cannot hold
	HomeSide     Home = "side"
	HomeUnsigned Home = "unsigned"
	HomeShadow   Home = "shadow"
	HomeCohort   Home = "cohort"
	HomeDegraded Home = "degraded"
	HomeSubagent Home = "subagent"
	HomeRestamp  Home = "restamping"
	HomeOff      Home = "off"
)
