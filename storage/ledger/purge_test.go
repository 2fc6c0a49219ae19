package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"

	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// TestPurgeSparesFolds: what a fold may still open stays; once the fold is over
// its originals go, and it says so. The session goes on either way.
func TestPurgeSparesFolds(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	s := ledgertest.NewScript("s")
	playOn(t, d, s, 20)
	must(t, d.Commit(ctx, s.Fold(4, 16)))
	lost := s.State.List[10].N
	s.Rows = false
	must(t, d.Commit(ctx, s.Prune(d.NextTurn(), 10))) // nothing to put it back into
	s.Rows = true
	purge(t, d)
	if e := elementOf(t, d, s, lost); e.Blob.IsZero() || e.State != session.Archived {
		t.Fatalf("an element of a fold that stands is %+v", e)
	}
	restampOf(t, d, s) // the fold lost an element: it is over
	before, err := d.Load(ctx, "l_s")
	must(t, err)
	rows := rowsOf(t, d)
	purge(t, d)
	if e := elementOf(t, d, s, lost); !e.Blob.IsZero() {
		t.Fatalf("an element of a fold that is over is %+v", e)
	}
	st, err := d.Load(ctx, "l_s")
	must(t, err)
	if b := st.Kernel.Block(1); st.Red != "" || !b.Gone || b.Status != fold.Dead || !slices.Equal(st.Rows, before.Rows) {
		t.Fatalf("red %q, block %+v", st.Red, b)
	}
	if left := rowsOf(t, d); left >= rows || left != int64(len(st.Rows)) {
		t.Fatalf("%d of %d rows are left, %d are live", left, rows, len(st.Rows))
	}
	if err := d.Commit(ctx, s.Clone().Turn(d.NextTurn())); !errors.Is(err, session.ErrStale) {
		t.Fatalf("planned from before: %v", err)
	}
	s.State = reloaded(t, d, s)
	playOn(t, d, s, 2)
	if st, err = d.Load(ctx, "l_s"); err != nil || ledgertest.Diff(st, s.State) != "" {
		t.Fatalf("%v %s", err, ledgertest.Diff(st, s.State))
	}
	purge(t, d) // nothing left to say
	if again, err := d.Load(ctx, "l_s"); err != nil || again.Head.Version != st.Head.Version {
		t.Fatalf("version %d, was %d, %v", again.Head.Version, st.Head.Version, err)
	}
	sound(t, d)
	must(t, d.Delete(ctx, "l_s"))
	if n, err := d.w.number(ctx, "SELECT count(*) FROM blob"); err != nil || n != 0 {
		t.Fatalf("%d blobs are left, %v", n, err)
	}
}

// TestFoldCheckpointsStay: the checkpoint that made a fold stays as long as the
// fold stands, or one that holds it.
func TestFoldCheckpointsStay(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	s := ledgertest.NewScript("s")
	count := func() int64 {
		n, err := d.w.number(ctx, "SELECT count(*) FROM ckpt")
		must(t, err)
		return n
	}
	playOn(t, d, s, 20)
	must(t, d.Commit(ctx, s.Fold(4, 16)))
	playOn(t, d, s, 10)
	must(t, d.Commit(ctx, s.Nest(1, 30)))
	playOn(t, d, s, 10)
	if n := count(); n != keptCheckpoints+2 {
		t.Fatalf("%d checkpoints with two folds", n)
	}
	must(t, d.Commit(ctx, s.Unfold(2)))
	playOn(t, d, s, 10)
	must(t, d.Commit(ctx, s.Unfold(1)))
	playOn(t, d, s, 10)
	if n := count(); n != keptCheckpoints {
		t.Fatalf("%d checkpoints without a fold", n)
	}
	sound(t, d)
}

func purge(t *testing.T, d *DB) {
	t.Helper()
	tr := &trimmer{d, busyNone, 0, d.now()}
	_, err := tr.archived(context.Background(), stepArchived)
	must(t, err)
	sound(t, d)
}

func elementOf(t *testing.T, d *DB, s *ledgertest.Script, n int64) session.Element {
	t.Helper()
	es, err := d.Elements(context.Background(), s.State.Head.Ledger, []int64{n})
	must(t, err)
	return es[0]
}

func restampOf(t *testing.T, d *DB, s *ledgertest.Script) {
	t.Helper()
	ns := make([]int64, len(s.State.List))
	for i, e := range s.State.List {
		ns[i] = e.N
	}
	es, err := d.Elements(context.Background(), s.State.Head.Ledger, ns)
	must(t, err)
	must(t, d.Restamp(context.Background(), s.Restamp(es)))
}

func rowsOf(t *testing.T, d *DB) int64 {
	t.Helper()
	n, err := d.w.number(context.Background(), "SELECT count(*) FROM snap_rows")
	must(t, err)
	return n
}

// reloaded is the stored state with what memory knows of the elements.
func reloaded(t *testing.T, d *DB, s *ledgertest.Script) *session.State {
	t.Helper()
	st, err := d.Load(context.Background(), s.State.Head.Ledger)
	must(t, err)
	st.Meta, st.Route = s.State.Meta, s.State.Route
	return st
}
