package kv

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// What went wrong elsewhere, and does not here. K numbers are reports of engines
// and their caches, KV numbers findings about a comparable tier; what is about
// files has its cases in package slotfile.
func TestCases(t *testing.T) {
	for name, check := range map[string]func(*testing.T){
		"K14 a match is by token ids, not by likeness":                      caseTokens,
		"K15 other load settings are another state":                         caseSettings,
		"K18 a state larger than the budget is not begun":                   caseOversize,
		"K20 an unrelated conversation is never found":                      caseUnrelated,
		"K25 alternating prompts both stay found":                           caseAlternating,
		"K26 checkpoints count in the budget":                               caseCheckpointsCount,
		"K27 nothing is kept above the limit":                               caseHardLimit,
		"K31 a state ends at the boundary that stays stable":                caseStable,
		"K32 swa-full is another state":                                     caseSWAFull,
		"K36 a checkpoint past the end does not travel":                     caseCheckpointPast,
		"K37 a hybrid state is found at its checkpoints":                    caseHybrid,
		"K39 a window state is found at its checkpoints":                    caseWindow,
		"K44 a changed stamp ends the reuse where it stands":                caseStamp,
		"K46 a clock at the very beginning reuses nothing":                  caseClock,
		"K49 storing twice writes once and evicts nothing":                  caseStoredTwice,
		"K50 a longer snapshot takes the place of the shorter":              caseNested,
		"K51 a shared prefix outlives its continuations":                    caseSharedPrefix,
		"K52 the entry about to be read is not evicted":                     casePinned,
		"K53 what was saved is found":                                       caseRoundTrip,
		"K54 what a restart finds counts":                                   caseRestartCounts,
		"K55 what no engine can read goes first":                            caseIncompatible,
		"K56 no budget is taken for granted":                                caseAutoLimit,
		"K58 what cannot be cut is stored once, not in every block":         caseUncuttableOnce,
		"K59 a longer prompt never finds less":                              caseMonotone,
		"K61 the index is the same after a restart, nothing is stored anew": caseIndexRebuilt,
		"K62 equal bytes of another state are not served":                   caseOtherState,
		"K63 a piece that vanished is a miss":                               caseVanished,
		"K65 another layout does not pass for this one":                     caseLayout,
		"K66 restoring has to be worth it":                                  caseWorth,
		"KV7 a prune without a budget comes to nothing by itself":           casePruneWithout,
		"KV8 a model is named trimmed and whole, or refused":                caseModelName,
		"KV15 an eviction leaves room for the commits after it":             caseLowWater,
		"KV16 amplification is measured off the block grid":                 caseUnaligned,
		"KV19 a manifest of nothing is refused":                             caseEmpty,
		"KV20 weights are in the identity":                                  caseWeights,
		"KV24 an automatic budget grows with the disk":                      caseAutoGrows,
		"KV30 the longer of resident and stored wins":                       caseResident,
		"KV34 a codec that was cut off is refused":                          caseCodec,
		"KV35 the context size is a number":                                 caseContext,
		"KV36 no process, path or slot is in the identity":                  caseNoProcess,
		"KV38 memory of evictions is bounded":                               TestTombsAreBounded,
		"KV40 a manifest is checked before it is believed":                  TestDamagedManifest,
		"KV41 the longest prefix without the tail, and the lowest boundary": caseWhichBoundaries,
		"KV44 a claim is of one state":                                      caseClaim,
		"KV49 a state of unknown memory is whole or nothing":                caseOpaque,
		"KV53 a missing or senseless timing suppresses nothing":             caseTimings,
		"KV54 equal bytes under two identities are two manifests":           caseTwoIdentities,
		"KV55 a block in two packs keeps both":                              caseTwoPacks,
		"KV56 a growing conversation is evicted to the target":              caseGrowing,
		"KV59 a clock that goes back keeps the order of use":                caseClockBack,
		"KV63 turns of fifty tokens are collected":                          caseShortTurns,
	} {
		t.Run(name, check)
	}
}

