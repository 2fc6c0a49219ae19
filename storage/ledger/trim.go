package ledger

import (
	"context"
	"fmt"
	"time"

	"holdfast/core/usage"
)

// The steps of the lifecycle in the order they are taken. Their names are what
// a question about something purged is answered with.
const (
	stepResponses = "response events of old turns"
	stepVariants  = "raw variants of old turns"
	stepArchived  = "archived elements"
	stepIdle30    = "sessions idle for 30 days"
	stepIdle      = "idle sessions, oldest first"
)

const (
	// recentTurns of a ledger are never old: what a person looks at after
	// something went wrong.
	recentTurns = 32
	// longIdle sessions go before any other.
	longIdle = 30 * 24 * time.Hour
	// idleFor is how long nothing must have come for a session to count as idle:
	// a user reading or a test suite running takes minutes, not an hour.
	idleFor = time.Hour
)

// TrimReport says what was taken to keep the budget.
type TrimReport struct {
	Before usage.Bytes // in use
	After  usage.Bytes
	Limit  usage.Bytes // where bodies stop being kept
	Steps  []TrimStep  // those that took something
}

// TrimStep is one step and how many things it took.
type TrimStep struct {
	Name  string
	Taken int
}

// trimmer is one run.
type trimmer struct {
	d      *DB
	busy   func(string) bool
	target int64 // bytes in use at which it stops
	now    time.Time
}

// Trim brings the file well under its budget when it comes near. busy says
// whether a session has a request in flight: such a session is left alone. The
// write lock is held for holdFor at a time.
func (d *DB) Trim(ctx context.Context, busy func(ledger string) bool) (rep TrimReport, err error) {
	limit, _ := d.limits()
	used, err := d.used(ctx)
	if err != nil {
		return rep, err
	}
	rep = TrimReport{Before: usage.Bytes(used), After: usage.Bytes(used), Limit: usage.Bytes(limit)}
	if used > limit-limit/20 {
		t := &trimmer{d, busy, limit - limit/10, d.now()}
		if rep.Steps, err = t.run(ctx); err != nil {
			return rep, err
		}
	}
	if err := d.shrink(ctx); err != nil {
		return rep, err
	}
	used, err = d.used(ctx)
	rep.After = usage.Bytes(used)
	return rep, err
}

// run takes step after step until enough is gone or nothing is left.
func (t *trimmer) run(ctx context.Context) (steps []TrimStep, err error) {
	for _, s := range [...]struct {
		name string
		take func(context.Context, string) (int, error)
	}{
		{stepResponses, t.responses}, {stepVariants, t.variants}, {stepArchived, t.archived}, {stepIdle30, t.longIdle}, {stepIdle, t.idle},
	} {
		n, err := s.take(ctx, s.name)
		if n > 0 {
			steps = append(steps, TrimStep{s.name, n})
		}
		if err != nil {
			return steps, err
		}
		if enough, err := t.enough(ctx); err != nil || enough {
			return steps, err
		}
	}
	return steps, nil
}

func (t *trimmer) enough(ctx context.Context) (bool, error) {
	used, err := t.d.used(ctx)
	return used <= t.target, err
}

// used measures what is in use.
func (d *DB) used(ctx context.Context) (n int64, err error) {
	err = d.write(ctx, "measure", func(ctx context.Context, c *conn) error {
		err := d.sizeUp(ctx, c)
		n = d.room.used
		return err
	})
	return n, err
}

// quiet are the sessions without a request in flight that were last seen before
// a time, the one seen last longest ago first.
func (t *trimmer) quiet(ctx context.Context, before time.Time) (ids []string, err error) {
	err = t.d.view(ctx, "trim", func(ctx context.Context, c *conn) error {
		return c.query(ctx,
			"SELECT ledger_id FROM session WHERE deleting IS NULL AND last_seen < ? ORDER BY last_seen, ledger_id",
			func(r *row) error {
				if id := r.text(0); !t.busy(id) {
					ids = append(ids, id)
				}
				return nil
			}, before.UnixMilli())
	})
	return ids, err
}

