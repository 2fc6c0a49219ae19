package fold

import (
	"fmt"
	"strings"

	"holdfast/core/usage"
)

// statusLines is how many lines hf_status shows by default.
const statusLines = 30

// status runs hf_status. The ranges it lists are those hf_compress would take.
func (s Session) status(f fields) Outcome {
	limit := f.number(statusLines, "limit")
	p := newPicture(s.Elements, &s.State)
	c := newChooser(p, &s.Limits, s.NextRef)
	out := s.size()
	scope := strings.ToLower(f.text("scope"))
	if scope != "uncompressed" {
		out += s.folds(p, limit)
	}
	if scope != "compressed" {
		if strings.HasPrefix(strings.ToLower(f.text("view")), "message") {
			out += c.messages(limit)
		} else {
			out += c.foldableRanges(limit)
		}
	}
	return s.said(out)
}

func (s Session) size() string {
	n := CountOf(s.Elements, &s.State, s.Rhythm, s.Limits.Frame)
	how := ""
	if n.Estimated {
		how = statusEstimate
	}
	window := s.Limits.usable()
	return fmt.Sprintf(statusHead, comma(n.Tokens), comma(window), n.Tokens*100/window, how)
}

// folds lists the blocks that stand in the view, with what they are expected to
// save and what they saved so far.
func (s Session) folds(p *picture, limit int) string {
	var lines []string
	var stood, stands usage.Tokens
	for i := range s.Elements {
		id := p.carrier(i)
		if id == 0 {
			continue
		}
		b := s.State.Block(id)
		stood += b.Tokens
		stands += b.Carrier
		bill := ""
		if b.Projected.Unit != "" {
			bill = fmt.Sprintf(statusBill, amount(b.Projected.Saved, b.Projected.Unit), amount(b.Projected.Cost, b.Projected.Unit))
		}
		if a := s.Rhythm.Accounts[id]; a.Turns > 0 && a.Bill.Unit != "" {
			bill += fmt.Sprintf(statusRealised, amount(a.Bill.Saved, a.Bill.Unit), amount(a.Bill.Cost, a.Bill.Unit), a.Turns)
		}
		topic := ""
		if b.Topic != "" {
			topic = " · " + b.Topic
		}
		lines = append(lines, fmt.Sprintf(statusFold, blockRef(id), b.Tier, span(b.From, b.To), comma(b.Count), comma(b.Tokens), comma(b.Carrier), topic+bill))
	}
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf(statusFolds, len(lines), comma(stood), comma(stands)) + capped(lines, limit)
}

// amount writes a figure of a bill in its unit.
func amount(n int64, unit string) string {
	if unit == usage.UnitMillis {
		return fmt.Sprintf("%.1f s", float64(n)/1000)
	}
	return fmt.Sprintf("$%.4f", float64(n)/1e6)
}

func capped(lines []string, limit int) string {
	if len(lines) <= limit {
		return strings.Join(lines, "")
	}
	return strings.Join(lines[:limit], "") + fmt.Sprintf(statusMore, len(lines)-limit)
}

func (c *chooser) foldableRanges(limit int) string {
	var lines []string
	for _, o := range c.offers() {
		lines = append(lines, fmt.Sprintf(statusRange, span(o.From, o.To), comma(o.Elements), comma(o.Tokens), o.First))
	}
	if len(lines) == 0 {
		return fmt.Sprintf(statusNoRanges, c.blocked())
	}
	return statusRanges + capped(lines, limit)
}

// blocked says what really keeps the conversation from being folded.
func (c *chooser) blocked() string {
	counts := chosen{hi: len(c.p.elems) - 1}
	for i := range c.p.elems {
		if c.foldable(i) {
			counts.places = append(counts.places, i)
		}
	}
	chars := fmt.Sprintf("no stretch of %s characters is free", comma(minChars))
	if left := c.left(&counts); left != "" {
		return chars + "; left as they are: " + left
	}
	return chars
}

// messages lists what stands in the view one by one, oldest first.
func (c *chooser) messages(limit int) string {
	var lines []string
	for i := range c.p.elems {
		e := &c.p.elems[i]
		if e.Ref == 0 || !c.p.shown(i) {
			continue
		}
		why := ""
		if g := c.why(i); g != free {
			why = " · " + string(g)
		}
		lines = append(lines, fmt.Sprintf(statusMessage, e.ref(), e.voice(), comma(c.p.tokens(i)), e.First, why))
	}
	return statusMessages + capped(lines, limit)
}
