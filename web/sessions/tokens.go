package sessions

import (
	"cmp"
	"fmt"
	"slices"

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
	perByte                    float64 // tokens, for the estimate
}

// chartPoints is how many places the chart has at most, and chartTurns how many
// turns it looks back on.
const (
	chartPoints = 320
	chartTurns  = 20_000
)

// manyFolds is how many folds are marked over the whole height; more of them
// would hide what is drawn, so they are ticks at the edge.
const manyFolds = 24

// foldTab keeps hundreds of marks out of the way of the Tab key; the table has
// their turns.
func foldTab(n int) string {
	if n > manyFolds {
		return "-1"
	}
	return "0"
}

// newTokenChart gathers points. Marks of folds stand where the turn is that
// came after the fold.
func newTokenChart(points []session.TurnPoint, checkpoints []session.CheckpointView, window int64) tokenChart {
	c := tokenChart{n: len(points)}
	if c.n == 0 {
		return c
	}
	c.first, c.last = points[0].ID, points[c.n-1].ID
	c.perByte = perByte(points)
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
		direct += c.asked(t)
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

// perByte is how many tokens a byte of a body is, over the turns that were one
// request each.
func perByte(points []session.TurnPoint) float64 {
	var tokens, size float64
	for _, t := range points {
		if t.Rounds <= 1 {
			tokens, size = tokens+float64(t.Usage.Total()), size+float64(t.BytesOut)
		}
	}
	return layout.Share(tokens, size)
}

// asked is what the client asked the model to read: what was sent, unless
// something was folded away or it took several requests; then an estimate from
// the size of its body.
func (c *tokenChart) asked(t session.TurnPoint) float64 {
	if t.Rounds <= 1 && (t.BytesOut <= 0 || t.BytesIn <= t.BytesOut) {
		return float64(t.Usage.Total())
	}
	c.estimate = true
	return float64(t.BytesIn) * c.perByte
}

// mark finds the turns worth a mark: those that left the snapshot path, and
// those before which something was folded. Old checkpoints are let go of, so a
// fold also shows by what it did: more came in, and far less went out.
func (c *tokenChart) mark(points []session.TurnPoint, checkpoints []session.CheckpointView) {
	sealed := sealedAt(points, checkpoints)
	for i, t := range points {
		x, url := (float64(i)+0.5)/float64(c.n), fmt.Sprintf("/ui/turns/%d", t.ID)
		if t.Gate != "" {
			c.gates = append(c.gates, box{X: x, Says: fmt.Sprintf("Turn %d left the snapshot path: gate %s.", t.ID, t.Gate), URL: url})
		}
		switch seq, ok := sealed[i]; {
		case i > 0 && shrank(points[i-1], t):
			c.folds = append(c.folds, box{X: x, URL: url, Says: fmt.Sprintf("Folded: turn %d sent %s, the turn before %s.",
				t.ID, layout.Bytes(t.BytesOut), layout.Bytes(points[i-1].BytesOut))})
		case ok && !c.markedAt(float64(i-1)/float64(c.n)) && !(i+1 < c.n && shrank(t, points[i+1])):
			c.folds = append(c.folds, box{X: x, URL: url, Says: fmt.Sprintf("Fold sealed by checkpoint %d, before turn %d.", seq, t.ID)})
		}
	}
}

// markedAt reports whether a fold is marked at or behind a place.
func (c *tokenChart) markedAt(x float64) bool {
	k := len(c.folds) - 1
	return k >= 0 && c.folds[k].X >= x
}

// shrank reports whether something was folded between two turns.
func shrank(before, t session.TurnPoint) bool {
	return t.BytesIn >= before.BytesIn && t.BytesOut < before.BytesOut*4/5
}

// sealedAt is, by the index of a turn, the checkpoint of the fold that stood
// before it.
func sealedAt(points []session.TurnPoint, checkpoints []session.CheckpointView) map[int]int64 {
	out := map[int]int64{}
	for _, k := range checkpoints {
		if k.Reason != "fold" && k.Reason != "inherit" {
			continue
		}
		i, _ := slices.BinarySearchFunc(points, k.At, func(t session.TurnPoint, at int64) int { return cmp.Compare(t.At, at) })
		out[min(i, len(points)-1)] = k.Seq
	}
	return out
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
		one := tokenChart{perByte: c.perByte}
		one.add(part)
		out = append(out, twinRow{part[0].ID, part[len(part)-1].ID, one.sent[0], one.direct[0], one.hit[0]})
	}
	return out
}
