package chain_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/content"
	"holdfast/core/session"
)

// faulty is a ledger whose calls can be made to go wrong.
type faulty struct {
	session.Ledger
	mu sync.Mutex
	// commit carries out or spoils a commit; nil for the real one.
	commit func(c *session.Commit, real func() error) error
	// boom names the method that panics once.
	boom string
}

func (f *faulty) spoil(commit func(c *session.Commit, real func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commit = commit
}

// failing makes the next commits fail with the errors, then work again.
func (f *faulty) failing(errs ...error) {
	f.spoil(func(_ *session.Commit, real func() error) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(errs) == 0 {
			return real()
		}
		err := errs[0]
		errs = errs[1:]
		return err
	})
}

func (f *faulty) explode(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boom = method
}

func (f *faulty) at(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boom == method {
		f.boom = ""
		panic("planted in " + method)
	}
}

func (f *faulty) Commit(ctx context.Context, c *session.Commit) error {
	f.at("Commit")
	f.mu.Lock()
	commit := f.commit
	f.mu.Unlock()
	if commit == nil {
		return f.Ledger.Commit(ctx, c)
	}
	return commit(c, func() error { return f.Ledger.Commit(ctx, c) })
}

func (f *faulty) Heads(ctx context.Context, w session.World) ([]session.Head, error) {
	f.at("Heads")
	return f.Ledger.Heads(ctx, w)
}

func (f *faulty) Unsigned(ctx context.Context, sums []content.ID) ([]session.Head, error) {
	f.at("Unsigned")
	return f.Ledger.Unsigned(ctx, sums)
}

func (f *faulty) Load(ctx context.Context, ledger string) (*session.State, error) {
	f.at("Load")
	return f.Ledger.Load(ctx, ledger)
}

func (f *faulty) Finish(ctx context.Context, d *session.TurnDone) error {
	f.at("Finish")
	return f.Ledger.Finish(ctx, d)
}

func (f *faulty) Record(ctx context.Context, t session.Turn) error {
	f.at("Record")
	return f.Ledger.Record(ctx, t)
}

func (f *faulty) Restamp(ctx context.Context, p *session.RestampPlan) error {
	f.at("Restamp")
	return f.Ledger.Restamp(ctx, p)
}

func (f *faulty) Blob(ctx context.Context, id content.ID) ([]byte, error) {
	f.at("Blob")
	return f.Ledger.Blob(ctx, id)
}

// faultyRig is a rig whose ledger can fail.
func faultyRig(t testing.TB, mode config.RolloutMode) (*rig, *faulty) {
	g := newRig(t, mode)
	f := &faulty{}
	g.options = func(o *chain.Options) { f.Ledger = o.Ledger; o.Ledger = f }
	g.restart()
	return g, f
}

// convo is a conversation as its client holds it.
type convo struct {
	g    *rig
	id   string
	msgs []string
}

func (g *rig) convo(id string) *convo { return &convo{g: g, id: id} }

// say appends a round and sends.
func (k *convo) say() session.TurnView {
	k.g.t.Helper()
	k.grow()
	return k.send()
}

func (k *convo) grow() {
	if len(k.msgs) > 0 {
		k.msgs = append(k.msgs, assistant(fmt.Sprintf("answer %d", len(k.msgs))))
	}
	k.msgs = append(k.msgs, user(fmt.Sprintf("question %d", len(k.msgs))))
}

// send sends the list as it is; what leaves must be the client's own bytes.
func (k *convo) send() session.TurnView {
	k.g.t.Helper()
	body := anthropicBody(k.msgs...)
	turn, sent := k.sendBody(body)
	if !bytes.Equal(sent, body) {
		k.g.t.Errorf("%s: sent %s\nwant %s", k.id, sent, body)
	}
	return turn
}

func (k *convo) sendBody(body []byte) (session.TurnView, []byte) {
	k.g.t.Helper()
	var header []string
	if k.id != "" {
		header = []string{sessionHeader, k.id}
	}
	sent, resp := k.g.send(anthropicPath, body, header...)
	if resp.StatusCode != 200 {
		k.g.t.Fatalf("status %d", resp.StatusCode)
	}
	return k.g.lastTurn(), sent
}

// pruned removes element i from the client's list, sends, and returns what the
// snapshot path must send: the list before.
func (k *convo) prune(i int) (whole []byte) {
	whole = anthropicBody(k.msgs...)
	k.msgs = slices.Delete(slices.Clone(k.msgs), i, i+1)
	return whole
}

