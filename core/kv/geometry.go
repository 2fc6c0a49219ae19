package kv

import (
	"errors"
	"fmt"
)

// Memory is the kind of memory a state was exported from: it decides where the
// state may be cut.
type Memory uint8

// The kinds. All but Dense may end only at a boundary.
const (
	// Dense is attention over everything: any row is a valid end.
	Dense Memory = iota + 1
	// Window is full attention beside a sliding window.
	Window
	// Hybrid is attention beside a recurrent state.
	Hybrid
	// HybridWindow is all three.
	HybridWindow
	// Recurrent has no rows at all.
	Recurrent
	// Opaque is a state whose rows we cannot place: one blob, whole or not at all.
	Opaque
)

func (m Memory) String() string {
	names := [...]string{"", "dense", "window", "hybrid", "hybrid-window", "recurrent", "opaque"}
	if int(m) >= len(names) {
		return fmt.Sprintf("memory(%d)", uint8(m))
	}
	return names[m]
}

// Cuttable reports whether a state of this kind may end at any row.
func (m Memory) Cuttable() bool { return m == Dense }

// Rows reports whether states of this kind have rows that make blocks.
func (m Memory) Rows() bool { return m != Recurrent && m != Opaque }

// Run is one tensor of a state: a row per token.
type Run struct {
	// Type is the engine's number for the element type.
	Type int32
	// Row is the bytes of one token.
	Row Bytes
	// Elem is the size of an element of a transposed run, in which each of
	// Row/Elem columns is contiguous over the tokens; 0 in a plain run.
	Elem Bytes
}

// Layout is what a state's file holds beside tokens and rows: the shape of the
// model's memory. It depends on the model and its settings, never on the length,
// the slot or the number of streams, and is the template a file is rebuilt from.
type Layout struct {
	// Version of the engine's state format.
	Version uint32
	Memory  Memory
	// CellExtra is the bytes a cell record has beyond 12: M-RoPE coordinates.
	CellExtra uint8
	// Transposed is the engine's word for how V lies, with or without V runs.
	Transposed bool
	// RotK and RotV are the rotation sizes of a quantised cache.
	RotK, RotV uint32
	// Layers with a cache in the rows' section.
	Layers uint32
	// Runs in file order: K of every layer, then V of every layer.
	Runs []Run
}

// RowBytes is what one token adds to a state.
func (l Layout) RowBytes() (n Bytes) {
	for _, r := range l.Runs {
		n += r.Row
	}
	return n
}

// BlockBytes is the size of a block of so many rows.
func (l Layout) BlockBytes(rows int) Bytes { return Bytes(rows) * l.RowBytes() }

// Check refuses a layout that no file can have.
func (l Layout) Check() error {
	for _, r := range l.Runs {
		if r.Row < 1 || r.Row > maxRow || r.Elem < 0 || r.Elem > 0 && r.Row%r.Elem != 0 {
			return fmt.Errorf("%w: a row of %d bytes", ErrGeometry, r.Row)
		}
	}
	if l.Memory < Dense || l.Memory > Opaque || l.Memory.Rows() != (len(l.Runs) > 0) || len(l.Runs) > maxRuns {
		return fmt.Errorf("%w: %v memory with %d runs", ErrGeometry, l.Memory, len(l.Runs))
	}
	return nil
}

// Far above any model, far below what overflows: a row of one layer, and runs.
const (
	maxRow  Bytes = 1 << 26
	maxRuns       = 1 << 14
)

// Equal reports whether two layouts are the same shape.
func (l Layout) Equal(m Layout) bool {
	a, b := appendLayout(nil, l), appendLayout(nil, m)
	return string(a) == string(b)
}

// RegionKind says what a stretch of a file is.
type RegionKind uint8

// The kinds of regions, in the order files have them.
const (
	RegionHeader   RegionKind = iota + 1 // fixed words, counts, run headers
	RegionTokens                         // the token block
	RegionCells                          // one record a token
	RegionRows                           // one run
	RegionBoundary                       // a window or recurrent section
	RegionAppendix                       // checkpoints, draft state
)

// Region is a stretch of a file; Run numbers the run it holds, for rows.
type Region struct {
	Kind         RegionKind
	Run          int
	Offset, Size Bytes
}

// Geometry says where everything in one file lies, down to its last byte.
type Geometry struct {
	Layout  Layout
	Rows    int // tokens
	Regions []Region
}

// ErrGeometry refuses a file that a geometry does not describe exactly. It is
// counted as geometry_rejected.
var ErrGeometry = errors.New("kv: the geometry does not describe the file exactly")

// Exact checks that the regions tile a file of that size, without gap or
// overlap, and that each run is as long as its rows.
func (g Geometry) Exact(size Bytes) error {
	var at Bytes
	for i, r := range g.Regions {
		if r.Offset != at || r.Size < 0 || r.Size > size-at {
			return fmt.Errorf("%w: region %d at %d, expected %d", ErrGeometry, i, r.Offset, at)
		}
		if r.Kind == RegionRows && r.Size != Bytes(g.Rows)*g.Layout.Runs[r.Run].Row {
			return fmt.Errorf("%w: run %d has %d bytes for %d rows", ErrGeometry, r.Run, r.Size, g.Rows)
		}
		at += r.Size
	}
	if at != size {
		return fmt.Errorf("%w: regions end at %d of %d", ErrGeometry, at, size)
	}
	return nil
}
