package ledger

import (
	"context"
	"database/sql/driver"
	"fmt"

	"holdfast/core/session"
)

// Filters of a page of rows: ?1 the ledger, ?2 the epoch, then role, kind,
// state and block, where ” fits everything. A carrier has no element, so its
// state is whether it is active.
const (
	rowFilter = ` FROM snap_rows s LEFT JOIN element e ON e.ledger_id = s.ledger_id AND e.n = s.elem
		WHERE s.ledger_id = ?1 AND s.epoch = ?2 AND (?3 = '' OR s.role = ?3) AND (?4 = '' OR s.kind = ?4)
		AND (?5 = '' OR coalesce(e.state, iif(s.active, 'live', 'folded')) = ?5) AND (?6 = '' OR s.covered_by = ?6)`
	// Without filters nothing but the rows is looked at.
	rowPlain = ` FROM snap_rows s WHERE s.ledger_id = ?1 AND s.epoch = ?2 AND ?3||?4||?5||?6 = ''`

	elementFilter = ` FROM element e WHERE e.ledger_id = ?1 AND ?2 >= 0 AND (?3 = '' OR e.role = ?3)
		AND (?4 = '' OR e.kind = ?4) AND (?5 = '' OR e.state = ?5) AND ?6 = ''`
)

// RowPage returns one page of what RowViews returns, without reading the rest.
func (d *DB) RowPage(ctx context.Context, ledger string, q session.RowQuery) (p session.RowPage, err error) {
	err = d.view(ctx, "row page", func(ctx context.Context, c *conn) error {
		h, err := head(ctx, c, ledger)
		if err != nil {
			return err
		}
		has, err := hasTable(ctx, c, "snap_rows")
		if err != nil {
			return err
		}
		if has && h.HeadSeq > 0 {
			filter := rowFilter
			if q.Role == "" && q.Kind == "" && q.State == "" && q.Block == "" {
				filter = rowPlain
			}
			if p, err = rowPage(ctx, c, &h, &q, filter); err != nil || p.Total > 0 {
				return err
			}
			if n, err := c.number(ctx, "SELECT count(*)"+rowPlain, rowArgs(&h, &session.RowQuery{})...); err != nil || n > 0 {
				return err // the filters alone leave nothing
			}
		}
		p, err = elementPage(ctx, c, &h, &q)
		return err
	})
	return p, err
}

func rowArgs(h *session.Head, q *session.RowQuery) []driver.Value {
	return []driver.Value{h.Ledger, h.Epoch, q.Role, q.Kind, string(q.State), q.Block}
}

func rowPage(ctx context.Context, c *conn, h *session.Head, q *session.RowQuery, filter string) (p session.RowPage, err error) {
	args := rowArgs(h, q)
	if p, err = pageOf(ctx, c, q, filter, "s.pos", args); err != nil {
		return p, err
	}
	k, err := kernelOf(h)
	if err != nil {
		return p, err
	}
	ids := "SELECT s.row_id" + filter + fmt.Sprintf(" ORDER BY s.pos, s.sub, s.row_id LIMIT %d OFFSET %d", q.Size, offset(p.Page, q.Size))
	err = c.query(ctx, selectRows+" WHERE s.ledger_id = ?1 AND s.row_id IN ("+ids+") ORDER BY s.pos, s.sub, s.row_id",
		func(r *row) error {
			p.Rows = append(p.Rows, rowView(r, &k))
			return nil
		}, args...)
	return p, err
}

// pageOf finds how many rows fit and which page is meant.
func pageOf(ctx context.Context, c *conn, q *session.RowQuery, filter, place string, args []driver.Value) (p session.RowPage, err error) {
	n, err := c.number(ctx, "SELECT count(*)"+filter, args...)
	if err != nil {
		return p, err
	}
	p.Total = int(n)
	last := max(1, (p.Total+q.Size-1)/q.Size)
	p.Page = min(q.Page, last)
	switch {
	case q.Pos > 0:
		before, err := c.number(ctx, "SELECT count(*)"+filter+" AND "+place+" < ?7", append(args, q.Pos)...)
		if err != nil {
			return p, err
		}
		p.Page = min(int(before)/q.Size+1, last)
	case q.Page <= 0:
		p.Page = last
	}
	return p, nil
}

func elementPage(ctx context.Context, c *conn, h *session.Head, q *session.RowQuery) (p session.RowPage, err error) {
	args := rowArgs(h, q)
	if p, err = pageOf(ctx, c, q, elementFilter, "e.n", args); err != nil {
		return p, err
	}
	ns := "SELECT e.n" + elementFilter + fmt.Sprintf(" ORDER BY e.n LIMIT %d OFFSET %d", q.Size, offset(p.Page, q.Size))
	err = c.query(ctx, selectElements+" WHERE e.ledger_id = ?1 AND e.n IN ("+ns+") ORDER BY e.n", func(r *row) error {
		p.Rows = append(p.Rows, elementView(r))
		return nil
	}, args...)
	return p, err
}
