package ledger

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"holdfast/core/session"
	"holdfast/core/usage"
)

const (
	insertTurn = `INSERT INTO turn (id, ledger_id, signal, sess_raw, lane, at, home, model, route, wire_in, wire_out,
	path, gate, stream, encoding, bytes_in, bytes_out, in_hash, out_hash, kept, why, list_prev, list_common, list_own,
	list_depth, fields, view, skeleton, list)
	VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

	turnCols = `t.id, t.ledger_id, coalesce(t.signal, s.signal), coalesce(t.sess_raw, s.sess_raw), coalesce(t.lane,
	s.lane), t.at, t.home, t.model, t.route, t.wire_in, t.wire_out, t.path, t.gate, t.stream, t.encoding, t.bytes_in,
	t.bytes_out, t.in_hash, t.out_hash, t.kept, t.why, t.finished_at, t.status, t.truncated, t.error, t.reply_model,
	t.stop_reason, t.input, t.cached, t.cache_write, t.output, t.source, t.reported, t.cost_micros, t.priced, t.rounds,
	t.prefix_same, t.verdict, t.verdict_why, t.ms, t.first_change, t.reply_type, t.reply_enc, t.reply_bytes,
	t.reply_hash, t.reply_why`

	fromTurn = " FROM turn t LEFT JOIN session s ON s.ledger_id = t.ledger_id "
)

// notKeptOwn is why a turn that was never meant to be kept is not.
const notKeptOwn = "recorded by size and hash only"

// putTurn writes the inbound part. The world is the session's where there is
// one.
func (d *DB) putTurn(ctx context.Context, c *conn, t *session.Turn, list stored) error {
	why := ""
	if !t.Kept {
		why = notKeptOwn
	}
	signal, raw, lane := driver.Value(t.World.Signal), driver.Value(t.World.SessRaw), driver.Value(t.World.Lane)
	if t.Ledger != "" {
		signal, raw, lane = nil, nil, nil
	}
	_, err := c.exec(ctx, insertTurn, t.ID, nullText(t.Ledger), signal, raw, lane, t.At, string(t.Home), t.Model,
		t.Route, t.WireIn, t.WireOut,
		string(t.Path), t.Gate, bit(t.Stream), t.Encoding, t.BytesIn, t.BytesOut, nullHash(t.InHash), nullHash(t.OutHash),
		bit(t.Kept), why,
		list.prev, int64(list.common), int64(list.own), int64(list.depth), nullBytes(putFields(fieldsOf(t))),
		nullBytes(putView(t.View)),
		nullBytes(d.packSkeleton(t.Skeleton)), nullBytes(putItems(list.items)))
	return err
}

// packSkeleton leaves short ones plain: they differ from turn to turn in a few
// numbers, and compressing takes longer than writing them.
func (d *DB) packSkeleton(b []byte) []byte {
	switch {
	case len(b) == 0:
		return nil
	case len(b) < 1<<10:
		return plain(b)
	}
	return d.zip.pack(b)
}

// Record writes a turn that belongs to no ledger, or one without bodies.
func (d *DB) Record(ctx context.Context, t session.Turn) error {
	return d.write(ctx, "record", func(ctx context.Context, c *conn) error {
		if err := d.roomFor(ctx, c, turnBytes, true); err != nil {
			return err
		}
		t.Kept, t.Skeleton, t.AllFields, t.View = false, nil, nil, nil
		return d.putTurn(ctx, c, &t, stored{})
	})
}

func readTurn(r *row) (rec session.TurnRecord, why string, err error) {
	t := session.Turn{ID: r.num(0), Ledger: r.text(1), World: session.World{Signal: r.text(2), SessRaw: r.text(3),
		Lane: r.text(4)},
		At: r.num(5), Home: session.Home(r.text(6)), Model: r.text(7), Route: r.text(8), WireIn: r.text(9),
		WireOut: r.text(10),
		Path:    session.Path(r.text(11)), Gate: r.text(12), Stream: r.flag(13), Encoding: r.text(14), BytesIn: r.num(15),
		BytesOut: r.num(16),
		InHash:   r.hash(17), OutHash: r.hash(18), Kept: r.flag(19)}
	rec = session.TurnRecord{Turn: t}
	if r.num(21) == 0 {
		return rec, r.text(20), nil
	}
	done := session.TurnDone{ID: t.ID, Ledger: t.Ledger, FinishedAt: r.num(21), Status: int(r.num(22)),
		Truncated: r.flag(23), Error: r.text(24),
		Model: r.text(25), StopReason: r.text(26), Usage: usage.Usage{Input: usage.Tokens(r.num(27)),
			Cached:     usage.Tokens(r.num(28)),
			CacheWrite: usage.Tokens(r.num(29)), Output: usage.Tokens(r.num(30)), Source: usage.Source(r.text(31))},
		Reported: r.flag(32), CostMicros: r.num(33), Priced: r.flag(34), Rounds: int(r.num(35)), BytesOut: t.BytesOut,
		PrefixSame: r.num(36),
		Verdict:    session.Verdict(r.text(37)), VerdictWhy: r.text(38), ResponseType: r.text(41), ResponseEncoding: r.text(42),
		ResponseBytes: r.num(43), ResponseHash: r.hash(44), ResponseWhy: r.text(45)}
	var ms timings
	if err := openJSON(r.text(39), &ms); err != nil {
		return rec, "", fmt.Errorf("%w: the timings of turn %d: %v", ErrCorrupt, t.ID, err)
	}
	done.Ms, done.Receipt = ms.StageTimes, ms.Receipt
	if err := openJSON(r.text(40), &done.Change); err != nil {
		return rec, "", fmt.Errorf("%w: the first change of turn %d: %v", ErrCorrupt, t.ID, err)
	}
	rec.Done = &done
	return rec, r.text(20), nil
}

func openJSON(s string, v any) error {
	if s == "" {
		return nil
	}
	return json.Unmarshal([]byte(s), v)
}

// Turn returns one stored turn with its list resolved. One that was not kept,
// or was purged since, comes without bodies and says why.
func (d *DB) Turn(ctx context.Context, id int64) (rec *session.TurnRecord, err error) {
	err = d.view(ctx, "turn", func(ctx context.Context, c *conn) error {
		rec, err = d.turn(ctx, c, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rec, nil
}

func (d *DB) turn(ctx context.Context, c *conn, id int64) (*session.TurnRecord, error) {
	var rec session.TurnRecord
	found, err := c.one(ctx, "SELECT "+turnCols+fromTurn+"WHERE t.id = ?", func(r *row) (err error) {
		rec, rec.Why, err = readTurn(r)
		return err
	}, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("turn %d: %w", id, session.ErrUnknown)
	}
	if rec.Done != nil {
		if _, err := c.one(ctx, "SELECT marks FROM response WHERE turn_id = ?",
			func(r *row) error { rec.Done.Marks = r.bytes(0); return nil }, id); err != nil {
			return nil, err
		}
	}
	if !rec.Kept {
		return &rec, nil
	}
	return &rec, d.bodies(ctx, c, &rec)
}

// bodies reads what replay needs.
func (d *DB) bodies(ctx context.Context, c *conn, rec *session.TurnRecord) error {
	_, err := c.one(ctx, "SELECT list_prev, list_common, fields, view, skeleton, list FROM turn WHERE id = ?",
		func(r *row) (err error) {
			rec.List.Prev, rec.List.Common = r.num(0), int(r.num(1))
			fs, err := getFields(r.bytes(2))
			if err != nil {
				return err
			}
			rec.AllFields, rec.Fields = fieldRefs(fs)
			if rec.View, err = getView(r.bytes(3)); err != nil {
				return err
			}
			if rec.Skeleton, err = d.zip.unpack(r.bytes(4)); err != nil {
				return err
			}
			rec.List.Tail, err = getItems(r.bytes(5))
			return err
		}, rec.ID)
	if err == nil {
		rec.Items, err = resolve(ctx, c, rec.ID)
	}
	return err
}

// Response returns the kept reply bytes of a turn, still encoded.
func (d *DB) Response(ctx context.Context, id int64) (b []byte, err error) {
	err = d.view(ctx, "response", func(ctx context.Context, c *conn) error {
		found, err := c.one(ctx, "SELECT data FROM response WHERE turn_id = ?", func(r *row) (err error) {
			b, err = d.zip.unpack(r.bytes(0))
			return err
		}, id)
		if err != nil || found {
			return err
		}
		return noResponse(ctx, c, id)
	})
	return b, err
}

func noResponse(ctx context.Context, c *conn, id int64) error {
	var why string
	found, err := c.one(ctx, "SELECT reply_why, finished_at FROM turn WHERE id = ?", func(r *row) error {
		if why = r.text(0); why == "" && r.num(1) == 0 {
			why = "the turn is not finished"
		}
		return nil
	}, id)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("turn %d: %w", id, session.ErrUnknown)
	case why == "":
		why = "there was none"
	}
	return fmt.Errorf("the reply of turn %d: %w: %s", id, session.ErrNotKept, why)
}