// expect asserts how a turn was served, and what was noted since the last call.
func (g *rig) expect(what string, turn session.TurnView, path session.Path, gate session.Gate, causes ...session.Cause) {
	g.t.Helper()
	if turn.Path != path || turn.Gate != string(gate) {
		g.t.Errorf("%s: path %s gate %q home %s, want %s %q", what, turn.Path, turn.Gate, turn.Home, path, gate)
	}
	var want []string
	for _, c := range causes {
		want = append(want, string(c))
	}
	if got := g.takeCauses(); !slices.Equal(got, want) {
		g.t.Errorf("%s: degraded %q, want %q", what, got, want)
	}
}

func (g *rig) takeCauses() (out []string) {
	out = g.causes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.degraded = nil
	return out
}

// verifyAll verifies every ledger of the file with its turns.
func (g *rig) verifyAll() {
	g.t.Helper()
	for _, id := range ledgersOf(g.t, g.path) {
		r, err := chain.Verify(context.Background(), g.db, id, g.turnsOf(id))
		if err != nil || !r.OK() || r.Red != "" && r.Red != "no rows" {
			g.t.Errorf("verify %s: %v %+v", id, err, r)
		}
	}
}

func (g *rig) turnsOf(ledger string) (ids []int64) {
	g.t.Helper()
	db, err := sql.Open("sqlite", g.path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT id FROM turn WHERE ledger_id = ?", ledger)
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			g.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestReorder: R1, full path, re-stamp, normal again.
func TestReorder(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("reorder")
	for range 4 {
		g.expect("before", k.say(), session.PathSnapshot, session.NoGate)
	}
	k.msgs[1], k.msgs[5] = k.msgs[5], k.msgs[1]
	g.expect("reordered", k.send(), session.PathFull, session.R1, session.CauseOrder)
	g.expect("after", k.say(), session.PathSnapshot, session.NoGate)
	if h := g.head(k.id); h.Epoch != 1 || h.LastGate != "R1" || h.NeedsRestamp != "" {
		t.Errorf("head %+v", h)
	}
	g.verifyAll()
}

func (g *rig) head(id string) session.Head {
	g.t.Helper()
	heads, err := g.db.Heads(context.Background(), session.World{Signal: "x-claude-code-session-id", SessRaw: id, Lane: session.MainLane})
	if err != nil || len(heads) != 1 {
		g.t.Fatalf("heads of %s: %d, %v", id, len(heads), err)
	}
	return heads[0]
}

// TestConcurrent: two requests in flight on one branch. Neither continues the
// other: R1. An equal body is a retry, a longer or shorter one is fine.
func TestConcurrent(t *testing.T) {
	base := []string{user("q"), assistant("a")}
	x, y := append(slices.Clone(base), user("x")), append(slices.Clone(base), user("y"))
	for _, c := range []struct {
		name          string
		first, second []string
		gate          session.Gate
	}{
		{"neither", x, y, session.R1}, {"equal", x, x, session.NoGate}, {"longer", base, x, session.NoGate}, {"shorter", x, base, session.NoGate},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, config.On)
			k := g.convo("c")
			k.say()
			hold, held := make(chan struct{}), make(chan struct{}, 2)
			g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
				held <- struct{}{}
				<-hold
				io.WriteString(w, "{}")
			})
			var both sync.WaitGroup
			for _, msgs := range [][]string{c.first, c.second} {
				both.Go(func() {
					resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(msgs...), sessionHeader, "c"))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				})
				<-held
			}
			close(hold)
			both.Wait()
			g.settle()
			g.mu.Lock()
			sent, turns := g.bodies[1:], g.turns
			g.mu.Unlock()
			if !bytes.Equal(sent[0], anthropicBody(c.first...)) || !bytes.Equal(sent[1], anthropicBody(c.second...)) {
				t.Errorf("sent %q", sent)
			}
			for _, turn := range turns {
				if want := c.gate; turn.ID == 3 && turn.Gate != string(want) || turn.ID != 3 && turn.Gate != "" {
					t.Errorf("turn %d: gate %q path %s", turn.ID, turn.Gate, turn.Path)
				}
			}
			g.takeCauses()
			g.setAnswer(nil)
			k.msgs = slices.Clone(c.second)
			g.expect("after", k.say(), session.PathSnapshot, session.NoGate)
			g.verifyAll()
		})
	}
}

