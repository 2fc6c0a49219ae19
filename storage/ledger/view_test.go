package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
	"holdfast/core/usage"
)

var update = flag.Bool("update", false, "write the goldens anew")

// TestViews shows a small ledger as pages and the API see it.
func TestViews(t *testing.T) {
	ctx := context.Background()
	d, s := scripted(t, 1)
	must(t, d.Finish(ctx, &session.TurnDone{ID: 1, Ledger: "l_s", FinishedAt: 1_700_000_002_000, Status: 200,
		Model: "model-1-0101", Reported: true, Priced: true, CostMicros: 1500,
		Usage: usage.Usage{Input: 100, Cached: 300, Output: 20, Source: usage.Exact}, Verdict: session.Drift,
		VerdictWhy: "number spelling", PrefixSame: 12,
		Change: &session.FirstChange{Offset: 12, JSONPath: "messages[0]", Old: "a", New: "b", Cause: "edit", By: "client"}}))
	must(t, d.Commit(ctx, s.Turn(d.NextTurn())))
	must(t, d.Commit(ctx, s.Prune(d.NextTurn(), 1)))
	must(t, d.Record(ctx, session.Turn{ID: d.NextTurn(), World: session.World{Signal: "s", SessRaw: "r", Lane: "main"},
		At: 5, Home: session.HomeSide, Model: "small"}))
	_, err := d.Degrade(ctx, session.DegradeView{At: 1_700_000_003_000, Session: "l_s", Turn: 2, Gate: "R3",
		Scope: "turn", Cause: "sum", Evidence: "row 4", Served: session.PathFull})
	must(t, err)

	var ar txtar.Archive
	ar.Comment = []byte("One session of three turns, the third pruned by its client, and a side request.\nWritten by `go test ./storage/ledger -run TestViews -update`.\n\n")
	add := func(name string, v any, err error) {
		t.Helper()
		must(t, err)
		b, err := json.MarshalIndent(v, "", " ")
		must(t, err)
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: append(b, '\n')})
	}
	sessions, total, err := d.Sessions(ctx, SessionQuery{Q: "A SCRIPT", Page: 1, Size: 10})
	if total != 1 {
		t.Errorf("%d sessions", total)
	}
	add("sessions.json", sessions, err)
	rows, err := d.RowViews(ctx, "l_s")
	add("rows.json", rows, err)
	cover, err := d.Coverage(ctx, "l_s")
	add("coverage.json", cover, err)
	turns, total, err := d.Turns(ctx, "", 1, 10)
	if total != 4 {
		t.Errorf("%d turns", total)
	}
	add("turns.json", turns, err)
	degrades, err := d.Degrades(ctx, 0, 10)
	add("degrades.json", degrades, err)
	ev, err := d.Evidence(ctx)
	add("evidence.json", ev, err)
	golden(t, "testdata/views.txtar", txtar.Format(&ar))

	must(t, d.Close())
	d = openAt(t, d.path, Options{})
	again, err := d.Evidence(ctx)
	must(t, err)
	a, _ := json.Marshal(ev)
	b, _ := json.Marshal(again)
	if !bytes.Equal(a, b) {
		t.Errorf("evidence after a restart\n%s, before\n%s", b, a)
	}
}

// TestTitles names the sessions that are there and leaves out those that are
// gone, that never were and the id of a record without a session.
func TestTitles(t *testing.T) {
	ctx := context.Background()
	d, _ := scripted(t, 1)
	v, err := d.Session(ctx, "l_s")
	must(t, err)
	got, err := d.Titles(ctx, []string{"l_s", "l_s", "", "l_never"})
	must(t, err)
	if want := map[string]string{"l_s": v.Title}; v.Title == "" || !maps.Equal(got, want) {
		t.Errorf("titles %v, want %v", got, want)
	}
	must(t, d.Delete(ctx, "l_s"))
	if got, err = d.Titles(ctx, []string{"l_s"}); err != nil || len(got) != 0 {
		t.Errorf("titles of a session that is gone %v, %v", got, err)
	}
	if got, err = d.Titles(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("titles of none %v, %v", got, err)
	}
}

