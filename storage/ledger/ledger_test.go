package ledger

import (
	"context"
	"path/filepath"
	"testing"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

func openAt(t *testing.T, path string, opts Options) *DB {
	t.Helper()
	d, err := Open(context.Background(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func openNew(t *testing.T) *DB {
	return openAt(t, filepath.Join(t.TempDir(), "ledger.db"), Options{})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sound fails the test unless everything in the file verifies.
func sound(t *testing.T, d *DB) CheckReport {
	t.Helper()
	rep, err := d.Check(context.Background(), "")
	must(t, err)
	for _, p := range rep.Problems {
		t.Error(p)
	}
	return rep
}

func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) session.Ledger {
		d := openNew(t)
		t.Cleanup(func() { sound(t, d) })
		return d
	})
}