// each runs take for quiet sessions until enough is gone.
func (t *trimmer) each(ctx context.Context, before time.Time, take func(string) (int, error)) (total int, err error) {
	ids, err := t.quiet(ctx, before)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if t.busy(id) { // since it was listed
			continue
		}
		n, err := take(id)
		total += n
		if err != nil {
			return total, err
		}
		if n == 0 {
			continue
		}
		if enough, err := t.enough(ctx); err != nil || enough {
			return total, err
		}
	}
	return total, nil
}

// always is a time after any session was seen.
func (t *trimmer) always() time.Time { return t.now.Add(longIdle) }

// oldest is the id of the first turn of a ledger that is not old; 0 when none
// is old.
func oldest(ctx context.Context, c *conn, ledger string) (id int64, err error) {
	return c.number(ctx, "SELECT id FROM turn WHERE ledger_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?", ledger,
		int64(recentTurns-1))
}

// responses takes replies of traffic without a ledger first, then of each
// session's old turns.
func (t *trimmer) responses(ctx context.Context, step string) (int, error) {
	loose, err := t.takeResponses(ctx, step, "t.ledger_id IS NULL", nil)
	if err != nil {
		return loose, err
	}
	n, err := t.each(ctx, t.always(), func(ledger string) (int, error) {
		return t.takeResponses(ctx, step, "t.ledger_id = ?2", ledger)
	})
	return loose + n, err
}

func (t *trimmer) takeResponses(ctx context.Context, step, where string, ledger any) (taken int, err error) {
	first := t.d.lastTurn.Load() - recentTurns
	err = t.d.inChunks(ctx, "trim", func(ctx context.Context, c *conn) (bool, error) {
		if ledger != nil && taken == 0 {
			if first, err = oldest(ctx, c, ledger.(string)); err != nil || first == 0 {
				return false, err
			}
		}
		id, err := c.number(ctx,
			"SELECT t.id FROM turn t JOIN response r ON r.turn_id = t.id WHERE "+where+" AND t.id < ?1 ORDER BY t.id LIMIT 1", first, ledger)
		if err != nil || id == 0 {
			return false, err
		}
		taken++
		if _, err := c.exec(ctx, "DELETE FROM response WHERE turn_id = ?", id); err != nil {
			return false, err
		}
		_, err = c.exec(ctx, "UPDATE turn SET reply_why = ? WHERE id = ?", purged(step), id)
		return true, err
	})
	return taken, err
}

func purged(step string) string { return "purged to keep the budget (" + step + ")" }

// variants takes the lists of old turns: with them go the client's spellings
// nobody else names. What recent turns still refer to is handed over first.
func (t *trimmer) variants(ctx context.Context, step string) (int, error) {
	return t.each(ctx, t.always(), func(ledger string) (taken int, err error) {
		first, err := t.d.handOver(ctx, ledger)
		if err != nil || first == 0 {
			return 0, err
		}
		err = t.d.inChunks(ctx, "trim", func(ctx context.Context, c *conn) (bool, error) {
			id, err := c.number(ctx, "SELECT min(id) FROM turn WHERE ledger_id = ? AND id < ? AND kept = 1", ledger, first)
			if err != nil || id == 0 {
				return false, err
			}
			if err := releaseTurn(ctx, c, id); err != nil {
				return false, err
			}
			taken++
			_, err = c.exec(ctx, `UPDATE turn SET kept = 0, why = ?, list_prev = 0, list_common = 0, list_own = 0,
				fields = NULL, view = NULL, skeleton = NULL, list = NULL
				WHERE id = ?`, purged(step), id)
			return true, err
		})
		return taken, err
	})
}

