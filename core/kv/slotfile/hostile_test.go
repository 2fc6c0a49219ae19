package slotfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"holdfast/core/kv"
	"holdfast/core/seed"
)

// everything is all sample and real files.
func everything(t testing.TB) map[string][]byte {
	out := realFiles(t)
	for name, e := range samples() {
		out["written: "+name] = e.file()
	}
	return out
}

// A shorter file is refused, at every 4 KiB and at every byte near its end: the
// engine aborts on some of these. Two lengths look whole, and only the size the
// engine answered tells: a state without its appendix, and the rows of a state
// whose other memory is gone.
func truncated(t *testing.T) {
	files := everything(t)
	if raced {
		files = realFiles(t)
	}
	for name, b := range files {
		whole := parse(t, b)
		for n := range len(b) {
			if n%4096 != 0 && n < len(b)-256 && n > 512 && !seam(whole, n) {
				continue
			}
			f, err := Parse(&disk{b[:n]}, int64(n))
			if (err == nil) != seam(whole, n) {
				t.Fatalf("%s: %d of %d bytes, read as %+v: %v", name, n, len(b), f, err)
			}
		}
	}
}

// seam reports whether a whole state ends at byte n: where a part or an appendix
// begins.
func seam(f *File, n int) bool {
	return slices.ContainsFunc(f.Geometry.Regions, func(r kv.Region) bool {
		begins := r.Kind == kv.RegionAppendix || r.Kind == kv.RegionBoundary && f.Layout.Memory != kv.Recurrent
		return begins && int(r.Offset) == n
	})
}

func TestTrailingBytes(t *testing.T) {
	for name, b := range everything(t) {
		for _, more := range []string{"x", "\x00\x00\x00\x00", "SCKP", "SDFT\x01\x00\x00\x00", "SCKP\x01\x00\x00\x00\x00\x00\x00\x00SCKP\x01\x00\x00\x00\x00\x00\x00\x00"} {
			c := append(slices.Clone(b), more...)
			if _, err := Parse(&disk{c}, int64(len(c))); err == nil {
				t.Errorf("%s with %q behind it is read", name, more)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	for name, b := range everything(t) {
		for _, v := range []uint32{0, 2, 3, 5, 1 << 31} {
			c := slices.Clone(b)
			binary.LittleEndian.PutUint32(c[4:], v)
			if _, err := Parse(&disk{c}, int64(len(c))); !errors.Is(err, ErrVersion) {
				t.Errorf("%s of version %d: %v", name, v, err)
			}
			if _, err := ParseOpaque(&disk{c}, int64(len(c))); !errors.Is(err, ErrVersion) {
				t.Errorf("%s of version %d, opaque: %v", name, v, err)
			}
		}
	}
}

// Every header byte, changed: the flip is refused, or it is harmless, or it
// is carried. Harmless: what comes out of the store equals what the engine saved
// (sequence ids). Carried, since nothing in the file contradicts it: a token id,
// which the caller compares with what it sent; an element type or rotation, which
// or how V lies where there is none, which makes another Layout; a checkpoint's first position; a draft state's tag. The
// engine refuses or ignores the last four.
func TestFlippedHeaders(t *testing.T) {
	for name, e := range samples() {
		e.tokens = e.tokens[:70]
		e.checks = slices.DeleteFunc(e.checks, func(c int) bool { return c >= 70 })
		b := e.file()
		m, pieces := split(t, b, len(e.tokens))
		tally := map[string]int{}
		for i, at := range headerBytes(parse(t, b), e) {
			if raced && i%4 > 0 {
				continue
			}
			for _, flip := range flips() {
				c := slices.Clone(b)
				c[at] ^= flip
				f, err := Parse(&disk{c}, int64(len(c)))
				if err != nil {
					tally["refused"]++
					continue
				}
				what := outcome(t, f, m, pieces, e)
				if what == "" {
					t.Errorf("%s: byte %d changed by %#x goes unseen", name, at, flip)
				}
				tally[what]++
			}
		}
		t.Logf("%-11s %v", name, tally)
	}
}

// flips are the changes to try: the lowest bit and all; every bit in the long
// form.
func flips() []byte {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_PROGRAMS")); err == nil && n >= 1000 {
		return []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}
	}
	if raced {
		return []byte{1}
	}
	return []byte{1, 255}
}

// headerBytes are the offsets of everything but rows and opaque values.
func headerBytes(f *File, e engine) (out []int) {
	for _, r := range f.Geometry.Regions {
		end := r.Offset + r.Size
		if r.Kind == kv.RegionRows {
			continue
		}
		if r.Kind == kv.RegionAppendix || r.Kind == kv.RegionBoundary {
			end = r.Offset + min(r.Size, 72) // magic, counts, the first header
		}
		for at := r.Offset; at < end; at++ {
			out = append(out, int(at))
		}
	}
	return out
}

func outcome(t *testing.T, f *File, m *kv.Manifest, pieces [][]byte, e engine) string {
	switch diff := differing(f.Tokens, m.Tokens); {
	case len(f.Tokens) != len(m.Tokens) || diff > 1:
		return ""
	case diff == 1:
		return "token"
	}
	if !f.Layout.Equal(m.Layout) {
		l := f.Layout
		l.Transposed = m.Layout.Transposed
		l.RotK, l.RotV, l.Runs = m.Layout.RotK, m.Layout.RotV, slices.Clone(l.Runs)
		for i := range min(len(l.Runs), len(m.Layout.Runs)) {
			l.Runs[i].Type = m.Layout.Runs[i].Type
		}
		if l.Equal(m.Layout) {
			return "layout"
		}
		return ""
	}
	again, err := f.Manifest(len(f.Tokens), f.Parts, nil)
	if err != nil {
		return ""
	}
	if len(again.Boundaries) != len(m.Boundaries) || !slices.Equal(again.Blocks, m.Blocks) || again.Tail != m.Tail {
		return ""
	}
	for i, x := range again.Boundaries {
		y := m.Boundaries[i]
		if x != y {
			x.PosMin, x.Blob = y.PosMin, y.Blob
			if x == y {
				return "part" // inside what only the engine reads
			}
			return ""
		}
	}
	ordered := e
	ordered.order = nil
	same(t, "a harmless flip", join(t, again, pieces, len(f.Tokens), e.target()), ordered.file())
	return "harmless"
}

func differing(a, b []kv.Token) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// Flips in rows pass the parser, as they pass the engine; the digest of their
// piece does not let them back in.
func flippedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	for name, e := range samples() {
		m, pieces := split(t, e.file(), len(e.tokens))
		a, err := Assemble(&disk{}, m, plan(t, m, len(e.tokens)), e.target())
		if err != nil {
			t.Fatal(err)
		}
		for range 700 {
			i := r.IntN(len(pieces))
			c := slices.Clone(pieces[i])
			c[r.IntN(len(c))] ^= 1 << r.IntN(8)
			var corrupt *CorruptError
			if err := a.Put(i, c); !errors.As(err, &corrupt) {
				t.Fatalf("%s, piece %d: %v", name, i, err)
			}
		}
	}
}

