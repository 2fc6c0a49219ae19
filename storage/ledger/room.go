package ledger

import (
	"context"
	"fmt"
	"os"

	"holdfast/core/session"
)

// What things add to the file beside their bytes, generously: columns, keys,
// index entries and the free part of a page.
const (
	turnBytes = 2048
	rowBytes  = 640
	elemBytes = 320
	blobBytes = 128
	itemBytes = 40
)

// room knows how much of the budget is used without asking before every
// commit: it adds up estimates and measures when they come near the limit.
type room struct {
	used int64 // bytes in use: measured, plus estimates since
}

func (r *room) grew(n int64) { r.used += n }

// sizeUp measures the pages in use; c is the writing connection.
func (d *DB) sizeUp(ctx context.Context, c *conn) error {
	pages, err := c.number(ctx, "PRAGMA page_count")
	if err != nil {
		return err
	}
	free, err := c.number(ctx, "PRAGMA freelist_count")
	if err == nil {
		d.room.used = (pages - free) * pageBytes
	}
	return err
}

// pageBytes is SQLite's default page size; no file of ours has another.
const pageBytes = 4096

// limits are where bodies stop and where everything does. The budget is hard for
// file and WAL together, so the WAL's part is set aside first. What lies between
// the two is for turns recorded by size and hash: at some 1.5 KB each a 64th of
// the budget (32 MiB of 2 GiB) is 20,000 turns, a week of heavy use in which the
// owner sees that the ledger is full; a small budget still has a few hundred.
func (d *DB) limits() (bodies, records int64) {
	budget := d.budget.Load()
	records = budget - d.walPart()
	return records - min(max(budget/64, 512<<10), budget/8), records
}

// walPart is what is set aside for the WAL: what fills up before it is written
// back, and as much again while that happens.
func (d *DB) walPart() int64 { return min(2*walBytes, d.budget.Load()/4) }

// roomFor reports ErrFull before anything is written when n more bytes would
// pass the limit; c is the writing connection. A WAL that outgrew its part,
// because a long read keeps it from being written back, counts in full.
func (d *DB) roomFor(ctx context.Context, c *conn, n int64, bodyless bool) error {
	limit, records := d.limits()
	if bodyless {
		limit = records
	}
	n += max(0, d.walSize()-d.walPart())
	if d.room.used+n <= limit {
		return nil
	}
	if err := d.sizeUp(ctx, c); err != nil {
		return err
	}
	if d.room.used+n > limit {
		return session.ErrFull
	}
	return nil
}

// walSize is the size of the WAL file; it keeps it when the WAL starts over.
func (d *DB) walSize() int64 {
	info, err := os.Stat(d.path + "-wal")
	if err != nil {
		return 0 // none yet
	}
	return info.Size()
}

// stepFull is why a reply is not kept that came when the budget was used up.
const stepFull = "the ledger budget was used up"

// guard makes the engine itself refuse to grow the file past the budget, should
// an estimate be wrong, and cut the WAL file back to half its part when it
// starts over; c is the writing connection.
func (d *DB) guard(ctx context.Context, c *conn) error {
	_, records := d.limits()
	return c.once(ctx, fmt.Sprintf("PRAGMA max_page_count = %d; PRAGMA journal_size_limit = %d", records/pageBytes,
		d.walPart()/2))
}
