package ledger

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"holdfast/core/session"
)

const (
	rowCols = `row_id, epoch, pos, sub, elem, sess_raw, msgid, canon_id, kind, role, ctype, tool_name, call_id, wire, raw,
	overlay, active, covered_by, cause, row_sum, state_sum, born_ck, changed_ck, created_at`

	// A row number taken by a later epoch was left behind by a re-stamp that
	// did not finish: it gives way. One of this epoch or before is a real
	// conflict (P2), and nothing is inserted.
	insertRow = "INSERT INTO snap_rows (ledger_id, " + rowCols + `)
	VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
	ON CONFLICT (ledger_id, row_id) DO UPDATE SET epoch = excluded.epoch, pos = excluded.pos, sub = excluded.sub,
	elem = excluded.elem, sess_raw = excluded.sess_raw, msgid = excluded.msgid, canon_id = excluded.canon_id,
	kind = excluded.kind, role = excluded.role, ctype = excluded.ctype, tool_name = excluded.tool_name,
	call_id = excluded.call_id, wire = excluded.wire, raw = excluded.raw, overlay = excluded.overlay,
	active = excluded.active, covered_by = excluded.covered_by, cause = excluded.cause, row_sum = excluded.row_sum,
	state_sum = excluded.state_sum, born_ck = excluded.born_ck, changed_ck = excluded.changed_ck,
	created_at = excluded.created_at
	WHERE snap_rows.epoch > excluded.epoch`

	updateRow = `UPDATE snap_rows SET active = ?, covered_by = ?, cause = ?, overlay = ?, changed_ck = ?, state_sum = ?
	WHERE ledger_id = ? AND row_id = ?`
)

// What a block covers and what is hidden waits in its place.
const (
	standingBy    = "active = 0 AND kind <> 'carrier' AND cause IN ('fold','hide')"
	notStandingBy = "coalesce(cause, '') NOT IN ('fold','hide')"
)

// putRow inserts a row. active may differ from the row's own while a re-stamp
// is being written; its sum is the one it will have.
func putRow(ctx context.Context, c *conn, ledger string, r *session.Row, active bool) error {
	n, err := c.exec(ctx, insertRow, ledger, r.ID, r.Epoch, r.Pos, int64(r.Sub), r.Elem, nullText(r.SessRaw),
		nullText(r.MsgID),
		r.CanonID, r.Kind, r.Role, r.CType, nullText(r.Tool), nullText(r.CallID), r.Wire, r.Raw[:],
		nullBytes(r.Overlay), bit(active), nullText(r.CoveredBy), nullText(r.Cause), r.RowSum[:], r.StateSum[:], r.BornCk,
		r.ChangedCk, r.CreatedAt)
	if err == nil && n != 1 {
		err = fmt.Errorf("row %d of session %s exists", r.ID, ledger)
	}
	return err
}

func flip(ctx context.Context, c *conn, ledger string, f *session.Flip) error {
	n, err := c.exec(ctx, updateRow, bit(f.Active), nullText(f.CoveredBy), nullText(f.Cause), nullBytes(f.Overlay),
		f.ChangedCk, f.StateSum[:], ledger, f.Row)
	if err == nil && n != 1 {
		err = fmt.Errorf("row %d of session %s: %w", f.Row, ledger, session.ErrUnknown)
	}
	return err
}

func readRow(r *row) session.Row {
	out := session.Row{ID: r.num(0), Epoch: r.num(1), Pos: r.num(2), Sub: int32(r.num(3)), Elem: r.num(4),
		SessRaw: r.text(5), MsgID: r.text(6),
		CanonID: r.text(7), Kind: r.text(8), Role: r.text(9), CType: r.text(10), Tool: r.text(11), CallID: r.text(12),
		Wire: r.text(13), Raw: r.hash(14),
		Overlay: r.bytes(15), Active: r.flag(16), CoveredBy: r.text(17), Cause: r.text(18), BornCk: r.num(21),
		ChangedCk: r.num(22), CreatedAt: r.num(23)}
	r.fixed(19, out.RowSum[:])
	r.fixed(20, out.StateSum[:])
	return out
}

// intactRows reads rows of a ledger and verifies every sum.
func intactRows(ctx context.Context, c *conn, ledger, where string, args ...driver.Value) ([]session.Row, error) {
	var rows []session.Row
	err := c.query(ctx, "SELECT "+rowCols+" FROM snap_rows WHERE ledger_id = ? AND "+where, func(r *row) error {
		rw := readRow(r)
		if r.err == nil && !rw.Intact(ledger) {
			return fmt.Errorf("%w: row %d of session %s does not match its sum", ErrCorrupt, rw.ID, ledger)
		}
		rows = append(rows, rw)
		return nil
	}, append([]driver.Value{ledger}, args...)...)
	return rows, err
}

// Rows returns rows by id, in the order asked, with every sum verified.
func (d *DB) Rows(ctx context.Context, ledger string, ids []int64) (rows []session.Row, err error) {
	err = d.view(ctx, "rows", func(ctx context.Context, c *conn) error {
		rows, err = rowsByID(ctx, c, ledger, ids)
		return err
	})
	return rows, err
}

// rowsByID reads runs of consecutive ids with one statement each: that is how
// a turn's rows come.
func rowsByID(ctx context.Context, c *conn, ledger string, ids []int64) ([]session.Row, error) {
	rows := make([]session.Row, 0, len(ids))
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && ids[n] == ids[n-1]+1 {
			n++
		}
		got, err := intactRows(ctx, c, ledger, "row_id BETWEEN ? AND ? ORDER BY row_id", ids[0], ids[n-1])
		if err != nil {
			return nil, err
		}
		if len(got) != n {
			return nil, fmt.Errorf("%d of %d rows from %d of session %s: %w", n-len(got), n, ids[0], ledger, session.ErrUnknown)
		}
		rows, ids = append(rows, got...), ids[n:]
	}
	return slices.Clip(rows), nil
}
