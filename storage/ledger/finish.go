package ledger

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/usage"
)

const finishTurn = `UPDATE turn SET finished_at = ?, status = ?, truncated = ?, error = ?, reply_model = ?,
	stop_reason = ?, input = ?, cached = ?, cache_write = ?, output = ?, source = ?, reported = ?, cost_micros = ?,
	priced = ?, rounds = ?, bytes_out = iif(? > 0, ?, bytes_out), prefix_same = ?, verdict = ?, verdict_why = ?,
	ms = ?, first_change = ?, path = iif(? = '', path, ?), gate = iif(? = '', gate, ?),
	out_hash = iif(?, in_hash, out_hash), view = iif(?, NULL, view), reply_type = ?, reply_enc = ?, reply_bytes = ?, reply_hash = ?, reply_why = ?
	WHERE id = ? AND finished_at = 0
	RETURNING coalesce(signal, (SELECT s.signal FROM session s
	WHERE s.ledger_id = turn.ledger_id), ''), wire_in, bytes_in, bytes_out`

const finishSession = `UPDATE session SET turns = turns + 1, input = input + ?, cached = cached + ?,
	cache_write = cache_write + ?, output = output + ?, estimated = estimated + ?, bytes_in = bytes_in + ?,
	bytes_out = bytes_out + ?, cost_micros = cost_micros + ?, unpriced = unpriced + ?, last_seen = max(last_seen, ?),
	last_gate = coalesce(?, last_gate), breaker = coalesce(?, breaker), needs_restamp = coalesce(?, needs_restamp),
	rhythm = coalesce(?, rhythm)
	WHERE ledger_id = ?`

// Finish completes a turn row and adds to its session's totals, once: a turn
// finished already is left alone.
func (d *DB) Finish(ctx context.Context, t *session.TurnDone) error {
	var data []byte
	if t.Response != nil {
		data = d.zip.pack(t.Response)
	}
	var counted []count
	err := d.write(ctx, "finish", func(ctx context.Context, c *conn) error {
		why := t.ResponseWhy
		if data != nil {
			if err := d.roomFor(ctx, c, int64(len(data)), false); err != nil {
				data, why = nil, stepFull
			}
		}
		f, found, err := completeTurn(ctx, c, t, why)
		if err != nil || !found {
			return joinUnknown(ctx, c, t.ID, err)
		}
		if data != nil {
			if _, err := c.exec(ctx, "INSERT INTO response (turn_id, marks, data) VALUES (?,?,?)", t.ID, nullBytes(t.Marks),
				data); err != nil {
				return err
			}
		}
		if t.Ledger != "" {
			if err := addTotals(ctx, c, t, f); err != nil {
				return err
			}
		}
		counted = countsOf(f.signal, f.wire, t)
		return putCounts(ctx, c, counted)
	})
	if err != nil {
		return err
	}
	d.tally.add(counted)
	return nil
}

// finished is what a turn row knew before its reply.
type finished struct {
	signal, wire      string
	bytesIn, bytesOut int64
}

// timings are the column ms: the stage timings, and with them what a local
// engine was spared, so that a turn without one costs nothing.
type timings struct {
	session.StageTimes
	Receipt *usage.Receipt `json:"receipt,omitempty"`
}

