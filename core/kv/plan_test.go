package kv

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"holdfast/core/seed"
)

var rewrite = flag.Bool("rewrite", false, "write the plans of testdata anew")

// The plans of testdata/plans: a store in a few lines, a goal, and the plan as
// kv prune --dry-run prints it.
//
//	pack NAME block…             a pack; a block is a name of 1 MiB
//	manifest NAME used=HOURS weight=W tokens=N [pinned] [stale] [slow=S] block…
//	goal target=MIB budget=MIB [spare=MIB] [all]
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no plans", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { planFile(t, file) })
	}
}

func planFile(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b script
	for line := range strings.Lines(string(a.Files[0].Data)) {
		b.line(t, strings.Fields(line))
	}
	plan := PlanEvict(b.Contents, b.goal)
	most := b.carryOut(t, plan)
	if most > max(b.goal.Budget, plan.Before) {
		t.Errorf("%d bytes were used on the way", most)
	}
	got := b.readable(plan.String())
	if *rewrite {
		a.Files = append(a.Files[:1], txtar.File{Name: "plan", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(a.Files) != 2 || string(a.Files[1].Data) != got {
		t.Errorf("the plan is now\n%s", got)
	}
}

// script builds a store from lines.
type script struct {
	warehouse
	goal  Goal
	names []string
}

func (b *script) line(t *testing.T, words []string) {
	if len(words) == 0 {
		return
	}
	opts, blocks := options(words[1:])
	number := func(key string) float64 {
		v, err := strconv.ParseFloat(opts[key], 64)
		if err != nil && opts[key] != "" {
			t.Fatal(words, err)
		}
		return v
	}
	_, all := opts["all"]
	_, pinned := opts["pinned"]
	_, stale := opts["stale"]
	switch words[0] {
	case "pack":
		b.names = append(b.names, words[1])
		b.Packs = append(b.Packs, PackFile{ID: PackID(named(words[1])), Size: Bytes(len(blocks)-1) << 20, Pieces: mebibytes(blocks[1:])})
	case "manifest":
		b.names = append(b.names, words[1])
		b.Manifests = append(b.Manifests, Stored{
			ID: ManifestID(named(words[1])), Tokens: Tokens(number("tokens")), Bytes: 1 << 10, Pieces: mebibytes(blocks[1:]), Pinned: pinned, Stale: stale,
			PerToken: number("slow"), Use: Use{number("weight"), day().Add(-time.Duration(number("used") * float64(time.Hour))), uint64(len(b.Manifests) + 1)},
		})
	case "goal":
		b.goal = Goal{Target: Bytes(number("target") * (1 << 20)), Budget: Bytes(number("budget")) << 20, Spare: 1 << 40, Now: day(), All: all}
		if _, ok := opts["spare"]; ok {
			b.goal.Spare = Bytes(number("spare")) << 20
		}
	}
}

// options splits key=value words, and bare words that are options, from the rest.
func options(words []string) (map[string]string, []string) {
	opts, rest := map[string]string{}, []string{}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if ok || slices.Contains([]string{"all", "pinned", "stale"}, w) {
			opts[key] = value
			continue
		}
		rest = append(rest, w)
	}
	return opts, rest
}

func mebibytes(names []string) (out []Piece) {
	for _, n := range names {
		out = append(out, Piece{BlockID(named(n)), 1 << 20})
	}
	return out
}

// readable puts names where the plan has digests.
func (b *script) readable(plan string) string {
	for _, n := range b.names {
		plan = strings.ReplaceAll(plan, named(n).String()[:12], fmt.Sprintf("%-12s", n))
	}
	return plan
}

// Random stores: whatever is planned, the totals equal a full scan after each
// step, usage never passes the budget on the way, the newest and the pinned stay,
// no manifest loses a piece, packs are rewritten only where more than half is dead
// unless nothing else is left, and a goal is missed only when nothing may go.
func TestEvictionInvariants(t *testing.T) {
	base := seed.Of(t)
	for store := range 150 {
		t.Run(fmt.Sprint(store), func(t *testing.T) { evictAtRandom(t, seeded(base, store)) })
	}
}

func evictAtRandom(t *testing.T, r *rand.Rand) {
	w, x := newWarehouse(), 0
	for i := range 3 + r.IntN(25) {
		word := string(rune('a' + r.IntN(6)))
		n := 64 * (1 + r.IntN(12))
		m := saved(Dense, conversation(word, n), uint64(i+1))
		m.LastUsed = day().Add(-time.Duration(r.IntN(200)) * time.Hour)
		if x = r.IntN(3); x == 0 {
			m = saved(Window, conversation(word+"w", n), uint64(i+1))
		}
		if _, id := encoded(t, m); !slices.ContainsFunc(w.Manifests, func(s Stored) bool { return s.ID == id }) {
			w.spill(t, m, 0)
		}
	}
	for i := range w.Manifests {
		w.Manifests[i].Pinned = r.IntN(10) == 0
		w.Manifests[i].Stale = r.IntN(10) == 0
	}
	for i := range w.Packs {
		w.Packs[i].Held = r.IntN(10) == 0
	}
	budget := w.used() + Bytes(r.IntN(2))*Bytes(r.IntN(4000))
	goal := Goal{Target: Bytes(r.Int64N(int64(budget))), Budget: budget, Spare: Bytes(r.IntN(3) * 20_000), Now: day()}
	checkEviction(t, w, goal)
}

func checkEviction(t *testing.T, w *warehouse, goal Goal) {
	t.Helper()
	newest := slices.MaxFunc(w.Manifests, func(a, b Stored) int { return int(a.Use.Serial) - int(b.Use.Serial) })
	pinned := slices.DeleteFunc(slices.Clone(w.Manifests), func(m Stored) bool { return !m.Pinned })
	again := PlanEvict(w.Contents, goal)
	plan := PlanEvict(w.Contents, goal)
	if plan.String() != again.String() {
		t.Fatal("equal stores give different plans")
	}
	if most := w.carryOut(t, plan); most > goal.Budget {
		t.Fatalf("%d bytes used on the way, the budget is %d", most, goal.Budget)
	}
	stays := func(id ManifestID) bool {
		return slices.ContainsFunc(w.Manifests, func(m Stored) bool { return m.ID == id })
	}
	if !stays(newest.ID) {
		t.Fatal("the newest went")
	}
	for _, m := range pinned {
		if !stays(m.ID) {
			t.Fatal("a pinned one went")
		}
	}
	if plan.Reached != (w.used() <= goal.Target) {
		t.Fatalf("says reached %v at %d of %d", plan.Reached, w.used(), goal.Target)
	}
	for _, m := range w.Manifests {
		if !plan.Reached && !m.Pinned && m.ID != newest.ID {
			t.Fatalf("the goal is missed and %v is left", m.ID)
		}
	}
}

// A plan of nothing, and of a store within its goal, is empty.
func TestNothingToEvict(t *testing.T) {
	if p := PlanEvict(Contents{}, Goal{Budget: 1, Now: day()}); len(p.Steps) != 0 || !p.Reached {
		t.Errorf("%v", p)
	}
	w := newWarehouse()
	w.spill(t, saved(Dense, conversation("a", 640), 1), 0)
	if p := PlanEvict(w.Contents, Goal{Target: w.used(), Budget: w.used(), Now: day()}); len(p.Steps) != 0 {
		t.Errorf("%v", p)
	}
}

// Compaction alone removes no manifest, frees what is dead, and stays within the
// budget and the free space.
func TestPlanCompact(t *testing.T) {
	b := script{}
	for _, l := range []string{"pack dead a b", "pack mostly c d e f", "pack half g h i j", "manifest m used=1 weight=1 tokens=64 f g h k", "pack more k l m n o p"} {
		b.line(t, strings.Fields(l))
	}
	used := b.used()
	for name, c := range map[string]struct {
		goal Goal
		want []string
	}{
		"room for all":     {Goal{Budget: used, Spare: used, Now: day()}, []string{"delete dead", "compact more", "compact mostly"}},
		"no free space":    {Goal{Budget: used, Now: day()}, []string{"delete dead"}},
		"a budget too low": {Goal{Budget: used / 2, Spare: used, Now: day()}, []string{"delete dead"}},
	} {
		var got []string
		for _, s := range PlanCompact(b.Contents, c.goal).Steps {
			for _, n := range b.names {
				if PackID(named(n)) == s.Pack {
					got = append(got, string(s.Kind)+" "+n)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	b.carryOut(t, PlanCompact(b.Contents, Goal{Budget: used, Spare: used, Now: day()}))
}

func TestUse(t *testing.T) {
	u := Use{Weight: 4, At: day(), Serial: 3}
	for after, want := range map[time.Duration]float64{0: 4, HalfLife: 2, 3 * HalfLife: 0.5, -HalfLife: 4} {
		if got := u.Now(day().Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	if v := u.Again(day().Add(HalfLife), 9); v.Weight != 3 || v.Serial != 9 || !v.At.Equal(day().Add(HalfLife)) {
		t.Errorf("used again: %+v", v)
	}
	if v := u.Again(day().Add(-time.Hour), 2); v.Weight != 5 || v.Serial != 3 || !v.At.Equal(day()) {
		t.Errorf("used under a clock that went back: %+v", v)
	}
}

func TestInventory(t *testing.T) {
	base := conversation("i", 640)
	a, b := saved(Dense, base[:320], 1), saved(Dense, base, 2)
	_, idA := encoded(t, a)
	_, idB := encoded(t, b)
	list := Inventory([]Stored{a.Stored(idA, 100), b.Stored(idB, 200)})
	block := smallLayout(Dense).BlockBytes(64)
	if len(list) != 2 || list[0].Tokens != 640 || list[0].Bytes != 200+10*block || list[0].ExclusiveBytes != 200+5*block {
		t.Errorf("%+v", list)
	}
	if list[1].Bytes != 100+5*block || list[1].ExclusiveBytes != 100 || list[1].Sessions[0] != "s" {
		t.Errorf("%+v", list[1])
	}
}
