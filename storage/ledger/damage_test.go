package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// scripted returns a ledger with one scripted session of n turns.
func scripted(t *testing.T, n int) (*DB, *ledgertest.Script) {
	t.Helper()
	d, s := unsynced(t, filepath.Join(t.TempDir(), "ledger.db"), Options{}), ledgertest.NewScript("s")
	playOn(t, d, s, n)
	return d, s
}

func playOn(t *testing.T, d *DB, s *ledgertest.Script, n int) {
	t.Helper()
	for range n {
		must(t, d.Commit(context.Background(), s.Turn(d.NextTurn())))
	}
}

// sql changes the file behind the ledger's back.
func sql(t *testing.T, d *DB, q string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	must(t, d.w.once(context.Background(), q))
}

// TestFlippedColumns changes one column of one row at a time: the session goes
// red, and the reason names the row or the sum.
func TestFlippedColumns(t *testing.T) {
	flips := map[string]string{
		"ledger_id": "'l_other'", "row_id": "row_id + 100", "epoch": "epoch + 1", "pos": "pos + 100", "sub": "sub + 9", "elem": "elem + 1",
		"sess_raw": "sess_raw || 'x'", "msgid": "'x'", "canon_id": "canon_id || '_2'", "kind": "'media'",
		"role": "'tool'", "ctype": "'x'",
		"tool_name": "'x'", "call_id": "'x'", "wire": "'openai'", "raw": "x'" + strings.Repeat("ab", 32) + "'",
		"overlay": "x'01'", "active": "0",
		"covered_by": "'b1'", "cause": "'fold'", "row_sum": "x'" + strings.Repeat("00", 16) + "'",
		"state_sum": "x'" + strings.Repeat("00", 16) + "'",
		"born_ck":   "born_ck + 1", "changed_ck": "changed_ck + 100", "created_at": "created_at + 1",
	}
	tpl := play(t, func(t *testing.T, d *DB) act {
		s := ledgertest.NewScript("s")
		playOn(t, d, s, 3)
		return act{do: func(*DB) error { return nil }, after: s}
	})
	d, _ := tpl.copy(t)
	must(t, d.w.query(context.Background(), "SELECT name FROM pragma_table_info('snap_rows')", func(r *row) error {
		if flips[r.text(0)] == "" {
			t.Errorf("column %s is not tried", r.text(0))
		}
		return nil
	}))
	for col, to := range flips {
		t.Run(col, func(t *testing.T) {
			d, _ := tpl.copy(t)
			sql(t, d, fmt.Sprintf("UPDATE snap_rows SET %s = %s WHERE row_id = 4", col, to))
			st, err := d.Load(context.Background(), "l_s")
			must(t, err)
			t.Log(st.Red)
			if st.Red == "" || len(st.Rows) != 0 {
				t.Fatal("green")
			}
			if d := ledgertest.Diff(&session.State{Head: st.Head, Kernel: st.Kernel, Repeats: st.Repeats, List: st.List,
				Red: "x"},
				redOf(tpl.after.State)); d != "" {
				t.Errorf("the list suffered: %s", d)
			}
			if rep, err := d.Check(context.Background(), ""); err != nil || len(rep.Problems) == 0 {
				t.Errorf("check finds nothing: %+v, %v", rep, err)
			}
		})
	}
}

func redOf(st *session.State) *session.State {
	red := *st
	red.Red = "x"
	return &red
}

func TestMissingRows(t *testing.T) {
	for _, q := range []string{
		"DELETE FROM snap_rows WHERE row_id = 4", "DELETE FROM snap_rows WHERE row_id = (SELECT max(row_id) FROM snap_rows)", "DELETE FROM snap_rows",
		"DELETE FROM ckpt", "UPDATE ckpt SET meta_json = replace(meta_json, '\"count\":', '\"count\":1')",
		"UPDATE ckpt SET meta_json = '{'",
	} {
		d, _ := scripted(t, 3)
		sql(t, d, q)
		st, err := d.Load(context.Background(), "l_s")
		must(t, err)
		if t.Log(st.Red); st.Red == "" {
			t.Errorf("%s: green", q)
		}
	}
}