// TestNextBeforeBookkeeping: a client that goes on the moment its reply ends,
// with a list of its own making, races nobody.
func TestNextBeforeBookkeeping(t *testing.T) {
	g, f := faultyRig(t, config.On)
	k := g.convo("quick")
	k.say()
	hold := make(chan struct{})
	g.chain.Idle()
	f.spoil(nil)
	slow := &stuck{faulty: f, hold: hold}
	g.options = func(o *chain.Options) { f.Ledger = o.Ledger; o.Ledger = slow }
	g.restart()
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { writeEvents(w, streamed...) })
	k.msgs = append(k.msgs, assistant("a"), user("x"))
	k.post()
	k.msgs[2] = user("y") // neither continues the other
	k.post()
	close(hold)
	g.settle()
	g.expect("the second", g.lastTurn(), session.PathSnapshot, session.NoGate)
}

// TestNextBeforeTheStreamEnds: the same at the terminal event, while the
// upstream holds its stream open.
func TestNextBeforeTheStreamEnds(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("open")
	k.say()
	release := make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		writeEvents(w, streamed...)
		<-release
	})
	k.msgs = append(k.msgs, assistant("a"), user("x"))
	first, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	if err := readUntil(first.Body, "message_stop"); err != nil {
		t.Fatal(err)
	}
	g.setAnswer(nil)
	k.msgs[2] = user("y") // neither continues the other
	k.post()
	close(release)
	g.settle()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, turn := range g.turns {
		if turn.Gate != "" || turn.Path != session.PathSnapshot {
			t.Errorf("%+v", turn)
		}
	}
}

// leaving is a ledger that makes the client leave while a turn is committed.
type leaving struct {
	session.Ledger
	leave func()
}

func (l *leaving) Commit(ctx context.Context, c *session.Commit) error {
	if leave := l.leave; leave != nil {
		l.leave = nil
		leave()
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond): // room for a cancel that must not come
		}
	}
	return l.Ledger.Commit(ctx, c)
}

// TestLeavesBeforeTheCommit: a client that leaves while its turn is written is
// no fault of the ledger.
func TestLeavesBeforeTheCommit(t *testing.T) {
	g := newRig(t, config.On)
	l := &leaving{}
	g.options = func(o *chain.Options) { l.Ledger = o.Ledger; o.Ledger = l }
	g.restart()
	k := g.convo("leaves")
	k.say()
	ctx, cancel := context.WithCancel(t.Context())
	l.leave = cancel
	k.grow()
	if resp, err := faultClient(t).Do(g.request(ctx, "POST", anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)); err == nil {
		resp.Body.Close()
	}
	g.settle()
	if turn := g.lastTurn(); turn.Gate != "" || !turn.Kept {
		t.Errorf("%+v", turn)
	}
	g.expect("retry", k.send(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// post sends and reads the reply without waiting for what follows it.
func (k *convo) post() {
	k.g.t.Helper()
	resp, err := faultClient(k.g.t).Do(k.g.request(k.g.t.Context(), "POST", anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id))
	if err != nil {
		k.g.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		k.g.t.Fatal(err)
	}
}

// stuck holds up bookkeeping.
type stuck struct {
	*faulty
	hold chan struct{}
}

func (s *stuck) Finish(ctx context.Context, d *session.TurnDone) error {
	<-s.hold
	return s.faulty.Finish(ctx, d)
}

// TestDamage: what is found damaged after a restart costs the snapshot path of
// one turn and nothing else.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		cause     session.Cause // "" for what is no fault
	}{
		{"row sum", "UPDATE snap_rows SET row_sum = zeroblob(16) WHERE row_id = 2", session.CauseSum},
		{"state sum", "UPDATE snap_rows SET state_sum = zeroblob(16) WHERE row_id = 2", session.CauseSum},
		{"row column", "UPDATE snap_rows SET role = 'assistant' WHERE row_id = 1", session.CauseSum},
		{"row raw", "UPDATE snap_rows SET raw = (SELECT raw FROM snap_rows WHERE row_id = 1) WHERE row_id = 3", session.CauseSum},
		{"row dead", "UPDATE snap_rows SET active = 0 WHERE row_id = 3", session.CauseSum},
		{"row gone", "DELETE FROM snap_rows WHERE row_id = 3", session.CauseSum},
		{"rows swapped", "UPDATE snap_rows SET pos = 100 - pos", session.CauseSum},
		{"all rows gone", "DELETE FROM snap_rows", session.CauseSum},
		{"no checkpoint", "DELETE FROM ckpt", ""},
		{"no snap_rows", "DROP TABLE snap_rows", session.CauseSum},
		{"no ckpt", "DROP TABLE ckpt", ""},
		{"checkpoint of nonsense", "UPDATE ckpt SET meta_json = '{'", ""},
		{"checkpoint sum", `UPDATE ckpt SET meta_json = json_set(meta_json, '$.s4.sum', '00')`, session.CauseSum},
		{"base is ahead", "UPDATE session SET version = version + 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, config.On)
			k := g.convo("damage")
			for range 4 {
				k.say()
			}
			whole := k.prune(2)
			if turn, sent := k.sendBody(anthropicBody(k.msgs...)); !bytes.Equal(sent, whole) || turn.Path != session.PathSnapshot {
				t.Fatalf("nothing is put back: %s %s", turn.Path, sent)
			}
			g.takeCauses()
			g.close()
			g.exec(c.sql)
			g.open()
			turn := k.say() // the client's own bytes
			if c.cause != "" {
				g.expect("first", turn, session.PathFull, session.R3, c.cause)
			} else {
				g.expect("first", turn, session.PathFull, session.NoGate)
			}
			g.expect("second", k.say(), session.PathSnapshot, session.NoGate)
			g.restart()
			g.expect("after a restart", k.say(), session.PathSnapshot, session.NoGate)
			g.verifyAll()
		})
	}
}

