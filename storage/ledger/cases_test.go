package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// The tests of this file are named after the reports they answer.

// Lists come in pages whatever there is, and can be searched.
func TestC56_P59_ListsArePaged(t *testing.T) {
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	const sessions, size = 60, 25
	for i := range sessions {
		playOn(t, d, ledgertest.NewScript(fmt.Sprintf("s%02d", i)), 1)
	}
	seen := map[string]bool{}
	for page := 1; page <= 3; page++ {
		got, total, err := d.Sessions(context.Background(), SessionQuery{Page: page, Size: size})
		if err != nil || total != sessions || len(got) > size {
			t.Fatalf("page %d: %d of %d, %v", page, len(got), total, err)
		}
		for i := range got {
			seen[got[i].ID] = true
		}
	}
	if len(seen) != sessions {
		t.Errorf("the pages show %d sessions of %d", len(seen), sessions)
	}
	if got, total, err := d.Sessions(context.Background(), SessionQuery{Q: "s07", Page: 1, Size: size}); err != nil || total != 1 || len(got) != 1 {
		t.Errorf("searched: %d of %d, %v", len(got), total, err)
	}
}

// Everything kept has a budget, and what no longer fits is refused, never
// written over it.
func TestC64_P29_TheBudgetHolds(t *testing.T) {
	const budget = 2 << 20
	d := openAt(t, t.TempDir()+"/ledger.db", Options{Budget: budget})
	s := ledgertest.NewScript("s")
	var err error
	for n := 0; err == nil && n < 5_000; n++ {
		err = d.Commit(context.Background(), s.Turn(d.NextTurn()))
	}
	if !errors.Is(err, session.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	d.keeper.now()
	if stats, err := d.Stats(context.Background()); err != nil || stats.Bytes > budget {
		t.Errorf("%+v, %v", stats, err)
	}
}
