package ledger

import (
	"context"
	"fmt"
	"strconv"

	"holdfast/core/session"
)

// turnFloor is the setting under which deletions leave the newest turn id, so
// that no id is given twice when the newest turns go.
const turnFloor = "turn_floor"

// Setting returns a small value that outlives everything; ErrUnknown when
// absent.
func (d *DB) Setting(ctx context.Context, key string) (val []byte, err error) {
	err = d.view(ctx, "setting", func(ctx context.Context, c *conn) error {
		found, err := c.one(ctx, "SELECT val FROM setting WHERE key = ?",
			func(r *row) error { val = r.bytes(0); return nil }, key)
		if err == nil && !found {
			err = fmt.Errorf("setting %s: %w", key, session.ErrUnknown)
		}
		return err
	})
	return val, err
}

// SetSetting stores one.
func (d *DB) SetSetting(ctx context.Context, key string, val []byte) error {
	return d.write(ctx, "set setting", func(ctx context.Context, c *conn) error { return putSetting(ctx, c, key, val) })
}

func putSetting(ctx context.Context, c *conn, key string, val []byte) error {
	if val == nil {
		val = []byte{}
	}
	_, err := c.exec(ctx, "INSERT INTO setting (key, val) VALUES (?,?) ON CONFLICT DO UPDATE SET val = excluded.val",
		key, val)
	return err
}

// keepFloor is part of every transaction that deletes turns.
func (d *DB) keepFloor(ctx context.Context, c *conn) error {
	return putSetting(ctx, c, turnFloor, strconv.AppendInt(nil, d.lastTurn.Load(), 10))
}
