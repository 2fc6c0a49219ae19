package session

import (
	"cmp"
	"slices"

	"holdfast/core/fold"
	"holdfast/core/usage"
)

// AddFolds adds to a session's view what its folds are and did: the figures of
// the turns as they were sent are there, what the client asked for is those and
// what was folded away.
func (v *SessionView) AddFolds(k *fold.State, rh fold.Rhythm) {
	for i := range k.Blocks {
		if s := k.Blocks[i].Status; s == fold.Active || s == fold.Consumed {
			v.Blocks++
		}
	}
	for _, a := range rh.Accounts {
		v.Tokens.Inbound += a.Gone * usage.Tokens(a.Turns)
		if a.Bill.Unit == usage.UnitMicros && a.Turns > 0 {
			v.Cost.Saved += float64(a.Bill.Net()) / 1e6
			v.Cost.Estimate = true
		}
	}
	v.Cost.Direct += v.Cost.Saved
}

// AsCarrier makes a row view one of a block's carrier.
func (v *RowView) AsCarrier(name string, active bool, k *fold.State) {
	v.Ref, v.State, v.Tokens = name, Folded, 0
	if active {
		v.State = Live
	}
	if b := k.Block(blockNumber(name)); b != nil {
		v.Tokens = b.Carrier
	}
}

// Spans shows coverage with what each block is and saves; a block of several
// spans is counted on its first.
func Spans(cover []Cover, k *fold.State, rh fold.Rhythm) []SpanView {
	out := []SpanView{}
	for _, c := range cover {
		for i, iv := range c.Intervals {
			s := SpanView{Block: c.Block, From: iv[0], To: iv[1], Anchor: c.Anchor, Children: c.Children}
			if b := k.Block(blockNumber(c.Block)); b != nil {
				if b.Parent != 0 {
					s.Within = BlockName(b.Parent)
				}
				s.Tier, s.Topic = b.Tier, cmp.Or(b.Topic, b.From+"\u2013"+b.To)
				if i == 0 {
					s.Tokens = b.Tokens
					s.Saved.Projected = float64(b.Projected.Net()) / 1e6
					s.Saved.Realised = float64(rh.Accounts[b.ID].Bill.Net()) / 1e6
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// CarrierTokens is what the carriers of covered places take.
func CarrierTokens(cover []Cover, k *fold.State) (n usage.Tokens) {
	for _, c := range cover {
		if b := k.Block(blockNumber(c.Block)); b != nil {
			n += b.Carrier
		}
	}
	return n
}

// Consumed is what blocks cover that others hold: the places of their elements,
// which pos tells by element number. Blocks that stand in the view are in the
// checkpoint's coverage.
func Consumed(k *fold.State, pos map[int64]int64) (out []Cover) {
	for i := range k.Blocks {
		if b := &k.Blocks[i]; b.Status == fold.Consumed {
			c := Cover{Block: BlockName(b.ID), Intervals: runs(places(k, b, pos))}
			for _, child := range b.Children {
				c.Children = append(c.Children, BlockName(child))
			}
			if len(c.Intervals) > 0 {
				c.Anchor = c.Intervals[0][0]
				out = append(out, c)
			}
		}
	}
	return out
}

// places are the positions of a block's elements and of those its children
// hold. A child is older than its parent, so this ends.
func places(k *fold.State, b *fold.Block, pos map[int64]int64) (out []int64) {
	for _, n := range b.Elems {
		if p, ok := pos[n]; ok {
			out = append(out, p)
		}
	}
	for _, id := range b.Children {
		if child := k.Block(id); child != nil && child.ID < b.ID {
			out = append(out, places(k, child, pos)...)
		}
	}
	return out
}

// runs joins positions into half-open intervals.
func runs(ps []int64) (out [][2]int64) {
	slices.Sort(ps)
	for _, p := range ps {
		if n := len(out) - 1; n >= 0 && p <= out[n][1] {
			out[n][1] = p + 1
			continue
		}
		out = append(out, [2]int64{p, p + 1})
	}
	return out
}

// Raw is what a session's last prompt would have been with nothing folded or
// shortened: the upstream's own count and what our folds take off it. 0 before
// the first report.
func Raw(k *fold.State, rh fold.Rhythm) usage.Tokens {
	if rh.Used == 0 {
		return 0
	}
	raw := rh.Used
	for i := range k.Blocks {
		if b := &k.Blocks[i]; b.Status == fold.Active || b.Status == fold.Consumed {
			raw += b.Tokens - b.Carrier
		}
	}
	for _, o := range k.Overlays {
		raw += o.Saved
	}
	return raw - rh.Credit
}

// LongView is a session that is longer than its model's window without its
// folds: a bypass would have it refused.
type LongView struct {
	ID     string       `json:"id"`
	Title  string       `json:"title"`
	Raw    usage.Tokens `json:"raw"`
	Window usage.Tokens `json:"window"`
}