func completeTurn(ctx context.Context, c *conn, t *session.TurnDone, why string) (f finished, found bool, err error) {
	ms, err := json.Marshal(timings{t.Ms, t.Receipt})
	if err != nil {
		return f, false, err
	}
	var change driver.Value
	if t.Change != nil {
		b, err := json.Marshal(t.Change)
		if err != nil {
			return f, false, err
		}
		change = string(b)
	}
	if t.Plain {
		if err := releaseView(ctx, c, t.ID); err != nil {
			return f, false, err
		}
	}
	if t.View != nil {
		if err := replaceView(ctx, c, t); err != nil {
			return f, false, err
		}
	}
	u := t.Usage
	found, err = c.one(ctx, finishTurn, func(r *row) error {
		f = finished{r.text(0), r.text(1), r.num(2), r.num(3)}
		return nil
	}, max(t.FinishedAt, 1), int64(t.Status), bit(t.Truncated), t.Error, t.Model, t.StopReason,
		int64(u.Input), int64(u.Cached), int64(u.CacheWrite), int64(u.Output), string(u.Source), bit(t.Reported),
		t.CostMicros, bit(t.Priced), int64(t.Rounds),
		t.BytesOut, t.BytesOut, t.PrefixSame, string(t.Verdict), t.VerdictWhy, string(ms), change,
		string(t.Path), string(t.Path), t.Gate, t.Gate, bit(t.Plain), bit(t.Plain),
		t.ResponseType, t.ResponseEncoding, t.ResponseBytes, nullHash(t.ResponseHash), why, t.ID)
	return f, found, err
}

// releaseView gives up what the view of an unfinished turn holds, which is about
// to be cleared.
func releaseView(ctx context.Context, c *conn, id int64) error {
	added, err := viewAdditions(ctx, c, id)
	if err != nil {
		return err
	}
	for _, b := range added {
		if err := dropBlob(ctx, c, b, 1); err != nil {
			return err
		}
	}
	return nil
}

// replaceView puts the view that left after all in place of the one that was
// committed. Additions it no longer has are given up.
func replaceView(ctx context.Context, c *conn, t *session.TurnDone) error {
	old, err := viewAdditions(ctx, c, t.ID)
	if err != nil {
		return err
	}
	view := putView(t.View)
	kept, err := additions(view)
	if err != nil {
		return err
	}
	for _, id := range old {
		if slices.Contains(kept, id) {
			continue
		}
		if err := dropBlob(ctx, c, id, 1); err != nil {
			return err
		}
	}
	_, err = c.exec(ctx, "UPDATE turn SET view = ?, out_hash = ? WHERE id = ? AND finished_at = 0", view, nullHash(t.OutHash), t.ID)
	return err
}

// viewAdditions are the additions of an unfinished turn's view.
func viewAdditions(ctx context.Context, c *conn, id int64) (added []content.ID, err error) {
	_, err = c.one(ctx, "SELECT view FROM turn WHERE id = ? AND finished_at = 0", func(r *row) (err error) {
		added, err = additions(r.bytes(0))
		return err
	}, id)
	return added, err
}

// joinUnknown tells a turn finished before from one that was never written.
func joinUnknown(ctx context.Context, c *conn, id int64, err error) error {
	if err != nil {
		return err
	}
	n, err := c.number(ctx, "SELECT count(*) FROM turn WHERE id = ?", id)
	if err == nil && n == 0 {
		err = fmt.Errorf("turn %d: %w", id, session.ErrUnknown)
	}
	return err
}

// addTotals leaves a session that was deleted meanwhile alone.
func addTotals(ctx context.Context, c *conn, t *session.TurnDone, f finished) error {
	var gate, brk, need driver.Value
	if t.LastGate != nil {
		gate = *t.LastGate
	}
	if t.Breaker != nil {
		b, err := json.Marshal(t.Breaker)
		if err != nil {
			return err
		}
		brk = string(b)
	}
	if t.NeedsRestamp != nil {
		need = *t.NeedsRestamp
	}
	u := t.Usage
	if t.Echo != nil {
		if err := putEcho(ctx, c, t.Ledger, session.Echo{Rounds: t.Echo}); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, finishSession, int64(u.Input), int64(u.Cached), int64(u.CacheWrite), int64(u.Output),
		bit(!t.Reported),
		f.bytesIn, f.bytesOut, t.CostMicros, bit(!t.Priced), t.FinishedAt, gate, brk, need,
		nullBytes(t.Rhythm), t.Ledger)
	return err
}