// TestLostIndexTables: two of the four tables hold nothing that serving needs;
// they are made anew and what was put back stays put back.
func TestLostIndexTables(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("lost")
	for range 4 {
		k.say()
	}
	k.prune(2)
	k.sendBody(anthropicBody(k.msgs...))
	g.close()
	g.exec("DROP TABLE l1_world")
	g.exec("DROP TABLE snap_meta")
	g.open()
	turn, sent := k.sendBody(anthropicBody(k.msgs...))
	g.expect("first", turn, session.PathSnapshot, session.NoGate)
	if !bytes.Contains(sent, []byte("question 2")) {
		t.Errorf("sent %s", sent)
	}
	g.verifyAll()
}

func (g *rig) exec(statement string, args ...any) {
	g.t.Helper()
	db, err := sql.Open("sqlite", g.path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		g.t.Fatal(err)
	}
}

// TestWrongBlob: the bytes of an element that is put back are not what their
// hash says. The turn goes full, the session is re-stamped without the element,
// the next turn is normal.
func TestWrongBlob(t *testing.T) {
	for _, c := range []struct{ name, sql string }{
		{"other bytes", "UPDATE blob SET data = (SELECT data FROM blob WHERE hash = (SELECT blob FROM element WHERE n = 1)) WHERE hash = (SELECT blob FROM element WHERE n = 3)"},
		{"no bytes", "DELETE FROM blob WHERE hash = (SELECT blob FROM element WHERE n = 3)"},
		{"garbage", "UPDATE blob SET data = x'00ff00ff' WHERE hash = (SELECT blob FROM element WHERE n = 3)"},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restart %t", c.name, restart), func(t *testing.T) {
				g := newRig(t, config.On)
				k := g.convo("blob")
				for range 4 {
					k.say()
				}
				k.prune(2)
				k.sendBody(anthropicBody(k.msgs...))
				g.close()
				g.exec(c.sql)
				g.open()
				if !restart {
					g.setMode(config.Shadow) // loads the session without the damaged bytes
					k.grow()
					k.sendBody(anthropicBody(k.msgs...))
					g.setMode(config.On)
				}
				g.takeCauses()
				turn := k.say()
				if turn.Path != session.PathFull || turn.Gate != string(session.R3) || len(g.takeCauses()) != 1 {
					t.Errorf("first: %+v", turn)
				}
				if !turn.Kept {
					t.Error("the turn was not recorded")
				}
				g.expect("second", k.say(), session.PathSnapshot, session.NoGate)
				g.restart()
				g.expect("after a restart", k.say(), session.PathSnapshot, session.NoGate)
			})
		}
	}
}

