package ledger

import (
	"context"
	"database/sql/driver"
	"slices"

	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// sessionOrder are the columns behind the orders of a list of sessions.
var sessionOrder = map[session.SessionSort]string{
	session.SortSeen: "last_seen", session.SortTitle: "lower(title)", session.SortModel: "lower(model)",
	session.SortTurns: "turns", session.SortTokens: "input + cached + cache_write", session.SortCost: "cost_micros",
	session.SortHit: "CAST(cached AS REAL) / max(1, input + cached + cache_write)",
}

// findFilter matches every argument literally; ” fits everything. The path is
// that of the turn which told the last list.
const findFilter = sessionFilter + ` AND (?2 = '' OR signal = iif(?2 = '-', '', ?2)) AND (?3 = '' OR model = ?3)
	AND (?4 = '' OR wire = ?4) AND (?5 = '' OR (SELECT path FROM turn WHERE id = list_turn) = ?5)`

// FindSessions is Sessions with filters and an order.
func (d *DB) FindSessions(ctx context.Context, q session.SessionQuery) (out []session.SessionView, total int, err error) {
	by, ok := sessionOrder[q.Sort]
	if !ok {
		by = sessionOrder[session.SortSeen]
	}
	args := []driver.Value{q.Q, q.Signal, q.Model, q.Wire, string(q.Path)}
	err = d.view(ctx, "sessions", func(ctx context.Context, c *conn) error {
		n, err := c.number(ctx, "SELECT count(*)"+findFilter, args...)
		if err != nil {
			return err
		}
		total = int(n)
		heads, err := headsOf(ctx, c, "SELECT "+headCols+findFilter+" ORDER BY "+by+direction(q.Ascending)+
			", ledger_id LIMIT ?6 OFFSET ?7", append(args, int64(q.Size), offset(q.Page, q.Size))...)
		for i := range heads {
			if err != nil {
				break
			}
			var v session.SessionView
			v, err = sessionView(ctx, c, &heads[i])
			out = append(out, v)
		}
		return err
	})
	return out, total, err
}

func direction(ascending bool) string {
	if ascending {
		return ""
	}
	return " DESC"
}

// SessionFacets lists what sessions can be filtered by.
func (d *DB) SessionFacets(ctx context.Context) (f session.Facets, err error) {
	err = d.view(ctx, "facets", func(ctx context.Context, c *conn) error {
		for col, to := range map[string]*[]string{"signal": &f.Signals, "model": &f.Models, "wire": &f.Wires} {
			err := c.query(ctx, "SELECT DISTINCT "+col+" FROM session WHERE deleting IS NULL ORDER BY 1", func(r *row) error {
				*to = append(*to, r.text(0))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// SessionChildren returns the sessions that left this one or were made by it:
// branches, forks and the lanes of the same host conversation.
func (d *DB) SessionChildren(ctx context.Context, ledger string) (out []session.SessionView, err error) {
	err = d.view(ctx, "children", func(ctx context.Context, c *conn) error {
		heads, err := headsOf(ctx, c, "SELECT "+headCols+` FROM session s WHERE deleting IS NULL AND ledger_id <> ?1 AND (parent = ?1 OR signal <> ''
			AND (sess_raw, signal) = (SELECT p.sess_raw, p.signal FROM session p WHERE p.ledger_id = ?1 AND p.signal <> ''))
			ORDER BY created_at LIMIT 50`, ledger)
		for i := range heads {
			if err != nil {
				break
			}
			var v session.SessionView
			v, err = sessionView(ctx, c, &heads[i])
			out = append(out, v)
		}
		return err
	})
	return out, err
}

const sumTotals = `sum(turns), sum(input), sum(cached), sum(cache_write), sum(output), sum(estimated),
	sum(bytes_in), sum(bytes_out), sum(cost_micros), sum(unpriced)`

// TotalsByClient sums over all sessions, per signal. What folds saved stands in
// each session's rhythm; sessions without folds are not opened.
func (d *DB) TotalsByClient(ctx context.Context) (out []session.GroupTotals, err error) {
	err = d.view(ctx, "totals", func(ctx context.Context, c *conn) error {
		at := map[string]int{}
		err := c.query(ctx, "SELECT signal, count(*), "+sumTotals+` FROM session WHERE deleting IS NULL
			GROUP BY signal ORDER BY sum(turns) DESC, signal`, func(r *row) error {
			at[r.text(0)] = len(out)
			out = append(out, session.GroupTotals{Signal: r.text(0), Sessions: r.num(1), Totals: readTotals(r, 2)})
			return nil
		})
		if err != nil {
			return err
		}
		return c.query(ctx, `SELECT signal, rhythm FROM session WHERE deleting IS NULL AND rhythm IS NOT NULL
			AND next_block > 1`, func(r *row) error {
			out[at[r.text(0)]].Saved += saved(fold.OpenRhythm(r.bytes(1)))
			return nil
		})
	})
	return out, err
}

func readTotals(r *row, k int) session.Totals {
	return session.Totals{Turns: r.num(k), Input: usage.Tokens(r.num(k + 1)), Cached: usage.Tokens(r.num(k + 2)),
		CacheWrite: usage.Tokens(r.num(k + 3)), Output: usage.Tokens(r.num(k + 4)), Estimated: r.num(k + 5),
		BytesIn: r.num(k + 6), BytesOut: r.num(k + 7), CostMicros: r.num(k + 8), Unpriced: r.num(k + 9)}
}

func saved(rh fold.Rhythm) (sum float64) {
	for _, a := range rh.Accounts {
		if a.Bill.Unit == usage.UnitMicros && a.Turns > 0 {
			sum += float64(a.Bill.Net()) / 1e6
		}
	}
	return sum
}

// turnOrder are the columns behind the orders of a list of turns.
var turnOrder = map[session.TurnSort]string{
	session.SortAt: "t.id", session.SortInput: "t.input + t.cached + t.cache_write", session.SortOutput: "t.output",
	session.SortWait: "json_extract(t.ms, '$.upstream_first')", session.SortChanged: "t.bytes_out - t.prefix_same",
}

// FindTurns is Turns with filters and an order.
func (d *DB) FindTurns(ctx context.Context, q session.TurnQuery) (out []session.TurnView, total int, err error) {
	by, ok := turnOrder[q.Sort]
	if !ok {
		by = turnOrder[session.SortAt]
	}
	const where = "WHERE t.ledger_id = ?1 AND (?2 = '' OR t.path = ?2) AND (NOT ?3 OR t.first_change IS NOT NULL)"
	args := []driver.Value{q.Ledger, string(q.Path), bit(q.Changed)}
	err = d.view(ctx, "turns", func(ctx context.Context, c *conn) error {
		n, err := c.number(ctx, "SELECT count(*) FROM turn t "+where, args...)
		if err != nil {
			return err
		}
		total = int(n)
		return c.query(ctx, "SELECT "+turnCols+fromTurn+where+" ORDER BY "+by+direction(q.Ascending)+
			", t.id DESC LIMIT ?4 OFFSET ?5", func(r *row) error {
			v, err := turnView(r)
			out = append(out, v)
			return err
		}, append(args, int64(q.Size), offset(q.Page, q.Size))...)
	})
	return out, total, err
}

// TurnPoints returns the newest turns of a ledger, at most limit, in order of
// arrival and without anything a chart does not draw; with no ledger named, of
// all.
func (d *DB) TurnPoints(ctx context.Context, ledger string, limit int) (out []session.TurnPoint, err error) {
	where := "ledger_id = ?1"
	if ledger == "" {
		where = "?1 = ''"
	}
	err = d.view(ctx, "points", func(ctx context.Context, c *conn) error {
		defer func() { slices.Reverse(out) }()
		return c.query(ctx, `SELECT id, at, input, cached, cache_write, output, source, bytes_in, bytes_out, prefix_same, path,
			gate, cost_micros, priced, first_change IS NOT NULL, rounds FROM turn WHERE `+where+` ORDER BY id DESC LIMIT ?2`, func(r *row) error {
			out = append(out, session.TurnPoint{ID: r.num(0), At: r.num(1),
				Usage: usage.Usage{Input: usage.Tokens(r.num(2)), Cached: usage.Tokens(r.num(3)),
					CacheWrite: usage.Tokens(r.num(4)), Output: usage.Tokens(r.num(5)), Source: usage.Source(r.text(6))},
				BytesIn: r.num(7), BytesOut: r.num(8), PrefixSame: r.num(9), Path: session.Path(r.text(10)), Gate: r.text(11),
				CostMicros: r.num(12), Unpriced: !r.flag(13), Changed: r.flag(14), Rounds: r.num(15)})
			return nil
		}, ledger, int64(limit))
	})
	return out, err
}

// TurnNeighbours are the turns before and after one in its ledger.
func (d *DB) TurnNeighbours(ctx context.Context, ledger string, id int64) (n session.Neighbours, err error) {
	err = d.view(ctx, "neighbours", func(ctx context.Context, c *conn) error {
		if n.Before, err = c.number(ctx, "SELECT max(id) FROM turn WHERE ledger_id = ? AND id < ?", ledger, id); err != nil {
			return err
		}
		n.After, err = c.number(ctx, "SELECT min(id) FROM turn WHERE ledger_id = ? AND id > ?", ledger, id)
		return err
	})
	return n, err
}
