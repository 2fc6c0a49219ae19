package ledger

import (
	"context"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/usage"
)

const (
	elemCols = "n, key, ref, tokens, tokens_exact, role, kind, blob, state, prev, first_turn, cores"

	insertElem = "INSERT INTO element (ledger_id, " + elemCols + ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
	selectElem = "SELECT " + elemCols + " FROM element WHERE ledger_id = ? AND n = ?"
)

func putElement(ctx context.Context, c *conn, ledger string, e *session.Element) error {
	_, err := c.exec(ctx, insertElem, ledger, e.N, e.Key[:], e.Ref, int64(e.Tokens), bit(e.Exact), string(e.Role),
		string(e.Kind),
		nullHash(e.Blob), string(e.State), e.Prev, e.FirstTurn, putCores(e.Cores))
	return err
}

func readElement(r *row) (session.Element, error) {
	cores, err := getCores(r.bytes(11))
	return session.Element{N: r.num(0), Key: r.hash(1), Ref: r.num(2), Tokens: usage.Tokens(r.num(3)), Exact: r.flag(4),
		Role: chat.Role(r.text(5)), Kind: chat.Kind(r.text(6)), Blob: r.hash(7), State: session.ElemState(r.text(8)),
		Prev: r.num(9), FirstTurn: r.num(10), Cores: cores}, err
}

func element(ctx context.Context, c *conn, ledger string, n int64) (e session.Element, err error) {
	found, err := c.one(ctx, selectElem, func(r *row) error {
		e, err = readElement(r)
		return err
	}, ledger, n)
	if err == nil && !found {
		err = fmt.Errorf("element %d of session %s: %w", n, ledger, session.ErrUnknown)
	}
	return e, err
}

// Elements returns stored elements by number, in the order asked.
func (d *DB) Elements(ctx context.Context, ledger string, ns []int64) (es []session.Element, err error) {
	es = make([]session.Element, len(ns))
	err = d.view(ctx, "elements", func(ctx context.Context, c *conn) (err error) {
		for i, n := range ns {
			if es[i], err = element(ctx, c, ledger, n); err != nil {
				return err
			}
		}
		return nil
	})
	return es, err
}

// changeState moves an element. Only the state, and the witness where there is
// one, change: everything else of an element is fixed for ever.
func changeState(ctx context.Context, c *conn, ledger string, s session.StateChange) error {
	n, err := c.exec(ctx, "UPDATE element SET state = ?, prev = iif(? < 0, prev, ?) WHERE ledger_id = ? AND n = ?",
		string(s.State), s.Prev, s.Prev, ledger, s.N)
	if err == nil && n != 1 {
		err = fmt.Errorf("element %d of session %s: %w", s.N, ledger, session.ErrUnknown)
	}
	return err
}

// reblob gives an element other bytes and returns the hash it named before.
func reblob(ctx context.Context, c *conn, ledger string, b session.Reblob) (old content.ID, err error) {
	e, err := element(ctx, c, ledger, b.N)
	if err != nil {
		return old, err
	}
	_, err = c.exec(ctx, "UPDATE element SET blob = ? WHERE ledger_id = ? AND n = ?", b.Blob[:], ledger, b.N)
	return e.Blob, err
}

// FindRewound returns the newest rewound element with this key that stood
// behind prev, with its inactive rows of the epoch; ErrUnknown when none. Where
// the snapshot tables are gone it has no rows.
func (d *DB) FindRewound(ctx context.Context, ledger string, epoch int64, key content.ID,
	prev int64) (e session.Element, rows []session.Row, err error) {
	err = d.view(ctx, "find rewound", func(ctx context.Context, c *conn) error {
		found, err := c.one(ctx, "SELECT "+elemCols+` FROM element
			WHERE key = ? AND state IN ('folded','rewound') AND state = 'rewound' AND ledger_id = ? AND prev = ? ORDER BY n DESC LIMIT 1`, func(r *row) (err error) {
			e, err = readElement(r)
			return err
		}, key[:], ledger, prev)
		if err != nil {
			return err
		}
		if !found {
			return session.ErrUnknown
		}
		if has, err := hasTable(ctx, c, "snap_rows"); err != nil || !has {
			return err
		}
		rows, err = intactRows(ctx, c, ledger, "epoch = ? AND elem = ? AND active = 0 AND kind <> 'carrier' ORDER BY pos, sub, row_id", epoch, e.N)
		return err
	})
	return e, rows, err
}

func hasTable(ctx context.Context, c *conn, name string) (bool, error) {
	n, err := c.number(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", name)
	return n > 0, err
}
