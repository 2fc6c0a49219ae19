// Package ui is the desktop: the tray icon with its menu, the notifications,
// and the small window that stands in where a desktop has no tray.
//
// What is shown is a function of one Snapshot value. Menu, Doubts, StateOf and
// Notifier are pure and have the table tests; tray and window only carry their
// answers to the screen. Both drive the same items, told apart by steady keys,
// and send Commands back; what a command does is the program's business.
//
// The tray is fyne.io/systray without the rest of Fyne: over D-Bus on Linux it
// needs neither C nor a display, and everywhere it changes items in place, so that an
// update never renumbers the menu a person has open (throwing the menu away
// and redrawing it did, and lost the click). Fyne itself draws the window, in
// a process of its own: a tray with Fyne in it held 105 MB and woke 20 times a
// second to look at its hidden window, and a graphics driver that fails takes
// only the window with it. Windows and macOS always have a tray, so there is no
// Fyne in the program there, and on Windows no C.
//
// With the build tag headless only the pure part is left.
package ui

// Snapshot is everything the desktop shows.
type Snapshot struct {
	Mode    string // the rollout: off, shadow or on
	Bypass  bool
	Busy    bool // a model call is under way, or was a moment ago
	Trouble Trouble
	// Doubts say why serving from snapshots is not advised; none means it is.
	Doubts  []string
	KV      KV
	Clients []Client
	Recent  []Recent // the newest sessions, newest first
	AtLogin bool     // Holdfast starts when its owner logs in
}

// Trouble is the worst that is wrong, by name; the order is that of severity.
type Trouble int

// The troubles, from none to worst.
const (
	Fine Trouble = iota
	KVDegraded
	BreakerOpen
	LowSpace
	ConfigBroken
)

// KV is the disk KV tier. Mode is what is configured, State what it does (the
// states of the contract); they differ until a restart.
type KV struct {
	Mode   string
	State  string
	Used   int64 // bytes
	Budget int64 // bytes, 0 for none
	Engine bool  // some route has a local engine
}

// Client is an agent that can be pointed at Holdfast.
type Client struct{ ID, Name string }

// Recent is a session a person may want to look at.
type Recent struct{ ID, Title string }

// State is what the icon says.
type State int

// The four states.
const (
	Idle State = iota
	Working
	Degraded
	Bypassed
)

// String is the state as it stands in names of icons and in the status line.
func (s State) String() string { return [...]string{"idle", "working", "degraded", "bypassed"}[s] }

// StateOf is the state of a snapshot. Bypass wins: nothing else matters while
// everything goes out untouched.
func StateOf(s Snapshot) State {
	switch {
	case s.Bypass:
		return Bypassed
	case s.Trouble != Fine:
		return Degraded
	case s.Busy:
		return Working
	}
	return Idle
}

// Bar is the colour of the bar the icon stands on.
type Bar string

// The bars. AnyBar is one whose colour cannot be learned.
const (
	LightBar Bar = "light"
	DarkBar  Bar = "dark"
	AnyBar   Bar = "any"
)

// IconName is the file of assets that draws a state; ext is png or ico.
func IconName(s State, b Bar, ext string) string {
	return "tray-" + s.String() + "-" + string(b) + "." + ext
}

// Kind is what a command asks for.
type Kind string

// The commands of the menu. Arg of OpenPage is a path of the inspector, that of
// CopyLine the ID of a client, that of the others on or off, or a mode.
const (
	OpenPage   Kind = "open"
	SetRollout Kind = "rollout"
	SetBypass  Kind = "bypass"
	SetKV      Kind = "kv"
	PruneKV    Kind = "prune"
	CopyLine   Kind = "copy"
	SetAtLogin Kind = "login"
	Doctor     Kind = "doctor"
	Quit       Kind = "quit"
)

// Command is one wish of a person.
type Command struct {
	Kind Kind
	Arg  string
}
