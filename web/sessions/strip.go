package sessions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// strip is the coverage map as it is drawn: everything in its place along x,
// as shares of the width. x is a position scaled by tokens, so that what takes
// room takes room.
type strip struct {
	session.CoverageView
	scale     scale
	spans     []box
	live      []box
	kv        []box
	ticks     []box
	protected box
	axis      []box
	tiers     int // lanes above the rows, at least one
	session   string
}

// box is one thing of the strip.
type box struct {
	X, W     float64
	From, To int64
	Tier     int
	Class    string
	Name     string // block, state or sequence number
	Says     string // the explanation on hover
	Note     string // what stands in it where there is room
	URL      string
}

// minWidth keeps a stretch of few tokens visible; many stretches share a tenth
// of the width for it.
const minWidth = 0.0015

// strip lays the map out.
func newStrip(id string, c session.CoverageView) strip {
	s := strip{CoverageView: c, scale: newScale(c), tiers: 1, session: id}
	for _, v := range c.Spans {
		tier := min(max(v.Tier, 1), 3)
		s.tiers = max(s.tiers, tier)
		b := s.box(v.From, v.To, v.Block, spanSays(v))
		b.Tier, b.Class, b.URL, b.Note = tier, "fill-tier"+strconv.Itoa(tier), s.rows(v.From), v.Topic
		s.spans = append(s.spans, b)
	}
	for _, v := range c.Live {
		b := s.box(v.From, v.To, "live", liveSays(v))
		b.Class, b.URL, b.Note = "fill-live", s.rows(v.From), layout.Short(int64(v.Tokens))+" live"
		s.live = append(s.live, b)
	}
	for _, v := range c.KV {
		b := s.box(v.From, v.To, v.State, kvSays(v))
		b.Class = "kv-" + v.State
		s.kv = append(s.kv, b)
	}
	for _, v := range c.Checkpoints {
		b := box{X: s.scale.at(v.Pos + 1), From: v.Pos, To: v.Pos, Name: strconv.FormatInt(v.Seq, 10), Class: tickClass(v.Reason)}
		b.Says = fmt.Sprintf("Checkpoint %d at position %d: %s", v.Seq, v.Pos, layout.Words(v.Reason))
		s.ticks = append(s.ticks, b)
	}
	if s.ProtectedFrom > 0 && s.ProtectedFrom < s.scale.hi {
		s.protected = s.box(s.ProtectedFrom, s.scale.hi, "protected", "Protected tail: the newest elements, which folds leave alone.")
	}
	s.axis = s.marks()
	return s
}

func (s *strip) box(from, to int64, name, says string) box {
	x := s.scale.at(from)
	return box{X: x, W: max(0, s.scale.at(to)-x), From: from, To: to, Name: name, Says: says}
}

// rows is the ledger page that begins at a position.
func (s *strip) rows(pos int64) string {
	return fmt.Sprintf("/ui/sessions/%s?at=%d", s.session, pos)
}

// marks are round token counts along the strip.
func (s *strip) marks() (out []box) {
	for _, v := range layout.Steps(s.scale.tokens, 6) {
		out = append(out, box{X: s.scale.ofTokens(v), Name: layout.Short(int64(v))})
	}
	return out
}

// scale turns positions into places along the strip.
type scale struct {
	hi     int64
	tokens float64
	edges  []int64   // ascending
	x      []float64 // of each edge, 0 to 1
	sum    []float64 // tokens before each edge
}

// newScale weighs every stretch between two edges by its tokens: those of live
// rows, or those a block took out of the view.
func newScale(c session.CoverageView) scale {
	sc := scale{hi: c.PosHi}
	var pieces []piece
	for _, v := range c.Live {
		pieces = append(pieces, piece{v.From, v.To, density(int64(v.Tokens), v.To-v.From)})
	}
	length, tokens := map[string]int64{}, map[string]int64{}
	for _, v := range c.Spans {
		length[v.Block] += v.To - v.From
		tokens[v.Block] += int64(v.Tokens)
	}
	for _, v := range c.Spans {
		pieces = append(pieces, piece{v.From, v.To, density(tokens[v.Block], length[v.Block])})
	}
	for _, p := range pieces {
		sc.hi = max(sc.hi, p.to)
	}
	sc.edges = edges(c, pieces, sc.hi)
	sc.weigh(pieces)
	return sc
}

// piece is a run of positions and the tokens each of them takes.
type piece struct {
	from, to int64
	each     float64
}

func density(tokens, length int64) float64 {
	if length <= 0 {
		return 0
	}
	return float64(tokens) / float64(length)
}

func edges(c session.CoverageView, pieces []piece, hi int64) []int64 {
	set := map[int64]bool{0: true, hi: true}
	for _, p := range pieces {
		set[p.from], set[p.to] = true, true
	}
	for _, v := range c.KV {
		set[min(v.From, hi)], set[min(v.To, hi)] = true, true
	}
	if c.ProtectedFrom > 0 && c.ProtectedFrom < hi {
		set[c.ProtectedFrom] = true
	}
	out := make([]int64, 0, len(set))
	for e := range set {
		out = append(out, e)
	}
	slices.Sort(out)
	return out
}

