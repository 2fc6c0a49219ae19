package overview

import (
	"context"
	"net/http"
	"strconv"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Agent is a client that can be pointed here, as first run shows it.
type Agent struct {
	ID, Name, Base, Line, Into string
	Installed, Connected       bool
	File, Note                 string // the settings file that connecting changes, "" for none
}

// Desk is what first run reads.
type Desk interface {
	Agents() ([]Agent, error)
	TurnPoints(ctx context.Context, id string, limit int) ([]session.TurnPoint, error)
	FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error)
	// LocalEngine reports whether a route has one, and whether its cache is on.
	LocalEngine() (has, on bool)
}

// First makes the page of the first run.
type First struct {
	Desk Desk
	Base *Pages
}

// arrival is what came in since the agent was chosen.
type arrival struct {
	turns int
	last  session.TurnPoint
	into  session.SessionView
}

// first is the view model.
type first struct {
	here   layout.Here
	now    int64
	form   string
	agents []Agent
	chosen Agent
	since  int64 // unix ms
	came   arrival
	engine bool
	kvOn   bool
}

// Connect is the page: choose an agent, send a message, watch it arrive. Which
// agent and since when stand in the address, so that a reload goes on.
func (f *First) Connect(r *http.Request) (layout.Page, error) {
	m := first{here: layout.At(r.URL), now: f.Base.Now().UnixMilli(), form: f.Base.Form()}
	var err error
	if m.agents, err = f.Desk.Agents(); err != nil {
		return layout.Page{}, err
	}
	m.engine, m.kvOn = f.Desk.LocalEngine()
	m.since = int64(m.here.Int("since", int(m.now)))
	for _, a := range m.agents {
		if a.ID == m.here.Get("agent") {
			m.chosen = a
		}
	}
	if m.chosen.ID != "" {
		if m.came, err = f.arrived(r.Context(), m.since); err != nil {
			return layout.Page{}, err
		}
	}
	return layout.Page{Title: "Connect an agent", Section: "connect", Body: connectPage(m)}, nil
}

// lookBack is how many turns are looked at for new ones.
const lookBack = 50

func (f *First) arrived(ctx context.Context, since int64) (a arrival, err error) {
	points, err := f.Desk.TurnPoints(ctx, "", lookBack)
	if err != nil {
		return a, err
	}
	for _, t := range points {
		if t.At >= since {
			a.turns++
			a.last = t
		}
	}
	list, _, err := f.Desk.FindSessions(ctx, session.SessionQuery{Page: 1, Size: 1})
	if len(list) > 0 && list[0].LastSeen >= since {
		a.into = list[0]
	}
	return a, err
}

func (m *first) choose(a Agent) string {
	return m.here.With("agent", a.ID, "since", strconv.FormatInt(m.since, 10))
}
