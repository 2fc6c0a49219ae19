package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
	"holdfast/core/usage"
)

// TestDiskFull: the engine runs out of room in the middle of a commit. Nothing
// of it stays, and with room again the same commit succeeds.
func TestDiskFull(t *testing.T) {
	ctx := context.Background()
	d, s := scripted(t, 3)
	before := s.Clone()
	c := s.Turn(d.NextTurn())
	big := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(big)
	c.Blobs = append(c.Blobs, session.Blob{ID: content.Of(big), Raw: big})
	c.Turn.Fields = append(c.Turn.Fields, session.FieldRef{Name: "big", ID: content.Of(big)})
	pages, err := d.w.number(ctx, "PRAGMA page_count")
	must(t, err)
	sql(t, d, fmt.Sprintf("PRAGMA max_page_count = %d", pages+8))
	err = d.Commit(ctx, c)
	var e *Error
	if !errors.Is(err, session.ErrFull) || !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("got %v, want ErrFull with a hint", err)
	}
	sound(t, d)
	st, err := d.Load(ctx, "l_s")
	must(t, err)
	if diff := ledgertest.Diff(st, before.State); diff != "" {
		t.Fatalf("something stayed: %s", diff)
	}
	d.mu.Lock()
	must(t, d.writable(ctx))
	must(t, d.guard(ctx, d.w))
	d.mu.Unlock()
	c.Turn.AllFields = append(c.Turn.AllFields, c.Turn.Fields[len(c.Turn.Fields)-1])
	must(t, d.Commit(ctx, c))
	sound(t, d)
}

// busyNone is a ledger without a request in flight.
func busyNone(string) bool { return false }

// crowd makes a ledger of several sessions, the later letters seen later, and
// returns their scripts. Every turn is finished with a reply.
func crowd(t *testing.T, d *DB, names string, turns int) map[string]*ledgertest.Script {
	t.Helper()
	out := map[string]*ledgertest.Script{}
	for _, r := range names {
		s := ledgertest.NewScript(string(r))
		out[s.State.Head.Ledger] = s
		for i := range turns {
			if i == turns/2 {
				reply(t, d, s.Replace(d.NextTurn(), 1))
				continue
			}
			reply(t, d, s.Turn(d.NextTurn()))
		}
	}
	return out
}

func reply(t *testing.T, d *DB, c *session.Commit) {
	t.Helper()
	must(t, d.Commit(context.Background(), c))
	text := []byte(strings.Repeat(c.Turn.InHash.String(), 40))
	must(t, d.Finish(context.Background(), &session.TurnDone{ID: c.Turn.ID, Ledger: c.Head.Ledger,
		FinishedAt: c.Turn.At, Response: text}))
}

// at is a clock that stands d after the scripts' last turn.
func at(ms int64, d time.Duration) func() time.Time {
	return func() time.Time { return time.UnixMilli(ms).Add(d) }
}

func lastSeen(scripts map[string]*ledgertest.Script) (ms int64) {
	for _, s := range scripts {
		ms = max(ms, s.State.Head.LastSeen)
	}
	return ms
}

// tight sets the budget so that trimming has to free about n bytes.
func tight(t *testing.T, d *DB, n int64) {
	t.Helper()
	used, err := d.used(context.Background())
	must(t, err)
	// The inverse of limits for a small budget: an eighth is spare, a quarter
	// the WAL's, and a run stops at nine tenths.
	must(t, d.SetBudget(context.Background(), usage.Bytes(float64(used-n)/0.9*8/5)))
}

// TestTrimOrder asks for more and more room: steps are taken in order, no more
// of them than needed, and after each the file verifies and says what it took.
func TestTrimOrder(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	scripts := crowd(t, d, "abc", 80)
	d.now = at(lastSeen(scripts), 2*time.Hour)
	first, err := d.Turn(ctx, 1)
	must(t, err)
	var taken []string
	for range 40 {
		tight(t, d, 64<<10)
		rep, err := d.Trim(ctx, busyNone)
		must(t, err)
		sound(t, d)
		for _, s := range rep.Steps {
			if len(taken) == 0 || taken[len(taken)-1] != s.Name {
				taken = append(taken, s.Name)
			}
		}
		for ledger, s := range scripts {
			st, err := d.Load(ctx, ledger)
			if err != nil {
				if !errors.Is(err, session.ErrNotKept) || !strings.Contains(err.Error(), stepIdle) {
					t.Fatalf("%s: %v", ledger, err)
				}
				continue
			}
			if diff := ledgertest.Diff(st, s.State); diff != "" {
				t.Fatalf("after %v: %s: %s", rep.Steps, ledger, diff)
			}
		}
	}
	if want := []string{stepResponses, stepVariants, stepArchived, stepIdle}; strings.Join(taken,
		"|") != strings.Join(want, "|") {
		t.Fatalf("took %q, want %q", taken, want)
	}
	if _, err := d.Turn(ctx, first.ID); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("the first turn of a purged session: %v", err)
	}
	if n := d.NextTurn(); n <= 240 {
		t.Errorf("turn id %d was used before", n)
	}
}

