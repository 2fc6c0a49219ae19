package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// Load hydrates one branch. Trouble with the base tables is an error, since no
// path can be served from them; trouble with the snapshot tables is Red, and
// the full path goes on unchanged.
func (d *DB) Load(ctx context.Context, ledger string) (st *session.State, err error) {
	err = d.view(ctx, "load", func(ctx context.Context, c *conn) error {
		st, err = load(ctx, c, ledger)
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func load(ctx context.Context, c *conn, ledger string) (*session.State, error) {
	h, err := head(ctx, c, ledger)
	if err != nil {
		return nil, err
	}
	st := &session.State{Head: h, Repeats: map[chat.CanonID]int32{}, Stands: map[int64]session.ElemState{}}
	if st.Kernel, err = kernelOf(&h); err != nil {
		return nil, err
	}
	brief, err := elementsOf(ctx, c, ledger, st)
	if err != nil {
		return nil, err
	}
	if st.List, err = listOf(ctx, c, &h, brief); err != nil {
		return nil, err
	}
	st.Rows, st.Red = hydrate(ctx, c, &h, &st.Kernel, brief)
	return st, ctx.Err()
}

// brief is what a list and its rows need of an element.
type brief struct {
	key     content.ID
	tokens  usage.Tokens
	removed bool
}

// elementsOf reads every element of a ledger, counts its canonical ids and
// notes the state of those in the list that are not live.
func elementsOf(ctx context.Context, c *conn, ledger string, st *session.State) (map[int64]brief, error) {
	out := map[int64]brief{}
	err := c.query(ctx, "SELECT n, key, tokens, state, cores FROM element WHERE ledger_id = ? ORDER BY n",
		func(r *row) error {
			state := session.ElemState(r.text(3))
			out[r.num(0)] = brief{r.hash(1), usage.Tokens(r.num(2)), state == session.Removed}
			switch state {
			case session.Folded, session.Hidden, session.Overlaid, session.Removed:
				st.Stands[r.num(0)] = state
			}
			cores, err := getCores(r.bytes(4))
			for _, k := range cores {
				st.Repeats[k.Canon]++
			}
			return err
		}, ledger)
	return out, err
}

// listOf is the last inbound list with the key of each element.
func listOf(ctx context.Context, c *conn, h *session.Head, elems map[int64]brief) ([]session.Elem, error) {
	items, err := resolve(ctx, c, h.ListTurn)
	if err != nil {
		return nil, fmt.Errorf("the last list of session %s: %w", h.Ledger, err)
	}
	list := make([]session.Elem, len(items))
	for i, it := range items {
		b, ok := elems[it.N]
		if !ok {
			return nil, fmt.Errorf("%w: session %s lists element %d and does not hold it", ErrCorrupt, h.Ledger, it.N)
		}
		list[i] = session.Elem{N: it.N, Key: b.key, Raw: it.Raw}
	}
	return list, nil
}

// hydrate reads the live rows and proves them against the head checkpoint; red
// says what does not fit.
func hydrate(ctx context.Context, c *conn, h *session.Head, k *fold.State, elems map[int64]brief) (rows []session.RowIndex,
	red string) {
	if h.HeadSeq == 0 {
		return nil, "no rows"
	}
	for _, t := range [...]string{"l1_world", "snap_meta"} {
		if has, err := hasTable(ctx, c, t); err != nil || !has {
			return nil, "unreadable: no table " + t
		}
	}
	ck, err := checkpoint(ctx, c, h.Ledger, h.HeadSeq)
	if err != nil {
		return nil, noCheckpoint(ctx, c, h.Ledger, err)
	}
	if red := current(h, &ck); red != "" {
		return nil, red
	}
	if rows, err = standingRows(ctx, c, h, elems); err != nil {
		return nil, "check failed: " + err.Error()
	}
	if got := session.AggregateOf(rows); got != ck.Meta.S4 {
		return nil, fmt.Sprintf("check failed: %d live rows do not give the sum of checkpoint %d over %d", got.Count,
			ck.Seq, ck.Meta.S4.Count)
	}
	if got := session.CoverageOf(rows, k); !slices.EqualFunc(got, ck.Meta.Coverage, session.Cover.Equal) {
		return nil, fmt.Sprintf("check failed: the rows cover other places than checkpoint %d says", ck.Seq)
	}
	return rows, ""
}

// noCheckpoint tells a session whose rows are gone (the tables were dropped and
// made anew) from one that lost its seal.
func noCheckpoint(ctx context.Context, c *conn, ledger string, err error) (red string) {
	if errors.Is(err, session.ErrUnknown) {
		if n, err := c.number(ctx, "SELECT count(*) FROM snap_rows WHERE ledger_id = ? AND active = 1",
			ledger); err == nil && n == 0 {
			return "no rows"
		}
	}
	return "unreadable: " + err.Error()
}

// current says why a checkpoint does not seal the session as it is.
func current(h *session.Head, ck *session.Checkpoint) string {
	switch {
	case ck.Meta.Version != h.Version:
		return fmt.Sprintf("not current: the rows are of version %d, the session has %d", ck.Meta.Version, h.Version)
	case ck.Epoch != h.Epoch:
		return fmt.Sprintf("not current: the rows are of epoch %d, the session has %d", ck.Epoch, h.Epoch)
	case ck.Meta.Kernel.Structure != h.StructureVersion || ck.Meta.Kernel.Sum != h.Sum.String():
		return "not current: the kernel state moved on"
	}
	return ""
}

// standingRows are the live rows and those that stand by.
func standingRows(ctx context.Context, c *conn, h *session.Head, elems map[int64]brief) ([]session.RowIndex, error) {
	rows, err := intactRows(ctx, c, h.Ledger, "(active = 1 OR epoch = ? AND "+standingBy+") ORDER BY pos, sub", h.Epoch)
	if err != nil {
		return nil, err
	}
	out := make([]session.RowIndex, len(rows))
	for i := range rows {
		r := &rows[i]
		b, ok := elems[r.Elem]
		if !ok || r.Epoch != h.Epoch || r.ChangedCk < r.BornCk || r.ChangedCk > h.HeadSeq {
			return nil, fmt.Errorf("%w: row %d is live in epoch %d for element %d since checkpoint %d", ErrCorrupt, r.ID,
				r.Epoch, r.Elem, r.ChangedCk)
		}
		out[i] = session.IndexOf(r)
		if out[i].Carrier != 0 {
			continue
		}
		out[i].Removed = b.removed
		if r.Sub == 0 {
			out[i].Tokens = b.tokens
		}
	}
	return out, nil
}
