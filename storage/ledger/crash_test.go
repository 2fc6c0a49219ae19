package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// fault is what happens at the k-th statement on a writing connection.
type fault int

const (
	failing     fault = iota // the statement returns an error and is not executed
	crashBefore              // the file as it is before the statement
	crashAfter               // the file as it is after it
)

func (f fault) String() string { return [...]string{"error", "crash before", "crash after"}[f] }

var errPlanted = errors.New("planted")

// faults counts the statements of writing connections and acts at one. It
// stands between the ledger and the driver.
type faults struct {
	mu    sync.Mutex
	armed bool
	at, n int
	kind  fault
	path  string // of the database
	clone string // where a crash leaves the file
	hit   string // the statement it happened at
}

func (f *faults) wrap(c driver.Connector) driver.Connector { return faultConnector{c, f} }

// arm makes the fault happen at statement k from now on; k < 0 only counts.
func (f *faults) arm(k int, kind fault, clone string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.n, f.kind, f.clone, f.hit = true, k, 0, kind, clone, ""
}

func (f *faults) disarm() (n int, hit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.n, f.hit
}

// around runs one statement.
func (f *faults) around(q string, run func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return run()
	}
	k := f.n
	f.n++
	if k != f.at {
		return run()
	}
	f.hit = q
	switch f.kind {
	case failing:
		return errPlanted
	case crashBefore:
		return errors.Join(cloneFile(f.path, f.clone), run())
	}
	return errors.Join(run(), cloneFile(f.path, f.clone))
}

// still copies the file between two statements: the keeper may have found it
// idle and be writing the WAL back.
func (f *faults) still(to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloneFile(f.path, to)
}

// cloneFile copies the database and its WAL as they are now. Nothing writes
// meanwhile: statements pass one at a time.
func cloneFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	for _, suffix := range [...]string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

type faultConnector struct {
	driver.Connector
	f *faults
}

func (c faultConnector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultConn{raw, c.f}, nil
}

type faultConn struct {
	driver.Conn
	f *faults
}

func (c *faultConn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, q)
	if err != nil {
		return nil, err
	}
	return &faultStmt{s, c.f, q}, nil
}

type faultStmt struct {
	driver.Stmt
	f *faults
	q string
}

