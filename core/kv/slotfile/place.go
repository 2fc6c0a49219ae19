package slotfile

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/core/kv"
)

// memories are the parts of a state in file order.
type memories struct {
	kind              kv.Memory
	window, recurrent bool
}

func kinds() []memories {
	return []memories{
		{kind: kv.Dense},
		{kind: kv.Window, window: true},
		{kind: kv.Hybrid, recurrent: true},
		{kind: kv.HybridWindow, window: true, recurrent: true},
	}
}

// placed is one layout that describes the whole file.
type placed struct {
	kind  memories
	shape shape
	rows  attention
	order []int32
	last  span // the parts that hold for the whole length
	extra extras
}

// place tries every layout we know. A file does not say which one it has; the
// one that ends with the file is taken, and with two of them none.
func (f *File) place(c *cursor) error {
	var found []placed
	var worst error
	note := func(p placed, err error) {
		if err == nil {
			found = append(found, p)
		}
		worst = further(worst, err)
	}
	note(f.recurrent(c.clone()))
	for _, s := range []shape{{0, true}, {cellExtra, true}, {0, false}, {cellExtra, false}} {
		rows := c.clone()
		p := placed{shape: s}
		p.rows, p.order = f.rows(rows, s)
		if rows.err != nil {
			note(p, rows.err)
			continue
		}
		for _, k := range kinds() {
			note(f.rest(rows.clone(), p, k))
		}
	}
	switch {
	case len(found) == 0 || unread(worst):
		return worst
	case len(found) > 1:
		return &Refusal{kv.ErrGeometry, c.at, fmt.Sprintf("%d layouts fit", len(found))}
	}
	f.adopt(found[0])
	return nil
}

// unread reports whether an error is the disk's, not the file's.
func unread(err error) bool {
	var r *Refusal
	return err != nil && !errors.As(err, &r)
}

// further keeps the refusal that got further into the file: of all layouts that
// one is most likely the one meant. The disk's errors go first.
func further(a, b error) error {
	var ra, rb *Refusal
	switch {
	case b == nil || unread(a):
		return a
	case a == nil || unread(b) || errors.As(a, &ra) && errors.As(b, &rb) && rb.Offset > ra.Offset:
		return b
	}
	return a
}

// rows reads the memory whose rows become blocks: one cell for every token.
func (f *File) rows(c *cursor, s shape) (attention, []int32) {
	n := int64(len(f.Tokens))
	order := make([]int32, 0)
	sorted := true
	seen := func(i, pos int64) {
		if sorted && pos == i {
			return
		}
		if sorted {
			order = make([]int32, n)
			for j := range order {
				order[j] = -1
			}
			for j := range i {
				order[j] = int32(j)
			}
			sorted = false
		}
		order[pos] = int32(i)
	}
	a := c.attentionAt(s, func(i int64, b []byte) bool {
		pos := int64(int32(word(b)))
		if pos < 0 || pos >= n || i >= n || s.extra > 0 && !f.plainText(pos, b) {
			return false
		}
		seen(i, pos)
		return true
	})
	if a.cells != n || slices.Contains(order, -1) {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d cells for %d tokens, or not at positions 0 to %d", a.cells, n, n-1))
	}
	if sorted {
		return a, nil
	}
	return a, order
}

// plainText reports whether an M-RoPE record is the one of a text token: both
// coordinates its position, and its id.
func (f *File) plainText(pos int64, b []byte) bool {
	return int64(word(b[8:])) == pos && int64(word(b[12:])) == pos && kv.Token(int32(word(b[16:]))) == f.Tokens[pos]
}

// rest reads what follows the rows in a state of a kind.
func (f *File) rest(c *cursor, p placed, k memories) (placed, error) {
	p.kind, p.last = k, span{at: c.at}
	c.parts(k, p.shape, int64(len(f.Tokens)))
	p.last.size = c.at - p.last.at
	p.extra = f.appendices(c, k, p.shape)
	return p, c.err
}

// recurrent reads a state that has no rows at all.
func (f *File) recurrent(c *cursor) (placed, error) {
	return f.rest(c, placed{}, memories{kind: kv.Recurrent, recurrent: true})
}

// parts reads the memories of a kind that hold for one length only.
func (c *cursor) parts(k memories, s shape, n int64) {
	if k.window && c.err == nil {
		c.windowAt(s, n)
	}
	if k.recurrent && c.err == nil {
		c.recurrentAt(n)
	}
}

// adopt makes the layout the file's.
func (f *File) adopt(p placed) {
	n := len(f.Tokens)
	f.Layout.Memory, f.Layout.CellExtra = p.kind.kind, uint8(p.shape.extra)
	f.Layout.Transposed = p.rows.transposed
	f.Layout.RotK, f.Layout.RotV, f.Layout.Layers = p.rows.rotK, p.rows.rotV, p.rows.layers
	f.Streams, f.Stream, f.Slot, f.order = p.rows.streams, p.rows.stream, p.rows.slot, p.order
	f.Geometry.Rows = n
	if f.Layout.Memory.Rows() {
		f.adoptRows(p.rows)
	}
	f.Geometry.Layout = f.Layout
	end := p.last.at + p.last.size
	f.region(kv.RegionBoundary, p.last.at, end)
	f.region(kv.RegionAppendix, end, f.size)
	f.adoptParts(p)
}

func (f *File) adoptRows(a attention) {
	record := cellBytes + a.extra
	f.region(kv.RegionHeader, a.start, a.cellsAt)
	f.region(kv.RegionCells, a.cellsAt, a.cellsAt+a.cells*record)
	at := a.headAt
	for i, r := range a.runs {
		end := r.at + int64(r.Row)*a.cells
		f.region(kv.RegionHeader, at, r.at)
		f.Geometry.Regions = append(f.Geometry.Regions, kv.Region{Kind: kv.RegionRows, Run: i, Offset: kv.Bytes(r.at), Size: kv.Bytes(end - r.at)})
		f.Layout.Runs, f.runs = append(f.Layout.Runs, r.Run), append(f.runs, r.at)
		at = end
	}
	f.region(kv.RegionHeader, at, a.end)
}

// adoptParts lists the places this state may end at: the engine's checkpoints,
// the state itself, and behind it what may be left out.
func (f *File) adoptParts(p placed) {
	n := kv.Tokens(len(f.Tokens))
	for _, c := range p.extra.checks {
		if c.Position < n {
			f.addPart(c.Boundary, c.span)
		}
	}
	if p.last.size > 0 {
		f.addPart(kv.Boundary{Position: n, PosMax: int32(n - 1)}, p.last)
	}
	if d := p.extra.draft; d.size > 0 {
		f.addPart(kv.Boundary{Position: n, PosMax: int32(n - 1), Appendix: true}, d)
	}
}
