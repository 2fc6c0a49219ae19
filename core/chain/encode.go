package chain

import (
	"context"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// render plans the view of the turn and its bytes, so that the commit can
// record what is about to leave. It runs before the commit; a failure there is
// a gate, not a refusal.
func (c *Chain) render(x *Exchange) error {
	next := x.plan.Next
	if x.path == session.PathSnapshot && next.Red != "" { // a long first sight: its rows come after the turn
		x.path, x.plan.Commit.Turn.Path = session.PathFull, session.PathFull
	}
	var err error
	if x.path == session.PathSnapshot {
		x.view, err = snapshotView(next)
	} else {
		x.view = x.plan.FullView()
	}
	if err != nil {
		return err
	}
	return c.write(x)
}

// snapshotView is the view of the rows, proven closed where it puts back what
// the client took away.
func snapshotView(st *session.State) ([]session.ViewItem, error) {
	view, err := session.SnapshotView(st.Rows, st.List)
	if err == nil && session.HasRemoved(st.Rows) {
		err = session.Closed(st.Rows)
	}
	return view, err
}

// write renders the view with our additions and notes in the turn what it is
// made of. While there is nothing to change, what leaves is the client's own
// body.
func (c *Chain) write(x *Exchange) error {
	t := &x.plan.Commit.Turn
	add := x.additions(&x.plan.Next.Kernel)
	slots, err := c.slots(x.ctx, x, x.plan.Next, x.view)
	if err != nil {
		return err
	}
	out, err := x.codec.Render(x.body, slots, add)
	if err != nil {
		return fmt.Errorf("%w: %w", session.ErrViewDiffers, err)
	}
	x.offers = len(add.Tools) > 0
	x.leaves(&out)
	if len(out.Edits) == 0 && sameBytes(x.out, x.raw) {
		return nil
	}
	if !out.Nudged {
		add.Nudge = ""
	}
	runs, blobs := recordOf(x.view, slots, &x.plan.Next.Kernel, add)
	t.View, x.plan.Commit.Blobs = runs, append(x.plan.Commit.Blobs, blobs...)
	t.OutHash, t.BytesOut = content.Of(x.out), int64(len(x.out))
	return nil
}

// leaves has these changes of the client's body leave.
func (x *Exchange) leaves(out *wire.Outgoing) {
	x.out, x.outgoing = out.Bytes(x.body), out
	x.outgoingBytes = x.out
}

// rendered is a view of a state with this turn's additions.
func (c *Chain) rendered(x *Exchange, st *session.State, view []session.ViewItem) ([]byte, error) {
	slots, err := c.slots(x.ctx, x, st, view)
	if err != nil {
		return nil, err
	}
	out, err := x.codec.Render(x.body, slots, x.additions(&st.Kernel))
	if err != nil {
		return nil, err
	}
	return out.Bytes(x.body), nil
}

// sameBytes reports whether two slices are the very same memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// additions are what we add to an armed session's request: the same on every
// turn, the nudge apart.
func (x *Exchange) additions(k *fold.State) wire.Additions {
	add := wire.Additions{Strict: x.target.StrictRoles}
	if !x.folds(k) || !x.holdsTools() {
		return add
	}
	add.Paragraph, add.Tools, add.Nudge = fold.Paragraph, x.tools.json(x.shape(), k.Suffix), x.nudge
	return add
}

// slots turn a view into what the codec renders.
func (c *Chain) slots(ctx context.Context, x *Exchange, st *session.State, view []session.ViewItem) ([]wire.Slot, error) {
	out := make([]wire.Slot, len(view))
	var refs map[int64]int64
	for i, v := range view {
		out[i].Inbound = v.Inbound
		var err error
		switch {
		case v.Block != 0:
			out[i].Carrier, err = c.carrier(ctx, st.Kernel.Block(v.Block), x.bodies)
		case v.Inbound < 0:
			out[i].Raw, err = c.storedElement(ctx, st.Head.Ledger, v)
		}
		if err != nil {
			return nil, err
		}
		if v.Block == 0 {
			if len(v.Overlays) > 0 && refs == nil {
				refs = refsOf(x, st)
			}
			out[i].Overlays = overlays(v.Overlays, refs[v.Elem])
			out[i].Echo = x.echoOf(v.Elem)
		}
	}
	return out, nil
}

// refsOf are the refs of a list, planned or committed.
func refsOf(x *Exchange, st *session.State) map[int64]int64 {
	elems := st.Elements()
	if x.plan != nil && st == x.plan.Next && !x.committed {
		elems = x.plan.Elements()
	}
	out := make(map[int64]int64, len(elems))
	for i := range elems {
		out[elems[i].N] = elems[i].Ref
	}
	return out
}

// overlays shorten the results of one element.
func overlays(shortened []fold.Shortened, ref int64) (out []wire.Overlay) {
	for _, o := range shortened {
		out = append(out, wire.Overlay{Core: o.Core, Shorten: func(text string) string { return fold.Shorten(text, o, ref) }})
	}
	return out
}

// carrier is the text of a block; the bodies of blocks made this turn are not
// in the ledger yet.
func (c *Chain) carrier(ctx context.Context, b *fold.Block, fresh map[content.ID]fold.Body) (string, error) {
	if b == nil {
		return "", fmt.Errorf("%w: a carrier without its block", session.ErrViewDiffers)
	}
	if body, ok := fresh[b.Body]; ok {
		return fold.CarrierText(b, body), nil
	}
	body, err := bodyOf(ctx, c.ledger, b.Body)
	if err != nil {
		return "", storageError{session.CauseUnreadable, err}
	}
	return fold.CarrierText(b, body), nil
}

func bodyOf(ctx context.Context, l session.Ledger, id content.ID) (fold.Body, error) {
	raw, err := l.Blob(ctx, id)
	if err != nil {
		return fold.Body{}, err
	}
	return fold.OpenBody(raw, id)
}

// storedElement reads the bytes of an element put back, through its row with
// the row's sums verified and the blob verified by its hash.
func (c *Chain) storedElement(ctx context.Context, ledger string, v session.ViewItem) ([]byte, error) {
	if v.Row == 0 { // the full path knows no rows
		elems, err := c.ledger.Elements(ctx, ledger, []int64{v.Elem})
		if err != nil {
			return nil, storageError{session.CauseUnreadable, err}
		}
		raw, err := c.ledger.Blob(ctx, elems[0].Blob)
		if err != nil {
			return nil, storageError{session.CauseUnreadable, err}
		}
		return raw, nil
	}
	rows, err := c.ledger.Rows(ctx, ledger, []int64{v.Row})
	if err != nil {
		return nil, storageError{session.CauseSum, err}
	}
	if len(rows) != 1 || rows[0].Elem != v.Elem {
		return nil, fmt.Errorf("%w: row %d is not of element %d", session.ErrViewDiffers, v.Row, v.Elem)
	}
	raw, err := c.ledger.Blob(ctx, rows[0].Raw)
	if err != nil {
		return nil, storageError{session.CauseUnreadable, err}
	}
	return raw, nil
}

// encode settles which bytes leave. They were rendered before the commit; a
// gate that fired since may have changed the path.
func (c *Chain) encode(x *Exchange) error {
	if x.path == session.PathSnapshot {
		return c.tripwire(x)
	}
	if x.plan.Commit.Turn.Path == session.PathSnapshot {
		c.floor(x)
	}
	return nil
}
