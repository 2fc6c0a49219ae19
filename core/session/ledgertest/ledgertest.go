// Package ledgertest holds every implementation of session.Ledger to one
// suite. Its script plans with the real planner, so what is stored here is what
// the chain stores.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"holdfast/core/session"
)

// Run holds a ledger to the contract. open returns an empty one and closes it
// when the test ends.
func Run(t *testing.T, open func(t *testing.T) session.Ledger) {
	for _, c := range [...]struct {
		name string
		test func(*testing.T, session.Ledger)
	}{
		{"commit", testCommit}, {"stale", testStale}, {"known cause", testKnownCause}, {"full", testFull}, {"dangling blob", testDangling},
		{"edits", testEdits}, {"reactivate", testReactivate}, {"reblob", testReblob}, {"lists", testLists},
		{"media", testMedia},
		{"finish", testFinish}, {"finish sets the session", testFinishHead}, {"record", testRecord},
		{"in flight", testInFlight},
		{"restamp", testRestamp}, {"restamp archives", testRestampRemoved}, {"restamp stale", testRestampStale}, {"restamp needed stays", testNeedsRestamp},
		{"without rows", testWithoutRows},
		{"fold", testFold}, {"fold cause", testFoldCause}, {"fold restamp", testFoldRestamp}, {"overlay", testOverlay},
		{"inherit", testInherit}, {"echo", testEcho}, {"view", testViewOf}, {"stored", testStored},
		{"heads", testHeads}, {"unsigned", testUnsigned}, {"unknown", testUnknown}, {"settings", testSettings},
		{"degrade", testDegrade},
		{"together", testTogether},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Diff says how a loaded state differs from the planned one; "" when it does
// not. Totals are added by Finish and not planned; of Red only whether it is
// set counts.
func Diff(got, want *session.State) string {
	a, b := *got, *want
	a.Head.Totals, b.Head.Totals = session.Totals{}, session.Totals{}
	if (a.Red == "") != (b.Red == "") {
		return fmt.Sprintf("red %q, want %q", a.Red, b.Red)
	}
	for _, f := range [...]struct {
		name string
		a, b any
	}{{"head", a.Head, b.Head}, {"kernel", sealed(&a), sealed(&b)}, {"repeats", a.Repeats, b.Repeats},
		{"states of elements", a.Stands, b.Stands}} {
		if !reflect.DeepEqual(f.a, f.b) && fmt.Sprint(f.a) != fmt.Sprint(f.b) { // nil and empty are one
			return fmt.Sprintf("%s\n%+v, want\n%+v", f.name, f.a, f.b)
		}
	}
	if d := diffAt(a.List, b.List); d != "" {
		return "list: " + d
	}
	if a.Red != "" {
		return ""
	}
	return prefixed("rows: ", diffAt(a.Rows, b.Rows))
}

// sealed is the kernel's state as a person can compare it.
func sealed(st *session.State) string {
	b, _ := st.Kernel.Seal()
	return string(b)
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

func diffAt[T comparable](got, want []T) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d of them, want %d", len(got), len(want))
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// same loads the script's session and compares.
func same(t *testing.T, l session.Ledger, s *Script) *session.State {
	t.Helper()
	st, err := l.Load(context.Background(), s.State.Head.Ledger)
	must(t, err)
	if d := Diff(st, s.State); d != "" {
		t.Fatalf("loaded state: %s", d)
	}
	return st
}

// play commits n turns.
func play(t *testing.T, l session.Ledger, s *Script, n int) {
	t.Helper()
	for range n {
		must(t, l.Commit(context.Background(), s.Turn(l.NextTurn())))
	}
}
