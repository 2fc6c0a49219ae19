package ledger

import (
	"context"
	"fmt"
	"time"

	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
)

// holdFor is how long a housekeeping transaction keeps the write lock: less
// than a turn notices.
const holdFor = 10 * time.Millisecond

// byOwner is why a session is on its way out that its owner deleted; it leaves
// no trace.
const byOwner = "owner"

// Delete removes a session and everything only it names.
//
// The argument. First the session is marked: from that commit on no reader finds
// it, and a commit for it is stale. Then its parts go, chunk by chunk, references
// lowered in the same transaction that deletes what held them; the session row
// goes last. A crash in between leaves a marked session, and the next Open runs
// the same loop to the end.
func (d *DB) Delete(ctx context.Context, ledger string) error { return d.remove(ctx, ledger, byOwner) }

func (d *DB) remove(ctx context.Context, ledger, why string) error {
	err := d.write(ctx, "delete", func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, "UPDATE session SET deleting = ? WHERE ledger_id = ? AND deleting IS NULL", why, ledger)
		if err == nil && n == 0 {
			err = fmt.Errorf("session %s: %w", ledger, session.ErrUnknown)
		}
		if err != nil {
			return err
		}
		return d.keepFloor(ctx, c)
	})
	if err != nil {
		return err
	}
	return d.erase(ctx, ledger, why)
}

// resumeDeletes finishes what a crash interrupted.
func (d *DB) resumeDeletes(ctx context.Context) error {
	marked := map[string]string{}
	if err := d.w.query(ctx, "SELECT ledger_id, deleting FROM session WHERE deleting IS NOT NULL", func(r *row) error {
		marked[r.text(0)] = r.text(1)
		return nil
	}); err != nil {
		return err
	}
	for ledger, why := range marked {
		if err := d.erase(ctx, ledger, why); err != nil {
			return err
		}
	}
	return nil
}

// erase runs to the end even when the caller's context ends: the session is
// marked, and half a session helps nobody.
func (d *DB) erase(ctx context.Context, ledger, why string) error {
	ctx = context.WithoutCancel(ctx)
	for _, part := range [...]func(context.Context, *conn, string) (bool, error){eraseTurn, eraseElement, eraseRows} {
		if err := d.inChunks(ctx, "delete", func(ctx context.Context, c *conn) (bool, error) {
			return part(ctx, c,
				ledger)
		}); err != nil {
			return err
		}
	}
	return d.write(ctx, "delete", func(ctx context.Context, c *conn) error { return d.eraseSession(ctx, c, ledger, why) })
}

