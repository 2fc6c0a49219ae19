package slotfile

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"holdfast/core/kv"
)

// Every kind is read for what it is, to the last byte.
func TestParse(t *testing.T) {
	kinds := map[string]kv.Memory{"window": kv.Window, "window one": kv.Window, "hybrid": kv.Hybrid, "all three": kv.HybridWindow, "recurrent": kv.Recurrent}
	for name, e := range samples() {
		f := parse(t, e.file())
		want := kinds[name]
		if want == 0 {
			want = kv.Dense
		}
		if f.Layout.Memory != want || len(f.Tokens) != len(e.tokens) || f.Layout.RotK != e.rot || (f.Layout.CellExtra > 0) != e.extra {
			t.Errorf("%s: %+v", name, f.Layout)
		}
		if runs := e.layers * 2; want != kv.Recurrent && !e.latent && (len(f.Layout.Runs) != runs || f.Layout.RowBytes() != kv.Bytes(runs*e.row)) {
			t.Errorf("%s: %d runs, %d bytes a token", name, len(f.Layout.Runs), f.Layout.RowBytes())
		}
		if err := f.Layout.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		parts := len(e.checks)
		if want != kv.Dense {
			parts++
		}
		if e.draft > 0 {
			parts++
		}
		if len(f.Parts) != parts {
			t.Errorf("%s: %d parts, %d expected", name, len(f.Parts), parts)
		}
	}
}

// Splitting a file and assembling it for where it came from gives its bytes. A
// shuffled pool comes out in order, as a save without gaps would have it.
func TestSplitAndAssembleIsIdentity(t *testing.T) {
	for name, e := range samples() {
		m, pieces := split(t, e.file(), len(e.tokens))
		ordered := e
		ordered.order = nil
		same(t, name, join(t, m, pieces, len(e.tokens), e.target()), ordered.file())
	}
}

// A state cut at any row is the file the engine would have saved there; a state
// that cannot be cut, at any of its parts.
func cutAtAnyRow(t *testing.T) {
	for name, e := range samples() {
		m, pieces := split(t, e.file(), len(e.tokens))
		for n := 1; n < len(e.tokens); n++ {
			if raced && n%7 > 1 && !slices.Contains(e.checks, n) {
				continue
			}
			if !m.Layout.Memory.Cuttable() && !slices.Contains(e.checks, n) {
				if m.End(n) == n {
					t.Errorf("%s may end at %d", name, n)
				}
				continue
			}
			same(t, name, join(t, m, pieces, n, e.target()), e.cut(n).file())
		}
	}
}

// A file made for another number of streams, another slot or a unified pool is
// what an engine with these would have saved.
func TestOtherStreams(t *testing.T) {
	for name, e := range samples() {
		if e.streams == 0 || e.draft > 0 {
			continue // without streams, or with parts that fit one number only
		}
		m, pieces := split(t, e.file(), len(e.tokens))
		for _, at := range []Target{{1, 0}, {1, 5}, {2, 0}, {2, 1}, {7, 6}, {256, 128}} {
			want := e.at(at)
			want.order = nil
			same(t, name, join(t, m, pieces, len(e.tokens), at), want.file())
		}
	}
}

// A draft model's state goes with its own number of streams and whole states only.
func TestDraftState(t *testing.T) {
	e := samples()["draft"]
	m, pieces := split(t, e.file(), len(e.tokens))
	for _, c := range []struct {
		at Target
		n  int
	}{{Target{2, 0}, len(e.tokens)}, {Target{1, 0}, len(e.tokens) - 1}} {
		f := parse(t, assembleLoosely(t, m, pieces, c.n, c.at))
		if len(f.Parts) != 0 {
			t.Errorf("%+v: the draft state is there", c)
		}
	}
}

