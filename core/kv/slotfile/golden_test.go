package slotfile

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/kv"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/real.txtar anew")

// realFiles are small files that llama-server build 11669 saved: one per kind of
// memory, cache type and stream layout.
func realFiles(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/real/*.slot")
	if err != nil || len(names) == 0 {
		t.Fatal("no real files", err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), ".slot")] = b
	}
	return out
}

// What is found in the engine's own files, region by region.
func TestRealFiles(t *testing.T) {
	got := &txtar.Archive{Comment: []byte("Slot files of llama-server build 11669, as they are read.\n")}
	files := realFiles(t)
	for _, name := range slices.Sorted(mapKeys(files)) {
		got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(dump(parse(t, files[name])))})
	}
	const golden = "testdata/real.txtar"
	if *rewrite {
		if err := os.WriteFile(golden, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != string(txtar.Format(got)) {
		t.Errorf("%v; now:\n%s", err, txtar.Format(got))
	}
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// dump is a file for a person: adjacent regions of a kind are one line, with the
// first and last of their sizes.
func dump(f *File) string {
	var b strings.Builder
	l := f.Layout
	fmt.Fprintf(&b, "%v, %d tokens, stream %d of %d, %d layers, %d bytes a token", l.Memory, len(f.Tokens), f.Stream, f.Streams, l.Layers, l.RowBytes())
	fmt.Fprintf(&b, ", transposed %v, in order %v, rotation %d/%d, cells of %d bytes\n", l.Transposed, f.order == nil, l.RotK, l.RotV, cellBytes+int(l.CellExtra))
	names := map[kv.RegionKind]string{kv.RegionHeader: "header", kv.RegionTokens: "tokens", kv.RegionCells: "cells", kv.RegionRows: "rows", kv.RegionBoundary: "part", kv.RegionAppendix: "appendix"}
	for _, r := range f.Geometry.Regions {
		fmt.Fprintf(&b, "%8d %6d %s", r.Offset, r.Size, names[r.Kind])
		if r.Kind == kv.RegionRows {
			run := l.Runs[r.Run]
			fmt.Fprintf(&b, " of run %d, type %d, %d bytes each", r.Run, run.Type, run.Row)
			if run.Elem > 0 {
				fmt.Fprintf(&b, ", in columns of %d", run.Elem)
			}
		}
		b.WriteByte('\n')
	}
	for _, p := range f.Parts {
		fmt.Fprintf(&b, "may end at %d: positions %d to %d, appendix %v\n", p.Position, p.PosMin, p.PosMax, p.Appendix)
	}
	return b.String()
}

// Real files come back to the byte, and the engine's own checkpoints are states
// of their length. A shuffled pool comes back in order.
func TestRealFilesComeBack(t *testing.T) {
	for name, b := range realFiles(t) {
		f := parse(t, b)
		at := Target{max(1, f.Streams), f.Slot}
		if f.Streams == 0 {
			at.Slot = 1 // as it was saved; the file says so in its checkpoints only
		}
		m, pieces := split(t, b, len(f.Tokens))
		whole := join(t, m, pieces, len(f.Tokens), at)
		if f.order == nil {
			same(t, name, whole, b)
		} else {
			inOrder, again := split(t, whole, len(f.Tokens))
			same(t, name, join(t, inOrder, again, len(f.Tokens), at), whole)
		}
		for _, p := range f.Parts {
			cut := parse(t, join(t, m, pieces, int(p.Position), at))
			if kv.Tokens(len(cut.Tokens)) != p.Position || cut.Layout.Memory != m.Layout.Memory {
				t.Errorf("%s cut at %d: %d tokens, %v", name, p.Position, len(cut.Tokens), cut.Layout.Memory)
			}
		}
	}
}
