package chain

import (
	"context"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// render plans the snapshot view of the turn and, where it is not the inbound
// list, its bytes, so that the commit can record what is about to leave. It
// runs before the commit; a failure there is a gate, not a refusal.
func (c *Chain) render(x *Exchange) error {
	next := x.plan.Next
	if x.path == session.PathSnapshot && next.Red != "" { // a long first sight: its rows come after the turn
		x.path, x.plan.Commit.Turn.Path = session.PathFull, session.PathFull
	}
	if x.path != session.PathSnapshot {
		return nil
	}
	view, err := session.SnapshotView(next.Rows, next.List)
	if err == nil && session.HasRemoved(next.Rows) {
		err = session.Closed(next.Rows)
	}
	if err != nil {
		return err
	}
	x.view = view
	if len(view) == len(next.List) {
		return nil
	}
	return c.renderPutBack(x)
}

func (c *Chain) renderPutBack(x *Exchange) error {
	blobs := map[int64]content.ID{}
	its, err := items(x.view, func(v session.ViewItem) ([]byte, error) {
		raw, id, err := c.storedElement(x.ctx, x.prior.Head.Ledger, v)
		blobs[v.Elem] = id
		return raw, err
	})
	if err != nil {
		return err
	}
	x.out = wire.Splice(x.body, its)
	t := &x.plan.Commit.Turn
	t.View = session.ViewRuns(x.view, len(x.keys), func(n int64) content.ID { return blobs[n] })
	t.OutHash, t.BytesOut = content.Of(x.out), int64(len(x.out))
	return nil
}

// storedElement reads the bytes of an element put back, through its row with
// the row's sums verified and the blob verified by its hash.
func (c *Chain) storedElement(ctx context.Context, ledger string, v session.ViewItem) ([]byte, content.ID, error) {
	rows, err := c.ledger.Rows(ctx, ledger, []int64{v.Row})
	if err != nil {
		return nil, content.ID{}, storageError{session.CauseSum, err}
	}
	if len(rows) != 1 || rows[0].Elem != v.Elem {
		return nil, content.ID{}, fmt.Errorf("%w: row %d is not of element %d", session.ErrViewDiffers, v.Row, v.Elem)
	}
	raw, err := c.ledger.Blob(ctx, rows[0].Raw)
	if err != nil {
		return nil, content.ID{}, storageError{session.CauseUnreadable, err}
	}
	return raw, rows[0].Raw, nil
}

// encode settles which bytes leave. On the snapshot path they were rendered
// before the commit; on every other path they are the client's own.
func (c *Chain) encode(x *Exchange) error {
	if x.path != session.PathSnapshot {
		x.out = x.raw
		return nil
	}
	return c.tripwire(x)
}
