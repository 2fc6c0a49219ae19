package chain

import (
	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
)

// rewrite plans the turn: what alignment changed, then what the kernel changes,
// then what leaves.
func (c *Chain) rewrite(x *Exchange) error {
	in := x.inbound(c)
	x.plan = session.MakePlan(&x.prior, x.create, &x.al, &in)
	x.plan.Commit.Blobs = append(x.plan.Commit.Blobs, x.newFields()...)
	if err := c.inherit(x); err != nil {
		return err
	}
	if err := c.kernel(x); err != nil {
		return err
	}
	c.attach(x)
	return c.render(x)
}

// maxDonors is how many ledgers a new branch looks at for folds to take over.
const maxDonors = 4

// inherit takes over, for a new branch, the folds of ledgers whose elements are
// all in its list: a resumed or forked copy would overflow at once otherwise.
func (c *Chain) inherit(x *Exchange) error {
	if !x.create || !x.holdsTools() {
		return nil
	}
	donors, err := c.ledger.Donors(x.ctx, x.keys, maxDonors)
	if err != nil {
		return storageError{session.CauseUnreadable, err}
	}
	for _, id := range donors {
		donor, err := c.ledger.Load(x.ctx, id)
		if err != nil {
			return storageError{session.CauseUnreadable, err}
		}
		if err := x.plan.Inherit(donor); err != nil {
			return err
		}
	}
	return nil
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
	id := x.rawID()
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

// title is the first text a user wrote, else the first that the host wrote for
// one.
func (x *Exchange) title() (title string) {
	for _, m := range x.messages {
		if m == nil || m.Role != chat.User {
			continue
		}
		text, own := m.FirstText()
		if own {
			return text
		}
		if title == "" {
			title = text
		}
	}
	return title
}