func (s *faultStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	if s.q == "ROLLBACK" || strings.HasPrefix(s.q, "SELECT count(*) FROM sqlite") {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	}
	err = s.f.around(s.q, func() error {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *faultStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.f.around(s.q, func() error {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return rows, err
}

// act is one thing to be cut off: what it does to a ledger, and the state of
// the script before and after it.
type act struct {
	do            func(*DB) error
	before, after *ledgertest.Script
	// check looks at a reopened file beyond the state: landed says whether the
	// act is in it.
	check func(t *testing.T, d *DB, landed bool)
}

// stage makes a ledger with some history and hands out an act on it.
type stage func(t *testing.T, d *DB) act

func commitStage(plan func(s *ledgertest.Script, id int64) *session.Commit) stage {
	return func(t *testing.T, d *DB) act {
		s := ledgertest.NewScript("crash")
		for range 4 {
			must(t, d.Commit(context.Background(), s.Turn(d.NextTurn())))
		}
		before := s.Clone()
		c := plan(s, d.NextTurn())
		return act{do: func(d *DB) error { return d.Commit(context.Background(), c) }, before: before, after: s,
			check: func(t *testing.T, d *DB, landed bool) {
				_, err := d.Turn(context.Background(), c.Turn.ID)
				if landed != (err == nil) {
					t.Errorf("the turn: %v, landed %v", err, landed)
				}
			}}
	}
}

// foldStage cuts off what the model asks for in the middle of a turn. The second
// fold is cut, so that a carrier goes as well where it takes the first one in.
func foldStage(plan func(s *ledgertest.Script, from, to int) *session.Commit) stage {
	return func(t *testing.T, d *DB) act {
		s := ledgertest.NewScript("fold")
		for range 20 {
			must(t, d.Commit(context.Background(), s.Turn(d.NextTurn())))
		}
		must(t, d.Commit(context.Background(), s.Fold(2, 12)))
		before := s.Clone()
		c := plan(s, 14, 22)
		return act{do: func(d *DB) error { return d.Commit(context.Background(), c) }, before: before, after: s,
			check: func(t *testing.T, d *DB, landed bool) {
				_, found, err := d.Outcome(context.Background(), c.Head.Ledger, c.Cause)
				must(t, err)
				if found != landed {
					t.Errorf("the outcome is there: %v, landed %v", found, landed)
				}
			}}
	}
}

// roundsStage cuts off a turn that finds the element of private rounds.
func roundsStage(t *testing.T, d *DB) act {
	a := commitStage(func(s *ledgertest.Script, id int64) *session.Commit {
		c := s.Turn(id)
		c.Echoes = []session.Echo{{N: 3, Rounds: []byte(`["round"]`)}}
		return c
	})(t, d)
	turn := a.check
	a.check = func(t *testing.T, d *DB, landed bool) {
		turn(t, d, landed)
		kept, err := d.Echoes(context.Background(), a.after.State.Head.Ledger)
		if must(t, err); (string(kept[3]) == `["round"]`) != landed {
			t.Errorf("private rounds %v, landed %v", kept, landed)
		}
	}
	return a
}

func firstStage(t *testing.T, d *DB) act {
	s := ledgertest.NewScript("first")
	before := s.Clone()
	c := s.Turn(d.NextTurn())
	return act{do: func(d *DB) error { return d.Commit(context.Background(), c) }, before: before, after: s}
}

func restampStage(t *testing.T, d *DB) act {
	s := ledgertest.NewScript("restamp")
	for range 70 {
		must(t, d.Commit(context.Background(), s.Turn(d.NextTurn())))
	}
	ns := make([]int64, len(s.State.List))
	for i, e := range s.State.List {
		ns[i] = e.N
	}
	elems, err := d.Elements(context.Background(), s.State.Head.Ledger, ns)
	must(t, err)
	before := s.Clone()
	p := s.Restamp(elems)
	return act{do: func(d *DB) error { return d.Restamp(context.Background(), p) }, before: before, after: s}
}

func finishStage(t *testing.T, d *DB) act {
	s := ledgertest.NewScript("finish")
	c := s.Turn(d.NextTurn())
	must(t, d.Commit(context.Background(), c))
	s.State.Head.LastSeen += 5
	before := s.Clone()
	before.State.Head.LastSeen -= 5
	done := &session.TurnDone{ID: c.Turn.ID, Ledger: c.Head.Ledger, FinishedAt: s.State.Head.LastSeen, Status: 200,
		Response: []byte("reply"), Verdict: session.Drift, VerdictWhy: "numbers"}
	return act{do: func(d *DB) error { return d.Finish(context.Background(), done) }, before: before, after: s,
		check: func(t *testing.T, d *DB, landed bool) {
			rec, err := d.Turn(context.Background(), c.Turn.ID)
			must(t, err)
			_, err = d.Response(context.Background(), c.Turn.ID)
			st, lerr := d.Load(context.Background(), c.Head.Ledger)
			must(t, lerr)
			ev, _ := d.Evidence(context.Background())
			if got := [...]bool{rec.Done != nil, err == nil, st.Head.Totals.Turns == 1,
				ev.Drift["numbers"] == 1}; got != [...]bool{landed, landed, landed, landed} {
				t.Errorf("turn, response, totals, evidence: %v, want all %v", got, landed)
			}
		}}
}

// TestEveryStatement cuts off a commit of each kind, a re-stamp and a finish at
// every statement they make, in each of three ways.
func TestEveryStatement(t *testing.T) {
	for name, s := range map[string]stage{
		"turn":    commitStage((*ledgertest.Script).Turn),
		"retry":   commitStage((*ledgertest.Script).Retry),
		"replace": commitStage(func(s *ledgertest.Script, id int64) *session.Commit { return s.Replace(id, 3) }),
		"rewind":  commitStage(func(s *ledgertest.Script, id int64) *session.Commit { return s.Rewind(id, 3) }),
		"full": commitStage(func(s *ledgertest.Script,
			id int64) *session.Commit {
			c := s.Turn(id)
			c.Full = true
			return c
		}),
		"fold": foldStage((*ledgertest.Script).Fold), "fold in a fold": foldStage(func(s *ledgertest.Script, from, to int) *session.Commit {
			return s.Nest(1, to+8)
		}),
		"private rounds": roundsStage, "first": firstStage, "restamp": restampStage, "finish": finishStage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tpl := play(t, s)
			step := cutEvery * max(1, tpl.n/60) // a re-stamp repeats one statement hundreds of times
			for _, kind := range [...]fault{failing, crashBefore, crashAfter} {
				for k := 0; k < tpl.n; k++ {
					if k%step == 0 || k%cutEvery == 0 && (k < 12 || k >= tpl.n-12) { // the flip is at the end
						cutOff(t, &tpl, k, kind)
					}
				}
			}
		})
	}
}

// unsynced opens a ledger that never waits for the disk: a clone sees what was
// written, synced or not.
func unsynced(t *testing.T, path string, opts Options) *DB {
	t.Helper()
	d := openAt(t, path, opts)
	must(t, d.w.once(context.Background(), "PRAGMA synchronous = OFF"))
	return d
}

// template is a stage played once; every cut starts from a copy of its file.
type template struct {
	act
	path string
	n    int // statements of the act
}

func play(t *testing.T, s stage) template {
	t.Helper()
	tpl := template{path: filepath.Join(t.TempDir(), "template.db")}
	first := &faults{path: filepath.Join(t.TempDir(), "ledger.db")}
	tpl.act = s(t, unsynced(t, first.path, Options{wrap: first.wrap}))
	must(t, first.still(tpl.path))
	live, f := tpl.copy(t)
	f.arm(-1, failing, "")
	must(t, tpl.do(live))
	tpl.n, _ = f.disarm()
	return tpl
}

func (tpl *template) copy(t *testing.T) (*DB, *faults) {
	t.Helper()
	f := &faults{path: filepath.Join(t.TempDir(), "ledger.db")}
	must(t, cloneFile(tpl.path, f.path))
	d := unsynced(t, f.path, Options{wrap: f.wrap})
	d.now = paced()
	return d, f
}

// paced is a clock by which every second look finds holdFor gone: what is done in
// chunks takes the same statements each time, however slow the machine is.
func paced() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.UnixMilli(0).Add(time.Duration(looks.Add(1)) * holdFor / 2) }
}

