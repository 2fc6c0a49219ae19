package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

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
	c, points, err := p.picture(r.Context(), id)
	if err != nil {
		return layout.Page{}, err
	}
	page := h.page("Coverage map")
	page.Keys = append(page.Keys, layout.Key{Press: "t", Does: "open the map as a table"})
	chart := newTokenChart(points, c.Checkpoints, h.view.Window)
	page.Body = mapPage(h, newStrip(id, c), chart, chart.twin(points))
	return page, nil
}

// picture reads what the map and the chart are drawn from, side by side: of a
// long session each takes as long as all else of the page.
func (p *Pages) picture(ctx context.Context, id string) (c session.CoverageView, points []session.TurnPoint, err error) {
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer func() { // here it would end the program, proxy and all
			if p := recover(); p != nil {
				failed = fmt.Errorf("internal: %v", p)
			}
		}()
		points, failed = p.Source.TurnPoints(ctx, id, chartTurns)
	})
	c, err = p.Source.Coverage(ctx, id)
	wg.Wait()
	return c, points, errors.Join(err, failed)
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
