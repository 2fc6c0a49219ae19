package kv

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// shelf places the pieces of manifests in packs: each list of indexes is one pack.
func shelf(m *Manifest, packs ...[]int) func(BlockID) (Location, bool) {
	at := map[BlockID]Location{}
	pieces := m.Pieces()
	for i, list := range packs {
		offset := Bytes(8)
		for _, n := range list {
			at[pieces[n].ID] = Location{PackID(named(string(rune('a' + i)))), offset, pieces[n].Size}
			offset += pieces[n].Size
		}
	}
	return func(id BlockID) (Location, bool) { l, ok := at[id]; return l, ok }
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestPlanFill(t *testing.T) {
	m := saved(Dense, conversation("fill", 300), 1) // 4 blocks and a tail
	where := shelf(m, []int{0, 1, 2}, []int{4, 3})
	for n, want := range map[int]struct {
		pieces []int
		reads  int
	}{
		300: {[]int{0, 1, 2, 3, 4}, 3}, 299: {[]int{0, 1, 2, 3, 4}, 3}, 256: {[]int{0, 1, 2, 3}, 2}, 192: {[]int{0, 1, 2}, 1}, 65: {[]int{0, 1}, 1}, 1: {[]int{0}, 1},
	} {
		p, err := PlanFill(ManifestID{1}, m, n, where, Rates{})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		total := Bytes(0)
		for _, r := range p.Reads {
			at := Bytes(0)
			for _, x := range r.Pieces {
				if x.At != at {
					t.Errorf("%d tokens: piece %d at %d of its read, expected %d", n, x.Index, x.At, at)
				}
				at += x.Size
				got = append(got, x.Index)
			}
			if at != r.Size {
				t.Errorf("%d tokens: a read of %d bytes holds %d", n, r.Size, at)
			}
			total += r.Size
		}
		if !slices.Equal(got, want.pieces) || len(p.Reads) != want.reads || total != p.Bytes || p.Tokens != n {
			t.Errorf("%d tokens: pieces %v in %d reads, %d of %d bytes", n, got, len(p.Reads), total, p.Bytes)
		}
	}
	for _, n := range []int{-1, 0, 301} {
		if _, err := PlanFill(ManifestID{}, m, n, where, Rates{}); err == nil {
			t.Errorf("%d tokens are planned", n)
		}
	}
}

// Reads are whole pieces up to 8 MiB; a larger piece is read alone.
func TestReadsAreBounded(t *testing.T) {
	m := saved(Dense, conversation("wide", 1000), 1)
	for i := range m.Layout.Runs {
		m.Layout.Runs[i].Row = 8 << 10 // 2 MiB a block
	}
	p, err := PlanFill(ManifestID{}, m, 1000, shelf(m, upTo(16)), Rates{})
	if err != nil || len(p.Reads) != 4 {
		t.Fatalf("%d reads, %v", len(p.Reads), err)
	}
	for _, r := range p.Reads {
		if r.Size > readMax {
			t.Errorf("a read of %d bytes", r.Size)
		}
	}
	for i := range m.Layout.Runs {
		m.Layout.Runs[i].Row = 64 << 10 // 16 MiB
	}
	if p, _ := PlanFill(ManifestID{}, m, 128, shelf(m, upTo(16)), Rates{}); len(p.Reads) != 2 {
		t.Errorf("%d reads of blocks that are larger than a read", len(p.Reads))
	}
}

// A state that cannot be cut is read with the part at its end, the engine's
// earlier checkpoints, and no later ones.
func TestPlanFillAtBoundaries(t *testing.T) {
	m := saved(Window, conversation("fill", 300), 1)
	m.Boundaries = []Boundary{boundaryAt(100, 5), boundaryAt(200, 5), boundaryAt(300, 5), {Position: 300, Blob: BlockOf([]byte("draft")), Size: 9, Appendix: true}}
	where := shelf(m, upTo(9))
	for n, want := range map[int][]int{300: {0, 1, 2, 3}, 200: {0, 1}, 100: {0}} {
		p, err := PlanFill(ManifestID{}, m, n, where, Rates{})
		if err != nil || !slices.Equal(p.Boundaries, want) {
			t.Errorf("%d tokens: boundaries %v, %v", n, p.Boundaries, err)
		}
	}
	for _, n := range []int{99, 101, 299} {
		if _, err := PlanFill(ManifestID{}, m, n, where, Rates{}); err == nil {
			t.Errorf("planned an end at %d", n)
		}
	}
	r := saved(Recurrent, conversation("fill", 300), 1)
	if p, err := PlanFill(ManifestID{}, r, 300, shelf(r, upTo(1)), Rates{}); err != nil || p.Bytes != 500 {
		t.Errorf("recurrent: %+v, %v", p, err)
	}
}

// A piece that is gone, or has another size than the manifest says, is a miss.
func TestPlanFillWithoutAPiece(t *testing.T) {
	m := saved(Dense, conversation("gone", 300), 1)
	var missing *MissingError
	if _, err := PlanFill(ManifestID{}, m, 300, shelf(m, []int{0, 1, 3, 4}), Rates{}); !errors.As(err, &missing) || missing.ID != m.Blocks[2] {
		t.Errorf("%v", err)
	}
	other := *m
	other.Layout = smallLayout(Dense)
	other.Layout.Runs[0].Row = 32
	if _, err := PlanFill(ManifestID{}, m, 300, shelf(&other, upTo(5)), Rates{}); !errors.As(err, &missing) {
		t.Errorf("of another size: %v", err)
	}
	if _, err := PlanFill(ManifestID{}, m, 128, shelf(m, []int{0, 1}), Rates{}); err != nil {
		t.Errorf("a piece that is not needed is missing: %v", err)
	}
}

func TestOffer(t *testing.T) {
	rates := Rates{Prefill: 100, Disk: 1 << 30, Engine: 2 << 30}
	for name, c := range map[string]struct {
		rates Rates
		n     Tokens
		bytes Bytes
		pays  bool
	}{
		"long":                       {rates, 4000, 128 << 20, true},
		"a token of a gigabyte":      {rates, 1, 1 << 30, false},
		"at break-even":              {Rates{Prefill: 1000, Disk: 1 << 20}, 1020, 1 << 20, false},
		"just beyond":                {Rates{Prefill: 1000, Disk: 1 << 20}, 1021, 1 << 20, true},
		"a slow disk":                {Rates{Prefill: 5000, Disk: 10 << 20}, 4000, 128 << 20, false},
		"nothing measured":           {Rates{}, 300, 1 << 30, true},
		"the engine is not measured": {Rates{Prefill: 100, Disk: 1 << 30}, 300, 1 << 20, true},
		"no tokens":                  {Rates{}, 0, 0, false},
	} {
		if o := c.rates.Offer(c.n, c.bytes); o.Pays != c.pays || o.Saved() < 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if o := rates.Offer(4000, 128<<20); o.Prefill != 40*time.Second || o.Restore != restoreFixed+125*time.Millisecond+62500*time.Microsecond {
		t.Errorf("%+v", o)
	}
}

// Moving averages start at the first sample, follow later ones slowly, and take
// nothing that is not a speed.
func TestRates(t *testing.T) {
	r := Rates{}.Prefilled(500, time.Second)
	if r.Prefill != 500 {
		t.Errorf("first sample: %v", r.Prefill)
	}
	if r = r.Prefilled(1500, time.Second); r.Prefill != 600 {
		t.Errorf("second sample: %v", r.Prefill)
	}
	for _, took := range []time.Duration{0, -time.Second} {
		if got := r.Prefilled(100, took); got != r {
			t.Errorf("took %v: %+v", took, got)
		}
	}
	if got := r.Filled(-1, time.Second).Restored(0, time.Second); got != r {
		t.Errorf("no bytes: %+v", got)
	}
	r = r.Filled(1<<30, 500*time.Millisecond).Restored(1<<30, 250*time.Millisecond)
	if r.Disk != 2<<30 || r.Engine != 4<<30 || math.IsNaN(r.Disk) {
		t.Errorf("%+v", r)
	}
}

func TestBeats(t *testing.T) {
	for resident, want := range map[Tokens]bool{0: true, 199: true, 200: false, 201: false} {
		if got := (FillPlan{Tokens: 200}).Beats(resident); got != want {
			t.Errorf("200 stored, %d resident: %v", resident, got)
		}
	}
}
