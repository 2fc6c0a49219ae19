package ledger

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
	times := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := s.Turn(d.NextTurn())
		b.StartTimer()
		at := time.Now()
		if err := d.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	for _, p := range []int{50, 95, 99} {
		b.ReportMetric(float64(times[len(times)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
	}
}