// TestFoldViews shows a session with a fold that holds another, and a turn that
// its accounts have seen.
func TestFoldViews(t *testing.T) {
	ctx := context.Background()
	d := openNew(t)
	s := ledgertest.NewScript("s")
	playOn(t, d, s, 20)
	must(t, d.Commit(ctx, s.Fold(4, 16)))
	must(t, d.Commit(ctx, s.Nest(1, 25)))
	rh := fold.OpenRhythm(s.State.Head.Rhythm)
	rh.Accounts = map[int64]usage.Account{2: {Change: usage.Change{Gone: 2000}, Turns: 3,
		Bill: usage.Bill{Saved: 1_250_000, Cost: 250_000, Unit: usage.UnitMicros}}}
	must(t, d.Finish(ctx, &session.TurnDone{ID: 20, Ledger: "l_s", FinishedAt: 1_700_000_100_000, Status: 200, Reported: true,
		Priced: true, CostMicros: 2_000_000, Usage: usage.Usage{Input: 4000, Output: 5, Source: usage.Exact}, Rhythm: rh.Text()}))
	var ar txtar.Archive
	ar.Comment = []byte("One session whose second fold took the first one in.\nWritten by `go test ./storage/ledger -run TestFoldViews -update`.\n\n")
	add := func(name string, v any, err error) {
		t.Helper()
		must(t, err)
		b, err := json.MarshalIndent(v, "", " ")
		must(t, err)
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: append(b, '\n')})
	}
	v, err := d.Session(ctx, "l_s")
	add("session.json", v, err)
	cover, err := d.Coverage(ctx, "l_s")
	add("coverage.json", cover, err)
	rows, err := d.RowViews(ctx, "l_s")
	add("rows.json", rows[4:12], err)
	golden(t, "testdata/folds.txtar", txtar.Format(&ar))
}

// TestProtectedFrom: the tail begins where a fold may not reach, in a session
// that folds, and skips what is not in the view.
func TestProtectedFrom(t *testing.T) {
	var live []place
	for i := range int64(10) {
		live = append(live, place{pos: 2 * i, elem: i + 1, tokens: 2_000, active: true})
	}
	k := fold.NewState()
	if got := protectedFrom(&session.Head{Window: 200_000}, &k, live); got != 0 {
		t.Errorf("without folds from %d", got)
	}
	k.Armed = true
	for window, want := range map[usage.Tokens]int64{0: 10, 8_000: 10, 200_000: 10} {
		if got := protectedFrom(&session.Head{Window: window}, &k, live); got != want {
			t.Errorf("window %d: from %d, want %d", window, got, want)
		}
	}
	for i := range live {
		live[i].tokens = 600
	}
	if got := protectedFrom(&session.Head{Window: 200_000}, &k, live); got != 4 {
		t.Errorf("of short ones from %d, want 4", got)
	}
	if got := protectedFrom(&session.Head{}, &k, nil); got != 0 {
		t.Errorf("of none from %d", got)
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; see the diff after -update\n%s", file, got)
	}
}

func TestPaging(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	for _, name := range []string{"aa", "ab", "b%_"} {
		playOn(t, d, ledgertest.NewScript(name), 3)
	}
	for q, want := range map[string]int{"": 3, "RAW-A": 2, "%": 1, "_": 3, "nothing": 0, "model-1": 3} {
		got, total, err := d.Sessions(ctx, SessionQuery{Q: q, Page: 1, Size: 2})
		if err != nil || total != want || len(got) != min(want, 2) {
			t.Errorf("%q: %d of %d, %v; want %d", q, len(got), total, err, want)
		}
	}
	seen := map[string]bool{}
	for page := 1; page <= 3; page++ {
		got, _, err := d.Sessions(ctx, SessionQuery{Page: page, Size: 1})
		must(t, err)
		seen[got[0].ID] = true
	}
	if len(seen) != 3 {
		t.Errorf("three pages show %v", seen)
	}
	turns, total, err := d.Turns(ctx, "l_aa", 2, 2)
	if err != nil || total != 3 || len(turns) != 1 || turns[0].ID != 1 {
		t.Errorf("page 2: %+v of %d, %v", turns, total, err)
	}
	v, err := d.TurnView(ctx, 1)
	if err != nil || v.Session != "l_aa" {
		t.Errorf("turn 1: %+v, %v", v, err)
	}
	if _, err := d.TurnView(ctx, 99); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("turn 99: %v", err)
	}
}

func TestFindLedger(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	for _, name := range []string{"a", "ab", "b%"} {
		playOn(t, d, ledgertest.NewScript(name), 1)
	}
	for prefix, want := range map[string]string{"l_a": "l_a", "l_ab": "l_ab", "l_b": "l_b%", "l_b%": "l_b%"} {
		if got, err := d.FindLedger(ctx, prefix); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", prefix, got, err, want)
		}
	}
	for _, prefix := range []string{"", "x", "%", "l_a%"} {
		if _, err := d.FindLedger(ctx, prefix); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if _, err := d.FindLedger(ctx, "l_"); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "l_ab") {
		t.Errorf("several: %v", err)
	}
}
