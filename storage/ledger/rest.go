package ledger

import (
	"context"
	"errors"
)

// Rest gives back the pages that connections cache, some megabytes after a
// burst. A reader that is busy keeps its own.
func (d *DB) Rest(ctx context.Context) error {
	err := d.locked(ctx, "rest", func(ctx context.Context, w *conn) error { return w.once(ctx, "PRAGMA shrink_memory") })
	for range readers {
		select {
		case c, open := <-d.read:
			if !open {
				return err
			}
			if c != nil {
				err = errors.Join(err, c.once(ctx, "PRAGMA shrink_memory"))
			}
			d.read <- c
		default:
		}
	}
	return err
}
