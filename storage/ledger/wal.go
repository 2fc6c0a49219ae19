package ledger

import (
	"context"
	"sync/atomic"
	"time"
)

// walBytes is how large the WAL may grow before it is written back while
// traffic goes on (less under a small budget); at idle it is written back
// anyway. 4 MiB is some 60 normal turns: rare enough, and quick enough to copy.
const walBytes = 4 << 20

// idleAfter is how long nothing must have been written for the file to count
// as idle; it may take twice as long to be noticed.
const idleAfter = 2 * time.Second

// keeper writes the WAL back into the file, on a connection of its own, so
// that no turn waits for it. PASSIVE never blocks a writer: it copies what no
// reader still needs.
type keeper struct {
	db   *DB
	c    *conn
	wake chan struct{} // a transaction was committed
	ask  chan chan struct{}
	quit chan struct{}
	done chan struct{}
	// writes counts transactions since the start, by the writer; due is how many
	// there must be for the WAL to be looked at.
	writes, due atomic.Int64
	// asleep says that no idle time is being waited for: the next write begins it.
	asleep atomic.Bool
}

func startKeeper(ctx context.Context, d *DB) (*keeper, error) {
	c, err := dial(ctx, d.dial)
	if err != nil {
		return nil, err
	}
	k := &keeper{db: d, c: c, wake: make(chan struct{}, 1), ask: make(chan chan struct{}), quit: make(chan struct{}),
		done: make(chan struct{})}
	k.asleep.Store(true)
	k.due.Store(walWrites)
	go k.run()
	return k, nil
}

// wrote is called after every transaction; it never blocks, and most times it
// wakes nobody. Before the ledger is fully open there is no keeper.
func (k *keeper) wrote() {
	if k == nil {
		return
	}
	if n := k.writes.Add(1); !k.asleep.Swap(false) && n < k.due.Load() {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default: // one is pending
	}
}

// run owns c. It ends with stop.
func (k *keeper) run() {
	defer close(k.done)
	idle := time.NewTimer(idleAfter)
	idle.Stop()
	var since int64 // writes when the WAL was last written back
	var seen int64  // writes when the idle time began
	for {
		var ready chan struct{}
		select {
		case <-k.quit:
			return
		case <-k.wake:
			seen = k.writes.Load()
			idle.Reset(idleAfter)
			if seen < k.due.Load() || k.db.walSize() < k.db.walPart()/2 {
				continue
			}
		case <-idle.C:
			if n := k.fallAsleep(seen); n != seen { // another idle time, from about here
				seen = n
				idle.Reset(idleAfter)
				continue
			}
			if seen == since {
				continue
			}
		case ready = <-k.ask:
		}
		since = k.writes.Load()
		k.due.Store(since + walWrites)
		k.writeBack()
		if ready != nil {
			close(ready)
		}
	}
}

// fallAsleep has the next write wake the keeper, unless there was one since it
// had seen so many. It returns how many there are now.
func (k *keeper) fallAsleep(seen int64) int64 {
	n := k.writes.Load()
	if n != seen {
		return n
	}
	k.asleep.Store(true)
	if n = k.writes.Load(); n != seen && !k.asleep.Swap(false) {
		return seen // its writer is waking us
	}
	return n
}

// now has the WAL written back and waits for it.
func (k *keeper) now() {
	ready := make(chan struct{})
	select {
	case k.ask <- ready:
		<-ready
	case <-k.done:
	}
}

// walWrites is how few transactions cannot have filled walBytes: the WAL file
// keeps its size when it starts over, so its size alone does not tell.
const walWrites = 32

// writeBack copies the WAL into the file. The first write after a complete one
// starts the WAL over and syncs its header: that write is made here, so that no
// turn pays for it. A failure leaves the WAL as it is, and the next round or
// Close tries again.
func (k *keeper) writeBack() {
	ctx := context.Background()
	var busy, frames, copied int64
	_, err := k.c.one(ctx, "PRAGMA wal_checkpoint(PASSIVE)", func(r *row) error {
		busy, frames, copied = r.num(0), r.num(1), r.num(2)
		return nil
	})
	if err != nil || busy != 0 || frames != copied {
		return
	}
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	if k.db.w != nil {
		_, _ = k.db.w.exec(ctx,
			"INSERT INTO setting (key, val) VALUES ('wal', x'') ON CONFLICT DO UPDATE SET val = excluded.val")
	}
}

func (k *keeper) stop() error {
	close(k.quit)
	<-k.done
	return k.c.close()
}
