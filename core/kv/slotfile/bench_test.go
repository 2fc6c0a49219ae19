package slotfile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"holdfast/core/kv"
)

// large is a file the size of a real conversation: 16 layers, 1 KiB rows, 2,048
// tokens, 64 MiB of rows; written by the assembly, since only its size matters.
func large(b *testing.B, transposed bool) (*os.File, *File, *kv.Manifest, [][]byte) {
	b.Helper()
	l := kv.Layout{Version: Version, Memory: kv.Dense, Layers: 16, Transposed: transposed}
	for i := range 32 {
		r := kv.Run{Type: 1, Row: 1024}
		if transposed && i >= 16 {
			r.Elem = 2
		}
		l.Runs = append(l.Runs, r)
	}
	m := &kv.Manifest{Codec: kv.Raw(), Layout: l, Streams: 2, Tokens: make([]kv.Token, 2048)}
	r := rand.NewChaCha8([32]byte{1})
	var pieces [][]byte
	for range len(m.Tokens) / kv.BlockTokens {
		p := make([]byte, l.BlockBytes(kv.BlockTokens))
		_, _ = r.Read(p)
		pieces, m.Blocks = append(pieces, p), append(m.Blocks, kv.BlockOf(p))
	}
	out, err := os.Create(filepath.Join(b.TempDir(), "large"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = out.Close() })
	size := fillFile(b, out, m, pieces)
	f, err := Parse(out, size)
	if err != nil {
		b.Fatal(err)
	}
	return out, f, m, pieces
}

func fillFile(b *testing.B, out *os.File, m *kv.Manifest, pieces [][]byte) int64 {
	a, err := Assemble(out, m, kv.FillPlan{Tokens: len(m.Tokens)}, Target{2, 0})
	if err != nil {
		b.Fatal(err)
	}
	for i, p := range pieces {
		if err := a.Put(i, p); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Finish(); err != nil {
		b.Fatal(err)
	}
	return a.Size()
}

func BenchmarkParse(b *testing.B) {
	out, f, _, _ := large(b, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(out, f.size); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGather is reading rows without naming them.
func BenchmarkGather(b *testing.B) { benchGather(b, false) }

func BenchmarkGatherTransposed(b *testing.B) { benchGather(b, true) }

func benchGather(b *testing.B, transposed bool) {
	_, f, _, _ := large(b, transposed)
	b.SetBytes(int64(f.Layout.BlockBytes(len(f.Tokens))))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		for k := 0; k < len(f.Tokens); k += kv.BlockTokens {
			var err error
			if buf, err = f.Gather(k, k+kv.BlockTokens, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkScan is a spill's pass over the file: read and name every block.
func BenchmarkScan(b *testing.B) { benchScan(b, false) }

func BenchmarkScanTransposed(b *testing.B) { benchScan(b, true) }

func benchScan(b *testing.B, transposed bool) {
	_, f, _, _ := large(b, transposed)
	b.SetBytes(int64(f.Layout.BlockBytes(len(f.Tokens))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Scan(len(f.Tokens), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAssemble is a fill's pass: verify every block and write its rows.
func BenchmarkAssemble(b *testing.B) { benchAssemble(b, false) }

func BenchmarkAssembleTransposed(b *testing.B) { benchAssemble(b, true) }

func benchAssemble(b *testing.B, transposed bool) {
	out, f, m, pieces := large(b, transposed)
	b.SetBytes(int64(f.Layout.BlockBytes(len(f.Tokens))))
	b.ReportAllocs()
	for b.Loop() {
		fillFile(b, out, m, pieces)
	}
}

// BenchmarkHash is the digest alone: the floor under the others.
func BenchmarkHash(b *testing.B) {
	_, _, m, pieces := large(b, false)
	b.SetBytes(int64(m.Layout.BlockBytes(len(m.Tokens))))
	for b.Loop() {
		for _, p := range pieces {
			if kv.BlockOf(p).IsZero() {
				b.Fatal("no digest")
			}
		}
	}
}