func caseTokens(t *testing.T) {
	base := conversation("a", 400)
	x, _ := indexed(t, saved(Dense, base, 1))
	alike := slices.Clone(base)
	alike[0]++ // 399 of 400 agree
	if got := x.Longest(testState().Identity().ID(), alike, 400); got.Found() {
		t.Errorf("%+v", got)
	}
}

func caseSettings(t *testing.T) {
	base := testState()
	for field, change := range map[string]func(*State){
		"ctx-size": func(s *State) { s.Context = 8192 }, "cache-type-k": func(s *State) { s.CacheK = "q8_0" }, "flash-attn": func(s *State) { s.FlashAttention = Off },
		"rope-freq-base": func(s *State) { s.RoPE.FreqBase = "1000000" }, "build": func(s *State) { s.Build = "b12000" },
	} {
		s := base
		change(&s)
		if got := s.Identity().Differs(base.Identity()); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: named %q", field, got)
		}
	}
}

func caseOversize(t *testing.T) {
	if a := Reserve(Room{Budget: 1 << 30, Free: 1 << 40}, Claim{19 << 30, 19 << 30}, false); a.Verdict != SkippedOversize {
		t.Error(a)
	}
}

func caseUnrelated(t *testing.T) {
	var list []*Manifest
	for i := range 20 {
		list = append(list, saved(Dense, conversation(string(rune('a'+i)), 300), uint64(i)))
	}
	x, _ := indexed(t, list...)
	if got := x.Longest(testState().Identity().ID(), conversation("other", 300), 300); got.Found() {
		t.Errorf("%+v", got)
	}
}

func caseAlternating(t *testing.T) {
	long, short := conversation("long", 2000), conversation("short", 300)
	x, _ := indexed(t, saved(Dense, long, 1), saved(Dense, short, 2))
	id := testState().Identity().ID()
	for range 3 {
		if a, b := x.Longest(id, long, 2000), x.Longest(id, short, 300); a.Tokens != 2000 || b.Tokens != 300 {
			t.Errorf("%+v, %+v", a, b)
		}
	}
}

func caseCheckpointsCount(t *testing.T) {
	m := saved(Window, conversation("w", 128), 1)
	m.Boundaries = []Boundary{boundaryAt(64, 5_000), boundaryAt(100, 6_000), boundaryAt(128, 7_000)}
	w := newWarehouse()
	w.spill(t, m, 0)
	if got := w.used(); got < 18_000+smallLayout(Window).BlockBytes(128) {
		t.Errorf("%d bytes used", got)
	}
}

func caseHardLimit(t *testing.T) {
	w := newWarehouse()
	w.spill(t, saved(Dense, conversation("one", 6400), 1), 0)
	plan := PlanEvict(w.Contents, Goal{Target: 850, Budget: 1000, Spare: 1 << 40, Now: day()})
	w.carryOut(t, plan)
	if w.used() > 1000 {
		t.Errorf("%d bytes used of 1000", w.used())
	}
}

func caseStable(t *testing.T) {
	if n, _ := SpillEnd(Dense, nil, 1000, false, 0); n != 960 {
		t.Errorf("dense: %d", n)
	}
	if n, keep := SpillEnd(Hybrid, []Boundary{boundaryAt(184, 1), boundaryAt(990, 1), boundaryAt(1400, 1)}, 1000, true, 1); n != 990 || len(keep) != 2 {
		t.Errorf("hybrid: %d, %d parts", n, len(keep))
	}
}

func caseSWAFull(t *testing.T) {
	a, b := testState(), testState()
	b.SWAFull = On
	if got := a.Identity().Differs(b.Identity()); !slices.Equal(got, []string{"swa-full"}) {
		t.Errorf("named %q", got)
	}
}

