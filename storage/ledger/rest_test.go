package ledger

import (
	"context"
	"path/filepath"
	"testing"

	"holdfast/core/session/ledgertest"
)

// TestRest: a ledger that gave its caches back goes on as before.
func TestRest(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), Options{})
	must(t, err)
	s := ledgertest.NewScript("rest")
	for range 3 {
		for range 5 {
			must(t, d.Commit(ctx, s.Turn(d.NextTurn())))
		}
		must(t, d.Rest(ctx))
		st, err := d.Load(ctx, s.State.Head.Ledger)
		must(t, err)
		if diff := ledgertest.Diff(st, s.State); diff != "" {
			t.Fatal(diff)
		}
	}
	must(t, d.Close())
	if d.Rest(ctx) == nil {
		t.Error("a closed ledger can rest")
	}
}
