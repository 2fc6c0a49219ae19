package session

import (
	"cmp"

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
