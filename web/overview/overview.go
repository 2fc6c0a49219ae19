// Package overview is the first page: is it alive, what does it save, and what
// needs a look.
package overview

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Source is what this page reads.
type Source interface {
	Now(ctx context.Context) (Now, error)
	TotalsByClient(ctx context.Context) ([]session.GroupTotals, error)
	TurnPoints(ctx context.Context, id string, limit int) ([]session.TurnPoint, error)
	FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error)
	DegradeCounts(ctx context.Context, since int64) (session.DegradeCounts, error)
}

// Now is the state of the running process.
type Now struct {
	UptimeS                             int64
	Mode                                string
	Percent                             float64
	Bypass                              bool
	Seen, Decrypted, Folded             int64
	InFlight, Failed                    int64
	Skipped                             map[string]int64
	Evidence                            session.Evidence
	Gates                               map[string]int64
	BreakerOpen                         bool
	BreakerUntil                        int64
	Sampled, Equal, Drift, Diff         int64
	CommitP50, CommitP95                float64
	LedgerBytes, LedgerBudget, Sessions int64
	Memory                              int64
	KVState                             string
	KVUsed, KVBudget                    int64
	BaseURL                             string
}

// Pages makes this page.
type Pages struct {
	Source Source
	Now    func() time.Time
	Form   func() string
}

// recentTurns is how many turns the trends look back on.
const recentTurns = 400

// model is the view model.
type model struct {
	Now
	now     int64
	form    string
	clients []session.GroupTotals
	sum     session.GroupTotals
	points  []session.TurnPoint
	flow    flow
	recent  []session.SessionView
	counts  session.DegradeCounts // of the last day
}

// Overview is the page.
func (p *Pages) Overview(r *http.Request) (layout.Page, error) {
	m, err := p.read(r.Context())
	if err != nil {
		return layout.Page{}, err
	}
	body := page(m)
	if m.sum.Totals.Turns == 0 && m.Seen == 0 {
		body = welcome(m)
	}
	return layout.Page{Title: "Overview", Section: "overview", Body: body,
		Keys: []layout.Key{{Press: "b", Does: "turn the bypass on or off"}}}, nil
}

func (p *Pages) read(ctx context.Context) (m model, err error) {
	m.now, m.form = p.Now().UnixMilli(), p.Form()
	if m.Now, err = p.Source.Now(ctx); err != nil {
		return m, err
	}
	if m.clients, err = p.Source.TotalsByClient(ctx); err != nil {
		return m, err
	}
	for _, c := range m.clients {
		m.sum = plus(m.sum, c)
	}
	if m.points, err = p.Source.TurnPoints(ctx, "", recentTurns); err != nil {
		return m, err
	}
	m.flow = newFlow(m.points)
	if m.recent, _, err = p.Source.FindSessions(ctx, session.SessionQuery{Page: 1, Size: 6}); err != nil {
		return m, err
	}
	m.counts, err = p.Source.DegradeCounts(ctx, m.now-24*time.Hour.Milliseconds())
	return m, err
}

func plus(a, b session.GroupTotals) session.GroupTotals {
	t, u := a.Totals, b.Totals
	a.Totals = session.Totals{Turns: t.Turns + u.Turns, Input: t.Input + u.Input, Cached: t.Cached + u.Cached, CacheWrite: t.CacheWrite + u.CacheWrite,
		Output: t.Output + u.Output, Estimated: t.Estimated + u.Estimated, BytesIn: t.BytesIn + u.BytesIn, BytesOut: t.BytesOut + u.BytesOut,
		CostMicros: t.CostMicros + u.CostMicros, Unpriced: t.Unpriced + u.Unpriced}
	a.Sessions, a.Saved = a.Sessions+b.Sessions, a.Saved+b.Saved
	return a
}

// hit is the cached share of what was read.
func hit(g session.GroupTotals) float64 {
	return layout.Share(float64(g.Totals.Cached), float64(g.Totals.Input+g.Totals.Cached+g.Totals.CacheWrite))
}

func read(g session.GroupTotals) int64 {
	return int64(g.Totals.Input + g.Totals.Cached + g.Totals.CacheWrite)
}

func sent(g session.GroupTotals) float64 { return float64(g.Totals.CostMicros) / 1e6 }

// direct is what the same turns would have cost without folds, an estimate.
func direct(g session.GroupTotals) float64 { return sent(g) + g.Saved }

// hits is the trend of the cache-hit rate, in runs of turns.
func (m *model) hits() (out []float64) {
	n := min(80, len(m.points))
	for b := range n {
		var cached, all float64
		for _, t := range m.points[b*len(m.points)/n : (b+1)*len(m.points)/n] {
			cached, all = cached+float64(t.Usage.Cached), all+float64(t.Usage.Total())
		}
		out = append(out, 100*layout.Share(cached, all))
	}
	return out
}

// paths counts the recent turns by what served them.
func (m *model) paths() []layout.Part {
	n := map[session.Path]int64{}
	for _, t := range m.points {
		n[t.Path]++
	}
	part := func(text, class string, p session.Path) layout.Part {
		return layout.Part{Text: text, Class: class, Value: float64(n[p]), Note: layout.Count(n[p])}
	}
	return []layout.Part{part("snapshot", "fill-brand", session.PathSnapshot), part("full", "fill-disk", session.PathFull), part("verbatim", "fill-write", session.PathVerbatim)}
}

// tokens are the sums as parts of a bar.
func (m *model) tokens() []layout.Part {
	t := m.sum.Totals
	part := func(text, class string, n int64) layout.Part {
		return layout.Part{Text: text, Class: class, Value: float64(n), Note: layout.Short(n)}
	}
	return []layout.Part{part("from the cache", "fill-cached", int64(t.Cached)), part("written to it", "fill-write", int64(t.CacheWrite)), part("read fresh", "fill-fresh", int64(t.Input))}
}

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

// clean says whether the evidence speaks for serving from snapshots.
func (m *model) clean() bool {
	return m.Evidence.Turns > 0 && m.Evidence.Differences == 0 && m.Evidence.Faults == 0
}

func name(v session.SessionView) string { return layout.Or(v.Title, "Untitled "+v.ID) }
