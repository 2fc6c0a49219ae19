package sessions

import (
	"net/http"
	"strconv"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Map is the coverage map of one session.
func (p *Pages) Map(r *http.Request) (layout.Page, error) {
	id := r.PathValue("id")
	h, err := p.head(r.Context(), id, "map")
	if err != nil {
		return layout.Page{}, err
	}
	c, err := p.Source.Coverage(r.Context(), id)
	if err != nil {
		return layout.Page{}, err
	}
	points, err := p.Source.TurnPoints(r.Context(), id, chartTurns)
	if err != nil {
		return layout.Page{}, err
	}
	page := h.page("Coverage map")
	page.Keys = append(page.Keys, layout.Key{Press: "t", Does: "open the map as a table"})
	chart := newTokenChart(points, c.Checkpoints, h.view.Window)
	page.Body = mapPage(h, newStrip(id, c), chart, chart.twin(points))
	return page, nil
}

// blockRow is a block as the table under the map lists it: all its spans.
type blockRow struct {
	session.SpanView
	spans int
}

// blocks gathers spans by block, in order.
func (s *strip) blocks() (out []blockRow) {
	at := map[string]int{}
	for _, v := range s.Spans {
		if i, ok := at[v.Block]; ok {
			out[i].spans++
			out[i].To = v.To
			out[i].Tokens += v.Tokens
			continue
		}
		at[v.Block] = len(out)
		out = append(out, blockRow{v, 1})
	}
	return out
}

// num is a number as the table twin writes it, without anything to read it by.
func num(n int64) string { return strconv.FormatInt(n, 10) }