// TestCommitFails: the client's bytes leave, the step down is recorded, the
// next turn catches up.
func TestCommitFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		path  session.Path
		gate  session.Gate
		cause []session.Cause
	}{
		{"an error", []error{errors.New("disk on fire")}, session.PathFull, session.R3, []session.Cause{session.CauseStorage}},
		{"read back", []error{session.ErrReadBack}, session.PathFull, session.R3, []session.Cause{session.CauseReadBack}},
		{"full", []error{fmt.Errorf("commit: %w", session.ErrFull)}, session.PathFull, session.NoGate, []session.Cause{session.CauseLedgerFull}},
		{"stale once", []error{session.ErrStale}, session.PathSnapshot, session.NoGate, nil},
		{"stale twice", []error{session.ErrStale, session.ErrStale}, session.PathFull, session.NoGate, []session.Cause{session.CauseStale}},
		{"stale, then an error", []error{session.ErrStale, errors.New("disk on fire")}, session.PathFull, session.R3, []session.Cause{session.CauseStorage}},
	} {
		for _, at := range []string{"first turn", "later", "pruned"} {
			t.Run(c.name+" "+at, func(t *testing.T) {
				g, f := faultyRig(t, config.On)
				k := g.convo("fails")
				if at != "first turn" {
					for range 3 {
						k.say()
					}
				}
				whole := []byte(nil)
				k.grow()
				if at == "pruned" {
					whole = k.prune(2)
				}
				f.failing(c.errs...)
				body := anthropicBody(k.msgs...)
				turn, sent := k.sendBody(body)
				want := body
				if whole != nil && c.path == session.PathSnapshot {
					want = whole
				}
				if !bytes.Equal(sent, want) {
					t.Errorf("sent %s\nwant %s", sent, want)
				}
				g.expect("failing", turn, c.path, c.gate, c.cause...)
				rec, err := g.db.Turn(t.Context(), turn.ID)
				if err != nil || rec.Kept != (c.path == session.PathSnapshot) || rec.Path != c.path || rec.Done == nil || rec.Done.Status != 200 {
					t.Errorf("the turn's row: %+v, %v", rec, err)
				}
				if at == "pruned" {
					return
				}
				g.expect("next", k.say(), session.PathSnapshot, session.NoGate)
				if n := len(k.msgs); g.head(k.id).ListLen != n {
					t.Errorf("the list has %d elements, want %d", g.head(k.id).ListLen, n)
				}
				g.verifyAll()
			})
		}
	}
}