func caseCheckpointPast(t *testing.T) {
	m := saved(Window, conversation("w", 300), 1)
	m.Boundaries = []Boundary{boundaryAt(100, 1), boundaryAt(200, 1), boundaryAt(300, 1)}
	p, err := PlanFill(ManifestID{}, m, 200, shelf(m, upTo(8)), Rates{})
	if err != nil || !slices.Equal(p.Boundaries, []int{0, 1}) {
		t.Errorf("%v, %v", p.Boundaries, err)
	}
}

func caseHybrid(t *testing.T) { atCheckpoint(t, Hybrid) }

func caseWindow(t *testing.T) { atCheckpoint(t, Window) }

// atCheckpoint: the next prompt leaves the stored one behind a checkpoint.
func atCheckpoint(t *testing.T, memory Memory) {
	base := conversation("thinking", 800)
	m := saved(memory, base, 1)
	m.Boundaries = []Boundary{boundaryAt(184, 1), boundaryAt(696, 1), boundaryAt(800, 1)}
	x, _ := indexed(t, m)
	next := append(slices.Clone(base[:750]), conversation("dropped", 300)...)
	if got := x.Longest(m.State.ID(), next, 1049); got.Tokens != 696 {
		t.Errorf("%+v", got)
	}
}

func caseStamp(t *testing.T) {
	base := conversation("stamp", 1000)
	x, _ := indexed(t, saved(Dense, base, 1))
	base = slices.Clone(base)
	base[700]++
	if got := x.Longest(testState().Identity().ID(), base, 1000); got.Tokens != 640 {
		t.Errorf("%+v", got)
	}
}

func caseClock(t *testing.T) {
	base := conversation("clock", 1000)
	x, _ := indexed(t, saved(Dense, base, 1))
	base = slices.Clone(base)
	base[0]++
	if got := x.Longest(testState().Identity().ID(), base, 1000); got.Found() {
		t.Errorf("%+v", got)
	}
}

func caseStoredTwice(t *testing.T) {
	w := newWarehouse()
	base := conversation("twice", 640)
	w.spill(t, saved(Dense, base, 1), 0)
	if p := PlanSpill(saved(Dense, base, 2), 640, w.holds, w.Cost); len(p.Missing) != 0 {
		t.Errorf("%+v", p)
	}
	if p := PlanEvict(w.Contents, Goal{Target: 0, Budget: w.used(), Now: day()}); p.Removed != 0 {
		t.Error("the only entry goes")
	}
}

func caseNested(t *testing.T) {
	base := conversation("nested", 1280)
	if !saved(Dense, base, 2).Supersedes(saved(Dense, base[:640], 1)) {
		t.Error("both are kept")
	}
}

func caseSharedPrefix(t *testing.T) {
	root := conversation("root", 640)
	w := newWarehouse()
	prefix := saved(Dense, root, 1)
	prefix.LastUsed = day().Add(-1000 * time.Hour)
	w.spill(t, prefix, 0)
	for i := range 5 {
		m := saved(Dense, append(slices.Clone(root), conversation(string(rune('a'+i)), 640)...), uint64(i+2))
		m.LastUsed = day().Add(time.Duration(i-5) * time.Hour)
		w.spill(t, m, 0)
	}
	w.spill(t, saved(Dense, conversation("newest", 64), 9), 0)
	plan := PlanEvict(w.Contents, Goal{Budget: w.used(), Spare: 1 << 40, Now: day()})
	var order []Tokens
	for _, s := range plan.Steps {
		if s.Kind == RemoveManifest {
			order = append(order, s.Tokens)
		}
	}
	if !slices.Equal(order, []Tokens{1280, 1280, 1280, 1280, 1280, 640}) {
		t.Errorf("removed in the order %v", order)
	}
}

func casePinned(t *testing.T) {
	w := newWarehouse()
	for i := range 4 {
		w.spill(t, saved(Dense, conversation(string(rune('a'+i)), 640), uint64(i)), 0)
	}
	w.Manifests[0].Pinned = true
	plan := PlanEvict(w.Contents, Goal{Budget: w.used(), Now: day()})
	for _, s := range plan.Steps {
		if s.Manifest == w.Manifests[0].ID && s.Kind == RemoveManifest {
			t.Error("it goes")
		}
	}
}

