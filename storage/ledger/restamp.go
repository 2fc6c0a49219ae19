package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"holdfast/core/session"
)

// restampChunk is how many rows one transaction of a re-stamp writes: some
// 3 ms, so that a turn waiting for the write lock does not notice.
const restampChunk = 200

// Restamp carries out a plan. Rows of the new epoch are written inactive, in
// chunks, each in a transaction of its own: a crash or a turn in between leaves
// rows of an epoch the session never reached, which no reader looks at and the
// next re-stamp deletes. The flip is the commit point: one transaction takes the
// old rows out, puts the new ones in, moves the epoch and seals, and it fails
// with ErrStale unless the session is still the one the plan was made from.
func (d *DB) Restamp(ctx context.Context, p *session.RestampPlan) error {
	d.restamp.Lock()
	defer d.restamp.Unlock()
	meta, err := json.Marshal(p.Check.Meta)
	if err != nil {
		return fmt.Errorf("ledger: restamp: %w", err)
	}
	if err := d.sweep(ctx, p.Head.Ledger, p.Head.Epoch-1); err != nil {
		return err
	}
	for at := 0; at < len(p.Rows); at += restampChunk {
		chunk := p.Rows[at:min(at+restampChunk, len(p.Rows))]
		if err := d.write(ctx, "restamp", func(ctx context.Context, c *conn) error {
			return d.putChunk(ctx, c, &p.Head, p.Base, chunk)
		}); err != nil {
			return err
		}
	}
	if err := d.write(ctx, "restamp", func(ctx context.Context, c *conn) error {
		return flipEpoch(ctx, c, p,
			meta)
	}); err != nil {
		return err
	}
	return d.restamped(ctx, p)
}

// putChunk stops early when the session moved on: its numbers may be taken.
func (d *DB) putChunk(ctx context.Context, c *conn, h *session.Head, base int64, rows []session.Row) error {
	n, err := c.number(ctx,
		"SELECT count(*) FROM session WHERE ledger_id = ? AND version = ? AND epoch = ? AND deleting IS NULL", h.Ledger,
		base, h.Epoch-1)
	if err == nil && n == 0 {
		err = session.ErrStale
	}
	if err != nil {
		return err
	}
	if err := d.roomFor(ctx, c, int64(len(rows)*rowBytes), false); err != nil {
		return err
	}
	for i := range rows {
		if err := putRow(ctx, c, h.Ledger, &rows[i], false); err != nil {
			return err
		}
	}
	d.room.grew(int64(len(rows) * rowBytes))
	return nil
}

// sweep deletes, in chunks, what an unfinished re-stamp left.
func (d *DB) sweep(ctx context.Context, ledger string, epoch int64) error {
	for {
		var n int64
		err := d.write(ctx, "restamp", func(ctx context.Context, c *conn) (err error) {
			n, err = c.exec(ctx, `DELETE FROM snap_rows WHERE ledger_id = ?1 AND row_id IN
				(SELECT row_id FROM snap_rows WHERE ledger_id = ?1 AND epoch > ?2 LIMIT ?3)`, ledger, epoch, int64(restampChunk))
			return err
		})
		if err != nil || n < restampChunk {
			return err
		}
	}
}

func flipEpoch(ctx context.Context, c *conn, p *session.RestampPlan, meta []byte) error {
	h := &p.Head
	n, err := c.exec(ctx, `UPDATE session SET epoch = ?, version = ?, structure = ?, structure_version = ?, sum = ?,
		head_seq = ?, next_row_id = ?, needs_restamp = ''
		WHERE ledger_id = ? AND version = ? AND epoch = ? AND head_seq = ? AND deleting IS NULL`,
		h.Epoch, h.Version, nullBytes(h.Structure), h.StructureVersion, nullHash(h.Sum), h.HeadSeq, h.NextRow,
		h.Ledger, p.Base, h.Epoch-1, h.HeadSeq-1)
	if err != nil {
		return err
	}
	if n != 1 {
		return session.ErrStale
	}
	if err := retire(ctx, c, h.Ledger, h.Epoch, h.HeadSeq); err != nil {
		return err
	}
	// What the client had removed has no rows in the new epoch.
	if _, err := c.exec(ctx, "UPDATE element SET state = 'archived' WHERE ledger_id = ? AND state = 'removed'", h.Ledger); err != nil {
		return err
	}
	for _, s := range p.States {
		if err := changeState(ctx, c, h.Ledger, s); err != nil {
			return err
		}
	}
	if err := enliven(ctx, c, p); err != nil {
		return err
	}
	if err := putWorld(ctx, c, &p.World); err != nil {
		return err
	}
	return putCheckpoint(ctx, c, h.Ledger, &p.Check, meta)
}

// enliven puts the rows of the new epoch into the view, those apart that a block
// covers or that are hidden.
func enliven(ctx context.Context, c *conn, p *session.RestampPlan) error {
	there, err := c.number(ctx, "SELECT count(*) FROM snap_rows WHERE ledger_id = ? AND epoch = ?", p.Head.Ledger, p.Head.Epoch)
	if err != nil {
		return err
	}
	if there != int64(len(p.Rows)) {
		return fmt.Errorf("%d of %d rows are there: %w", there, len(p.Rows), session.ErrStale)
	}
	_, err = c.exec(ctx, "UPDATE snap_rows SET active = 1 WHERE ledger_id = ? AND epoch = ? AND "+notStandingBy,
		p.Head.Ledger, p.Head.Epoch)
	return err
}

// retire takes the live rows of earlier epochs out. Rows whose sums fail are
// taken out all the same: a re-stamp is how a session with damaged rows comes
// back.
func retire(ctx context.Context, c *conn, ledger string, epoch, seq int64) error {
	var old []session.Row
	err := c.query(ctx, "SELECT "+rowCols+" FROM snap_rows WHERE ledger_id = ? AND active = 1 AND epoch < ?",
		func(r *row) error {
			old = append(old, readRow(r))
			r.err = nil
			return nil
		}, ledger, epoch)
	if err != nil {
		return err
	}
	for i := range old {
		r := &old[i]
		r.Active, r.Cause = false, "restamp"
		f := session.Flip{Row: r.ID, CoveredBy: r.CoveredBy, Cause: r.Cause, Overlay: r.Overlay,
			ChangedCk: seq, StateSum: r.CurrentSum()}
		if err := flip(ctx, c, ledger, &f); err != nil {
			return err
		}
	}
	return nil
}

// restamped reads everything back, on a snapshot and without the lock. A turn
// may have moved the session on meanwhile; then its own read-back stands.
func (d *DB) restamped(ctx context.Context, p *session.RestampPlan) error {
	return d.view(ctx, "restamp", func(ctx context.Context, c *conn) error {
		h, err := head(ctx, c, p.Head.Ledger)
		if err != nil || h.Version != p.Head.Version || h.Epoch != p.Head.Epoch {
			if errors.Is(err, session.ErrUnknown) {
				err = nil // deleted meanwhile
			}
			return err
		}
		rows, err := intactRows(ctx, c, h.Ledger, "active = 1 ORDER BY pos, sub")
		if err != nil {
			return joined{session.ErrReadBack, err}
		}
		ix := make([]session.RowIndex, len(rows))
		for i := range rows {
			ix[i].StateSum = rows[i].StateSum
		}
		if got := session.AggregateOf(ix); got != p.Check.Meta.S4 {
			return fmt.Errorf("%d rows of epoch %d: %w", got.Count, h.Epoch, session.ErrReadBack)
		}
		return nil
	})
}
