package sessions

import (
	"fmt"
	"net/http"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// turnsSize is how many turns one page shows.
const turnsSize = 50

// turnList is the view model of a session's turns.
type turnList struct {
	here     layout.Here
	now      int64
	rows     []session.TurnView
	sort     layout.Sorting
	pages    layout.Paging
	longest  float64 // ms, of the turns shown
	filtered bool
}

// Turns is the list of one session's turns.
func (p *Pages) Turns(r *http.Request) (layout.Page, error) {
	id := r.PathValue("id")
	h, err := p.head(r.Context(), id, "turns")
	if err != nil {
		return layout.Page{}, err
	}
	l := turnList{here: layout.At(r.URL), now: p.now()}
	l.sort = layout.SortOf(l.here, string(session.SortAt), string(session.SortInput), string(session.SortOutput),
		string(session.SortWait), string(session.SortChanged))
	q := session.TurnQuery{Ledger: id, Path: session.Path(l.here.Get("path")), Changed: l.here.Get("changed") != "",
		Sort: session.TurnSort(l.sort.By), Ascending: l.sort.Ascending, Page: max(1, l.here.Int("page", 1)), Size: turnsSize}
	l.filtered = q.Path != "" || q.Changed
	total := 0
	if l.rows, total, err = p.Source.FindTurns(r.Context(), q); err != nil {
		return layout.Page{}, err
	}
	for _, t := range l.rows {
		l.longest = max(l.longest, whole(t.Ms))
	}
	l.pages = layout.Paging{Here: l.here, Page: q.Page, Size: q.Size, Total: total, What: "turns"}
	page := h.page("Turns")
	page.Body = turnsPage(h, l)
	return page, nil
}

// stage is one bar of a waterfall.
type stage struct {
	layout.Part
	From, Ms float64
}

// stages are a turn's stages in order, each from where the one before ended.
func stages(m session.StageTimes) (out []stage) {
	at := 0.0
	for _, s := range []struct {
		name, class string
		ms          float64
	}{{"identify", "st-own1", m.Identify}, {"decode", "st-own2", m.Decode}, {"rewrite", "st-own3", m.Rewrite}, {"apply", "st-own4", m.Apply},
		{"encode", "st-own5", m.Encode}, {"upstream to first token", "st-wait", m.UpstreamFirst}, {"stream", "st-stream", m.Stream}} {
		out = append(out, stage{layout.Part{Text: s.name, Class: s.class, Value: s.ms, Note: layout.Ms(s.ms)}, at, s.ms})
		at += s.ms
	}
	return out
}

// own is the time that is ours: everything before the upstream.
func own(m session.StageTimes) float64 { return m.Identify + m.Decode + m.Rewrite + m.Apply + m.Encode }

func whole(m session.StageTimes) float64 { return own(m) + m.UpstreamFirst + m.Stream }

// parts are the stages as parts of one bar.
func parts(m session.StageTimes) (out []layout.Part) {
	out = append(out, layout.Part{Text: "Holdfast", Class: "st-own4", Value: own(m), Note: layout.Ms(own(m))})
	for _, s := range stages(m)[5:] {
		out = append(out, s.Part)
	}
	return out
}

// waterfallSays is a waterfall in words.
func waterfallSays(m session.StageTimes) string {
	return fmt.Sprintf("Holdfast %s, upstream to first token %s, stream %s", layout.Ms(own(m)), layout.Ms(m.UpstreamFirst), layout.Ms(m.Stream))
}

// hitOf is the cached share of what the model read.
func hitOf(t session.TurnView) float64 {
	return layout.Share(float64(t.Usage.Cached), float64(t.Usage.Total()))
}

// classes are the usage classes as parts of a bar.
func classes(t session.TurnView) []layout.Part {
	part := func(text, class string, n int64) layout.Part {
		return layout.Part{Text: text, Class: class, Value: float64(n), Note: layout.Count(n)}
	}
	return []layout.Part{part("from the cache", "fill-cached", int64(t.Usage.Cached)), part("written to the cache", "fill-write", int64(t.Usage.CacheWrite)),
		part("read fresh", "fill-fresh", int64(t.Usage.Input)), part("output", "fill-out", int64(t.Usage.Output))}
}

// status says how the upstream answered.
func status(t session.TurnView) (text, tone string) {
	switch {
	case t.Error != "":
		return layout.Words(t.Error), layout.Bad
	case t.Status == 0:
		return "in flight", layout.Info
	case t.Status >= 400:
		return fmt.Sprint(t.Status), layout.Bad
	case t.Truncated:
		return "cut off", layout.Warn
	}
	return fmt.Sprint(t.Status), layout.Good
}

// byTone colours whose doing a change was.
func byTone(by string) string {
	switch by {
	case "holdfast":
		return layout.Info
	case "client":
		return layout.Warn
	}
	return layout.Quiet
}

// causeTone colours a change: a cache marker that moved on is what every turn
// of some clients looks like, and costs nothing.
func causeTone(c *session.FirstChange) string {
	if c.Cause == session.ChangeMarker {
		return layout.Quiet
	}
	return byTone(c.By)
}
