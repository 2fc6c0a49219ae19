package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"holdfast/core/kv"
	"holdfast/storage/durable"
	"holdfast/storage/faultfs"
)

// cutActs are the changes a tier can be cut off in. Before each it holds two
// conversations of 512 tokens; kept says how much of the first must be there
// whatever happens: a stop may lose the turn under way and nothing else.
func cutActs() map[string]struct {
	do   func(*lab) error
	kept int
} {
	ctx := context.Background()
	return map[string]struct {
		do   func(*lab) error
		kept int
	}{
		"growth":   {func(l *lab) error { _, err := l.spill(0, talk(1, 900)); return err }, 512},
		"new":      {func(l *lab) error { _, err := l.spill(2, talk(3, 300)); return err }, 512},
		"tail":     {func(l *lab) error { _, err := l.spill(0, talk(1, 530), withTail); return err }, 512},
		"evicting": {func(l *lab) error { _, err := l.spill(2, talk(4, 1500)); return err }, 0},
		"prune": {func(l *lab) error {
			target := 400 * kib
			_, err := l.Prune(ctx, PruneRequest{Target: &target})
			return err
		}, 0},
		"clear": {func(l *lab) error { _, err := l.Clear(ctx, nil, false); return err }, 0},
		"note":  {func(l *lab) error { return l.saveNote() }, 512},
	}
}

func withTail(r *Request) { r.Tail = true }

// tight is a budget in which two conversations of 512 tokens fit, and one of
// 1,500 only when one of them goes.
func tight() Limits { return Limits{Budget: 1100 * kib, Reserve: 1, MinTokens: 64} }

// furnished is a tier before an act, on a file system with faults.
func furnished(t *testing.T) string {
	t.Helper()
	l := newLab(t, setup{limits: tight()})
	for c := 1; c <= 2; c++ {
		_, err := l.spill(c-1, talk(c, 512))
		must(t, err)
	}
	must(t, l.Close(context.Background()))
	return l.dir
}

func reopened(t *testing.T, tpl string) (*lab, *faultfs.FS) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kv")
	must(t, os.CopyFS(dir, os.DirFS(tpl)))
	f, err := faultfs.New(dir)
	must(t, err)
	return newLab(t, setup{dir: dir, limits: tight(), fs: f}), f
}

// TestK60_K64_KV17_KV60_KV61_EveryStep cuts off every change at every step it makes, in each of five
// ways: nothing wrong is served, the budget holds, and what was there before is.
func TestK60_K64_KV17_KV60_KV61_EveryStep(t *testing.T) {
	tpl := furnished(t)
	for name, act := range cutActs() {
		t.Run(name, func(t *testing.T) {
			l, f := reopened(t, tpl)
			f.Arm(-1, faultfs.Fail)
			must(t, act.do(l))
			steps := f.Disarm()
			l.exact()
			for k := 0; k < len(steps); k += cutEvery {
				for _, kind := range faultfs.KindsAt(k) {
					name := fmt.Sprintf("%s %s %s", caseOf(kind), steps[k], kind)
					t.Run(name, func(t *testing.T) { cut(t, tpl, act.do, act.kept, k, kind) })
				}
			}
		})
	}
}

// caseOf names the case of the list that a kind of cut stands for.
func caseOf(k faultfs.Kind) string {
	return map[faultfs.Kind]string{faultfs.Fail: "K60", faultfs.FailDone: "K64", faultfs.NoSpace: "KV60", faultfs.CrashBefore: "KV61",
		faultfs.CrashAfter: "KV61"}[k]
}

func cut(t *testing.T, tpl string, do func(*lab) error, kept, k int, kind faultfs.Kind) {
	l, f := reopened(t, tpl)
	f.Arm(k, kind)
	err := do(l)
	f.Disarm()
	if kind == faultfs.CrashBefore || kind == faultfs.CrashAfter {
		for _, left := range faultfs.Lefts() {
			clone := filepath.Join(t.TempDir(), "clone")
			must(t, f.Clone(clone, left))
			again := newLab(t, setup{dir: clone, limits: tight()})
			again.sound(kept)
			again.exact()
		}
		return
	}
	l.exact() // KV17: what was given up is gone, or counted
	l.sound(kept)
	if err != nil {
		t.Logf("refused with: %v", err)
	}
	if err := do(l); err != nil && !errors.Is(err, &Refusal{Reason: ReasonStored}) {
		t.Fatalf("done again: %v", err)
	}
	l.exact()
	if state, why := l.mood.get(); state != kv.StateActive {
		t.Errorf("KV58 after a success the tier is %s %s", state, why)
	}
	must(t, l.Close(context.Background()))
	again := newLab(t, setup{dir: l.dir, limits: tight()})
	again.sound(0)
	again.exact()
}