// weigh places the edges. Where pieces overlap the heaviest counts.
func (sc *scale) weigh(pieces []piece) {
	each := make([]float64, max(0, len(sc.edges)-1))
	for _, p := range pieces {
		i, _ := slices.BinarySearch(sc.edges, p.from)
		for ; i < len(each) && sc.edges[i] < p.to; i++ {
			each[i] = max(each[i], p.each)
		}
	}
	sc.sum = make([]float64, len(sc.edges))
	for i := range each {
		sc.sum[i+1] = sc.sum[i] + each[i]*float64(sc.edges[i+1]-sc.edges[i])
	}
	sc.tokens = sc.sum[len(sc.sum)-1]
	least := 0.0
	if n := len(each); n > 0 {
		least = min(minWidth, 0.1/float64(n))
	}
	sc.x = make([]float64, len(sc.edges))
	for i := range each {
		w := least
		if sc.tokens > 0 {
			w += (sc.sum[i+1] - sc.sum[i]) / sc.tokens
		}
		sc.x[i+1] = sc.x[i] + w
	}
	if whole := sc.x[len(sc.x)-1]; whole > 0 {
		for i := range sc.x {
			sc.x[i] /= whole
		}
	}
}

// at is the place of a position.
func (sc *scale) at(pos int64) float64 {
	i, exact := slices.BinarySearch(sc.edges, pos)
	switch {
	case exact:
		return sc.x[i]
	case i == 0:
		return 0
	case i == len(sc.edges):
		return 1
	}
	part := float64(pos-sc.edges[i-1]) / float64(sc.edges[i]-sc.edges[i-1])
	return sc.x[i-1] + part*(sc.x[i]-sc.x[i-1])
}

// ofTokens is the place where so many tokens have gone by.
func (sc *scale) ofTokens(tokens float64) float64 {
	i, exact := slices.BinarySearchFunc(sc.sum, tokens, cmp.Compare)
	switch {
	case exact || i == 0:
		return sc.x[i]
	case i == len(sc.sum):
		return 1
	}
	part := (tokens - sc.sum[i-1]) / (sc.sum[i] - sc.sum[i-1])
	return sc.x[i-1] + part*(sc.x[i]-sc.x[i-1])
}

// spanSays begins with what stands in the span: who speaks to the page says
// what is seen.
func spanSays(v session.SpanView) string {
	s := fmt.Sprintf("%s %s: fold of tier %d, positions %d to %d", v.Block, v.Topic, v.Tier, v.From, v.To-1)
	if v.Tokens > 0 {
		s += ", " + layout.Count(int64(v.Tokens)) + " tokens folded"
	}
	if v.Within != "" {
		s += ", now held by " + v.Within
	}
	if len(v.Children) > 0 {
		s += ", holds " + strings.Join(v.Children, ", ")
	}
	if v.Saved.Realised != 0 {
		s += "; ≈ " + layout.Money(v.Saved.Realised) + " saved so far"
	}
	return s + "."
}

func liveSays(v session.IntervalView) string {
	return fmt.Sprintf("%s live, %s tokens the model sees, positions %d to %d.", layout.Short(int64(v.Tokens)), layout.Count(int64(v.Tokens)), v.From, v.To-1)
}

func kvSays(v session.KVView) string {
	where := map[string]string{"resident": "in the engine's memory", "disk": "on disk, restorable", "cold": "nowhere: it would be read again"}[v.State]
	return fmt.Sprintf("KV state of positions %d to %d: %s.", v.From, v.To-1, layout.Or(where, v.State))
}

func tickClass(reason string) string {
	switch reason {
	case "fold", "inherit", "unfold":
		return "tick tick-fold"
	case "restamp":
		return "tick tick-restamp"
	}
	return "tick"
}

// Heights of the strip's lanes, in pixels. The protected tail is hatched along
// the foot of the rows, where no text stands.
const (
	axisHeight = 20
	tierHeight = 28
	rowHeight  = 46
	tailHeight = 16
	tickHeight = 12
	kvHeight   = 18
)

func (s *strip) tierY(tier int) int { return axisHeight + (s.tiers-tier)*tierHeight }
func (s *strip) rowY() int          { return axisHeight + s.tiers*tierHeight }
func (s *strip) tickY() int         { return s.rowY() + rowHeight + 2 }
func (s *strip) kvY() int           { return s.tickY() + tickHeight + 5 }
func (s *strip) height() int        { return s.kvY() + kvHeight + 2 }

// sums are the tokens the model sees and those of the history that it does not,
// with how many blocks stand for these. A block that holds others counts what
// it took when they were short already, so the strip itself is what is added up.
func (s *strip) sums() (live, gone int64, blocks int) {
	for _, v := range s.Live {
		live += int64(v.Tokens)
	}
	return live, max(0, int64(s.scale.tokens)-live), len(s.blocks())
}

// saved is what the folds took off the bill so far.
func (s *strip) saved() (sum float64) {
	for _, b := range s.blocks() {
		sum += b.Saved.Realised
	}
	return sum
}

// summary says the map in one sentence.
func (s *strip) summary() string {
	live, gone, blocks := s.sums()
	out := fmt.Sprintf("%s live tokens in %s", layout.Count(live), layout.Plural(int64(len(s.Live)), "run", "runs"))
	if blocks > 0 {
		out += fmt.Sprintf("; %s folded away in %s", layout.Count(gone), layout.Plural(int64(blocks), "block", "blocks"))
	}
	return out + "."
}
