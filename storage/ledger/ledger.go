// Package ledger stores conversations in one SQLite file: everything needed to
// serve a session, committed in one transaction before the upstream sees a
// byte. It implements session.Ledger and decides nothing: plans come from
// core/session.
//
// A file per thing: session, element, row, checkpoint, blob, turn; commit,
// finish and restamp write; load hydrates; view, coverage and evidence are read
// by the pages; trim, purge and delete keep the budget; check verifies.
//
// Policy of errors: a sentinel of core/session where the chain branches, *Error
// with a hint where a person acts, the operation in front otherwise. Damage is
// ErrCorrupt and names what is damaged; nothing panics on what a file holds.
//
// One connection writes, under one mutex; a few others read, each on a snapshot
// of its own (WAL). WAL checkpoints run on a connection of their own, off the
// request path.
package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"holdfast/core/session"
	"holdfast/core/usage"
)

// DefaultBudget is the budget of a ledger nobody sized: 2 GiB.
const DefaultBudget usage.Bytes = 2 << 30

// readers is how many reads run at once. A read is short and the machine is
// the user's: more would only hold page caches.
const readers = 3

// Options of a ledger. The zero value is the default of each.
type Options struct {
	// Budget is the most the file may take, 0 for DefaultBudget. It is hard.
	Budget usage.Bytes
	// Now is the clock of the lifecycle, nil for time.Now.
	Now func() time.Time

	// wrap interposes on every connection; tests fail statements with it.
	wrap func(driver.Connector) driver.Connector
}

// DB is an open ledger.
type DB struct {
	path string
	now  func() time.Time
	zip  *packer
	// dial makes connections that write, dialRead those that only read.
	dial, dialRead driver.Connector

	// mu is held around every write transaction; it guards w. Read-back after a
	// commit happens under it as well, so what is read is what was written.
	mu sync.Mutex
	w  *conn // nil after Close, or after a failed rollback until the next write

	// read holds the idle reading connections, nil for one not made yet; taking
	// one out is owning it. Close takes them all and closes the channel.
	read chan *conn

	lastTurn atomic.Int64 // newest id handed out
	budget   atomic.Int64 // bytes
	room     room         // guarded by mu
	tally    tally        // has its own mutex

	// restamp serialises re-stamps: one deletes what another left behind.
	restamp sync.Mutex
	keeper  *keeper
	closed  atomic.Bool
}

var _ session.Ledger = (*DB)(nil)

// Open opens or creates the ledger at path. A file of an older version is
// brought up to date; the four snapshot tables are made anew when missing.
func Open(ctx context.Context, path string, opts Options) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	d := &DB{path: abs, now: opts.Now, read: make(chan *conn, readers)}
	if d.now == nil {
		d.now = time.Now
	}
	for range readers {
		d.read <- nil
	}
	d.budget.Store(int64(opts.Budget))
	if opts.Budget == 0 {
		d.budget.Store(int64(DefaultBudget))
	}
	if err := d.open(ctx, opts.wrap); err != nil {
		return nil, errors.Join(d.fail("open", err), d.Close())
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, wrap func(driver.Connector) driver.Connector) (err error) {
	if d.zip, err = newPacker(); err != nil {
		return err
	}
	if err := private(d.path); err != nil {
		return err
	}
	if d.dial, err = connector(d.path, writing, wrap); err != nil {
		return err
	}
	if err := d.writable(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, d.w, sqlFiles); err != nil {
		return err
	}
	if d.dialRead, err = connector(d.path, reading, wrap); err != nil {
		return err
	}
	if err := d.recall(ctx); err != nil {
		return err
	}
	d.keeper, err = startKeeper(ctx, d)
	return err
}

// recall reads what memory keeps of the file, and carries on with deletions a
// crash interrupted.
func (d *DB) recall(ctx context.Context) error {
	newest, err := d.w.number(ctx, "SELECT max(id) FROM turn")
	if err != nil {
		return err
	}
	floor, err := d.w.number(ctx, "SELECT CAST(CAST(val AS TEXT) AS INTEGER) FROM setting WHERE key = ?", turnFloor)
	if err != nil {
		return err
	}
	d.lastTurn.Store(max(newest, floor))
	if err := d.tally.recall(ctx, d.w); err != nil {
		return err
	}
	if err := d.sizeUp(ctx, d.w); err != nil {
		return err
	}
	return d.resumeDeletes(ctx)
}

// Close waits for reads and the background work, writes the WAL back and closes
// the file. It is safe to call twice.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var errs []error
	if d.keeper != nil {
		errs = append(errs, d.keeper.stop())
	}
	for range readers {
		if c := <-d.read; c != nil {
			errs = append(errs, c.close())
		}
	}
	close(d.read)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w != nil {
		errs = append(errs, d.w.once(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)"), d.w.close())
		d.w = nil
	}
	if d.zip != nil {
		d.zip.close()
	}
	return errors.Join(errs...)
}

