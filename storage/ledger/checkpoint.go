package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"holdfast/core/fold"
	"holdfast/core/session"
)

// keptCheckpoints is how many checkpoints of a ledger stay: enough to see how
// it came to its state, and to fork from a recent one.
const keptCheckpoints = 8

const (
	ckptCols   = "seq, epoch, pos_hi, row_hi, reason, cause_id, meta_json, frame_sig, created_at"
	insertCkpt = "INSERT INTO ckpt (ledger_id, " + ckptCols + ") VALUES (?,?,?,?,?,?,?,?,?,?)"
	selectCkpt = "SELECT " + ckptCols + " FROM ckpt WHERE ledger_id = ? AND seq = ?"
)

// putCheckpoint seals and lets go of the oldest. Those that made a fold which
// still stands are kept; which do is only looked at when folds change.
func putCheckpoint(ctx context.Context, c *conn, ledger string, k *session.Checkpoint, meta []byte) error {
	_, err := c.exec(ctx, insertCkpt, ledger, k.Seq, k.Epoch, k.PosHi, k.RowHi, k.Reason, nullText(k.Cause),
		string(meta), nullBytes(k.FrameSig), k.CreatedAt)
	if err == nil {
		_, err = c.exec(ctx, "DELETE FROM ckpt WHERE ledger_id = ? AND seq <= ? AND reason NOT IN ('fold','inherit')", ledger,
			k.Seq-keptCheckpoints)
	}
	switch fold.EventKind(k.Reason) {
	case fold.Append, fold.Rewind, fold.Replace, fold.Archive: // a block that ends says unfold
		return err
	}
	if err == nil {
		err = dropFoldCheckpoints(ctx, c, ledger, k)
	}
	return err
}

// dropFoldCheckpoints lets go of old checkpoints whose folds no longer stand
// and are held by none that does.
func dropFoldCheckpoints(ctx context.Context, c *conn, ledger string, k *session.Checkpoint) error {
	stands := map[string]bool{}
	for _, cv := range k.Meta.Coverage {
		stands[cv.Block] = true
		for _, child := range cv.Children {
			stands[child] = true
		}
	}
	var over []int64
	err := c.query(ctx, "SELECT "+ckptCols+" FROM ckpt WHERE ledger_id = ? AND seq <= ?", func(r *row) error {
		old, err := readCheckpoint(r)
		made := func(e fold.Event) bool { return stands[session.BlockName(e.Block)] }
		if err != nil || !slices.ContainsFunc(old.Meta.Events, made) { // one that does not read says nothing
			over = append(over, old.Seq)
		}
		return nil
	}, ledger, k.Seq-keptCheckpoints)
	for _, seq := range over {
		if err == nil {
			_, err = c.exec(ctx, "DELETE FROM ckpt WHERE ledger_id = ? AND seq = ?", ledger, seq)
		}
	}
	return err
}

func readCheckpoint(r *row) (k session.Checkpoint, err error) {
	k = session.Checkpoint{Seq: r.num(0), Epoch: r.num(1), PosHi: r.num(2), RowHi: r.num(3), Reason: r.text(4),
		Cause: r.text(5), FrameSig: r.bytes(7), CreatedAt: r.num(8)}
	if err := json.Unmarshal([]byte(r.text(6)), &k.Meta); err != nil {
		return k, fmt.Errorf("%w: checkpoint %d does not read: %v", ErrCorrupt, k.Seq, err)
	}
	return k, nil
}

func checkpoint(ctx context.Context, c *conn, ledger string, seq int64) (k session.Checkpoint, err error) {
	found, err := c.one(ctx, selectCkpt, func(r *row) error {
		k, err = readCheckpoint(r)
		return err
	}, ledger, seq)
	if err == nil && !found {
		err = fmt.Errorf("checkpoint %d of session %s: %w", seq, ledger, session.ErrUnknown)
	}
	return k, err
}