// sound: everything listed restores, and equals what the engine would have
// saved; of the first conversation at least so many tokens.
func (l *lab) sound(kept int) {
	l.t.Helper()
	if h := l.lookup(talk(1, 2000)); kept > 0 && h.Tokens < kept {
		l.t.Fatalf("of the first conversation %d tokens are left (%s), want %d", h.Tokens, h.Miss, kept)
	} else {
		h.Release()
	}
	for c := 1; c <= 4; c++ {
		if _, err := l.restore(talk(c, 2000)); err != nil && !errors.Is(err, errNothing(err)) {
			l.t.Fatalf("conversation %d: %v", c, err)
		}
	}
	if bad := l.Status().Activity.RestoreFailures; bad != 0 {
		l.t.Fatalf("%d restores failed", bad)
	}
}

// errNothing is the error itself when it is an honest miss: nothing stored.
func errNothing(err error) error {
	var miss *Miss
	if errors.As(err, &miss) && (miss.Reason == kv.MissNeverSeen || miss.Reason == kv.MissEvicted || miss.Reason == kv.MissBelowMinTokens) {
		return err
	}
	return nil
}

// TestKill kills a real process that spills, prunes and restores, again and
// again on one store: nothing wrong is served afterwards, the budget holds, and
// at most the turn under way is lost.
func TestKill(t *testing.T) {
	if dir := os.Getenv("TIER_TEST_DIR"); dir != "" {
		victim(t, dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "kv")
	counts := map[string]int{}
	for i := range kills() {
		done := kill(t, dir, i)
		again := newLab(t, setup{dir: dir, limits: victimLimits()})
		again.exact()
		for c, want := range done {
			h, err := again.restore(talk(c, 4000))
			switch {
			case err == nil:
				counts["restored"]++
			case errNothing(err) != nil:
				counts["evicted"]++
			default:
				t.Fatalf("kill %d: conversation %d: %v", i, c, err)
			}
			if newest := done[0]; c == newest && h.Tokens < want {
				t.Fatalf("kill %d: the newest turn had %d tokens committed, %d are there", i, want, h.Tokens)
			}
		}
		if s := again.Status(); s.Reconciliation.QuarantinedManifests > 0 {
			t.Fatalf("kill %d: %+v", i, s.Reconciliation)
		}
		must(t, again.Close(context.Background()))
	}
	t.Log(counts)
}

// kills is how often: the list asks for 500, by HOLDFAST_PROGRAMS.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_PROGRAMS")); err == nil {
		return min(n, 500)
	}
	return 24 / thin
}

func victimLimits() Limits { return Limits{Budget: 4 * mib, Reserve: 1, MinTokens: 64} }

// victim spills turn after turn of six conversations and says what it committed,
// until it is killed.
func victim(t *testing.T, dir string) {
	l := newLab(t, setup{dir: dir, limits: victimLimits(), fs: durable.OS{}})
	round, _ := strconv.Atoi(os.Getenv("TIER_TEST_ROUND"))
	for i := 0; ; i++ {
		c := 10 + (round+i)%6
		n := 256 + 64*((round*3+i)%40)
		if _, err := l.spill(c, talk(c, n)); err == nil {
			fmt.Println("committed", c, n)
		} else if !errors.Is(err, &Refusal{Reason: ReasonStored}) {
			fmt.Println("refused", err)
		}
		if i%7 == 6 {
			target := 2 * mib
			_, err := l.Prune(context.Background(), PruneRequest{Target: &target})
			must(t, err)
		}
	}
}

// kill runs a victim until it has said some lines, and kills it then. It returns
// what was committed by conversation, and under 0 the conversation of the last.
func kill(t *testing.T, dir string, round int) map[int]int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	// What it leaves behind goes with this test's own folders.
	cmd.Env = append(os.Environ(), "TIER_TEST_DIR="+dir, "TIER_TEST_ROUND="+strconv.Itoa(round), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var said bytes.Buffer
	buf := make([]byte, 1)
	for lines := 0; lines < 1+round%9; {
		if _, err := out.Read(buf); err != nil {
			t.Fatalf("the victim ended by itself: %v after %q", err, said.String())
		}
		said.Write(buf)
		if buf[0] == '\n' {
			lines++
		}
	}
	must(t, cmd.Process.Kill())
	// It went on until now, and what it committed meanwhile counts as well.
	_, err = said.ReadFrom(out)
	must(t, err)
	cmd.Wait() // it was killed, and says so
	done := map[int]int{}
	for _, line := range strings.Split(said.String(), "\n") {
		var c, n int
		if _, err := fmt.Sscanf(line, "committed %d %d", &c, &n); err == nil {
			done[c], done[0] = n/kv.BlockTokens*kv.BlockTokens, c
		} else if strings.HasPrefix(line, "refused") || strings.Contains(line, "FAIL") {
			t.Fatal(line)
		}
	}
	return done
}