func caseRoundTrip(t *testing.T) {
	for _, memory := range allMemories() {
		tokens := conversation("found", 500)
		b, id := encoded(t, saved(memory, tokens, 1))
		m, _, err := DecodeManifest(b)
		if err != nil {
			t.Fatal(err)
		}
		x := NewIndex()
		x.Add(id, m)
		if got := x.Longest(m.State.ID(), append(slices.Clone(tokens), 1), 501); got.Manifest != id || got.Tokens != 500 {
			t.Errorf("%v: %+v", memory, got)
		}
	}
}

func caseRestartCounts(t *testing.T) {
	room := Room{Budget: 1000, Used: 990, Free: 1 << 40}
	if a := Reserve(room, Claim{20, 20}, false); a.Verdict != Evict || a.Target != 850 {
		t.Errorf("%+v", a)
	}
}

func caseIncompatible(t *testing.T) {
	w := newWarehouse()
	for i := range 3 {
		w.spill(t, saved(Dense, conversation(string(rune('a'+i)), 640), uint64(i)), 0)
	}
	w.Manifests[1].Stale, w.Manifests[1].Use.Weight = true, 1000
	plan := PlanEvict(w.Contents, Goal{Target: w.used() - 1, Budget: w.used(), Now: day()})
	if plan.Removed != 1 || plan.Steps[0].Manifest != w.Manifests[1].ID {
		t.Errorf("%v", plan)
	}
}

func caseAutoLimit(t *testing.T) {
	if got := AutoBudget(100<<40, 0, 1<<30); got != 64<<30 {
		t.Errorf("of 100 TiB it takes %d", got)
	}
}

func caseUncuttableOnce(t *testing.T) {
	m := saved(Hybrid, conversation("h", 640), 1)
	m.Boundaries = []Boundary{boundaryAt(640, 540<<20)}
	if got, rows := m.PayloadBytes(), m.Layout.BlockBytes(640); got != rows+540<<20 {
		t.Errorf("%d bytes", got)
	}
}

func caseMonotone(t *testing.T) {
	base := conversation("m", 1000)
	m := saved(Dense, base[:900], 1)
	x, _ := indexed(t, m, saved(Dense, base[:500], 2))
	last := 0
	for n := range 1001 {
		got := x.Longest(m.State.ID(), base, n).Tokens
		if got < last {
			t.Fatalf("a prompt of %d finds %d, a shorter one %d", n, got, last)
		}
		last = got
	}
	if last != 900 {
		t.Errorf("found %d", last)
	}
}

func caseIndexRebuilt(t *testing.T) {
	w := newWarehouse()
	base := conversation("again", 640)
	m := saved(Dense, base, 1)
	w.spill(t, m, 0)
	b, id := encoded(t, m)
	read, readID, err := DecodeManifest(b)
	if err != nil || readID != id {
		t.Fatal(err)
	}
	x := NewIndex()
	x.Add(readID, read)
	x.Add(readID, read)
	if got := x.Longest(m.State.ID(), base, 640); got.Tokens != 640 || x.Len() != 1 {
		t.Errorf("%+v of %d", got, x.Len())
	}
	if p := PlanSpill(read, 640, w.holds, w.Cost); len(p.Missing) > 0 {
		t.Errorf("stored anew: %+v", p)
	}
}

func caseOtherState(t *testing.T) {
	base := conversation("o", 400)
	m := saved(Dense, base, 1)
	s := testState()
	s.Model = ModelIdentity(named("other weights of the same shape"))
	m.Model, m.State = s.Model, s.Identity()
	x, _ := indexed(t, m)
	mine := testState()
	if got := x.Longest(mine.Identity().ID(), base, 400); got.Found() {
		t.Errorf("%+v", got)
	}
	if r, _ := x.Why(mine.Model, mine.Identity(), base); r != MissNeverSeen {
		t.Errorf("said %v", r)
	}
}

