package slotfile

import (
	"fmt"

	"holdfast/core/kv"
)

// attention is one attention memory in a file.
type attention struct {
	start, end      int64
	streams, stream uint32
	slot            uint32 // the sequence id of every cell
	cells           int64
	cellsAt         int64
	extra           int64 // of a cell record
	headAt          int64 // of the words after the cells
	transposed      bool
	rotK, rotV      uint32
	layers          uint32
	runs            []run
	bodyEnd         int64 // where the saved stream ends and empty ones follow
}

// run is a tensor in a file; its rows begin at.
type run struct {
	kv.Run
	at int64
}

// shape is what a file does not say about its attention memories.
type shape struct {
	extra  int64
	values bool // V runs follow the K runs; latent attention has none
}

// attentionAt reads one attention memory. cell sees each cell record, and
// refuses it by returning false.
func (c *cursor) attentionAt(s shape, cell func(i int64, b []byte) bool) attention {
	a := attention{start: c.at, extra: s.extra}
	a.streams = c.u32()
	if a.streams < 1 || a.streams > maxStreams {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d streams", a.streams))
		return a
	}
	for ; a.stream < a.streams; a.stream++ {
		if a.cells = int64(c.u32()); a.cells > 0 {
			break
		}
	}
	if a.cells < 1 || a.cells > c.left()/(cellBytes+s.extra) {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d cells", a.cells))
		return a
	}
	c.cellsOf(&a, cell)
	c.heads(&a, s)
	a.bodyEnd = c.at
	c.empty(a)
	a.end = c.at
	return a
}

// cellsOf reads the cell records: each of one sequence, the same for all, and
// with streams of their own the one of the stream.
func (c *cursor) cellsOf(a *attention, cell func(i int64, b []byte) bool) {
	a.cellsAt = c.at
	i := int64(-1)
	c.records(a.cells, cellBytes+a.extra, func(b []byte) bool {
		i++
		slot := word(b[len(b)-4:])
		if i == 0 {
			a.slot = slot
		}
		own := a.streams == 1 || slot == a.stream
		return word(b[4:]) == 1 && slot == a.slot && slot < maxStreams && own && cell(i, b)
	}, "a cell the engine would not write")
	a.headAt = c.at
}

// heads reads the words after the cells, and the header of every run.
func (c *cursor) heads(a *attention, s shape) {
	transposed := c.u32()
	a.transposed = transposed == 1
	a.layers, a.rotK, a.rotV = c.u32(), c.u32(), c.u32()
	if transposed > 1 || a.layers < 1 || a.layers > maxLayers {
		c.fail(kv.ErrGeometry, fmt.Sprintf("v_trans %d, %d layers", transposed, a.layers))
	}
	values := c.plainRun
	if a.transposed {
		values = c.transposedRun
	}
	c.each(a, c.plainRun)
	if s.values {
		c.each(a, values)
	}
}

// each reads a run of every layer, and stops at the first that is wrong: the
// number of layers is the file's word only.
func (c *cursor) each(a *attention, read func(*attention)) {
	for l := uint32(0); l < a.layers && c.err == nil; l++ {
		read(a)
	}
}

// plainRun reads a header of a type and a row size, and passes the rows.
func (c *cursor) plainRun(a *attention) {
	kind, row := c.u32(), c.u64()
	if kind > maxType || row < 1 || row > uint64(c.left()/a.cells) {
		c.fail(kv.ErrGeometry, fmt.Sprintf("rows of %d bytes", row))
		return
	}
	a.runs = append(a.runs, run{kv.Run{Type: int32(kind), Row: kv.Bytes(row)}, c.at})
	c.skip(int64(row) * a.cells)
}

// transposedRun reads a header of a type, an element size and a width.
func (c *cursor) transposedRun(a *attention) {
	kind, elem, width := c.u32(), int64(c.u32()), int64(c.u32())
	if kind > maxType || elem < 1 || elem > maxElem || width < 1 || width > c.left()/a.cells/elem {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d columns of %d bytes", width, elem))
		return
	}
	a.runs = append(a.runs, run{kv.Run{Type: int32(kind), Row: kv.Bytes(elem * width), Elem: kv.Bytes(elem)}, c.at})
	c.skip(elem * width * a.cells)
}

// empty passes the zero counts of the streams after the saved one.
func (c *cursor) empty(a attention) {
	for s := a.stream + 1; s < a.streams && c.err == nil; s++ {
		if c.u32() != 0 {
			c.fail(kv.ErrGeometry, "cells of a second stream")
		}
	}
}

// windowAt reads the memory of a sliding window in a state of n tokens: cells of
// the last few positions.
func (c *cursor) windowAt(s shape, n int64) attention {
	last := int64(-1)
	a := c.attentionAt(s, func(_ int64, b []byte) bool {
		pos := int64(int32(word(b)))
		last = max(last, pos)
		return pos >= 0 && pos < n
	})
	if last != n-1 {
		c.fail(kv.ErrGeometry, "a window that does not end at the last token")
	}
	return a
}

// recurrentAt reads a recurrent memory of a state of n tokens. How many layers
// have one is not in the file, so its runs are read while they look like runs:
// R of each such layer, then S of each.
func (c *cursor) recurrentAt(n int64) {
	if cells := c.u32(); cells != 1 {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d recurrent cells", cells))
	}
	if pos, ids := int64(int32(c.u32())), c.u32(); pos != n-1 || ids != 0 {
		c.fail(kv.ErrGeometry, "a recurrent state of another position")
	}
	transposed, layers := c.u32(), c.u32()
	if transposed != 0 || layers < 1 || layers > maxLayers {
		c.fail(kv.ErrGeometry, fmt.Sprintf("s_trans %d, %d layers", transposed, layers))
	}
	count := uint32(0)
	for c.err == nil && c.left() >= cellBytes && word(c.peek(4)) <= maxType {
		c.u32()
		row := c.u64()
		if row > uint64(c.left()) {
			c.fail(kv.ErrGeometry, "a recurrent row past the end")
			return
		}
		c.skip(int64(row))
		count++
	}
	if count == 0 || count%2 != 0 || count/2 > layers {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d recurrent runs in %d layers", count, layers))
	}
}
