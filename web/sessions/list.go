package sessions

import (
	"net/http"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// listSize is how many sessions one page shows.
const listSize = 25

// listing is the view model of the list of sessions.
type listing struct {
	here   layout.Here
	now    int64
	rows   []entry
	facets session.Facets
	sort   layout.Sorting
	pages  layout.Paging
	// filtered says whether anything narrows the list.
	filtered bool
}

// entry is one session with how deep it stands below the one before it.
type entry struct {
	session.SessionView
	depth int
}

// List is the page of all sessions.
func (p *Pages) List(r *http.Request) (layout.Page, error) {
	l := listing{here: layout.At(r.URL), now: p.now()}
	l.sort = layout.SortOf(l.here, string(session.SortSeen), string(session.SortTitle), string(session.SortModel),
		string(session.SortTurns), string(session.SortTokens), string(session.SortHit), string(session.SortCost))
	q := session.SessionQuery{Q: l.here.Get("q"), Signal: l.here.Get("host"), Model: l.here.Get("model"), Wire: l.here.Get("wire"),
		Path: session.Path(l.here.Get("path")), Sort: session.SessionSort(l.sort.By), Ascending: l.sort.Ascending,
		Page: max(1, l.here.Int("page", 1)), Size: listSize}
	l.filtered = q.Q+q.Signal+q.Model+q.Wire+string(q.Path) != ""
	views, total, err := p.Source.FindSessions(r.Context(), q)
	if err != nil {
		return layout.Page{}, err
	}
	if l.facets, err = p.Source.SessionFacets(r.Context()); err != nil {
		return layout.Page{}, err
	}
	l.rows = tree(views)
	l.pages = layout.Paging{Here: l.here, Page: q.Page, Size: q.Size, Total: total, What: "sessions"}
	return layout.Page{Title: "Sessions", Section: "sessions", Body: listPage(l)}, nil
}

// tree moves sessions that came from another one of the page below it; the
// order of the others stays.
func tree(views []session.SessionView) (out []entry) {
	below := map[string][]session.SessionView{}
	at := map[string]bool{}
	for _, v := range views {
		at[v.ID] = true
	}
	child := func(v session.SessionView) bool { return v.Parent != "" && v.Parent != v.ID && at[v.Parent] }
	for _, v := range views {
		if child(v) {
			below[v.Parent] = append(below[v.Parent], v)
		}
	}
	shown := map[string]bool{}
	var put func(v session.SessionView, depth int)
	put = func(v session.SessionView, depth int) {
		if shown[v.ID] { // a ring of parents must not hang the page
			return
		}
		shown[v.ID] = true
		out = append(out, entry{v, depth})
		for _, c := range below[v.ID] {
			put(c, depth+1)
		}
	}
	for _, v := range views {
		if !child(v) {
			put(v, 0)
		}
	}
	for _, v := range views {
		put(v, 0)
	}
	return out
}

// name is what a session is called.
func name(v session.SessionView) string { return layout.Or(v.Title, "Untitled "+v.ID) }

func hosts(signals []string) (out []layout.Option) {
	for _, s := range signals {
		out = append(out, layout.Option{Value: layout.Or(s, "-"), Text: layout.Host(s)})
	}
	return out
}

func paths() []layout.Option {
	return []layout.Option{{Value: string(session.PathSnapshot), Text: "snapshot"}, {Value: string(session.PathFull), Text: "full"},
		{Value: string(session.PathVerbatim), Text: "verbatim"}}
}

// routeTone colours what a session is meant to be served by.
func routeTone(r session.Route) string {
	if r == session.RouteSnapshot {
		return "brand"
	}
	return layout.Quiet
}

// pathTone colours how a turn was served.
func pathTone(p session.Path) string {
	switch p {
	case session.PathSnapshot:
		return "brand"
	case session.PathVerbatim:
		return layout.Warn
	}
	return layout.Quiet
}