func caseVanished(t *testing.T) {
	m := saved(Dense, conversation("v", 400), 1)
	var missing *MissingError
	_, err := PlanFill(ManifestID{}, m, 400, func(BlockID) (Location, bool) { return Location{}, false }, Rates{})
	if !errors.As(err, &missing) {
		t.Error(err)
	}
}

func caseLayout(t *testing.T) {
	base := smallLayout(Dense)
	for name, change := range map[string]func(*Layout){
		"wider rows": func(l *Layout) { l.Runs[0].Row = 32 }, "another type": func(l *Layout) { l.Runs[0].Type = 8 },
		"transposed": func(l *Layout) { l.Transposed = true }, "M-RoPE": func(l *Layout) { l.CellExtra = 12 },
		"rotated": func(l *Layout) { l.RotV = 64 }, "other memory": func(l *Layout) { l.Memory = Hybrid }, "other version": func(l *Layout) { l.Version = 5 },
	} {
		l := base
		l.Runs = slices.Clone(base.Runs)
		change(&l)
		if l.Equal(base) {
			t.Errorf("%s: equal", name)
		}
	}
}

func caseWorth(t *testing.T) {
	rates := Rates{Prefill: 3000, Disk: 50 << 20, Engine: 1 << 30}
	if o := rates.Offer(300, 100<<20); o.Pays {
		t.Errorf("2 s to save 0.1: %+v", o)
	}
}

func casePruneWithout(t *testing.T) {
	if got := LowWater(0); got != 0 {
		t.Errorf("without a budget the target is %d; a command refuses it before", got)
	}
	if got := LowWater(1000); got != 850 {
		t.Errorf("%d", got)
	}
}

func caseModelName(t *testing.T) {
	id := ModelIdentity(named("m"))
	if got, err := ParseModelIdentity("\t" + id.String() + " \n"); err != nil || got != id {
		t.Error(got, err)
	}
	if _, err := ParseModelIdentity(" "); !errors.Is(err, ErrBlankIdentity) {
		t.Error(err)
	}
}

func caseLowWater(t *testing.T) {
	a := Reserve(Room{Budget: 1000, Used: 1000, Free: 1 << 30}, Claim{1, 1}, false)
	if a != (Admission{Evict, 850}) {
		t.Errorf("%+v", a)
	}
}

func caseUnaligned(t *testing.T) {
	for _, turn := range []int{50, 300, 1000} {
		if turn%BlockTokens == 0 {
			t.Errorf("turns of %d hide the rows that are written twice", turn)
		}
	}
	TestAmplification(t)
}

func caseEmpty(t *testing.T) {
	m := saved(Dense, conversation("e", 64), 1)
	m.Tokens, m.Blocks = nil, nil
	if _, _, err := m.Encode(); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
	r := saved(Recurrent, conversation("e", 64), 1)
	r.Boundaries = nil
	if _, _, err := r.Encode(); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
}

func caseWeights(t *testing.T) {
	a, errA := Model{Weights: named("a")}.Identity()
	b, errB := Model{Weights: named("b")}.Identity()
	if a == b || errA != nil || errB != nil {
		t.Error(a, b)
	}
	if _, err := (Model{}).Identity(); !errors.Is(err, ErrNoWeights) {
		t.Error(err)
	}
}

func caseAutoGrows(t *testing.T) {
	before := AutoBudget(20<<30, 5<<30, 1<<30)
	if after := AutoBudget(200<<30, 5<<30, 1<<30); after <= before {
		t.Errorf("%d, then %d", before, after)
	}
}

func caseResident(t *testing.T) {
	p := FillPlan{Tokens: 4000}
	if !p.Beats(200) || p.Beats(4000) || p.Beats(5000) {
		t.Error("coverage is not compared")
	}
}

func caseCodec(t *testing.T) {
	m := saved(Dense, conversation("c", 64), 1)
	m.Codec = Codec{}
	if _, _, err := DecodeManifest(sealed(m)); !errors.Is(err, ErrCodec) {
		t.Error(err)
	}
}

