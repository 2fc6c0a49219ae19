package chain

import (
	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// rewrite plans the turn: what alignment changed, then what the kernel changes.
// The kernel is the identity for now; its events will join the plan's.
func (c *Chain) rewrite(x *Exchange) error {
	in := x.inbound(c)
	x.plan = session.MakePlan(&x.prior, x.create, &x.al, &in)
	x.plan.Commit.Blobs = append(x.plan.Commit.Blobs, x.newFields()...)
	list := x.plan.Next.List
	elems := make([]fold.Element, len(list))
	for i := range list {
		elems[i] = fold.Element{N: list[i].N, Tokens: usage.EstimateBytes(x.body.Elements[i].Len())}
	}
	fold.Rewrite(elems, x.plan.Next.Kernel, fold.Rhythm{}, fold.Limits{Window: x.window}, usage.Usage{})
	return c.render(x)
}

func (x *Exchange) inbound(c *Chain) session.Inbound {
	now := c.now().UnixMilli()
	in := session.Inbound{Now: now, Keys: x.keys, Raws: x.raws, Messages: x.messages, Returning: x.coming, Rows: x.rows,
		PrevFields: x.before.fields, Model: x.frame.Model, Wire: string(x.codec.Family()), Tools: x.frame.Tools, Window: x.window,
		Route: session.RouteOf(x.traffic.Rollout, x.traffic.Member), FrameSig: x.frameSig()}
	if x.create {
		in.Title = x.title()
	}
	in.Turn = x.turn(now)
	in.Turn.Skeleton, in.Turn.AllFields = x.skeleton, x.fields
	return in
}

// turn is the part of a turn row that every kind of traffic has.
func (x *Exchange) turn(now int64) session.Turn {
	id := content.Of(x.raw)
	return session.Turn{ID: x.id, World: x.key, At: now, Home: x.home, Model: x.frame.Model, Route: x.target.Route,
		WireIn: string(x.target.Family), WireOut: string(x.target.Family), Path: x.path, Gate: string(x.gate.Gate), Stream: x.frame.Stream,
		Encoding: x.coding, BytesIn: int64(len(x.raw)), BytesOut: int64(len(x.raw)), InHash: id, OutHash: id}
}

// newFields are the large fields the previous turn did not have.
func (x *Exchange) newFields() (blobs []session.Blob) {
	for _, f := range x.plan.Commit.Turn.Fields {
		for _, b := range x.blobs {
			if b.ID == f.ID {
				blobs = append(blobs, b)
				break
			}
		}
	}
	return blobs
}

// frameSig is the hash of the first three keys and the system field: a host
// that compacts around us changes both at once.
func (x *Exchange) frameSig() []byte {
	var buf []byte
	for _, k := range x.keys[:min(3, len(x.keys))] {
		buf = append(buf, k[:]...)
	}
	sys := x.body.Field("system")
	if rest, found := x.codec.BillingLine(sys); found {
		sys = rest
	}
	id := content.Of(append(buf, sys...))
	return id[:16]
}

// title is the first text a user wrote.
func (x *Exchange) title() string {
	for _, m := range x.messages {
		if m != nil && m.Role == chat.User {
			if t := m.FirstText(); t != "" {
				return t
			}
		}
	}
	return ""
}

// items turns a view into what the splice takes; stored bytes come from blob.
func items(view []session.ViewItem, stored func(session.ViewItem) ([]byte, error)) ([]wire.Item, error) {
	out := make([]wire.Item, len(view))
	for i, v := range view {
		out[i].Inbound = v.Inbound
		if v.Inbound >= 0 {
			continue
		}
		raw, err := stored(v)
		if err != nil {
			return nil, err
		}
		out[i].Raw = raw
	}
	return out, nil
}

func newKernelState() ([]byte, content.ID) { return fold.NewState().Seal() }
