package overview

import (
	"fmt"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// flow is what the agents asked the model to read beside what was sent to it,
// in tokens, added up over the last turns. What was sent is counted; what was
// asked for is an estimate wherever a body left smaller than it came.
type flow struct {
	turns       int
	asked, sent []float64 // running sums at each place of the chart
}

// flowPoints is how many places the chart has at most.
const flowPoints = 160

// flowHeight is the chart's, in pixels.
const flowHeight = 236

// newFlow adds the points up, the oldest first.
func newFlow(points []session.TurnPoint) flow {
	f := flow{turns: len(points), asked: []float64{0}, sent: []float64{0}}
	each := perByte(points)
	places, asked, sent := min(len(points), flowPoints), 0.0, 0.0
	for b := range places {
		for _, t := range points[b*len(points)/places : (b+1)*len(points)/places] {
			asked, sent = asked+askedBy(t, each), sent+float64(t.Usage.Total())
		}
		f.asked, f.sent = append(f.asked, asked), append(f.sent, sent)
	}
	return f
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

// askedBy is what one turn's client asked for: what was sent, unless the body
// left smaller than it came or took several requests.
func askedBy(t session.TurnPoint, each float64) float64 {
	if t.Rounds <= 1 && t.BytesIn <= t.BytesOut {
		return float64(t.Usage.Total())
	}
	return float64(t.BytesIn) * each
}

func (f flow) askedSum() float64 { return f.asked[len(f.asked)-1] }
func (f flow) sentSum() float64  { return f.sent[len(f.sent)-1] }

// kept is what was asked for and not sent.
func (f flow) kept() float64 { return max(0, f.askedSum()-f.sentSum()) }

func (f flow) highest() float64 { return layout.Highest(1, f.asked, f.sent) * 1.04 }

func (f flow) y(v float64) string { return layout.Num(flowHeight * (1 - v/f.highest())) }

// label stands under its line.
func (f flow) label(v float64) string { return layout.Num(flowHeight*(1-v/f.highest()) + 13) }

// says is the chart in one sentence.
func (f flow) says() string {
	return fmt.Sprintf("Over the last %s the agents asked the model to read about %s tokens; %s were sent.",
		layout.Plural(int64(f.turns), "turn", "turns"), layout.Short(int64(f.askedSum())), layout.Short(int64(f.sentSum())))
}

func keptTone(f flow) string {
	if f.kept() > 0 {
		return layout.Good
	}
	return layout.Quiet
}