func caseContext(t *testing.T) {
	auto, resolved := testState(), testState()
	auto.Context = 0
	if got := auto.Identity().Differs(resolved.Identity()); !slices.Equal(got, []string{"ctx-size"}) {
		t.Errorf("named %q", got)
	}
	if testState().Identity().ID() != resolved.Identity().ID() {
		t.Error("the same number is another state")
	}
}

func caseNoProcess(t *testing.T) {
	allowed := []string{
		"model", "engine", "build", "state-version", "cache-type-k", "cache-type-v", "flash-attn", "rope-scaling", "rope-freq-base", "rope-freq-scale",
		"yarn-orig-ctx", "yarn-ext-factor", "yarn-attn-factor", "yarn-beta-slow", "yarn-beta-fast", "swa-full", "kv-unified", "ctx-size", "byte-order",
	}
	for _, f := range testState().Identity().Fields {
		if !slices.Contains(allowed, f.Tag) {
			t.Errorf("%s is in the identity", f.Tag)
		}
	}
}

func caseWhichBoundaries(t *testing.T) {
	var parts []Boundary
	for _, p := range []int{184, 500, 600, 700, 800, 990, 1010} {
		parts = append(parts, boundaryAt(p, 1))
	}
	n, keep := SpillEnd(Window, parts, 1000, false, BoundaryRoom(1<<30))
	if n != 990 || len(keep) != MaxBoundaries || keep[0].Position != 184 || keep[3].Position != 990 {
		t.Errorf("%d, %+v", n, keep)
	}
}

func caseClaim(t *testing.T) {
	a, b := saved(Dense, conversation("k", 64), 1), saved(Dense, conversation("k", 64), 1)
	s := testState()
	s.CacheV = "q8_0"
	b.State = s.Identity()
	_, idA := encoded(t, a)
	_, idB := encoded(t, b)
	if idA == idB {
		t.Error("one manifest name under two states")
	}
}

func caseOpaque(t *testing.T) {
	m := saved(Opaque, conversation("o", 500), 1)
	x, _ := indexed(t, m)
	if got := x.Longest(m.State.ID(), m.Tokens, 499); got.Found() {
		t.Errorf("cut: %+v", got)
	}
	if got := x.Longest(m.State.ID(), m.Tokens, 500); got.Tokens != 500 {
		t.Errorf("whole: %+v", got)
	}
}

func caseTimings(t *testing.T) {
	for _, r := range []Rates{{}, {Prefill: 100}, {Disk: 1}, {Prefill: -1, Disk: -1}, {Prefill: math.NaN(), Disk: math.NaN()}} {
		if o := r.Offer(1000, 1<<20); !o.Pays {
			t.Errorf("%+v suppresses: %+v", r, o)
		}
	}
	w := newWarehouse()
	for i := range 3 {
		w.spill(t, saved(Dense, conversation(string(rune('a'+i)), 640), uint64(i)), 0)
		w.Manifests[i].PerToken = []float64{0, math.NaN(), math.Inf(1)}[i]
	}
	if p := PlanEvict(w.Contents, Goal{Target: w.used() / 2, Budget: w.used(), Now: day()}); !p.Reached {
		t.Errorf("%v", p)
	}
}

func caseTwoIdentities(t *testing.T) {
	base := conversation("two", 400)
	a, b := saved(Dense, base, 1), saved(Dense, base, 1)
	s := testState()
	s.Build = "b12000"
	b.State = s.Identity()
	x, ids := indexed(t, a, b)
	for i, m := range []*Manifest{a, b} {
		if got := x.Longest(m.State.ID(), base, 400); got.Manifest != ids[i] {
			t.Errorf("%d: %+v", i, got)
		}
	}
	x.Remove(ids[0], true, day())
	if got := x.Longest(b.State.ID(), base, 400); got.Manifest != ids[1] {
		t.Error("removing one removed the other")
	}
}