// TestReadBackAfterTheFact: what was committed does not read back the same,
// but is durable: the client's retry and next turn find it.
func TestReadBackAfterTheFact(t *testing.T) {
	g, f := faultyRig(t, config.On)
	k := g.convo("readback")
	k.say()
	f.spoil(func(_ *session.Commit, real func() error) error { return errors.Join(real(), session.ErrReadBack) })
	g.expect("failing", k.say(), session.PathFull, session.R3, session.CauseReadBack)
	f.spoil(nil)
	k.send()
	g.expect("next", k.say(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// TestSlow: more than 200 ms behind the write lock is R3 for the turn alone;
// half of it is not, nor is first sight.
func TestSlow(t *testing.T) {
	g, f := faultyRig(t, config.On)
	// The time at the lock is made up, so that no machine is too slow for this.
	took := func(ms time.Duration) func(c *session.Commit, real func() error) error {
		return func(c *session.Commit, real func() error) error {
			start := time.Now()
			err := real()
			c.Waited = time.Since(start) - ms*time.Millisecond
			return err
		}
	}
	k := g.convo("slow")
	f.spoil(took(2 * session.SlowCommitMs))
	g.expect("first sight", k.say(), session.PathSnapshot, session.NoGate)
	turn := k.say()
	g.expect("slow", turn, session.PathFull, session.R3, session.CauseSlow)
	if rec, err := g.db.Turn(t.Context(), turn.ID); err != nil || rec.Path != session.PathFull || rec.Gate != string(session.R3) {
		t.Errorf("the slow turn is recorded as %+v, %v", rec, err)
	}
	f.spoil(nil)
	g.expect("next", k.say(), session.PathSnapshot, session.NoGate)
	f.spoil(took(session.SlowCommitMs / 2))
	g.expect("in time", k.say(), session.PathSnapshot, session.NoGate)
	if h := g.head("slow"); h.Epoch != 0 {
		t.Errorf("re-stamped: %+v", h)
	}
	g.verifyAll()
}

// TestPanics: a panic anywhere below the chain costs at most this turn's record;
// the client sees nothing of it and no lock stays behind.
func TestPanics(t *testing.T) {
	for _, method := range []string{"Commit", "Heads", "Load", "Unsigned", "Finish", "Record", "Restamp", "Blob"} {
		t.Run(method, func(t *testing.T) {
			g, f := faultyRig(t, config.On)
			k := g.convo("panic")
			for range 3 {
				k.say()
			}
			f.explode(method)
			switch method {
			case "Unsigned":
				k = g.convo("")
			case "Record":
				g.send("/v1/messages/count_tokens", anthropicBody(user("n")))
			case "Restamp", "Blob":
				k.msgs = slices.Insert(k.msgs, 1, user("inserted"))
			case "Heads", "Load":
				g.restart()
			}
			k.say()
			f.mu.Lock()
			boom := f.boom
			f.mu.Unlock()
			if boom != "" {
				t.Fatalf("%s was never called", boom)
			}
			k.say()
			g.takeCauses()
			want := session.PathSnapshot
			if k.id == "" {
				want = session.PathFull
			}
			g.expect("afterwards", k.say(), want, session.NoGate)
			g.verifyAll()
			if n := g.chain.Status().InFlight; n != 0 {
				t.Errorf("%d in flight", n)
			}
		})
	}
}

// TestBreaker: two faults in a row open it, twenty turns go full, one probes,
// it closes.
func TestBreaker(t *testing.T) {
	for _, kind := range []string{"reorder", "commit"} {
		t.Run(kind, func(t *testing.T) {
			g, f := faultyRig(t, config.On)
			k := g.convo("breaker")
			for range 4 {
				k.say()
			}
			for i := range 2 {
				if kind == "reorder" {
					k.msgs[1], k.msgs[5] = k.msgs[5], k.msgs[1]
					g.expect("fault", k.send(), session.PathFull, session.R1, session.CauseOrder)
					continue
				}
				f.failing(errors.New("disk on fire"))
				g.expect(fmt.Sprint("fault ", i), k.say(), session.PathFull, session.R3, session.CauseStorage)
			}
			f.spoil(nil)
			for i := range 20 {
				if i == 10 {
					g.restart()
				}
				turn := k.say()
				g.expect(fmt.Sprint("open, turn ", i), turn, session.PathFull, session.NoGate)
				if turn.Home != session.HomeShadow && turn.Home != session.HomeRestamp {
					t.Errorf("open, turn %d: home %s", i, turn.Home)
				}
			}
			g.expect("probe", k.say(), session.PathSnapshot, session.NoGate)
			if h := g.head(k.id); h.Breaker.State != session.BreakerClosed {
				t.Errorf("after the probe: %+v", h.Breaker)
			}
			g.expect("closed", k.say(), session.PathSnapshot, session.NoGate)
			g.verifyAll()
		})
	}
}

// TestBypass: verbatim while it is on, aligned and re-stamped after.
func TestBypass(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("bypass")
	for range 3 {
		k.say()
	}
	before := counts(t, g.path)
	g.bypass(true)
	for range 3 {
		g.expect("on", k.say(), session.PathVerbatim, session.NoGate)
	}
	if turn := g.lastTurn(); turn.Home != session.HomePass || turn.Kept {
		t.Errorf("%+v", turn)
	}
	after := counts(t, g.path)
	if after["turn"] != before["turn"]+3 {
		t.Errorf("%d turn rows, want %d", after["turn"], before["turn"]+3)
	}
	for _, m := range []map[string]int{before, after} {
		delete(m, "turn")
		delete(m, "tally") // counters of the pages
	}
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("bypassed turns changed the ledger: %v, before %v", after, before)
	}
	g.bypass(false)
	g.expect("back", k.say(), session.PathFull, session.NoGate)
	if turn := g.lastTurn(); turn.Home != session.HomeRestamp {
		t.Errorf("back from bypass the home is %s", turn.Home)
	}
	g.expect("off again", k.say(), session.PathSnapshot, session.NoGate)
	if n := g.head(k.id).ListLen; n != len(k.msgs) {
		t.Errorf("the list has %d elements, want %d", n, len(k.msgs))
	}
	g.verifyAll()
}

func (g *rig) bypass(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cfg := *g.cfg
	cfg.Bypass = on
	g.cfg = &cfg
}

// TestMemoryCap: with hardly any memory every turn reads the ledger again and
// the bytes are the same; what is cached stays under the cap.
func TestMemoryCap(t *testing.T) {
	const limit = 64 << 10
	g := newRig(t, config.On)
	g.options = func(o *chain.Options) { o.Memory = limit }
	g.restart()
	const sessions = 200
	talks := make([]*convo, sessions)
	wholes := make([][]byte, sessions)
	for i := range talks {
		talks[i] = g.convo(fmt.Sprint("m", i))
		for range 3 {
			talks[i].say()
		}
	}
	for i, k := range talks {
		wholes[i] = k.prune(2)
		if _, sent := k.sendBody(anthropicBody(k.msgs...)); !bytes.Equal(sent, wholes[i]) {
			t.Fatalf("session %d: sent %s\nwant %s", i, sent, wholes[i])
		}
		if n := g.chain.Status().MemoryBytes; n > limit {
			t.Fatalf("%d bytes cached, the cap is %d", n, limit)
		}
	}
	g.expect("all", g.lastTurn(), session.PathSnapshot, session.NoGate)
}

// bodyOf is a request of which everything is chosen.
func bodyOf(tools bool, extra string, msgs ...string) []byte {
	head := `{"model":"claude-sonnet-4-5",`
	if tools {
		head += `"tools":[{"name":"bash","input_schema":{"type":"object"}}],`
	}
	return []byte(head + extra + `"messages":[` + strings.Join(msgs, ",") + `]}`)
}

// TestSideRequests: titles and the like share the id and the first message and
// leave the session alone.
func TestSideRequests(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("side")
	k.say()
	k.say()
	before := g.head(k.id)
	for name, body := range map[string][]byte{
		"title":  bodyOf(false, `"max_tokens":4096,"output_config":{"format":{"type":"json_schema","schema":{}}},`, k.msgs[0]),
		"topic":  bodyOf(false, `"max_tokens":1,`, user("count this")),
		"prefix": bodyOf(false, `"max_tokens":200,`, k.msgs...),
	} {
		turn, sent := k.sendBody(body)
		if turn.Home != session.HomeSide || !bytes.Equal(sent, body) || turn.Gate != "" {
			t.Errorf("%s: %+v", name, turn)
		}
	}
	if after := g.head(k.id); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the session moved:\n%+v\n%+v", after, before)
	}
	g.expect("next", k.say(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// TestToolsBranch: a request that offers no tools never takes a branch that
// does, nor the other way round, whatever they share.
func TestToolsBranch(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("tools")
	k.say()
	k.say()
	without := bodyOf(false, `"max_tokens":4096,`, k.msgs...)
	if turn, sent := k.sendBody(without); !bytes.Equal(sent, without) || turn.Gate != "" {
		t.Errorf("%+v", turn)
	}
	heads, err := g.db.Heads(t.Context(), session.World{Signal: "x-claude-code-session-id", SessRaw: "tools", Lane: session.MainLane})
	if err != nil || len(heads) != 2 || heads[0].Tools == heads[1].Tools || heads[1].Parent != heads[0].Ledger {
		t.Fatalf("%+v, %v", heads, err)
	}
	if heads[0].ListLen != 3 {
		t.Errorf("the branch with tools moved: %+v", heads[0])
	}
	g.expect("next", k.say(), session.PathSnapshot, session.NoGate)
	if turn := g.lastTurn(); turn.Session != heads[0].Ledger {
		t.Errorf("the next turn went to %s", turn.Session)
	}
	g.verifyAll()
}

// TestUnsigned: an unsigned list extends exactly one known one or starts its
// own ledger.
func TestUnsigned(t *testing.T) {
	g := newRig(t, config.On)
	play := func(msgs ...string) session.TurnView {
		k := g.convo("")
		k.msgs = msgs
		turn := k.send()
		g.expect("unsigned", turn, session.PathFull, session.NoGate)
		if turn.Home != session.HomeUnsigned {
			t.Errorf("home %s", turn.Home)
		}
		return turn
	}
	a := play(user("q"))
	if b := play(user("q")); b.Session != a.Session {
		t.Error("a retry started a ledger")
	}
	a2 := play(user("q"), assistant("a"), user("r"))
	if a2.Session != a.Session {
		t.Error("an extension started a ledger")
	}
	b := play(user("q"), assistant("b"), user("r"))
	if b.Session == a.Session {
		t.Error("a divergence mixed in")
	}
	c := play(user("q"), assistant("a"))
	if c.Session == a.Session {
		t.Error("a rewind mixed in")
	}
	if again := play(user("q"), assistant("a"), user("r"), assistant("s"), user("t")); again.Session != a.Session {
		t.Error("the longest list was not taken")
	}
	// Two ledgers with one list: rewound to [q], started anew twice.
	d := play(user("q"))
	if d.Session == a.Session {
		t.Error("a rewind to the start mixed in")
	}
	g.exec("UPDATE session SET list_sum = (SELECT list_sum FROM session WHERE ledger_id = ?1), list_len = 1, list_turn = (SELECT list_turn FROM session WHERE ledger_id = ?1) WHERE ledger_id = ?2", d.Session, b.Session)
	tie := play(user("q"), assistant("z"), user("y"))
	if tie.Session == d.Session || tie.Session == b.Session {
		t.Error("a tie was decided")
	}
	if n := counts(t, g.path); n["l1_world"] != 0 || n["snap_rows"] != 0 {
		t.Errorf("unsigned sessions have %v", n)
	}
}

// TestLongIDs: an id longer than any real one is taken whole up to a bound;
// past it there is no id, never a shortened one.
func TestLongIDs(t *testing.T) {
	g := newRig(t, config.On)
	long := strings.Repeat("x", 1<<10)
	g.expect("whole", g.convo(long).say(), session.PathSnapshot, session.NoGate)
	if g.head(long).SessRaw != long {
		t.Error("the id was shortened")
	}
	if turn := g.convo(long + "y").say(); turn.Home != session.HomeUnsigned {
		t.Errorf("past the bound: home %s", turn.Home)
	}
	body := anthropicBody(user("lane"))
	g.send(anthropicPath, body, sessionHeader, "lanes", "X-Claude-Code-Agent-Id", long+"y")
	if turn := g.lastTurn(); turn.Home != session.HomeUnsigned {
		t.Errorf("a lane past the bound: home %s", turn.Home)
	}
}

// TestSameStart: sessions with the same first messages never mix.
func TestSameStart(t *testing.T) {
	g := newRig(t, config.On)
	one, two := g.convo("one"), g.convo("two")
	for range 3 {
		a, b := one.say(), two.say()
		if a.Session == b.Session {
			t.Fatal("one ledger for two sessions")
		}
	}
	whole := one.prune(2)
	if _, sent := one.sendBody(anthropicBody(one.msgs...)); !bytes.Equal(sent, whole) {
		t.Errorf("sent %s", sent)
	}
	two.say()
	two.prune(1)
	if _, sent := two.sendBody(anthropicBody(two.msgs...)); bytes.Equal(sent, whole) {
		t.Error("the other session's view was sent")
	}
	lane := g.convo("one")
	lane.msgs = []string{user("question 0")}
	sent, _ := g.send(anthropicPath, anthropicBody(lane.msgs...), sessionHeader, "one", "X-Claude-Code-Agent-Id", "a1")
	if turn := g.lastTurn(); !bytes.Equal(sent, anthropicBody(lane.msgs...)) || turn.Home != session.HomeSubagent {
		t.Errorf("subagent: %+v", turn)
	}
	g.verifyAll()
}

// TestSlowWithRemoved: a turn that leaves the snapshot path behind its commit is
// recorded as it left: replay gives back the client's own list, not the view
// with the removed element in it.
func TestSlowWithRemoved(t *testing.T) {
	g, f := faultyRig(t, config.On)
	k := g.convo("slow removed")
	for range 3 {
		k.say()
	}
	k.msgs = slices.Delete(k.msgs, 1, 2)
	g.send(anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)
	if turn := g.lastTurn(); turn.Path != session.PathSnapshot || turn.Bytes.Out <= turn.Bytes.In {
		t.Fatalf("nothing was put back: %+v", turn)
	}
	f.spoil(func(c *session.Commit, real func() error) error {
		err := real()
		c.Waited = -time.Hour
		return err
	})
	turn := k.say()
	g.expect("slow", turn, session.PathFull, session.R3, session.CauseSlow)
	sent := anthropicBody(k.msgs...)
	for _, part := range []chain.Part{chain.Inbound, chain.Outbound} {
		if got, err := chain.Replay(t.Context(), g.db, turn.ID, part); err != nil || !bytes.Equal(stripped(got), sent) {
			t.Errorf("%s: %v\n%s\nwant %s", part, err, got, sent)
		}
	}
}