// NextTurn returns a turn id never used before in this file.
func (d *DB) NextTurn() int64 { return d.lastTurn.Add(1) }

// private makes sure that the file exists with mode 0600; SQLite gives its
// companions the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() == 0o600 {
		return err
	}
	return os.Chmod(path, 0o600)
}

// The two kinds of connection. WAL checkpoints never happen inside a write;
// the file gives space back only when the lifecycle asks (incremental).
var (
	writing = url.Values{"_txlock": {"immediate"}, "_busy_timeout": {"5000"}, "_auto_vacuum": {"INCREMENTAL"},
		"_pragma": {
			"journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)", "wal_autocheckpoint(0)", "cache_size(-4000)"}}
	reading = url.Values{"mode": {"ro"}, "_busy_timeout": {"5000"},
		"_pragma": {"foreign_keys(1)", "query_only(1)", "cache_size(-1000)"}}
)

func connector(path string, query url.Values, wrap func(driver.Connector) driver.Connector) (driver.Connector, error) {
	p := filepath.ToSlash(path)
	if p[0] != '/' { // a drive letter
		p = "/" + p
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: query.Encode()}
	c, err := sqlite.NewConnector(u.String())
	if err == nil && wrap != nil {
		c = wrap(c)
	}
	return c, err
}

// write runs f in one write transaction: all of it or nothing. The caller's
// context is asked once, before; a transaction is short, and cutting one off in
// the middle would gain nothing.
func (d *DB) write(ctx context.Context, op string, f func(context.Context, *conn) error) error {
	return d.writeThen(ctx, op, false, f, nil)
}

// writeThen is write, with then run after the commit and still under the lock.
// full syncs the WAL before it returns.
func (d *DB) writeThen(ctx context.Context, op string, full bool, f, then func(context.Context, *conn) error) error {
	return d.locked(ctx, op, func(ctx context.Context, c *conn) error {
		if full {
			if err := c.once(ctx, "PRAGMA synchronous = FULL"); err != nil {
				return err
			}
			defer func() {
				if d.w == c { // a new connection starts at NORMAL; staying at FULL would be slower, not wrong
					_ = c.once(ctx, "PRAGMA synchronous = NORMAL")
				}
			}()
		}
		if err := d.transact(ctx, f); err != nil {
			return err
		}
		d.keeper.wrote()
		if then == nil {
			return nil
		}
		return then(ctx, d.w)
	})
}

// transact needs mu.
func (d *DB) transact(ctx context.Context, f func(context.Context, *conn) error) error {
	if _, err := d.w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f(ctx, d.w)
	if err == nil {
		_, err = d.w.exec(ctx, "COMMIT")
	}
	if err == nil {
		return nil
	}
	if _, back := d.w.exec(ctx, "ROLLBACK"); back != nil {
		// The engine may have rolled back by itself (a full disk); or this
		// connection is of no more use. A new one starts clean either way, so
		// what the old one says in closing does not matter.
		_ = d.w.close()
		d.w = nil
	}
	return err
}

// writable needs mu.
func (d *DB) writable(ctx context.Context) (err error) {
	if d.closed.Load() {
		return errClosed
	}
	if d.w != nil {
		return nil
	}
	if d.w, err = dial(ctx, d.dial); err != nil {
		return err
	}
	return d.guard(ctx, d.w)
}

// locked runs f on the writing connection outside any transaction.
func (d *DB) locked(ctx context.Context, op string, f func(context.Context, *conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	ctx = context.WithoutCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.writable(ctx); err != nil {
		return d.fail(op, err)
	}
	return d.fail(op, f(ctx, d.w))
}

// view runs f on a snapshot of the file.
func (d *DB) view(ctx context.Context, op string, f func(context.Context, *conn) error) (err error) {
	var c *conn
	select {
	case taken, open := <-d.read:
		if !open {
			return fmt.Errorf("ledger: %s: %w", op, errClosed)
		}
		c = taken
	case <-ctx.Done():
		return fmt.Errorf("ledger: %s: %w", op, ctx.Err())
	}
	defer func() { d.read <- c }()
	if c == nil {
		if c, err = dial(ctx, d.dialRead); err != nil {
			return d.fail(op, err)
		}
	}
	// Neither end of a read may be cut short: an interrupted BEGIN may have begun,
	// and a snapshot that stays open keeps the WAL alive.
	whole := context.WithoutCancel(ctx)
	if _, err = c.exec(whole, "BEGIN"); err == nil {
		err = f(ctx, c)
	}
	if _, end := c.exec(whole, "ROLLBACK"); end != nil {
		// The connection is of no more use, whatever it says in closing; the next
		// read dials a new one.
		_ = c.close()
		c, err = nil, errors.Join(err, end)
	}
	return d.fail(op, err)
}

var errClosed = errors.New("the ledger is closed")
