package ledger

import (
	"context"
	"encoding/json"

	"holdfast/core/session"
)

// archived takes the bytes and the dead rows of elements the client replaced or
// dropped long since, those apart that a fold may still open; the element stays,
// with its name and size. What is left of rows no reader looks at any more goes
// with them.
func (t *trimmer) archived(ctx context.Context, _ string) (int, error) {
	return t.each(ctx, t.always(), func(ledger string) (taken int, err error) {
		p := purger{ledger: ledger, now: t.now.UnixMilli()}
		err = t.d.inChunks(ctx, "trim", func(ctx context.Context, c *conn) (bool, error) {
			return p.step(ctx, c)
		})
		if err == nil {
			err = t.d.inChunks(ctx, "trim", func(ctx context.Context, c *conn) (bool, error) { return deadRows(ctx, c, ledger) })
		}
		return p.taken, err
	})
}

// purger takes the archived elements of one ledger, one a step. In the
// transaction that takes the first, the folds that end without originals are
// stamped: nothing is missing that is not said to be.
type purger struct {
	ledger string
	now    int64
	spared map[int64]bool
	taken  int
}

func (p *purger) step(ctx context.Context, c *conn) (more bool, err error) {
	if p.spared == nil {
		if err := p.stamp(ctx, c); err != nil {
			return false, err
		}
	}
	ns, err := p.going(ctx, c)
	if err != nil || len(ns) == 0 {
		return false, err
	}
	e, err := element(ctx, c, p.ledger, ns[0])
	if err != nil {
		return false, err
	}
	p.taken++
	return true, takeArchived(ctx, c, p.ledger, &e)
}

// going are the elements to be taken, oldest first.
func (p *purger) going(ctx context.Context, c *conn) (ns []int64, err error) {
	err = c.query(ctx, "SELECT n FROM element WHERE ledger_id = ? AND state = 'archived' AND blob IS NOT NULL ORDER BY n",
		func(r *row) error {
			if n := r.num(0); !p.spared[n] {
				ns = append(ns, n)
			}
			return nil
		}, p.ledger)
	return ns, err
}

// stamp says of folds that their originals are gone. A session that moves on
// meanwhile plans from the new version.
func (p *purger) stamp(ctx context.Context, c *conn) error {
	h, err := head(ctx, c, p.ledger)
	if err != nil {
		return err
	}
	k, err := kernelOf(&h)
	if err != nil {
		return err
	}
	p.spared = session.Spared(&k)
	ns, err := p.going(ctx, c)
	if err != nil {
		return err
	}
	gone := make(map[int64]bool, len(ns))
	for _, n := range ns {
		gone[n] = true
	}
	plan := session.MakePurge(h, k, sealOf(ctx, c, &h), gone, p.now)
	if plan == nil {
		return nil
	}
	return putPurge(ctx, c, plan)
}

// sealOf is the checkpoint of a session where it is current, nil where not.
func sealOf(ctx context.Context, c *conn, h *session.Head) *session.Checkpoint {
	if has, err := hasTable(ctx, c, "ckpt"); err != nil || !has || h.HeadSeq == 0 {
		return nil
	}
	ck, err := checkpoint(ctx, c, h.Ledger, h.HeadSeq)
	if err != nil || current(h, &ck) != "" {
		return nil
	}
	return &ck
}

func putPurge(ctx context.Context, c *conn, p *session.PurgePlan) error {
	h := &p.Head
	n, err := c.exec(ctx, `UPDATE session SET version = ?, structure = ?, structure_version = ?, sum = ?, head_seq = ?
		WHERE ledger_id = ? AND version = ?`, h.Version, h.Structure, h.StructureVersion, h.Sum[:], h.HeadSeq, h.Ledger, p.Base)
	if err != nil {
		return err
	}
	if n != 1 {
		return session.ErrStale
	}
	if p.Check == nil {
		return nil
	}
	meta, err := json.Marshal(p.Check.Meta)
	if err != nil {
		return err
	}
	return putCheckpoint(ctx, c, h.Ledger, p.Check, meta)
}

func takeArchived(ctx context.Context, c *conn, ledger string, e *session.Element) error {
	if err := dropBlob(ctx, c, e.Blob, 1); err != nil {
		return err
	}
	if has, err := hasTable(ctx, c, "snap_rows"); err != nil {
		return err
	} else if has {
		if _, err := c.exec(ctx, "DELETE FROM snap_rows WHERE ledger_id = ? AND elem = ? AND active = 0", ledger,
			e.N); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, "UPDATE element SET blob = NULL WHERE ledger_id = ? AND n = ?", ledger, e.N)
	return err
}

// deadRows deletes some rows that nothing leads back to: those of epochs that
// are over, and carriers that left the view.
func deadRows(ctx context.Context, c *conn, ledger string) (more bool, err error) {
	if has, err := hasTable(ctx, c, "snap_rows"); err != nil || !has {
		return false, err
	}
	n, err := c.exec(ctx, `DELETE FROM snap_rows WHERE ledger_id = ?1 AND row_id IN
		(SELECT row_id FROM snap_rows WHERE ledger_id = ?1 AND active = 0 AND (kind = 'carrier' OR
		epoch < (SELECT epoch FROM session WHERE ledger_id = ?1)) LIMIT 100)`, ledger)
	return n > 0, err
}