// inChunks repeats unit until it reports that there is no more, in transactions
// that hold the lock for holdFor.
func (d *DB) inChunks(ctx context.Context, op string, unit func(context.Context, *conn) (more bool, err error)) error {
	for more := true; more; {
		err := d.write(ctx, op, func(ctx context.Context, c *conn) (err error) {
			for at := d.now(); more && err == nil && d.now().Sub(at) < holdFor; {
				more, err = unit(ctx, c)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func eraseTurn(ctx context.Context, c *conn, ledger string) (more bool, err error) {
	id, err := c.number(ctx, "SELECT min(id) FROM turn WHERE ledger_id = ?", ledger)
	if err != nil || id == 0 {
		return false, err
	}
	if err := releaseTurn(ctx, c, id); err != nil {
		return false, err
	}
	for _, q := range [...]string{"DELETE FROM response WHERE turn_id = ?", "DELETE FROM turn WHERE id = ?"} {
		if _, err := c.exec(ctx, q, id); err != nil {
			return false, err
		}
	}
	return true, nil
}

// releaseTurn gives up the references a turn holds.
func releaseTurn(ctx context.Context, c *conn, id int64) error {
	items, fields, added, err := owned(ctx, c, id)
	if err != nil {
		return err
	}
	for _, b := range added {
		if err := dropBlob(ctx, c, b, 1); err != nil {
			return err
		}
	}
	for _, it := range items {
		if err := dropBlob(ctx, c, it.Raw, 1); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if err := dropBlob(ctx, c, f.id, 1); err != nil {
			return err
		}
	}
	return nil
}

// owned is what a turn holds references for.
func owned(ctx context.Context, c *conn, id int64) (items []session.ListItem, fields []field, added []content.ID, err error) {
	_, err = c.one(ctx, "SELECT list_own, list, fields, view FROM turn WHERE id = ?", func(r *row) error {
		all, err := getItems(r.bytes(1))
		if err != nil {
			return err
		}
		if own := int(r.num(0)); own <= len(all) {
			items = all[own:]
		}
		fs, err := getFields(r.bytes(2))
		for _, f := range fs {
			if f.own {
				fields = append(fields, f)
			}
		}
		if err != nil {
			return err
		}
		added, err = additions(r.bytes(3))
		return err
	}, id)
	return items, fields, added, err
}

// additions are the bytes a stored view holds itself: what we added.
func additions(b []byte) (ids []content.ID, err error) {
	view, err := getView(b)
	for _, v := range view {
		if v.Add != "" && !v.Blob.IsZero() {
			ids = append(ids, v.Blob)
		}
	}
	return ids, err
}

// bodies are the names of the bodies of a session's blocks, one for each.
func bodies(structure []byte) (ids []content.ID, err error) {
	if structure == nil {
		return nil, nil
	}
	k, err := fold.OpenState(structure, content.Of(structure))
	for i := range k.Blocks {
		ids = append(ids, k.Blocks[i].Body)
	}
	return ids, err
}

func eraseElement(ctx context.Context, c *conn, ledger string) (more bool, err error) {
	var n int64
	var e session.Element
	found, err := c.one(ctx, "SELECT "+elemCols+" FROM element WHERE ledger_id = ? ORDER BY n LIMIT 1",
		func(r *row) (err error) {
			e, err = readElement(r)
			n = e.N
			return err
		}, ledger)
	if err != nil || !found {
		return false, err
	}
	if !e.Blob.IsZero() {
		if err := dropBlob(ctx, c, e.Blob, 1); err != nil {
			return false, err
		}
	}
	_, err = c.exec(ctx, "DELETE FROM element WHERE ledger_id = ? AND n = ?", ledger, n)
	return true, err
}

// releaseBodies gives up the references the session's folds hold. A structure
// that does not read holds none that could be told.
func releaseBodies(ctx context.Context, c *conn, ledger string) error {
	var ids []content.ID
	if _, err := c.one(ctx, "SELECT structure FROM session WHERE ledger_id = ?", func(r *row) error {
		ids, _ = bodies(r.bytes(0)) // damage must not keep a session from being deleted
		return nil
	}, ledger); err != nil {
		return err
	}
	for _, id := range ids {
		if err := dropBlob(ctx, c, id, 1); err != nil {
			return err
		}
	}
	return nil
}

// eraseRows deletes from the snapshot tables that are there.
func eraseRows(ctx context.Context, c *conn, ledger string) (more bool, err error) {
	has, err := hasTable(ctx, c, "snap_rows")
	if err != nil || !has {
		return false, err
	}
	n, err := c.exec(ctx, `DELETE FROM snap_rows WHERE ledger_id = ?1 AND row_id IN
		(SELECT row_id FROM snap_rows WHERE ledger_id = ?1 LIMIT 100)`, ledger)
	return n > 0, err
}

// eraseSession takes what is small, and the session row.
func (d *DB) eraseSession(ctx context.Context, c *conn, ledger, why string) error {
	for _, t := range [...]string{"ckpt", "l1_world"} {
		has, err := hasTable(ctx, c, t)
		if err != nil {
			return err
		}
		if has {
			if _, err := c.exec(ctx, "DELETE FROM "+t+" WHERE ledger_id = ?", ledger); err != nil {
				return err
			}
		}
	}
	if err := releaseBodies(ctx, c, ledger); err != nil {
		return err
	}
	for _, t := range [...]string{"echo", "outcome", "response_id", "degrade", "session"} {
		if _, err := c.exec(ctx, "DELETE FROM "+t+" WHERE ledger_id = ?", ledger); err != nil {
			return err
		}
	}
	if why == byOwner {
		return nil
	}
	_, err := c.exec(ctx, "INSERT INTO gone (ledger_id, step, at) VALUES (?,?,?) ON CONFLICT DO NOTHING", ledger, why,
		d.now().UnixMilli())
	return err
}
