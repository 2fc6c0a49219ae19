package sessions

import (
	"fmt"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// tokenChart is tokens over turns: what was sent by class, what the client
// asked for, and the share that came from the cache. Turns are gathered so that
// the drawing has the same size for ten turns and for ten thousand.
type tokenChart struct {
	n                          int // turns
	first, last                int64
	fresh, write, cached, sent []float64 // stacked: each includes those before it
	direct                     []float64
	hit                        []float64 // percent
	highest                    float64
	window                     float64
	folds, gates               []box
	estimate                   bool
}

// chartPoints is how many places the chart has at most, and chartTurns how many
// turns it looks back on.
const (
	chartPoints = 320
	chartTurns  = 20_000
)

// newTokenChart gathers points. Marks of folds stand where the turn is that
// came after the fold.
func newTokenChart(points []session.TurnPoint, checkpoints []session.CheckpointView, window int64) tokenChart {
	c := tokenChart{n: len(points)}
	if c.n == 0 {
		return c
	}
	c.first, c.last = points[0].ID, points[c.n-1].ID
	buckets := min(c.n, chartPoints)
	for b := range buckets {
		c.add(points[b*c.n/buckets : (b+1)*c.n/buckets])
	}
	c.highest = layout.Highest(1, c.sent, c.direct)
	if float64(window) < 1.6*c.highest {
		c.window = float64(window)
		c.highest = max(c.highest, c.window)
	}
	c.highest *= 1.05
	c.mark(points, checkpoints)
	return c
}

// add puts one place: the mean of its turns.
func (c *tokenChart) add(turns []session.TurnPoint) {
	var fresh, write, cached, direct float64
	for _, t := range turns {
		u := t.Usage
		fresh, write, cached = fresh+float64(u.Input), write+float64(u.CacheWrite), cached+float64(u.Cached)
		direct += float64(u.Total()) * asked(t)
		c.estimate = c.estimate || asked(t) != 1
	}
	n := float64(len(turns))
	total := fresh + write + cached
	c.cached = append(c.cached, cached/n)
	c.write = append(c.write, (cached+write)/n)
	c.fresh = append(c.fresh, total/n)
	c.sent = append(c.sent, total/n)
	c.direct = append(c.direct, direct/n)
	c.hit = append(c.hit, 100*layout.Share(cached, total))
}

// asked is how much more the client asked for than was sent: the ratio of the
// bodies, an estimate for tokens.
func asked(t session.TurnPoint) float64 {
	if t.BytesOut <= 0 || t.BytesIn <= t.BytesOut {
		return 1
	}
	return float64(t.BytesIn) / float64(t.BytesOut)
}

func (c *tokenChart) mark(points []session.TurnPoint, checkpoints []session.CheckpointView) {
	place := func(i int) float64 { return (float64(i) + 0.5) / float64(c.n) }
	for i, t := range points {
		if t.Gate != "" {
			c.gates = append(c.gates, box{X: place(i), Says: fmt.Sprintf("Turn %d left the snapshot path: gate %s.", t.ID, t.Gate), URL: fmt.Sprintf("/ui/turns/%d", t.ID)})
		}
	}
	for _, k := range checkpoints {
		if k.Reason != "fold" && k.Reason != "inherit" {
			continue
		}
		for i, t := range points {
			if t.At >= k.At || i == c.n-1 {
				c.folds = append(c.folds, box{X: place(i), Says: fmt.Sprintf("Fold sealed by checkpoint %d, before turn %d.", k.Seq, t.ID), URL: fmt.Sprintf("/ui/turns/%d", t.ID)})
				break
			}
		}
	}
}

// says is the chart in one sentence.
func (c *tokenChart) says() string {
	if c.n == 0 {
		return "No turns yet."
	}
	last := len(c.sent) - 1
	return fmt.Sprintf("Tokens per turn over %s: highest %s sent, lately %s, of which %.0f %% from the cache.",
		layout.Plural(int64(c.n), "turn", "turns"), layout.Short(int64(layout.Highest(0, c.sent))), layout.Short(int64(c.sent[last])), c.hit[last])
}

// twinRow is one line of the chart as a table: a tenth of the session.
type twinRow struct {
	from, to          int64
	sent, direct, hit float64
}

// twin says the chart in at most twenty lines.
func (c *tokenChart) twin(points []session.TurnPoint) (out []twinRow) {
	n := min(20, len(points))
	for b := range n {
		part := points[b*len(points)/n : (b+1)*len(points)/n]
		var one tokenChart
		one.add(part)
		out = append(out, twinRow{part[0].ID, part[len(part)-1].ID, one.sent[0], one.direct[0], one.hit[0]})
	}
	return out
}
