package ledger

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"holdfast/core/seed"
	"holdfast/core/session/ledgertest"
)

// TestViewCancelled: reads cut short at any point leave connections that the
// next read can use.
func TestViewCancelled(t *testing.T) {
	d, err := Open(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := ledgertest.NewScript("cancelled")
	for range 20 {
		if err := d.Commit(context.Background(), s.Turn(d.NextTurn())); err != nil {
			t.Fatal(err)
		}
	}
	id := s.State.Head.Ledger
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	cut := 0
	for range 400 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(1500))*time.Microsecond)
		if _, err := d.Load(ctx, id); err != nil {
			cut++
		}
		cancel()
		if _, err := d.Load(context.Background(), id); err != nil {
			t.Fatal(err)
		}
	}
	if cut == 0 {
		t.Error("no read was cut short")
	}
}
