// Package degrades is the page of every step down: when it happened, why, what
// served instead, and whether the user's bytes changed; with each gate
// explained.
package degrades

import (
	"context"
	"net/http"
	"time"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Source is what this page reads.
type Source interface {
	DegradesPage(ctx context.Context, q session.DegradeQuery) ([]session.DegradeView, int, error)
	DegradeCounts(ctx context.Context, since int64) (session.DegradeCounts, error)
	FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error)
	Titles(ctx context.Context, ids []string) (map[string]string, error)
}

// Pages makes this page.
type Pages struct {
	Source Source
	Now    func() time.Time
}

const pageSize = 50

// breakerSessions is how many sessions are looked at for an open breaker: one
// closes or probes within ten minutes of use, so it is among the newest.
const breakerSessions = 50

// model is the view model.
type model struct {
	here     layout.Here
	now      int64
	rows     []session.DegradeView
	counts   session.DegradeCounts
	sort     layout.Sorting
	pages    layout.Paging
	open     []session.SessionView // with an open breaker
	titles   map[string]string     // of the sessions in rows; one that is gone has none
	filtered bool
}

// List is the page.
func (p *Pages) List(r *http.Request) (layout.Page, error) {
	m := model{here: layout.At(r.URL), now: p.Now().UnixMilli()}
	m.sort = layout.SortOf(m.here, "at")
	q := session.DegradeQuery{Gate: m.here.Get("gate"), Cause: m.here.Get("cause"), Session: m.here.Get("session"), Changed: m.here.Get("bytes") != "",
		Ascending: m.sort.Ascending, Page: max(1, m.here.Int("page", 1)), Size: pageSize}
	m.filtered = q.Gate+q.Cause+q.Session != "" || q.Changed
	var err error
	total := 0
	if m.rows, total, err = p.Source.DegradesPage(r.Context(), q); err != nil {
		return layout.Page{}, err
	}
	if m.counts, err = p.Source.DegradeCounts(r.Context(), 0); err != nil {
		return layout.Page{}, err
	}
	var ids []string
	for _, d := range m.rows {
		ids = append(ids, d.Session)
	}
	if m.titles, err = p.Source.Titles(r.Context(), ids); err != nil {
		return layout.Page{}, err
	}
	if m.open, err = p.breakers(r.Context(), m.now); err != nil {
		return layout.Page{}, err
	}
	m.pages = layout.Paging{Here: m.here, Page: q.Page, Size: pageSize, Total: total, What: "steps down"}
	return layout.Page{Title: "Degrades", Section: "degrades", Body: page(m)}, nil
}

// breakers lists the sessions whose breaker is not closed.
func (p *Pages) breakers(ctx context.Context, now int64) (out []session.SessionView, err error) {
	list, _, err := p.Source.FindSessions(ctx, session.SessionQuery{Page: 1, Size: breakerSessions})
	for _, v := range list {
		if v.Breaker.Phase(now) != session.BreakerClosed {
			out = append(out, v)
		}
	}
	return out, err
}

// gateText is a gate with what a person should know of it.
type gateText struct{ ID, Name, Text string }

// gates explains every gate in a paragraph.
func gates() []gateText {
	return []gateText{
		{"R1", "Identity", "Holdfast could not tell for certain which messages of the request are which: the client's ids were missing or out of line, known messages came in another order, a folded stretch lost a message, or two requests of one conversation were in flight at once. The turn goes out from your complete request and the session's rows are made anew."},
		{"R2", "Address", "A change (a fold, an overlay) could not be tied to exactly one set of rows, so it was not made. Only this turn leaves the snapshot path; the next one is normal again."},
		{"R3", "Storage", "What is on disk cannot be trusted right now: a checksum does not match, something did not read back as written, a commit failed or took too long, or the two paths were compared and differed. The complete request is sent and the session stays on the full path until its rows were made anew."},
		{"R4", "Pending", "A change to the ledger was begun and its outcome is unknown, for instance because the process died in between. The session stays on the full path until its next complete request settles it."},
		{"", "Without a gate", "The request could not be held at all (not JSON, an unknown shape, a key named twice), or the ledger had no room. It is passed on untouched, byte for byte."},
	}
}

func gateOptions() (out []layout.Option) {
	for _, g := range gates() {
		out = append(out, layout.Option{Value: layout.Or(g.ID, "-"), Text: layout.Or(g.ID, "no gate") + " · " + g.Name})
	}
	return out
}

func (m *model) causes() (out []layout.Option) {
	for _, c := range sorted(m.counts.Causes) {
		out = append(out, layout.Option{Value: c, Text: layout.Words(c)})
	}
	return out
}

func gateTone(g string) string {
	if g == "R3" {
		return layout.Bad
	}
	if g == "" {
		return layout.Quiet
	}
	return layout.Warn
}