// TestDroppedTables: with the tables gone and the mode off nothing fails; an
// open makes them anew, and a re-stamp makes the session green.
func TestDroppedTables(t *testing.T) {
	ctx := context.Background()
	for _, tables := range [][]string{{"l1_world"}, {"snap_rows"}, {"ckpt"}, {"snap_meta"},
		{"l1_world", "snap_rows", "ckpt", "snap_meta"}} {
		t.Run(strings.Join(tables, " "), func(t *testing.T) {
			d, s := scripted(t, 3)
			for _, table := range tables {
				sql(t, d, "DROP TABLE "+table)
			}
			st, err := d.Load(ctx, "l_s")
			must(t, err)
			if t.Log(st.Red); st.Red == "" {
				t.Fatal("green")
			}
			s.State, s.Rows = st, false
			playOn(t, d, s, 2)
			must(t, d.Commit(ctx, s.Rewind(d.NextTurn(), 1)))
			everyView(t, d)
			must(t, d.Close())

			d = openAt(t, d.path, Options{})
			elems, err := d.Elements(ctx, "l_s", numbers(s.State))
			must(t, err)
			must(t, d.Restamp(ctx, s.Restamp(elems)))
			st, err = d.Load(ctx, "l_s")
			must(t, err)
			if diff := ledgertest.Diff(st, s.State); diff != "" {
				t.Error(diff)
			}
			sound(t, d)
			must(t, d.Delete(ctx, "l_s"))
			sound(t, d)
		})
	}
}

func numbers(st *session.State) []int64 {
	ns := make([]int64, len(st.List))
	for i, e := range st.List {
		ns[i] = e.N
	}
	return ns
}

func everyView(t *testing.T, d *DB) {
	t.Helper()
	ctx := context.Background()
	_, _, err := d.Sessions(ctx, SessionQuery{Size: 10})
	must(t, err)
	_, err = d.Session(ctx, "l_s")
	must(t, err)
	_, err = d.RowViews(ctx, "l_s")
	must(t, err)
	_, err = d.Coverage(ctx, "l_s")
	must(t, err)
	_, _, err = d.Turns(ctx, "l_s", 1, 10)
	must(t, err)
	_, err = d.Stats(ctx)
	must(t, err)
}

// TestWrongBlob: bytes under a name that is not theirs are never handed out.
func TestWrongBlob(t *testing.T) {
	d, s := scripted(t, 2)
	es, err := d.Elements(context.Background(), "l_s", []int64{1})
	must(t, err)
	right := s.Bytes(es[0].Blob)
	wrong := d.zip.pack(bytes.Replace(right, []byte("role"), []byte("rule"), 1))
	sql(t, d, fmt.Sprintf("UPDATE blob SET data = x'%x' WHERE hash = x'%s'", wrong, es[0].Blob))
	if b, err := d.Blob(context.Background(), es[0].Blob); !errors.Is(err,
		ErrCorrupt) || b != nil || !strings.Contains(err.Error(), es[0].Blob.String()) {
		t.Fatalf("got %q, %v", b, err)
	}
	for _, ledger := range []string{"", "l_s"} {
		rep, err := d.Check(context.Background(), ledger)
		if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], es[0].Blob.String()) {
			t.Errorf("check %q: %+v, %v", ledger, rep, err)
		}
	}
}

// TestWrongReferences: counts that do not fit are found, both ways.
func TestWrongReferences(t *testing.T) {
	for _, change := range []string{"refs + 1", "refs - 1"} {
		d, _ := scripted(t, 2)
		sql(t, d, "UPDATE blob SET refs = "+change+" WHERE id = 2")
		if rep, err := d.Check(context.Background(), ""); err != nil || len(rep.Problems) != 1 {
			t.Errorf("%s: %+v, %v", change, rep, err)
		}
	}
}

