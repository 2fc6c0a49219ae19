package ledger

import (
	"context"

	"holdfast/core/content"
	"holdfast/core/session"
)

// Stored returns every element of a ledger that still has its bytes, in order
// of arrival.
func (d *DB) Stored(ctx context.Context, ledger string) (es []session.Element, err error) {
	err = d.view(ctx, "stored", func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT "+elemCols+" FROM element WHERE ledger_id = ? AND blob IS NOT NULL ORDER BY n",
			func(r *row) error {
				e, err := readElement(r)
				es = append(es, e)
				return err
			}, ledger)
	})
	return es, err
}

// Donors returns ledgers that hold folded elements with these keys, the one
// with the most first.
func (d *DB) Donors(ctx context.Context, keys []content.ID, limit int) (ledgers []string, err error) {
	list, err := hexList(keys)
	if err != nil {
		return nil, err
	}
	err = d.view(ctx, "donors", func(ctx context.Context, c *conn) error {
		return c.query(ctx, `SELECT e.ledger_id FROM element e JOIN session s ON s.ledger_id = e.ledger_id
			WHERE e.key IN (SELECT unhex(value) FROM json_each(?)) AND e.state IN ('folded','rewound') AND e.state = 'folded'
			AND s.deleting IS NULL GROUP BY e.ledger_id ORDER BY count(*) DESC, max(s.last_seen) DESC, e.ledger_id LIMIT ?`,
			func(r *row) error {
				ledgers = append(ledgers, r.text(0))
				return nil
			}, list, int64(limit))
	})
	return ledgers, err
}

// putEcho keeps private rounds. Those of an element that came are no longer
// waiting for one.
func putEcho(ctx context.Context, c *conn, ledger string, e session.Echo) error {
	if e.N != 0 {
		if _, err := c.exec(ctx, "DELETE FROM echo WHERE ledger_id = ? AND n = 0", ledger); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, `INSERT INTO echo (ledger_id, n, rounds) VALUES (?,?,?)
		ON CONFLICT (ledger_id, n) DO UPDATE SET rounds = excluded.rounds`, ledger, e.N, e.Rounds)
	return err
}

// Echoes returns the private rounds of a ledger by element; 0 for those whose
// element has not come yet.
func (d *DB) Echoes(ctx context.Context, ledger string) (rounds map[int64][]byte, err error) {
	rounds = map[int64][]byte{}
	err = d.view(ctx, "echoes", func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT n, rounds FROM echo WHERE ledger_id = ?", func(r *row) error {
			rounds[r.num(0)] = r.bytes(1)
			return nil
		}, ledger)
	})
	return rounds, err
}
