package session

import "holdfast/core/usage"

// SessionQuery asks for one page of sessions. Empty fields do not filter.
type SessionQuery struct {
	// Q is looked for, in any case, in title, model, host id and ledger id.
	Q string
	// Signal, Model and Wire are compared whole; Path is that of the last turn.
	Signal, Model, Wire string
	Path                Path
	Sort                SessionSort // "" is SortSeen
	Ascending           bool
	Page, Size          int // Page counts from 1
}

// SessionSort is what a list of sessions is ordered by.
type SessionSort string

// The orders; ties go by the ledger id.
const (
	SortSeen   SessionSort = "seen"
	SortTitle  SessionSort = "title"
	SortModel  SessionSort = "model"
	SortTurns  SessionSort = "turns"
	SortTokens SessionSort = "tokens"
	SortHit    SessionSort = "hit"
	SortCost   SessionSort = "cost"
)

// Facets are the values a list of sessions can be filtered by.
type Facets struct{ Signals, Models, Wires []string }

// RowQuery asks for one page of a session's rows. Empty fields do not filter.
type RowQuery struct {
	Role  string
	Kind  string
	State ElemState
	Block string // covered by this block
	// Page counts from 1; 0 is the last page, where the conversation goes on.
	Page, Size int
	// Pos, where it is not 0, asks for the page that begins at or before this
	// position instead.
	Pos int64
}

// RowPage is a page of rows, which page it is, and how many rows fit.
type RowPage struct {
	Rows        []RowView
	Page, Total int
}

// TurnSort is what the turns of a session are ordered by.
type TurnSort string

// The orders; SortAt is that of arrival, newest first unless Ascending.
const (
	SortAt      TurnSort = "at"
	SortInput   TurnSort = "input"
	SortOutput  TurnSort = "output"
	SortWait    TurnSort = "wait"
	SortChanged TurnSort = "changed"
)

// TurnQuery asks for one page of turns. Empty fields do not filter.
type TurnQuery struct {
	Ledger     string
	Path       Path
	Changed    bool // only those with a first changed byte
	Sort       TurnSort
	Ascending  bool
	Page, Size int
}

// TurnPoint is a turn as a chart needs it.
type TurnPoint struct {
	ID, At            int64
	Usage             usage.Usage
	BytesIn, BytesOut int64
	PrefixSame        int64
	Path              Path
	Gate              string
	CostMicros        int64
	Unpriced          bool
	Changed           bool
	Rounds            int64 // requests of the turn; the usage is theirs together
}

// GroupTotals are the sums over all sessions of one client.
type GroupTotals struct {
	Signal   string
	Sessions int64
	Totals   Totals
	// Saved is what folding took off the bill, in units of the currency.
	Saved float64
}

// Neighbours are the turns beside one of the same ledger, 0 for none.
type Neighbours struct{ Before, After int64 }

// DegradeQuery asks for one page of steps down. Empty fields do not filter.
type DegradeQuery struct {
	Gate, Cause, Session string
	Since                int64 // unix ms
	Changed              bool  // only those that changed the user's bytes
	Ascending            bool
	Page, Size           int
}

// DegradeCounts are steps down since a time, by gate and by cause. The gate ""
// stands for steps to the client's own bytes that no gate took.
type DegradeCounts struct {
	Gates, Causes map[string]int64
	Total         int64
	Changed       int64
}