// TestTrimSays: what a step took is answered with its name.
func TestTrimSays(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	scripts := crowd(t, d, "a", 80)
	s := scripts["l_a"]
	tr := &trimmer{d, busyNone, 0, d.now()}
	if _, err := d.Response(ctx, 1); err != nil {
		t.Fatal(err)
	}
	_, err := tr.responses(ctx, stepResponses)
	must(t, err)
	if _, err := d.Response(ctx, 1); !errors.Is(err, session.ErrNotKept) || !strings.Contains(err.Error(),
		stepResponses) {
		t.Errorf("reply: %v", err)
	}
	if _, err := d.Response(ctx, d.lastTurn.Load()); err != nil {
		t.Errorf("a recent reply: %v", err)
	}
	_, err = tr.variants(ctx, stepVariants)
	must(t, err)
	rec, err := d.Turn(ctx, 1)
	must(t, err)
	if rec.Kept || !strings.Contains(rec.Why, stepVariants) || rec.InHash.IsZero() {
		t.Errorf("turn 1: kept %v, %q", rec.Kept, rec.Why)
	}
	_, err = tr.archived(ctx, stepArchived)
	must(t, err)
	sound(t, d)
	for id := d.lastTurn.Load(); id > d.lastTurn.Load()-recentTurns; id-- {
		rec, err := d.Turn(ctx, id)
		if err != nil || !rec.Kept {
			t.Fatalf("recent turn %d: %+v, %v", id, rec, err)
		}
		for _, it := range rec.Items {
			if b, err := d.Blob(ctx, it.Raw); err != nil || string(b) != string(s.Bytes(it.Raw)) {
				t.Fatalf("turn %d, element %d: %v", id, it.N, err)
			}
		}
		for _, f := range rec.AllFields {
			if _, err := d.Blob(ctx, f.ID); err != nil {
				t.Fatalf("turn %d, field %s: %v", id, f.Name, err)
			}
		}
	}
	playOn(t, d, s, 70) // new lists continue across the cut
	st, err := d.Load(ctx, "l_a")
	must(t, err)
	if diff := ledgertest.Diff(st, s.State); diff != "" {
		t.Error(diff)
	}
	sound(t, d)
}

// TestTrimSpares: sessions in flight and sessions just seen stay, whatever the
// budget; sessions idle for 30 days go first.
func TestTrimSpares(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	scripts := crowd(t, d, "abcd", 40)
	now := lastSeen(scripts)
	d.now = at(now, 0)
	for ledger, ago := range map[string]time.Duration{"l_a": 2 * longIdle, "l_b": 2 * time.Hour, "l_c": 3 * longIdle,
		"l_d": time.Minute} {
		sql(t, d, fmt.Sprintf("UPDATE session SET last_seen = %d WHERE ledger_id = '%s'", now-ago.Milliseconds(), ledger))
	}
	must(t, d.SetBudget(ctx, 1))
	rep, err := d.Trim(ctx, func(ledger string) bool { return ledger == "l_c" })
	must(t, err)
	sound(t, d)
	for ledger, want := range map[string]string{"l_a": stepIdle30, "l_b": stepIdle, "l_c": "", "l_d": ""} {
		_, err := d.Load(ctx, ledger)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q; steps %+v", ledger, err, want, rep.Steps)
		}
	}
	if _, err := d.Response(ctx, scripts["l_c"].State.Head.ListTurn-39); err != nil {
		t.Errorf("a reply of the session in flight: %v", err)
	}
}

// TestShrink: the file itself gets smaller.
func TestShrink(t *testing.T) {
	ctx := context.Background()
	d := unsynced(t, t.TempDir()+"/ledger.db", Options{})
	crowd(t, d, "ab", 60)
	d.keeper.now()
	size := func() int64 {
		info, err := os.Stat(d.path)
		must(t, err)
		return info.Size()
	}
	before := size()
	must(t, d.Delete(ctx, "l_a"))
	_, err := d.Trim(ctx, busyNone)
	must(t, err)
	if after := size(); after > before*3/4 {
		t.Errorf("the file had %d bytes and has %d", before, after)
	}
	sound(t, d)
}

// TestBudget: at the budget bodies are refused before anything is written,
// turns without bodies are still recorded, and the file never passes it.
func TestBudget(t *testing.T) {
	ctx := context.Background()
	const budget = 4 << 20
	d := openAt(t, t.TempDir()+"/ledger.db", Options{Budget: budget})
	s := ledgertest.NewScript("s")
	var err error
	before := s
	for n := 0; err == nil; n++ {
		if n > 5000 {
			t.Fatal("never full")
		}
		before = s.Clone()
		err = d.Commit(ctx, s.Turn(d.NextTurn()))
	}
	if !errors.Is(err, session.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	st, err := d.Load(ctx, "l_s")
	must(t, err)
	if diff := ledgertest.Diff(st, before.State); diff != "" {
		t.Fatal(diff)
	}
	last := before.State.Head.ListTurn
	must(t, d.Finish(ctx, &session.TurnDone{ID: last, Ledger: "l_s", FinishedAt: 1, Response: make([]byte, 1<<20)}))
	recorded := 0
	for range 50 {
		if d.Record(ctx, session.Turn{ID: d.NextTurn(), Ledger: "l_s", Home: session.HomeShadow}) == nil {
			recorded++
		}
	}
	if recorded != 50 {
		t.Errorf("%d of 50 turns without bodies were recorded", recorded)
	}
	d.keeper.now()
	stats, err := d.Stats(ctx)
	must(t, err)
	if stats.Bytes > budget || stats.Budget != budget {
		t.Errorf("%+v", stats)
	}
	must(t, d.SetBudget(ctx, 2*budget))
	must(t, d.Commit(ctx, before.Turn(d.NextTurn())))
	sound(t, d)
}