func caseTwoPacks(t *testing.T) {
	var b script
	b.line(t, []string{"pack", "one", "a", "x"})
	b.line(t, []string{"pack", "two", "a", "y"})
	b.line(t, []string{"manifest", "m", "used=1", "weight=1", "tokens=64", "a"})
	for _, s := range PlanCompact(b.Contents, Goal{Budget: 1 << 40, Spare: 1 << 40, Now: day()}).Steps {
		if s.Kind == DeletePack {
			t.Errorf("%v", s)
		}
		b.step(t, s)
	}
}

// caseGrowing: four conversations of 50 spills each, all in packs of their own,
// with room for a fifth of everything.
func caseGrowing(t *testing.T) {
	w, serial := newWarehouse(), uint64(0)
	total := smallLayout(Dense).BlockBytes(4 * 50 * 256)
	budget := total / 5
	held := map[string]*Manifest{}
	for turn := range 50 {
		for _, who := range []string{"a", "b", "c", "d"} {
			serial++
			m := saved(Dense, conversation(who, 256*(turn+1)), serial)
			m.LastUsed = day().Add(time.Duration(serial) * time.Minute)
			if m.PayloadBytes() > budget/4 {
				continue
			}
			w.Held = slices.DeleteFunc(slices.Clone(m.Blocks), func(id BlockID) bool { return !w.holds(id) })
			claim := PlanSpill(m, 0, w.holds, w.Cost).Claim()
			room := Room{Budget: budget, Used: w.used(), Free: 1 << 40}
			if a := Reserve(room, claim, false); a.Verdict == Evict {
				plan := PlanEvict(w.Contents, Goal{Target: a.Target, Budget: budget, Spare: 1 << 40, Now: m.LastUsed})
				if w.carryOut(t, plan); !plan.Reached {
					t.Fatalf("spill %d: %v", serial, plan)
				}
				if again := PlanSpill(m, 0, w.holds, w.Cost).Claim(); again != claim {
					t.Fatalf("spill %d: the eviction took what the spill relies on: %v, then %v", serial, claim, again)
				}
				room.Used = w.used()
				if a := Reserve(room, claim, true); a.Verdict != Admitted {
					t.Fatalf("spill %d: %+v", serial, a)
				}
			}
			w.spill(t, m, 0)
			if w.used() > budget {
				t.Fatalf("spill %d: %d used of %d", serial, w.used(), budget)
			}
			if old := held[who]; old != nil && m.Supersedes(old) {
				_, id := encoded(t, old)
				w.Manifests = slices.DeleteFunc(w.Manifests, func(s Stored) bool { return s.ID == id })
			}
			held[who] = m
		}
	}
}

func caseClockBack(t *testing.T) {
	w := newWarehouse()
	for i := range 4 {
		m := saved(Dense, conversation(string(rune('a'+i)), 640), uint64(i+1))
		m.LastUsed = day().Add(time.Duration(-i) * time.Minute) // the clock goes back as they are used
		w.spill(t, m, 0)
	}
	plan := PlanEvict(w.Contents, Goal{Budget: w.used(), Now: day().Add(-time.Hour)})
	var order []ManifestID
	for _, s := range plan.Steps {
		if s.Kind == RemoveManifest {
			order = append(order, s.Manifest)
		}
	}
	if !slices.Equal(order, []ManifestID{w.Manifests[0].ID, w.Manifests[1].ID, w.Manifests[2].ID}) {
		t.Errorf("%v", plan)
	}
}

func caseShortTurns(t *testing.T) {
	spills, spilled := 0, Tokens(0)
	for held := Tokens(2000); held <= 3000; held += 50 {
		if (SpillRule{}).Due(Branch{Held: held, Spilled: spilled}).Spill {
			n, _ := SpillEnd(Dense, nil, held, false, 0)
			spills, spilled = spills+1, Tokens(n)
		}
	}
	if spills != 4 { // the base, then every 256 tokens
		t.Errorf("%d spills in 20 turns of 50 tokens", spills)
	}
}
