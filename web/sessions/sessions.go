// Package sessions is the pages about conversations: the list of sessions; one
// session as its ledger, its coverage map and its turns; and one turn with what
// came in beside what went out.
//
// Every page is a function of what it read. A page reads one window of a list,
// whatever the length of the session: nothing here asks for all rows of one.
package sessions

import (
	"context"
	"time"

	"holdfast/core/content"
	"holdfast/core/session"
)

// Ledger is what these pages read of the ledger.
type Ledger interface {
	FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error)
	SessionFacets(ctx context.Context) (session.Facets, error)
	SessionChildren(ctx context.Context, id string) ([]session.SessionView, error)
	Session(ctx context.Context, id string) (session.SessionView, error)
	RowPage(ctx context.Context, id string, q session.RowQuery) (session.RowPage, error)
	Coverage(ctx context.Context, id string) (session.CoverageView, error)
	FindTurns(ctx context.Context, q session.TurnQuery) ([]session.TurnView, int, error)
	TurnPoints(ctx context.Context, id string, limit int) ([]session.TurnPoint, error)
	TurnView(ctx context.Context, id int64) (session.TurnView, error)
	TurnNeighbours(ctx context.Context, id string, turn int64) (session.Neighbours, error)
	Turn(ctx context.Context, id int64) (*session.TurnRecord, error)
	Blob(ctx context.Context, id content.ID) ([]byte, error)
}

// Source is what these pages read.
type Source interface {
	Ledger
	// Plain is one side of a turn ("inbound", "outbound" or "response") without
	// its content encoding, and its content type.
	Plain(ctx context.Context, turn int64, part string) ([]byte, string, error)
}

// Pages makes these pages.
type Pages struct {
	Source Source
	Now    func() time.Time
	// Form is the token of every form.
	Form func() string
	// BaseURL is where clients are pointed at: what a curl line calls.
	BaseURL func() string
	// Routes are those a turn can be sent to again.
	Routes func() []string
}

func (p *Pages) now() int64 { return p.Now().UnixMilli() }
