package chain

import "holdfast/core/session"

// turnEvent is the turn object as far as it is known.
func (x *Exchange) turnEvent() session.TurnView {
	return session.TurnView{ID: x.id, Session: x.prior.Head.Ledger, At: x.start.UnixMilli(), Model: x.frame.Model, Route: x.target.Route, Home: x.home,
		Path: x.path, Gate: string(x.gate.Gate), WireIn: string(x.target.Family), WireOut: string(x.target.Family),
		Bytes: session.TurnBytes{In: int64(len(x.raw)), Out: int64(len(x.out))}, Ms: x.ms, Fold: []string{}, Kept: x.committed}
}

func (c *Chain) started(x *Exchange) { c.publish("turn.started", x.turnEvent()) }

func (c *Chain) finished(x *Exchange) {
	v, d := x.turnEvent(), &x.done
	v.Status, v.Truncated, v.Error, v.Usage, v.Rounds = d.Status, d.Truncated, d.Error, d.Usage, d.Rounds
	v.Change, v.Bytes.PrefixSame, v.Compared, v.Receipt = d.Change, d.PrefixSame, d.Verdict, d.Receipt
	c.publish("turn.finished", v)
}