// assembleLoosely puts only the pieces that the assembly takes.
func assembleLoosely(t *testing.T, m *kv.Manifest, pieces [][]byte, n int, at Target) []byte {
	t.Helper()
	var d disk
	a, err := Assemble(&d, m, plan(t, m, n), at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.left {
		if err := a.Put(i, pieces[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	return d.b
}

// Growth adds rows: the blocks of a prefix have the same names in every longer
// save, whatever the streams, and however the pool was filled.
func TestGrowthKeepsBlocks(t *testing.T) {
	e := samples()["shuffled"]
	long, _ := split(t, e.file(), len(e.tokens))
	for _, n := range []int{64, 127, 128, 150} {
		short, _ := split(t, e.cut(n).at(Target{4, 2}).file(), n)
		if !slices.Equal(short.Blocks, long.Blocks[:n/64]) {
			t.Errorf("at %d tokens the blocks have other names", n)
		}
	}
}

// Scan hands every block over once, in order, with its name.
func TestScan(t *testing.T) {
	e := samples()["transposed"]
	f := parse(t, e.file())
	var seen []kv.BlockID
	ids, err := f.Scan(len(e.tokens), func(k int, id kv.BlockID, block []byte) error {
		if k != len(seen) || kv.BlockOf(block) != id {
			t.Errorf("block %d out of order or misnamed", k)
		}
		seen = append(seen, id)
		return nil
	})
	if err != nil || !slices.Equal(ids, seen) || len(ids) != 3 {
		t.Errorf("%d blocks, %v", len(ids), err)
	}
	stop := errors.New("stop")
	if _, err := f.Scan(150, func(int, kv.BlockID, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the caller's error is lost: %v", err)
	}
	for _, r := range [][2]int{{-1, 3}, {0, 1000}, {5, 4}} {
		if _, err := f.Gather(r[0], r[1], nil); err == nil {
			t.Errorf("rows %v exist", r)
		}
	}
}

// A piece that is not the one named never reaches the file, and without it the
// file is never whole.
func TestAssemblyRefusesForeignPieces(t *testing.T) {
	e := samples()["dense"]
	m, pieces := split(t, e.file(), len(e.tokens))
	var d disk
	a, err := Assemble(&d, m, plan(t, m, len(e.tokens)), e.target())
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(d.b)
	flipped := slices.Clone(pieces[1])
	flipped[5] ^= 1
	for name, p := range map[string][]byte{"another piece": pieces[0], "flipped": flipped, "short": pieces[1][:10], "empty": nil, "long": append(slices.Clone(pieces[1]), 0)} {
		var corrupt *CorruptError
		if err := a.Put(1, p); !errors.As(err, &corrupt) || corrupt.Index != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Equal(before, d.b) {
		t.Error("something of them was written")
	}
	if err := a.Put(9, pieces[0]); err == nil {
		t.Error("a piece that is not of the file was taken")
	}
	for i, p := range pieces {
		if i != 1 {
			if err := a.Put(i, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Put(0, pieces[0]); err == nil {
		t.Error("a piece was taken twice")
	}
	if err := a.Finish(); !errors.Is(err, ErrIncomplete) {
		t.Errorf("without a piece: %v", err)
	}
}

func TestTargets(t *testing.T) {
	e := samples()["dense"]
	m, _ := split(t, e.file(), len(e.tokens))
	for _, at := range []Target{{}, {0, 1}, {2, 2}, {257, 0}, {1, 256}} {
		if _, err := Assemble(&disk{}, m, plan(t, m, 64), at); err == nil {
			t.Errorf("%+v is written for", at)
		}
	}
	if _, err := Assemble(&disk{}, m, kv.FillPlan{Tokens: 0}, Target{1, 0}); err == nil {
		t.Error("a state of no tokens is written")
	}
}

// brokenDisk fails reads or writes from a place on.
type brokenDisk struct {
	disk
	from int64
	err  error
}

func (d *brokenDisk) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > d.from {
		return 0, d.err
	}
	return d.disk.ReadAt(p, at)
}

func (d *brokenDisk) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > d.from {
		return 0, d.err
	}
	return d.disk.WriteAt(p, at)
}

// The disk's errors come out as they are: they say nothing about the file, which
// must not be thrown away for them.
func diskErrors(t *testing.T) {
	trouble := errors.New("i/o trouble")
	for _, name := range slices.Sorted(maps.Keys(samples())) {
		e := samples()[name]
		b := e.file()
		for from := int64(0); from < int64(len(b)); from += 97 {
			d := &brokenDisk{disk{b}, from, trouble}
			f, err := Parse(d, int64(len(b)))
			if err == nil {
				_, err = f.Manifest(len(e.tokens), f.Parts, nil)
			}
			var refused *Refusal
			if !errors.Is(err, trouble) || errors.As(err, &refused) {
				t.Fatalf("%s, from byte %d: %v", name, from, err)
			}
		}
		m, pieces := split(t, b, len(e.tokens))
		for from := int64(0); from < int64(len(b)); from += 997 {
			d := &brokenDisk{from: from, err: trouble}
			a, err := Assemble(d, m, plan(t, m, len(e.tokens)), e.target())
			for i := 0; err == nil && i < len(pieces); i++ {
				err = a.Put(i, pieces[i])
			}
			if !errors.Is(err, trouble) {
				t.Fatalf("%s, writing from byte %d: %v", name, from, err)
			}
		}
	}
}

// A file that is shorter than it was said to be is damaged, not unread.
func TestFileShorterThanItsSize(t *testing.T) {
	b := samples()["dense"].file()
	for _, n := range []int{0, 3, 11, 100, 800, len(b) - 7000} {
		_, err := Parse(&disk{b[:n]}, int64(len(b)))
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	f := parse(t, b)
	f.src = &disk{b[:len(b)-1]}
	if _, err := f.Scan(len(f.Tokens), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("rows that went away: %v", err)
	}
}

// Columns longer than one stretch: blocks on both sides of its end come out as
// the engine would save them, in any order of pieces.
func TestTransposedOverStretches(t *testing.T) {
	e := engine{tokens: make([]int32, 66*64+9), streams: 1, layers: 1, row: 4, kind: f16, transpose: true, seed: 8}
	for i := range e.tokens {
		e.tokens[i] = int32(i % 384)
	}
	m, pieces := split(t, e.file(), len(e.tokens))
	for _, n := range []int{len(e.tokens), 64*64 + 1, 64 * 64, 100} {
		var d disk
		a, err := Assemble(&d, m, plan(t, m, n), e.target())
		if err != nil {
			t.Fatal(err)
		}
		for i := len(pieces) - 1; i >= 0; i-- {
			if i*64 >= n {
				continue
			}
			if err := a.Put(i, pieces[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Finish(); err != nil {
			t.Fatal(err)
		}
		same(t, "transposed", d.b, e.cut(n).file())
	}
}