// cut runs the act with a fault at statement k and returns the file as the
// fault left it, or the live ledger and the error.
func (tpl *template) cut(t *testing.T, k int, kind fault) (*DB, error) {
	t.Helper()
	d, f := tpl.copy(t)
	clone := filepath.Join(t.TempDir(), "clone.db")
	f.arm(k, kind, clone)
	err := tpl.do(d)
	_, hit := f.disarm()
	t.Logf("at %.60q", hit)
	if kind == failing {
		return d, err
	}
	must(t, err)
	return unsynced(t, clone, Options{}), nil
}

func cutOff(t *testing.T, tpl *template, k int, kind fault) {
	t.Run(fmt.Sprintf("%v at %d", kind, k), func(t *testing.T) {
		d, err := tpl.cut(t, k, kind)
		if kind == failing {
			recovers(t, d, tpl.act, err)
			return
		}
		stands(t, d, tpl.act)
	})
}

// recovers: after an error the live ledger is as before, or the act landed (an
// error after the commit point); it goes on working, and the act succeeds.
func recovers(t *testing.T, d *DB, a act, err error) {
	if err != nil && !errors.Is(err, errPlanted) {
		t.Fatalf("got %v, want the planted error", err)
	}
	landed := stands(t, d, a)
	if err == nil && !landed {
		t.Error("no error, and not there")
	}
	if !landed {
		must(t, a.do(d))
	}
	if !stands(t, d, a) {
		t.Error("done again, and not there")
	}
}

// stands: the file verifies, and its state is the one before or the one after.
func stands(t *testing.T, d *DB, a act) (landed bool) {
	t.Helper()
	sound(t, d)
	st, err := d.Load(context.Background(), a.after.State.Head.Ledger)
	switch {
	case errors.Is(err, session.ErrUnknown) && a.before.State.Head.ListTurn == 0: // not created yet
	case err != nil:
		t.Fatal(err)
	default:
		after := ledgertest.Diff(st, a.after.State)
		if landed = after == ""; !landed {
			if before := ledgertest.Diff(st, a.before.State); before != "" {
				t.Errorf("neither before: %s\nnor after: %s", before, after)
			}
		}
	}
	if a.check != nil {
		a.check(t, d, landed)
	}
	return landed
}

// TestEveryStatementOfDelete: a deletion cut off is finished by the next open.
func TestEveryStatementOfDelete(t *testing.T) {
	s := func(t *testing.T, d *DB) act {
		gone, stays := ledgertest.NewScript("gone"), ledgertest.NewScript("stays")
		for range 3 {
			must(t, d.Commit(context.Background(), gone.Turn(d.NextTurn())))
			must(t, d.Commit(context.Background(), stays.Turn(d.NextTurn())))
		}
		return act{do: func(d *DB) error { return d.Delete(context.Background(), gone.State.Head.Ledger) }, before: gone,
			after: stays}
	}
	tpl := play(t, s)
	for _, kind := range [...]fault{crashBefore, crashAfter} {
		for k := 0; k < tpl.n; k += cutEvery {
			t.Run(fmt.Sprintf("%v at %d", kind, k), func(t *testing.T) {
				got, _ := tpl.cut(t, k, kind)
				sound(t, got)
				if st, err := got.Load(context.Background(), tpl.before.State.Head.Ledger); err == nil {
					if d := ledgertest.Diff(st, tpl.before.State); d != "" {
						t.Errorf("half deleted: %s", d)
					}
				} else if !errors.Is(err, session.ErrUnknown) {
					t.Error(err)
				}
				st, err := got.Load(context.Background(), tpl.after.State.Head.Ledger)
				must(t, err)
				if d := ledgertest.Diff(st, tpl.after.State); d != "" {
					t.Errorf("the other session: %s", d)
				}
			})
		}
	}
}
