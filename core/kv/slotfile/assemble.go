package slotfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"holdfast/core/kv"
)

// Target is the place in an engine that a file is written for.
type Target struct {
	Streams uint32 // 1 in a unified pool, the number of slots otherwise
	Slot    uint32
}

// stream is the one that holds the slot's cells.
func (t Target) stream() uint32 {
	if t.Streams == 1 {
		return 0
	}
	return t.Slot
}

// Check refuses a slot its engine does not have: the engine would wrap it.
func (t Target) Check() error {
	if t.Streams < 1 || t.Streams > maxStreams || t.Streams > 1 && t.Slot >= t.Streams || t.Slot >= maxStreams {
		return fmt.Errorf("slotfile: no slot %d among %d streams", t.Slot, t.Streams)
	}
	return nil
}

// CorruptError is a piece whose bytes are not the ones the manifest names.
type CorruptError struct {
	Index int
	ID    kv.BlockID
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("slotfile: piece %d is not %v: damaged on disk", e.Index, e.ID)
}

// Assembly is a slot file in the making: the first tokens of one manifest. Pieces
// may come in any order and from several goroutines; each is checked against its
// digest before a byte of it is written. A file is whole only after Finish.
type Assembly struct {
	w      io.WriterAt
	m      *kv.Manifest
	pieces []kv.Piece
	n      int
	t      Target
	size   int64
	runs   []int64       // offset of each run's first row
	places map[int]place // by index of Pieces, for boundaries

	mu   sync.Mutex // protects what follows
	left map[int]bool
	open map[int]*stretch // of a transposed layout, by first row
}

// place is where a boundary's bytes go, and in which frame.
type place struct {
	at    int64
	check bool // behind a checkpoint's words
}

// Assemble begins the file of a fill plan's tokens and writes everything that is
// not in pieces: headers, tokens, cell records, counts.
func Assemble(w io.WriterAt, m *kv.Manifest, p kv.FillPlan, t Target) (*Assembly, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if p.Tokens < 1 || m.End(p.Tokens) != p.Tokens {
		return nil, fmt.Errorf("slotfile: a state of %d tokens cannot end at %d", len(m.Tokens), p.Tokens)
	}
	if m.Layout.Memory == kv.Opaque && m.Streams != 0 && m.Streams != t.Streams {
		return nil, fmt.Errorf("%w: a state of unknown layout fits %d streams only", kv.ErrGeometry, m.Streams)
	}
	a := &Assembly{w: w, m: m, pieces: m.Pieces(), n: p.Tokens, t: t, places: map[int]place{}, left: map[int]bool{}, open: map[int]*stretch{}}
	out := &sink{w: w}
	out.head(m.Tokens[:a.n])
	if m.Layout.Memory.Rows() {
		a.rows(out)
	}
	a.parts(out, p.Boundaries)
	a.size = out.at
	return a, out.err
}

// Size is the size of the finished file.
func (a *Assembly) Size() int64 { return a.size }

// rows writes the headers of the rows' memory and lists its pieces.
func (a *Assembly) rows(out *sink) {
	l, n := a.m.Layout, int64(a.n)
	out.words(a.t.Streams)
	out.zeros(a.t.stream())
	out.words(uint32(n))
	out.cells(a.m.Tokens[:n], int(l.CellExtra), a.t.Slot)
	out.words(truth(l.Transposed), l.Layers, l.RotK, l.RotV)
	for _, r := range l.Runs {
		if r.Elem > 0 {
			out.words(uint32(r.Type), uint32(r.Elem), uint32(r.Row/r.Elem))
		} else {
			out.words(uint32(r.Type), uint32(r.Row), uint32(r.Row>>32))
		}
		a.runs = append(a.runs, out.at)
		out.skip(int64(r.Row) * n)
	}
	out.zeros(a.t.Streams - 1 - a.t.stream())
	for k := range (a.n + kv.BlockTokens - 1) / kv.BlockTokens {
		a.left[k] = true
	}
}

