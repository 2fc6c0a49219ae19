package ledger

import (
	"context"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// BenchmarkCommit is a normal turn on a ledger of 800 elements: two elements,
// three rows, their bytes and spellings, a checkpoint, read back.
func BenchmarkCommit(b *testing.B) {
	d, err := Open(context.Background(), filepath.Join(b.TempDir(), "ledger.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s := ledgertest.NewScript("bench")
	ctx := context.Background()
	for range 400 {
		if err := d.Commit(ctx, s.Turn(d.NextTurn())); err != nil {
			b.Fatal(err)
		}
	}
	bare := threeRows(b, d)
	var times, bares []time.Duration // what comes second finds the caches warm
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		c := s.Turn(d.NextTurn())
		if n%4 == 0 {
			bares = append(bares, bare())
		}
		b.StartTimer()
		at := time.Now()
		if err := d.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
		if n%4 != 0 {
			times = append(times, time.Since(at))
		}
	}
	percentiles(b, "", times)
	percentiles(b, "three-rows-", bares)
}

// threeRows is the commit the bar of a turn was set by: three rows in one
// transaction and nothing else.
func threeRows(b *testing.B, d *DB) (put func() time.Duration) {
	ctx := context.Background()
	run := func(q string, n int, args ...driver.Value) time.Duration {
		at := time.Now()
		if err := d.writeThen(ctx, "bench", false, func(ctx context.Context, w *conn) (err error) {
			for range n {
				if _, err = w.exec(ctx, q, args...); err != nil {
					break
				}
			}
			return err
		}, nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(at)
	}
	run("CREATE TABLE bench (id INTEGER PRIMARY KEY, raw BLOB NOT NULL)", 1)
	raw := make([]byte, 300)
	return func() time.Duration { return run("INSERT INTO bench (raw) VALUES (?)", 3, raw) }
}

// percentiles reports them of times taken, under a name.
func percentiles(b *testing.B, name string, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for _, p := range []int{50, 95, 99} {
		b.ReportMetric(float64(times[len(times)*p/100].Microseconds()), fmt.Sprintf("%sp%d-µs", name, p))
	}
}

// BenchmarkCommitFold is a fold of twelve elements in a ledger of a few hundred,
// every third one taking in the fold before it, beside the normal turn between
// two of them. The same without the sync that only folds ask for says what is
// the disk's.
func BenchmarkCommitFold(b *testing.B) {
	for _, synced := range []bool{true, false} {
		b.Run(fmt.Sprintf("synced=%t", synced), func(b *testing.B) { commitFolds(b, synced) })
	}
}

const (
	benchList  = 300 // elements of a session when it is folded first
	benchRange = 12  // elements of a fold
	benchFolds = 18  // folds of a session, to be followed by the next session
)

func commitFolds(b *testing.B, synced bool) {
	ctx := context.Background()
	d, err := Open(ctx, filepath.Join(b.TempDir(), "ledger.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	commit := func(c *session.Commit) time.Duration {
		at := time.Now()
		if err := d.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
		return time.Since(at)
	}
	var s *ledgertest.Script
	var folds, turns []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		k := n % benchFolds
		if k == 0 {
			s = grownScript(d, fmt.Sprint("bench", n), commit)
		}
		turns = append(turns, commit(s.Turn(d.NextTurn())))
		c := nextFold(s, k)
		c.Full = synced
		b.StartTimer()
		folds = append(folds, commit(c))
	}
	percentiles(b, "", folds)
	percentiles(b, "turn-", turns)
}

// grownScript is a session with a list long enough to be folded often.
func grownScript(d *DB, name string, commit func(*session.Commit) time.Duration) *ledgertest.Script {
	s := ledgertest.NewScript(name)
	for len(s.State.List) < benchList {
		for range 20 {
			s.Call()
		}
		commit(s.Turn(d.NextTurn()))
	}
	return s
}

// nextFold is the k-th fold of a session.
func nextFold(s *ledgertest.Script, k int) *session.Commit {
	from := 4 + benchRange*k // the head of a session is never folded
	to := from + benchRange - 1
	if k%3 == 2 {
		return s.Nest(int64(k), to)
	}
	return s.Fold(from, to)
}
