package ledger

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// headCols are the columns of a session row in the order readHead takes them.
const headCols = `ledger_id, signal, sess_raw, lane, branch, parent, fork_elem, title, model, wire,
	window, tools, mode, bucket, member, epoch, version, structure, structure_version, sum,
	rhythm, head_seq, next_row_id, next_elem, next_ref, next_block, list_turn, list_len, list_sum, rewound,
	last_gate, breaker, needs_restamp, created_at, last_seen,
	turns, input, cached, cache_write, output, estimated, bytes_in, bytes_out, cost_micros, unpriced`

const (
	selectHead = "SELECT " + headCols + " FROM session WHERE ledger_id = ? AND deleting IS NULL"

	insertHead = `INSERT INTO session (ledger_id, signal, sess_raw, lane, branch, parent, fork_elem, title, model,
	wire, window, tools, mode, bucket, member, epoch, version, structure, structure_version, sum, rhythm, head_seq,
	next_row_id, next_elem, next_ref, next_block, list_turn, list_len, list_sum, rewound, last_gate, breaker,
	needs_restamp, created_at, last_seen)
	VALUES (?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?)`

	// The compare-and-set of the commit. What is fixed at first sight and the
	// totals, which Finish alone adds to, are not named. A reason to re-stamp is
	// never cleared here: it may have been set after this commit was planned, and
	// only a re-stamp answers it.
	updateHead = `UPDATE session SET title = ?, model = ?, wire = ?, window = ?, tools = ?, mode = ?, version = ?,
	structure = ?, structure_version = ?, sum = ?, rhythm = ?, head_seq = ?, next_row_id = ?, next_elem = ?,
	next_ref = ?, next_block = ?, list_turn = ?, list_len = ?, list_sum = ?, rewound = ?, last_gate = ?, breaker = ?,
	needs_restamp = iif(? = '', needs_restamp, ?), last_seen = max(last_seen, ?)
	WHERE ledger_id = ? AND version = ? AND epoch = ? AND deleting IS NULL`
)

func readHead(r *row) (session.Head, error) {
	h := session.Head{
		Ledger: r.text(0), World: session.World{Signal: r.text(1), SessRaw: r.text(2), Lane: r.text(3)},
		Branch: int(r.num(4)), Parent: r.text(5), ForkElem: r.num(6), Title: r.text(7), Model: r.text(8), Wire: r.text(9),
		Window: usage.Tokens(r.num(10)), Tools: r.flag(11), Mode: session.Mode(r.text(12)), Bucket: int(r.num(13)),
		Member: r.flag(14),
		Epoch:  r.num(15), Version: r.num(16), Structure: r.bytes(17), StructureVersion: r.num(18), Sum: r.hash(19),
		Rhythm: r.bytes(20), HeadSeq: r.num(21), NextRow: r.num(22), NextElem: r.num(23), NextRef: r.num(24),
		NextBlock: r.num(25),
		ListTurn:  r.num(26), ListLen: int(r.num(27)), ListSum: r.hash(28), Rewound: int(r.num(29)),
		LastGate: r.text(30), NeedsRestamp: r.text(32), CreatedAt: r.num(33), LastSeen: r.num(34),
		Totals: session.Totals{Turns: r.num(35), Input: usage.Tokens(r.num(36)), Cached: usage.Tokens(r.num(37)),
			CacheWrite: usage.Tokens(r.num(38)), Output: usage.Tokens(r.num(39)), Estimated: r.num(40),
			BytesIn: r.num(41), BytesOut: r.num(42), CostMicros: r.num(43), Unpriced: r.num(44)},
	}
	if err := json.Unmarshal([]byte(r.text(31)), &h.Breaker); err != nil {
		return h, fmt.Errorf("%w: the breaker of session %s does not read: %v", ErrCorrupt, h.Ledger, err)
	}
	return h, nil
}

// Heads returns the branches of a world, oldest first.
func (d *DB) Heads(ctx context.Context, w session.World) ([]session.Head, error) {
	return d.heads(ctx, "heads", "SELECT "+headCols+` FROM session
		WHERE sess_raw = ? AND signal = ? AND lane = ? AND signal <> '' AND deleting IS NULL ORDER BY branch`, w.SessRaw, w.Signal, w.Lane)
}

// Unsigned returns the unsigned sessions whose list sum is one of sums, the
// one seen last first.
func (d *DB) Unsigned(ctx context.Context, sums []content.ID) (heads []session.Head, err error) {
	list, err := hexList(sums)
	if err != nil {
		return nil, err
	}
	return d.heads(ctx, "unsigned", "SELECT "+headCols+` FROM session
		WHERE signal = '' AND list_sum IN (SELECT unhex(value) FROM json_each(?)) AND deleting IS NULL ORDER BY last_seen DESC, ledger_id`, list)
}

// Lengths are the turns of a host's past main sessions.
func (d *DB) Lengths(ctx context.Context, signal string, before int64) (turns []int, err error) {
	err = d.view(ctx, "lengths", func(ctx context.Context, c *conn) error {
		return c.query(ctx, `SELECT turns FROM session WHERE signal = ? AND lane = ? AND last_seen < ? AND turns > 0
			ORDER BY last_seen DESC LIMIT ?`, func(r *row) error {
			turns = append(turns, int(r.num(0)))
			return nil
		}, signal, session.MainLane, before, int64(session.MaxLengths))
	})
	return turns, err
}

