package ledger

import (
	"cmp"
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
		places, err := placesOf(ctx, c, &h)
		if err != nil {
			return err
		}
		live := liveOf(places)
		liveRuns(live, &v)
		if err := checkpoints(ctx, c, &h, &k, &v); err != nil {
			return err
		}
		consumed(&h, &k, places, &v)
		v.ProtectedFrom = protectedFrom(&h, &k, live)
		return nil
	})
	return v, err
}

// place is where an element stands in the view, or stood.
type place struct {
	pos, elem int64
	tokens    usage.Tokens
	active    bool
}

// placesOf are the places of an epoch's elements in order of arrival, carriers
// apart. Rows and elements are read as they lie: looking each up by its place,
// and its element, is several times slower once there are thousands.
func placesOf(ctx context.Context, c *conn, h *session.Head) (out []place, err error) {
	tokens := map[int64]usage.Tokens{}
	err = c.query(ctx, "SELECT n, tokens FROM element WHERE ledger_id = ?", func(r *row) error {
		tokens[r.num(0)] = usage.Tokens(r.num(1))
		return nil
	}, h.Ledger)
	if err != nil {
		return nil, err
	}
	err = c.query(ctx, "SELECT pos, elem, active FROM snap_rows WHERE ledger_id = ? AND epoch = ? AND kind <> 'carrier'", func(r *row) error {
		if n, ok := tokens[r.num(1)]; ok {
			out = append(out, place{r.num(0), r.num(1), n, r.flag(2)})
		}
		return nil
	}, h.Ledger, h.Epoch)
	return out, err
}

// liveOf are the live places in the order the model sees. An element of several
// rows has one.
func liveOf(places []place) (live []place) {
	for _, p := range places {
		if p.active {
			live = append(live, p)
		}
	}
	byPos := func(a, b place) int { return cmp.Compare(a.pos, b.pos) }
	slices.SortFunc(live, byPos)
	return slices.CompactFunc(live, func(a, b place) bool { return a.pos == b.pos })
}

// consumed adds the spans of blocks that others hold, behind those that stand
// in the view.
func consumed(h *session.Head, k *fold.State, places []place, v *session.CoverageView) {
	pos := make(map[int64]int64, len(places))
	for _, p := range places {
		pos[p.elem] = p.pos
	}
	v.Spans = append(v.Spans, session.Spans(session.Consumed(k, pos), k, fold.OpenRhythm(h.Rhythm))...)
}

// liveRuns joins neighbouring live places into intervals.
func liveRuns(live []place, v *session.CoverageView) {
	for _, p := range live {
		v.TokensTotal += p.tokens
		if k := len(v.Live) - 1; k >= 0 && v.Live[k].To == p.pos {
			v.Live[k].To, v.Live[k].Tokens = p.pos+1, v.Live[k].Tokens+p.tokens
			continue
		}
		v.Live = append(v.Live, session.IntervalView{From: p.pos, To: p.pos + 1, Tokens: p.tokens})
	}
}

// protectedFrom is the place from which folds leave the newest elements alone; 0
// where nothing folds. Carriers so near the end are rare and not counted.
func protectedFrom(h *session.Head, k *fold.State, live []place) int64 {
	if !k.Armed || len(live) == 0 {
		return 0
	}
	sizes := make([]usage.Tokens, len(live))
	for i, p := range live {
		sizes[i] = p.tokens
	}
	return live[fold.TailFrom(sizes, h.Window)].pos
}

// checkpoints adds those that are kept, and what the newest seals.
func checkpoints(ctx context.Context, c *conn, h *session.Head, kernel *fold.State, v *session.CoverageView) error {
	err := c.query(ctx, "SELECT seq, pos_hi, reason, created_at FROM ckpt WHERE ledger_id = ? ORDER BY seq", func(r *row) error {
		v.Checkpoints = append(v.Checkpoints, session.CheckpointView{Seq: r.num(0), Pos: r.num(1), Reason: r.text(2), At: r.num(3)})
		return nil
	}, h.Ledger)
	if err != nil || !slices.ContainsFunc(v.Checkpoints, func(k session.CheckpointView) bool { return k.Seq == h.HeadSeq }) {
		return err
	}
	k, err := checkpoint(ctx, c, h.Ledger, h.HeadSeq)
	if err != nil {
		return err
	}
	v.PosHi, v.Spans = k.PosHi, session.Spans(k.Meta.Coverage, kernel, fold.OpenRhythm(h.Rhythm))
	v.TokensTotal += session.CarrierTokens(k.Meta.Coverage, kernel)
	return nil
}
