package tier

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/core/kv"
	"holdfast/storage/durable"
	"holdfast/storage/segment"
)

// disk is a store on a disk whose free space the test decides.
type disk struct {
	*segment.Store
	mu      sync.Mutex
	free    int64
	rescans int
}

func (d *disk) Free() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free, nil
}

func (d *disk) setFree(n kv.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = int64(n)
}

func (d *disk) Rescan() (int64, error) {
	d.mu.Lock()
	d.rescans++
	d.mu.Unlock()
	return d.Store.Rescan()
}

// onDiskOf makes a lab whose disk has so much room.
func onDiskOf(t *testing.T, free kv.Bytes, l Limits) (*lab, *disk) {
	t.Helper()
	d := &disk{free: int64(free)}
	lab := newLab(t, setup{limits: l, wrap: func(s *segment.Store) (Segments, Manifests) {
		d.Store = s
		return d, s
	}})
	return lab, d
}

func TestLowSpace(t *testing.T) {
	l, d := onDiskOf(t, 100*mib, Limits{Budget: 64 * mib, Reserve: 10 * mib, MinTokens: 64})
	_, err := l.spill(0, talk(1, 512))
	must(t, err)
	d.setFree(10*mib + 100*kib)
	before := l.eng.saves
	for range 3 {
		_, err = l.spill(0, talk(1, 1024))
		if !errors.Is(err, &Refusal{Reason: ReasonLowSpace}) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if l.eng.saves != before {
		t.Error("K18 the engine was asked to save although there is no room")
	}
	if s := l.Status(); s.Activity.Writes != 1 || s.Effective.State != kv.StateReadOnlyLowSpace {
		t.Errorf("%+v %+v", s.Effective, s.Activity)
	}
	if _, err := l.restore(talk(1, 600)); err != nil {
		t.Errorf("K57 reads go on: %v", err)
	}
	d.setFree(100 * mib)
	if s := l.Status(); s.Effective.State != kv.StateActive {
		t.Errorf("with room again it is %+v", s.Effective)
	}
	_, err = l.spill(0, talk(1, 1024))
	must(t, err)
	if got := l.told.states(); !slices.Equal(got, []string{"active", "read_only_low_space", "active"}) {
		t.Errorf("told of %q", got)
	}
	l.exact()
}

// TestReserveHoldsDuringAWrite: somebody else fills the disk while we write.
func TestReserveHoldsDuringAWrite(t *testing.T) {
	l, d := onDiskOf(t, 200*mib, Limits{Budget: 100 * mib, Reserve: 10 * mib, MinTokens: 64})
	l.eng.before = func() error { d.setFree(11 * mib); return nil }
	_, err := l.spill(0, talk(1, 60000))
	if err == nil {
		t.Fatal("the write went through")
	}
	if u := l.store.Usage(); u.Packs != 0 || u.Manifests != 0 {
		t.Errorf("%+v", u)
	}
	if s := l.Status(); s.Effective.State != kv.StateReadOnlyLowSpace {
		t.Errorf("%+v", s.Effective)
	}
	l.exact()
	t.Run("in the middle of a pack", func(t *testing.T) {
		w := &watcher{m: l.Manager, left: 100 * mib}
		d.setFree(200 * mib)
		must(t, w.wrote(17*mib))
		d.setFree(50 * mib)
		if err := w.wrote(17 * mib); !errors.Is(err, errReserve) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOversizeAndInsufficient(t *testing.T) {
	l, d := onDiskOf(t, 1<<40, Limits{Budget: mib, Reserve: 1, MinTokens: 64})
	_, err := l.spill(0, talk(1, 3000))
	if !errors.Is(err, &Refusal{Reason: string(kv.SkippedOversize)}) {
		t.Fatalf("larger than the budget: %v", err)
	}
	if len(l.told.states()) != 1 {
		t.Errorf("one that is too large is no state of the tier: %q", l.told.states())
	}
	_, err = l.spill(0, talk(1, 1024))
	must(t, err)
	release := l.Pin(newest(l))
	_, err = l.spill(1, talk(2, 1600))
	if !errors.Is(err, &Refusal{Reason: string(kv.InsufficientSpace)}) {
		t.Fatalf("K27 with all of it in use: %v", err)
	}
	if d.rescans == 0 {
		t.Error("KV6 a refusal was believed without a count")
	}
	if s := l.Status().Effective; s.State != kv.StateDegraded || s.Reason != ReasonInsufficient {
		t.Errorf("%+v", s)
	}
	release()
	_, err = l.spill(1, talk(2, 1600))
	if err != nil && !errors.Is(err, &Refusal{Reason: string(kv.InsufficientSpace)}) {
		t.Fatal(err) // the newest never goes, so this may not fit either
	}
	l.exact()
}

func newest(l *lab) kv.ManifestID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var best *entry
	for _, e := range l.entries {
		if best == nil || e.use.Serial > best.use.Serial {
			best = e
		}
	}
	return best.id
}

// TestGrowth is the design's: 200 turns (fewer under the race detector) of ten conversations that share their
// beginning, in a budget of a fifth of what they make together. Every eviction
// reaches its target, what was planned is what was done, the newest stays, and
// the budget holds at every step.
func TestGrowth(t *testing.T) {
	full := newLab(t, setup{limits: Limits{Budget: 1 << 40, Reserve: 1, MinTokens: 64}})
	grow(t, full, 200/thin, nil)
	total := onDisk(t, full.dir)
	budget := total / share
	l := newLab(t, setup{limits: Limits{Budget: budget, Reserve: 1, MinTokens: 64}})
	evicted := 0
	grow(t, l, 200/thin, func(turn int, tokens []kv.Token) {
		l.exact()
		s := l.Status()
		if int(s.Activity.Evictions) > evicted {
			evicted = int(s.Activity.Evictions)
			if low := kv.LowWater(budget); s.Usage.UsedBytes > low+64*kib*20 {
				t.Fatalf("KV56 turn %d: after an eviction %d are used, the low water is %d", turn, s.Usage.UsedBytes, low)
			}
		}
		if got := l.Stored(state(1), tokens); got < len(tokens)/kv.BlockTokens*kv.BlockTokens {
			t.Fatalf("K49 turn %d: of the newest %d of %d tokens are left", turn, got, len(tokens))
		}
	})
	if evicted == 0 {
		t.Fatal("nothing was ever evicted")
	}
	if got := l.Stored(state(1), talk(0, 1024)); got < 1024 {
		t.Errorf("K51 of the beginning they all share %d tokens are left", got)
	}
	t.Logf("%d evictions in a budget of %d of %d", evicted, budget, total)
	for c := range 10 {
		if _, err := l.restore(conversation(c, 4000)); err != nil && errNothing(err) == nil {
			t.Errorf("conversation %d: %v", c, err)
		}
	}
}

// conversation begins with 1,024 tokens that all share.
func conversation(c, n int) []kv.Token {
	return append(slices.Clone(talk(0, 1024)), talk(100+c, n)...)[:n]
}

// grow plays turns of ten conversations in a changing order, of 60 to 180
// tokens each.
func grow(t *testing.T, l *lab, turns int, check func(turn int, tokens []kv.Token)) {
	t.Helper()
	length := map[int]int{}
	for turn := range turns {
		c := (turn*7 + turn/10) % 10
		if length[c] == 0 {
			length[c] = 1024
		}
		length[c] += 64 + (turn*37)%120
		tokens := conversation(c, length[c])
		if _, err := l.spill(c, tokens, func(r *Request) { r.Session = string(rune('a' + c)) }); err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
		if check != nil {
			check(turn, tokens)
		}
	}
}

// TestPlanIsWhatHappens: what a dry run prints is what the prune does.
func TestPlanIsWhatHappens(t *testing.T) {
	l := newLab(t, setup{})
	grow(t, l, 40, nil)
	used := l.Status().Usage.UsedBytes
	target := used / 2
	dry, err := l.Prune(context.Background(), PruneRequest{Target: &target, DryRun: true})
	must(t, err)
	wet, err := l.Prune(context.Background(), PruneRequest{Target: &target})
	must(t, err)
	if len(dry.Plan.Steps) == 0 || len(dry.Plan.Steps) != len(wet.Plan.Steps) {
		t.Fatalf("%d steps were planned, %d done", len(dry.Plan.Steps), len(wet.Plan.Steps))
	}
	for i, s := range dry.Plan.Steps {
		if w := wet.Plan.Steps[i]; w.Kind != s.Kind || w.Manifest != s.Manifest || w.Pack != s.Pack || w.Used != s.Used {
			t.Errorf("step %d: %+v, done %+v", i, s, w)
		}
	}
	after := l.Status().Usage.UsedBytes
	if after != wet.Plan.After || used-after != wet.Freed || !wet.Plan.Reached || after > target {
		t.Errorf("used %d, planned %d, freed %d of %d", after, wet.Plan.After, wet.Freed, used)
	}
	l.exact()
}

func TestPruneAndClear(t *testing.T) {
	ctx := context.Background()
	l := newLab(t, setup{})
	for c := 1; c <= 3; c++ {
		_, err := l.spill(c, talk(c, 640))
		must(t, err)
	}
	other := model(2)
	_, err := l.spill(4, talk(4, 640), func(r *Request) { r.Model, r.State = other, state(2) })
	must(t, err)
	h := l.lookup(talk(1, 700))
	t.Run("K52 KV13 what is about to be loaded stays", func(t *testing.T) {
		_, err := l.Clear(ctx, nil, false)
		must(t, err)
		if s := l.Status(); s.Usage.Manifests != 1 {
			t.Errorf("%d are left, want the one that is held", s.Usage.Manifests)
		}
		f, path, err := l.take(h)
		must(t, err)
		must(t, os.Remove(path))
		must(t, l.Settle(f, NotTried, 0, 0))
	})
	_, err = l.spill(4, talk(4, 640), func(r *Request) { r.Model, r.State = other, state(2) })
	must(t, err)
	t.Run("one model only", func(t *testing.T) {
		out, err := l.Clear(ctx, &other, false)
		must(t, err)
		s := l.Status()
		if out.Freed <= 0 || s.Usage.Manifests != 1 || s.Inventory[0].ModelIdentity != model(1) {
			t.Errorf("freed %d, %+v", out.Freed, s.Inventory)
		}
	})
	out, err := l.Clear(ctx, nil, false)
	must(t, err)
	s := l.Status()
	if s.Usage.Manifests != 0 || s.Usage.UniqueSegments != 0 || l.store.Usage().Packs != 0 || out.Freed == 0 {
		t.Errorf("%+v", s.Usage)
	}
	if h := l.lookup(talk(1, 700)); h.Miss != kv.MissEvicted {
		t.Errorf("K21 a cleared prefix is a miss of its own: %s", h.Miss)
	}
	l.exact()
	t.Run("KV7 no target and no budget", func(t *testing.T) {
		l, d := onDiskOf(t, mib, Limits{Auto: true, Reserve: 16 * mib})
		if s := l.Status().Effective; s.State != kv.StateDegraded || s.Reason != ReasonBudgetZero {
			t.Errorf("%+v", s)
		}
		if _, err := l.Prune(ctx, PruneRequest{}); !errors.Is(err, ErrNoTarget) {
			t.Errorf("got %v", err)
		}
		d.setFree(1 << 40)
		t.Run("KV24 an auto budget can grow", func(t *testing.T) {
			must(t, l.SetLimits(ctx, Limits{Auto: true, Reserve: 16 * mib}))
			if s := l.Status(); s.Usage.BudgetBytes != 64<<30 || s.Effective.State != kv.StateActive {
				t.Errorf("%+v %+v", s.Usage, s.Effective)
			}
		})
	})
}

func TestShrinkingTheBudget(t *testing.T) {
	l := newLab(t, setup{})
	grow(t, l, 30, nil)
	limits := roomy()
	limits.Budget = 2 * mib
	must(t, l.SetLimits(context.Background(), limits))
	l.exact()
	if got := l.told.states(); !slices.Equal(got, []string{"active", "pruning_to_budget", "active"}) {
		t.Errorf("told of %q", got)
	}
}

// TestKV59Clock: a clock that goes back keeps the order of uses and gives no new
// allowance.
func TestKV59Clock(t *testing.T) {
	clock := newClock()
	limits := roomy()
	limits.DailyWrites = 2 * mib
	l := newLab(t, setup{limits: limits, clock: clock})
	for c := 1; c <= 3; c++ {
		_, err := l.spill(c, talk(c, 640))
		must(t, err)
		clock.move(-48 * time.Hour)
	}
	_, err := l.restore(talk(1, 700))
	must(t, err)
	target := 800 * kib
	_, err = l.Prune(context.Background(), PruneRequest{Target: &target})
	must(t, err)
	var left []bool
	for c := 1; c <= 3; c++ {
		left = append(left, l.Stored(state(1), talk(c, 700)) > 0)
	}
	if !slices.Equal(left, []bool{true, false, true}) {
		t.Errorf("left are %v, want the last used and the last written", left)
	}
	if today, _ := l.Written(); today < 900*kib {
		t.Errorf("going back gave a new day: %d", today)
	}
	_, err = l.spill(9, talk(9, 1500))
	must(t, err)
	_, err = l.spill(8, talk(8, 3000))
	if !errors.Is(err, &Refusal{Reason: ReasonDailyCap}) {
		t.Errorf("KV the day's cap: %v", err)
	}
	if s := l.Status(); len(s.Effective.Warnings) == 0 || !strings.Contains(s.Effective.Warnings[0], "daily_write_cap") {
		t.Errorf("%q", s.Effective.Warnings)
	}
	clock.move(10 * 24 * time.Hour)
	_, err = l.spill(8, talk(8, 640))
	must(t, err)
	must(t, l.Close(context.Background()))
	again := newLab(t, setup{dir: l.dir, limits: limits, clock: clock})
	if today, _ := again.Written(); today < 300*kib {
		t.Errorf("a restart gave a new allowance: %d", today)
	}
	again.exact()
}

// strict is a file system that counts every file after every byte that is
// written, and fails the test when they are more than the budget.
type strict struct {
	quick
	check func()
}

func (s strict) Create(name string, perm fs.FileMode) (durable.File, error) {
	f, err := s.quick.Create(name, perm)
	s.check()
	return strictFile{f, s.check}, err
}

type strictFile struct {
	durable.File
	check func()
}

func (f strictFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.check()
	return n, err
}

// TestK27BudgetDuringWrites: not a byte over, at no moment of sixty turns with
// evictions, compactions and notes.
func TestK27BudgetDuringWrites(t *testing.T) {
	const budget = 2600 * kib
	dir := filepath.Join(t.TempDir(), "kv")
	worst := kv.Bytes(0)
	check := func() { worst = max(worst, onDisk(t, dir)) }
	l := newLab(t, setup{dir: dir, fs: strict{check: check}, limits: Limits{Budget: budget, Reserve: 1, MinTokens: 64}})
	grow(t, l, 60/thin, func(turn int, _ []kv.Token) {
		if turn%9 == 0 {
			must(t, l.saveNote())
		}
	})
	// Other bytes for the same tokens: more is new than was expected.
	l.eng.seed = 77
	_, err := l.spill(3, conversation(3, 1900))
	must(t, err)
	must(t, l.Close(context.Background()))
	if worst > budget || worst < budget/2 {
		t.Errorf("at worst %d of %d", worst, budget)
	}
}

// TestK55StaleGoesFirst: states of a build that is no longer in use are the first
// to go, however useful they were.
func TestK55StaleGoesFirst(t *testing.T) {
	l := newLab(t, setup{})
	old := kv.State{Model: model(1), Engine: "llama-server", Build: "b0", Version: 4, CacheK: "f16", CacheV: "f16", Context: 4096, ByteOrder: "little"}.Identity()
	_, err := l.spill(0, talk(1, 1600), func(r *Request) { r.State = old })
	must(t, err)
	must(t, l.Close(context.Background()))
	l = newLab(t, setup{dir: l.dir})
	for c := 2; c <= 3; c++ {
		_, err := l.spill(c, talk(c, 320))
		must(t, err)
	}
	target := l.Status().Usage.UsedBytes - 1
	out, err := l.Prune(context.Background(), PruneRequest{Target: &target})
	must(t, err)
	if out.Plan.Removed != 1 || l.Stored(old, talk(1, 1600)) != 0 || l.Stored(state(1), talk(2, 320)) == 0 {
		t.Errorf("%+v", out.Plan)
	}
	l.exact()
}