// hexList makes hashes travel as one JSON list: the statement stays the same
// whatever their number.
func hexList(ids []content.ID) (string, error) {
	hex := make([]string, len(ids))
	for i := range ids {
		hex[i] = ids[i].String()
	}
	list, err := json.Marshal(hex)
	if err != nil {
		return "", fmt.Errorf("ledger: hashes: %w", err)
	}
	return string(list), nil
}

func (d *DB) heads(ctx context.Context, op, q string, args ...driver.Value) (heads []session.Head, err error) {
	err = d.view(ctx, op, func(ctx context.Context, c *conn) error {
		heads, err = headsOf(ctx, c, q, args...)
		return err
	})
	return heads, err
}

// head reads one session row; a session the budget took says so.
func head(ctx context.Context, c *conn, ledger string) (h session.Head, err error) {
	found, err := c.one(ctx, selectHead, func(r *row) error {
		h, err = readHead(r)
		return err
	}, ledger)
	if err != nil || found {
		return h, err
	}
	found, err = c.one(ctx, "SELECT step FROM gone WHERE ledger_id = ?", func(r *row) error {
		return fmt.Errorf("%w: session %s was purged to keep the budget (%s)", session.ErrNotKept, ledger, r.text(0))
	}, ledger)
	if err == nil && !found {
		err = fmt.Errorf("session %s: %w", ledger, session.ErrUnknown)
	}
	return h, err
}

// createHead inserts the session row of a new branch. A branch that another
// request made meanwhile is ErrStale: the loser looks again.
func createHead(ctx context.Context, c *conn, h *session.Head) error {
	n, err := c.number(ctx,
		"SELECT count(*) FROM session WHERE ledger_id = ? OR (signal <> '' AND sess_raw = ? AND signal = ? AND lane = ? AND branch = ?)",
		h.Ledger, h.SessRaw, h.Signal, h.Lane, int64(h.Branch))
	if err != nil {
		return err
	}
	if n > 0 {
		return session.ErrStale
	}
	brk, err := json.Marshal(h.Breaker)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, insertHead, h.Ledger, h.Signal, h.SessRaw, h.Lane, int64(h.Branch), nullText(h.Parent),
		h.ForkElem, h.Title, h.Model, h.Wire,
		int64(h.Window), bit(h.Tools), string(h.Mode), int64(h.Bucket), bit(h.Member), h.Epoch, h.Version,
		nullBytes(h.Structure), h.StructureVersion, nullHash(h.Sum),
		nullBytes(h.Rhythm), h.HeadSeq, h.NextRow, h.NextElem, h.NextRef, h.NextBlock, h.ListTurn, int64(h.ListLen),
		nullHash(h.ListSum), int64(h.Rewound),
		h.LastGate, string(brk), h.NeedsRestamp, h.CreatedAt, h.LastSeen)
	return err
}

// moveHead is the compare-and-set: ErrStale unless the session still has the
// version, and the epoch, the plan was made from.
func moveHead(ctx context.Context, c *conn, base int64, h *session.Head) error {
	brk, err := json.Marshal(h.Breaker)
	if err != nil {
		return err
	}
	n, err := c.exec(ctx, updateHead,
		h.Title, h.Model, h.Wire, int64(h.Window), bit(h.Tools), string(h.Mode), h.Version, nullBytes(h.Structure),
		h.StructureVersion, nullHash(h.Sum), nullBytes(h.Rhythm), h.HeadSeq, h.NextRow, h.NextElem, h.NextRef, h.NextBlock,
		h.ListTurn, int64(h.ListLen), nullHash(h.ListSum), int64(h.Rewound), h.LastGate, string(brk),
		h.NeedsRestamp, h.NeedsRestamp, h.LastSeen, h.Ledger, base, h.Epoch)
	if err == nil && n != 1 {
		err = session.ErrStale
	}
	return err
}

const upsertWorld = `INSERT INTO l1_world (signal, sess_raw, lane, branch, ledger_id, mode, route, bucket, epoch,
	parent_ledger, fork_elem, created_at, last_seen)
	VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)
	ON CONFLICT DO UPDATE SET ledger_id = excluded.ledger_id, mode = excluded.mode, route = excluded.route,
	bucket = excluded.bucket, epoch = excluded.epoch, parent_ledger = excluded.parent_ledger,
	fork_elem = excluded.fork_elem, created_at = excluded.created_at, last_seen = excluded.last_seen`

func putWorld(ctx context.Context, c *conn, w *session.WorldRow) error {
	var fork driver.Value
	if w.ForkElem != 0 {
		fork = w.ForkElem
	}
	_, err := c.exec(ctx, upsertWorld, w.Signal, w.SessRaw, w.Lane, int64(w.Branch), w.Ledger, string(w.Mode),
		string(w.Route),
		int64(w.Bucket), w.Epoch, nullText(w.Parent), fork, w.CreatedAt, w.LastSeen)
	return err
}