// TestReadBack: what reaches the file is compared with what was meant.
func TestReadBack(t *testing.T) {
	for name, trigger := range map[string]string{
		"row":        "CREATE TRIGGER x AFTER INSERT ON snap_rows BEGIN UPDATE snap_rows SET pos = pos + 1000 WHERE ledger_id = new.ledger_id AND row_id = new.row_id; END",
		"lost row":   "CREATE TRIGGER x AFTER INSERT ON snap_rows BEGIN DELETE FROM snap_rows WHERE ledger_id = new.ledger_id AND row_id = new.row_id; END",
		"checkpoint": "CREATE TRIGGER x AFTER INSERT ON ckpt BEGIN UPDATE ckpt SET meta_json = '{}' WHERE ledger_id = new.ledger_id AND seq = new.seq; END",
	} {
		t.Run(name, func(t *testing.T) {
			d, s := scripted(t, 2)
			sql(t, d, trigger)
			if err := d.Commit(context.Background(), s.Turn(d.NextTurn())); !errors.Is(err, session.ErrReadBack) {
				t.Fatalf("got %v, want ErrReadBack", err)
			}
		})
	}
}

// TestDamagedPages zeroes one page of the file at a time: whatever is asked is
// answered with the truth, with red or with an error; nothing panics, and
// nothing is called sound that is not.
func TestDamagedPages(t *testing.T) {
	d, s := scripted(t, 12)
	path := d.path
	must(t, d.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	ids := s.Hashes()
	found := 0
	for page := range len(whole) / pageBytes {
		b := bytes.Clone(whole)
		clear(b[page*pageBytes : (page+1)*pageBytes])
		bad := filepath.Join(t.TempDir(), "bad.db")
		must(t, os.WriteFile(bad, b, 0o600))
		if damageShows(t, bad, s, ids) {
			found++
		}
	}
	if found < 20 {
		t.Errorf("%d of %d damaged pages showed", found, len(whole)/pageBytes)
	}
}

// damageShows asks for everything a turn asks for.
func damageShows(t *testing.T, path string, s *ledgertest.Script, ids []content.ID) (shows bool) {
	t.Helper()
	ctx := context.Background()
	d, err := Open(ctx, path, Options{})
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || !errors.Is(err, ErrCorrupt) {
			t.Errorf("open: %v has no hint", err)
		}
		return true
	}
	defer d.Close()
	st, err := d.Load(ctx, "l_s")
	if err != nil || st.Red != "" {
		shows = true
	} else if diff := ledgertest.Diff(st, s.State); diff != "" {
		t.Errorf("loaded: %s", diff)
	}
	for _, id := range ids {
		if b, err := d.Blob(ctx, id); err != nil {
			shows = true
		} else if !bytes.Equal(b, s.Bytes(id)) {
			t.Errorf("blob %v is %q", id, b)
		}
	}
	rep, err := d.Check(ctx, "")
	if err == nil && len(rep.Problems) == 0 && shows {
		t.Errorf("check calls it sound: load %v %+v", err, st)
	}
	return shows || err != nil || len(rep.Problems) > 0
}

// TestNotOurs: files that are no ledger of ours are refused with a hint.
func TestNotOurs(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	must(t, os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 100), 0o600))
	if _, err := Open(ctx, text, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a text file: %v", err)
	}
	d, _ := scripted(t, 1)
	sql(t, d, "PRAGMA user_version = 99")
	must(t, d.Close())
	if _, err := Open(ctx, d.path, Options{}); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer file: %v", err)
	}
	d, _ = scripted(t, 1)
	sql(t, d, "PRAGMA application_id = 1")
	must(t, d.Close())
	if _, err := Open(ctx, d.path, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another program's file: %v", err)
	}
	if _, err := Open(ctx, filepath.Join(dir, "none", "ledger.db"), Options{}); err == nil {
		t.Error("a folder that is not there")
	}
}
