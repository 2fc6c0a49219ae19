package ledger

import (
	"context"
	"database/sql/driver"

	"holdfast/core/session"
)

const degradeFilter = ` FROM degrade WHERE at >= ?1 AND (?2 = '' OR gate = iif(?2 = '-', '', ?2)) AND (?3 = '' OR cause = ?3)
	AND (?4 = '' OR ledger_id = ?4) AND (NOT ?5 OR bytes_changed = 1)`

// DegradesPage returns one page of steps down, newest first unless ascending,
// and how many fit.
func (d *DB) DegradesPage(ctx context.Context, q session.DegradeQuery) (out []session.DegradeView, total int, err error) {
	args := []driver.Value{q.Since, q.Gate, q.Cause, q.Session, bit(q.Changed)}
	dir := direction(q.Ascending)
	err = d.view(ctx, "degrades", func(ctx context.Context, c *conn) error {
		n, err := c.number(ctx, "SELECT count(*)"+degradeFilter, args...)
		if err != nil {
			return err
		}
		total = int(n)
		return c.query(ctx, "SELECT "+degradeCols+degradeFilter+" ORDER BY at"+dir+", id"+dir+" LIMIT ?6 OFFSET ?7", func(r *row) error {
			out = append(out, readDegrade(r))
			return nil
		}, append(args, int64(q.Size), offset(q.Page, q.Size))...)
	})
	return out, total, err
}

// DegradeCounts counts steps down since a time (unix ms).
func (d *DB) DegradeCounts(ctx context.Context, since int64) (n session.DegradeCounts, err error) {
	n = session.DegradeCounts{Gates: map[string]int64{}, Causes: map[string]int64{}}
	err = d.view(ctx, "degrades", func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT gate, cause, count(*), sum(bytes_changed) FROM degrade WHERE at >= ? GROUP BY gate, cause", func(r *row) error {
			n.Gates[r.text(0)] += r.num(2)
			n.Causes[r.text(1)] += r.num(2)
			n.Total += r.num(2)
			n.Changed += r.num(3)
			return nil
		}, since)
	})
	return n, err
}
