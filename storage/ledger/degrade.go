package ledger

import (
	"context"

	"holdfast/core/session"
)

const degradeCols = "id, at, ledger_id, turn_id, gate, scope, cause, evidence, served, bytes_changed"

// Degrade stores a step down and returns its id. One with a gate is a fault of
// its session's group.
func (d *DB) Degrade(ctx context.Context, v session.DegradeView) (id int64, err error) {
	var fault []count
	err = d.write(ctx, "degrade", func(ctx context.Context, c *conn) error {
		_, err := c.one(ctx, `INSERT INTO degrade (at, ledger_id, turn_id, gate, scope, cause, evidence, served,
			bytes_changed)
			VALUES (?,?,?,?,?,?,?,?,?) RETURNING id`, func(r *row) error { id = r.num(0); return nil },
			v.At, nullText(v.Session), v.Turn, v.Gate, v.Scope, v.Cause, v.Evidence, string(v.Served), bit(v.BytesChanged))
		if err != nil || v.Gate == "" {
			return err
		}
		fault = []count{{what: countFault}}
		if _, err := c.one(ctx, "SELECT signal, wire FROM session WHERE ledger_id = ?", func(r *row) error {
			fault[0].signal, fault[0].wire = r.text(0), r.text(1)
			return nil
		}, v.Session); err != nil {
			return err
		}
		return putCounts(ctx, c, fault)
	})
	if err == nil {
		d.tally.add(fault)
	}
	return id, err
}

// Degrades returns the steps down since a time (unix ms), newest first.
func (d *DB) Degrades(ctx context.Context, since int64, limit int) (out []session.DegradeView, err error) {
	err = d.view(ctx, "degrades", func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT "+degradeCols+" FROM degrade WHERE at >= ? ORDER BY at DESC, id DESC LIMIT ?",
			func(r *row) error {
				out = append(out, readDegrade(r))
				return nil
			}, since, int64(limit))
	})
	return out, err
}

func readDegrade(r *row) session.DegradeView {
	return session.DegradeView{ID: r.num(0), At: r.num(1), Session: r.text(2), Turn: r.num(3),
		Gate: r.text(4), Scope: r.text(5),
		Cause: r.text(6), Evidence: r.text(7), Served: session.Path(r.text(8)), BytesChanged: r.flag(9)}
}
