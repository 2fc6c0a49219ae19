package ledger

import (
	"context"
	"encoding/json"
	"fmt"

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

// putCheckpoint seals and lets go of the oldest.
func putCheckpoint(ctx context.Context, c *conn, ledger string, k *session.Checkpoint, meta []byte) error {
	_, err := c.exec(ctx, insertCkpt, ledger, k.Seq, k.Epoch, k.PosHi, k.RowHi, k.Reason, nullText(k.Cause),
		string(meta), nullBytes(k.FrameSig), k.CreatedAt)
	if err == nil {
		_, err = c.exec(ctx, "DELETE FROM ckpt WHERE ledger_id = ? AND seq <= ?", ledger, k.Seq-keptCheckpoints)
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