// handOver makes every recent turn of a ledger that continues an old one a key
// frame which holds its own references, and returns the first recent turn: a
// list is not purged while a later turn refers to it.
//
// A key frame may be long, so it takes over from the back, a part at a time:
// items from list_own on are its own, and that border moves to the front. After
// each transaction the counts are exact.
func (d *DB) handOver(ctx context.Context, ledger string) (first int64, err error) {
	err = d.inChunks(ctx, "trim", func(ctx context.Context, c *conn) (bool, error) {
		if first, err = oldest(ctx, c, ledger); err != nil || first == 0 {
			return false, err
		}
		id, err := c.number(ctx, `SELECT min(id) FROM turn WHERE ledger_id = ?1 AND id >= ?2 AND kept = 1 AND
			(list_own > 0 OR list_prev > 0 AND list_prev < ?2)`, ledger, first)
		if err != nil || id == 0 {
			return false, err
		}
		return true, takeOver(ctx, c, id)
	})
	return first, err
}

// takeOverChunk is how many references one step of a hand-over takes.
const takeOverChunk = 100

func takeOver(ctx context.Context, c *conn, id int64) error {
	var prev, own int64
	if _, err := c.one(ctx, "SELECT list_prev, list_own FROM turn WHERE id = ?",
		func(r *row) error { prev, own = r.num(0), r.num(1); return nil }, id); err != nil {
		return err
	}
	items, err := resolve(ctx, c, id)
	if err != nil {
		return err
	}
	if prev != 0 {
		common, err := c.number(ctx, "SELECT list_common FROM turn WHERE id = ?", id)
		if err != nil {
			return err
		}
		own = common
	}
	from := max(own-takeOverChunk, 0)
	for _, it := range items[from:min(own, int64(len(items)))] {
		if err := holdBlob(ctx, c, it.Raw, 1); err != nil {
			return err
		}
	}
	if err := takeOverFields(ctx, c, id); err != nil {
		return err
	}
	_, err = c.exec(ctx,
		"UPDATE turn SET list_prev = 0, list_common = 0, list_own = ?, list_depth = 0, list = ? WHERE id = ?", from,
		putItems(items), id)
	return err
}

// takeOverFields makes all fields of a turn its own.
func takeOverFields(ctx context.Context, c *conn, id int64) error {
	var fs []field
	if _, err := c.one(ctx, "SELECT fields FROM turn WHERE id = ?", func(r *row) (err error) {
		fs, err = getFields(r.bytes(0))
		return err
	}, id); err != nil {
		return err
	}
	for i := range fs {
		if fs[i].own {
			continue
		}
		fs[i].own = true
		if err := holdBlob(ctx, c, fs[i].id, 1); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, "UPDATE turn SET fields = ? WHERE id = ?", nullBytes(putFields(fs)), id)
	return err
}

func (t *trimmer) longIdle(ctx context.Context, step string) (int, error) {
	return t.sessions(ctx, step, t.now.Add(-longIdle))
}

func (t *trimmer) idle(ctx context.Context, step string) (int, error) {
	return t.sessions(ctx, step, t.now.Add(-idleFor))
}

func (t *trimmer) sessions(ctx context.Context, step string, before time.Time) (int, error) {
	return t.each(ctx, before, func(ledger string) (int, error) {
		if err := t.d.remove(ctx, ledger, step); err != nil {
			return 0, fmt.Errorf("trim: %w", err)
		}
		return 1, nil
	})
}

// vacuumPages is how many free pages one transaction gives back: each may move
// another page, at some 30 µs.
const vacuumPages = 128

// shrink gives free pages back to the file system, and lets the keeper write
// that into the file.
func (d *DB) shrink(ctx context.Context) error {
	for {
		var free int64
		err := d.locked(ctx, "shrink", func(ctx context.Context, c *conn) (err error) {
			if free, err = c.number(ctx, "PRAGMA freelist_count"); err == nil && free > 0 {
				_, err = c.exec(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
			}
			return err
		})
		if err != nil {
			return err
		}
		if free <= vacuumPages {
			d.keeper.now()
			return nil
		}
	}
}

// SetBudget changes the budget of a running ledger. Trim brings it about.
func (d *DB) SetBudget(ctx context.Context, b usage.Bytes) error {
	d.budget.Store(int64(b))
	return d.locked(ctx, "set budget", d.guard)
}