func truth(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// parts lays out the boundaries: the one at the end right behind the rows, the
// others as checkpoints, then a draft model's state.
func (a *Assembly) parts(out *sink, list []int) {
	rows := len(a.pieces) - len(a.m.Boundaries)
	var checks []int
	draft := -1
	for _, i := range list {
		b := a.m.Boundaries[i]
		switch {
		case b.Appendix && a.m.Streams == a.t.Streams:
			draft = i
		case b.Appendix:
		case int(b.Position) < a.n:
			checks = append(checks, i)
		default:
			a.put(rows+i, place{at: out.at})
			out.skip(a.sized(b))
		}
	}
	if len(checks) > 0 {
		out.words(magicCheck, 1, uint32(len(checks)))
	}
	for _, i := range checks {
		a.checkpoint(out, rows+i, a.m.Boundaries[i])
	}
	if draft >= 0 {
		size := int64(a.m.Boundaries[draft].Size)
		out.words(magicDraft, 1)
		out.long(size - 8)
		a.put(rows+draft, place{at: out.at})
		out.skip(size)
	}
}

func (a *Assembly) checkpoint(out *sink, index int, b kv.Boundary) {
	out.long(int64(b.Position))
	out.words(uint32(b.PosMin), uint32(b.PosMax))
	out.long(8 + a.sized(b))
	out.words(magicState, a.t.Slot)
	a.put(index, place{at: out.at, check: true})
	out.skip(a.sized(b))
	out.long(0)
	out.long(0)
}

func (a *Assembly) put(index int, p place) {
	a.places[index] = p
	a.left[index] = true
}

// sized is the size a boundary has for the target: a window counts every stream.
func (a *Assembly) sized(b kv.Boundary) int64 {
	if a.windowed() {
		return int64(b.Size) + 4*int64(a.t.Streams-1)
	}
	return int64(b.Size)
}

func (a *Assembly) windowed() bool {
	return a.m.Layout.Memory == kv.Window || a.m.Layout.Memory == kv.HybridWindow
}

// Put checks a piece and writes it where it belongs. index counts the manifest's
// Pieces.
func (a *Assembly) Put(index int, piece []byte) error {
	a.mu.Lock()
	wanted := a.left[index]
	a.mu.Unlock()
	if !wanted {
		return fmt.Errorf("slotfile: piece %d is not part of this file, or came twice", index)
	}
	if want := a.pieces[index]; kv.Bytes(len(piece)) != want.Size || kv.BlockOf(piece) != want.ID {
		return &CorruptError{index, want.ID}
	}
	if err := a.write(index, piece); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.left, index)
	a.mu.Unlock()
	return nil
}

func (a *Assembly) write(index int, piece []byte) error {
	p, boundary := a.places[index]
	if !boundary {
		return a.rowsOf(index*kv.BlockTokens, piece)
	}
	if !a.m.Boundaries[index-(len(a.pieces)-len(a.m.Boundaries))].Appendix {
		var err error
		if piece, err = restream(piece, a.m.Layout, a.t); err != nil {
			return err
		}
	}
	return a.writeAt(piece, p.at)
}

func (a *Assembly) writeAt(b []byte, at int64) error {
	if _, err := a.w.WriteAt(b, at); err != nil {
		return fmt.Errorf("slotfile: %w", err)
	}
	return nil
}

// rowsOf writes a block, as many of its rows as the file has.
func (a *Assembly) rowsOf(from int, block []byte) error {
	if wideBlocks(a.m.Layout) > 1 {
		return a.collect(from, block)
	}
	rows := len(block) / int(a.m.Layout.RowBytes())
	return a.scatter(from, rows, min(rows, a.n-from), block)
}

// scatter is the inverse of gather, for the first use of a stretch's rows.
func (a *Assembly) scatter(from, rows, use int, block []byte) error {
	at := 0
	for i, r := range a.m.Layout.Runs {
		n := int(r.Row) * rows
		if err := a.scatterRun(i, from, rows, use, block[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (a *Assembly) scatterRun(i, from, rows, use int, src []byte) error {
	r := a.m.Layout.Runs[i]
	if r.Elem == 0 {
		return a.writeAt(src[:use*int(r.Row)], a.runs[i]+int64(from)*int64(r.Row))
	}
	e := int(r.Elem)
	for c := range int(r.Row) / e {
		column := src[c*rows*e:]
		if err := a.writeAt(column[:use*e], a.runs[i]+int64(c*a.n+from)*int64(e)); err != nil {
			return err
		}
	}
	return nil
}

// ErrIncomplete refuses a file that not every piece has been put into.
var ErrIncomplete = errors.New("slotfile: pieces are missing")

// Finish reports whether the file is whole. Until it does, no engine may see it.
func (a *Assembly) Finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.left) > 0 {
		return fmt.Errorf("%w: %d", ErrIncomplete, len(a.left))
	}
	return nil
}

// restream writes the parts of a state for another number of streams. Only a
// window depends on it; a recurrent state has no streams.
func restream(part []byte, l kv.Layout, t Target) ([]byte, error) {
	if l.Memory != kv.Window && l.Memory != kv.HybridWindow {
		return part, nil
	}
	c := &cursor{src: bytes.NewReader(part), size: int64(len(part))}
	values := len(l.Runs) > int(l.Layers)
	s := c.attentionAt(shape{int64(l.CellExtra), values}, func(int64, []byte) bool { return true })
	if c.err != nil {
		return nil, c.err
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, len(part)+4*int(t.Streams)), t.Streams)
	out = append(out, make([]byte, 4*t.stream())...)
	out = binary.LittleEndian.AppendUint32(out, uint32(s.cells))
	cells := len(out)
	out = append(out, part[s.cellsAt:s.bodyEnd]...)
	record := cellBytes + int(l.CellExtra)
	for i := range int(s.cells) {
		binary.LittleEndian.PutUint32(out[cells+(i+1)*record-4:], t.Slot)
	}
	out = append(out, make([]byte, 4*(t.Streams-1-t.stream()))...)
	return append(out, part[s.end:]...), nil
}