// Counts and lengths that lie cost nothing: no allocation is larger than the file
// by more than the reader's own window.
func TestLyingLengths(t *testing.T) {
	for name, b := range realFiles(t) {
		f := parse(t, b)
		for at := 8; at+4 <= len(b); at += 4 {
			if at > 24 && !headerAt(f, at) {
				continue
			}
			for _, v := range []uint32{1 << 31, 0xffffffff, 1 << 24, uint32(len(b)), uint32(len(b) / 4)} {
				c := slices.Clone(b)
				binary.LittleEndian.PutUint32(c[at:], v)
				if grown := allocated(func() { _, _ = Parse(&disk{c}, int64(len(c))) }); grown > uint64(40*len(b)+64*window) {
					t.Fatalf("%s: %d at byte %d makes the parser take %d bytes for a file of %d", name, v, at, grown, len(b))
				}
			}
		}
	}
}

func headerAt(f *File, at int) bool {
	return slices.ContainsFunc(f.Geometry.Regions, func(r kv.Region) bool {
		return r.Kind == kv.RegionHeader && at >= int(r.Offset) && at < int(r.Offset+r.Size)
	})
}

func allocated(do func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	do()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// A file whose rows cannot be placed is kept whole: it comes back to the byte,
// at its own length, for its own number of streams.
func TestOpaque(t *testing.T) {
	e := samples()["streams"]
	b := append(e.file(), "what a later engine adds"...)
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Fatal(err)
	}
	f, err := ParseOpaque(&disk{b}, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Manifest(len(f.Tokens), f.Parts, nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := f.Piece(m, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "opaque", join(t, m, [][]byte{blob}, len(f.Tokens), Target{4, 1}), b)
	if _, err := Assemble(&disk{}, m, plan(t, m, len(f.Tokens)), Target{2, 1}); !errors.Is(err, kv.ErrGeometry) {
		t.Errorf("for two streams: %v", err)
	}
	if m.End(len(f.Tokens)-1) != 0 {
		t.Error("an opaque state can be cut")
	}
}

// FuzzParse: any bytes give a file that comes back as what was read, or a
// refusal; never a panic. Seeds are files of a real engine.
func FuzzParse(f *testing.F) {
	for _, b := range everything(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(&disk{b}, int64(len(b)))
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) && !errors.Is(err, kv.ErrGeometry) {
				t.Fatalf("a refusal without a type: %v", err)
			}
			return
		}
		n := len(file.Tokens)
		keep := file.Parts[max(0, len(file.Parts)-kv.MaxBoundaries):]
		m, err := file.Manifest(n, keep, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Encode(); err != nil {
			t.Fatal(err)
		}
		var pieces [][]byte
		for i := range m.Pieces() {
			p, err := file.Piece(m, i, nil)
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, p)
		}
		again := parse(t, join(t, m, pieces, n, Target{max(1, file.Streams), file.Slot}))
		twice, err := again.Manifest(n, again.Parts, nil)
		if err != nil || fmt.Sprint(twice.Pieces()) != fmt.Sprint(m.Pieces()) || !twice.Layout.Equal(m.Layout) {
			t.Fatalf("%v: read again it is another state", err)
		}
	})
}
