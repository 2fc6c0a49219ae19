package ledger

import (
	"context"
	"fmt"
	"slices"

	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// RowViews returns what the model sees of a session in order, and what it no
// longer sees between: the rows of this epoch, or the elements where there are
// no rows (mode off, unsigned, tables dropped).
func (d *DB) RowViews(ctx context.Context, ledger string) (out []session.RowView, err error) {
	err = d.view(ctx, "rows", func(ctx context.Context, c *conn) error {
		h, err := head(ctx, c, ledger)
		if err != nil {
			return err
		}
		if has, err := hasTable(ctx, c, "snap_rows"); err != nil {
			return err
		} else if has && h.HeadSeq > 0 {
			if out, err = rowViews(ctx, c, &h); err != nil || len(out) > 0 {
				return err
			}
		}
		out, err = elementViews(ctx, c, &h)
		return err
	})
	return out, err
}

// Elements and blobs are looked up by their keys; the rows come in the order
// of the view.
func rowViews(ctx context.Context, c *conn, h *session.Head) (out []session.RowView, err error) {
	k, err := kernelOf(h)
	if err != nil {
		return nil, err
	}
	err = c.query(ctx, selectRows+" WHERE s.ledger_id = ? AND s.epoch = ? ORDER BY s.pos, s.sub, s.row_id",
		func(r *row) error {
			out = append(out, rowView(r, &k))
			return nil
		}, h.Ledger, h.Epoch)
	return out, err
}

// selectRows are rows with what their elements and blobs add, for rowView.
const selectRows = `SELECT s.row_id, s.pos, s.sub, s.elem, s.role, s.kind, s.tool_name, s.covered_by, s.cause,
		s.raw, s.active, s.canon_id,
		e.ref, e.tokens, e.state, e.first_turn, b.size
		FROM snap_rows s LEFT JOIN element e ON e.ledger_id = s.ledger_id AND e.n = s.elem LEFT JOIN blob b ON b.hash = s.raw`

func rowView(r *row, k *fold.State) session.RowView {
	v := session.RowView{RowID: r.num(0), Pos: r.num(1), Sub: int32(r.num(2)), Elem: r.num(3), Role: r.text(4),
		Kind: r.text(5), Tool: r.text(6),
		CoveredBy: r.text(7), Cause: r.text(8), Hash: r.hash(9).String(), Ref: refName(r.num(12)),
		Tokens: usage.Tokens(r.num(13)),
		State:  session.ElemState(r.text(14)), FirstTurn: r.num(15), Bytes: r.num(16)}
	switch {
	case v.Kind == string(session.KindCarrier):
		v.AsCarrier(r.text(11), r.flag(10), k)
	case v.Sub > 0:
		v.Tokens, v.Bytes = 0, 0 // an element is counted once, on its first row
	}
	return v
}

// kernelOf opens the kernel's state of a session.
func kernelOf(h *session.Head) (fold.State, error) {
	if h.Structure == nil {
		return fold.NewState(), nil
	}
	k, err := fold.OpenState(h.Structure, h.Sum)
	if err != nil {
		err = fmt.Errorf("%w: session %s: %w", ErrCorrupt, h.Ledger, err)
	}
	return k, err
}

func elementViews(ctx context.Context, c *conn, h *session.Head) (out []session.RowView, err error) {
	err = c.query(ctx, selectElements+" WHERE e.ledger_id = ? ORDER BY e.n", func(r *row) error {
		out = append(out, elementView(r))
		return nil
	}, h.Ledger)
	return out, err
}

const selectElements = `SELECT e.n, e.role, e.kind, e.ref, e.tokens, e.state, e.first_turn, e.blob, b.size
		FROM element e LEFT JOIN blob b ON b.hash = e.blob`

func elementView(r *row) session.RowView {
	return session.RowView{Pos: r.num(0), Elem: r.num(0), Role: r.text(1), Kind: r.text(2), Ref: refName(r.num(3)),
		Tokens: usage.Tokens(r.num(4)), State: session.ElemState(r.text(5)), FirstTurn: r.num(6),
		Hash: r.hash(7).String(), Bytes: r.num(8)}
}

// refName is the name the model uses for an element; "" for one without.
func refName(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("m%05d", n)
}

// Coverage returns which positions of a session are live and which a block
// covers, with the checkpoints still kept.
func (d *DB) Coverage(ctx context.Context, ledger string) (v session.CoverageView, err error) {
	v = session.CoverageView{Spans: []session.SpanView{}, Live: []session.IntervalView{},
		Checkpoints: []session.CheckpointView{}, KV: []session.KVView{}}
	err = d.view(ctx, "coverage", func(ctx context.Context, c *conn) error {
		h, err := head(ctx, c, ledger)
		if err != nil {
			return err
		}
		for _, t := range [...]string{"snap_rows", "ckpt"} {
			if has, err := hasTable(ctx, c, t); err != nil || !has {
				return err
			}
		}
		k, err := kernelOf(&h)
		if err != nil {
			return err
		}
		if err := liveRuns(ctx, c, &h, &v); err != nil {
			return err
		}
		if err := checkpoints(ctx, c, &h, &k, &v); err != nil {
			return err
		}
		return consumed(ctx, c, &h, &k, &v)
	})
	return v, err
}

// consumed adds the spans of blocks that others hold, behind those that stand
// in the view. Where each element is, is read only if there are any.
func consumed(ctx context.Context, c *conn, h *session.Head, k *fold.State, v *session.CoverageView) error {
	held := func(b fold.Block) bool { return b.Status == fold.Consumed }
	if !slices.ContainsFunc(k.Blocks, held) {
		return nil
	}
	pos := map[int64]int64{}
	err := c.query(ctx, "SELECT elem, pos FROM snap_rows WHERE ledger_id = ? AND epoch = ? AND kind <> 'carrier'", func(r *row) error {
		pos[r.num(0)] = r.num(1)
		return nil
	}, h.Ledger, h.Epoch)
	if err == nil {
		v.Spans = append(v.Spans, session.Spans(session.Consumed(k, pos), k, fold.OpenRhythm(h.Rhythm))...)
	}
	return err
}

// liveRuns joins neighbouring live positions into intervals.
func liveRuns(ctx context.Context, c *conn, h *session.Head, v *session.CoverageView) error {
	return c.query(ctx, `SELECT s.pos,
		max(e.tokens) FROM snap_rows s JOIN element e ON e.ledger_id = s.ledger_id AND e.n = s.elem
		WHERE s.ledger_id = ? AND s.active = 1 AND s.kind <> 'carrier' GROUP BY s.pos ORDER BY s.pos`, func(r *row) error {
		pos, tok := r.num(0), usage.Tokens(r.num(1))
		v.TokensTotal += tok
		if k := len(v.Live) - 1; k >= 0 && v.Live[k].To == pos {
			v.Live[k].To, v.Live[k].Tokens = pos+1, v.Live[k].Tokens+tok
			return nil
		}
		v.Live = append(v.Live, session.IntervalView{From: pos, To: pos + 1, Tokens: tok})
		return nil
	}, h.Ledger)
}

func checkpoints(ctx context.Context, c *conn, h *session.Head, kernel *fold.State, v *session.CoverageView) error {
	return c.query(ctx, "SELECT "+ckptCols+" FROM ckpt WHERE ledger_id = ? ORDER BY seq", func(r *row) error {
		k, err := readCheckpoint(r)
		if err != nil {
			return err
		}
		v.Checkpoints = append(v.Checkpoints, session.CheckpointView{Seq: k.Seq, Pos: k.PosHi, Reason: k.Reason,
			At: k.CreatedAt})
		if k.Seq == h.HeadSeq {
			v.PosHi, v.Spans = k.PosHi, session.Spans(k.Meta.Coverage, kernel, fold.OpenRhythm(h.Rhythm))
			v.TokensTotal += session.CarrierTokens(k.Meta.Coverage, kernel)
		}
		return nil
	}, h.Ledger)
}
