package slotfile

import (
	"holdfast/core/kv"
)

// wideBytes bounds a stretch of blocks that is read or written at once. In a
// transposed run the rows of one block are 64 elements of every column, a hundred
// bytes each, and a system call for each is ten times slower than the copy: so
// columns are read and written over many blocks, and cut in memory.
const wideBytes = 32 << 20

// wideBlocks is how many blocks a stretch of a layout has: 1 where rows are
// contiguous.
func wideBlocks(l kv.Layout) int {
	if !l.Transposed {
		return 1
	}
	return int(max(1, min(64, wideBytes/l.BlockBytes(kv.BlockTokens))))
}

// strips visits, for every contiguous piece of a block's rows, where it lies in a
// stretch of wide rows that the block begins at row at of, and in the block
// itself; use of the block's rows are visited.
func strips(l kv.Layout, wide, at, rows, use int, visit func(inWide, inBlock, n int)) {
	w, b := 0, 0
	for _, r := range l.Runs {
		size, columns := int(r.Row), 1
		if r.Elem > 0 {
			size, columns = int(r.Elem), int(r.Row/r.Elem)
		}
		for c := range columns {
			visit(w+(c*wide+at)*size, b+c*rows*size, use*size)
		}
		w, b = w+int(r.Row)*wide, b+int(r.Row)*rows
	}
}

// stretch is the rows of adjacent blocks, gathered as one.
type stretch struct {
	from, rows int
	b          []byte
}

// wideGather is Gather through the stretch that the rows lie in, which is kept
// for the blocks after.
func (f *File) wideGather(from, to int, buf []byte) error {
	span := wideBlocks(f.Layout) * kv.BlockTokens
	s := &f.stretch
	if s.b == nil || from < s.from || to > s.from+s.rows {
		start := from - from%span
		end := max(to, min(start+span, len(f.Tokens)))
		size := int(f.Layout.BlockBytes(end - start))
		if cap(s.b) < size {
			s.b = make([]byte, size)
		}
		s.b, s.from, s.rows = s.b[:size], start, 0
		if err := f.gather(start, end, s.b); err != nil {
			return err
		}
		s.rows = end - start
	}
	strips(f.Layout, s.rows, from-s.from, to-from, to-from, func(w, b, n int) { copy(buf[b:b+n], s.b[w:w+n]) })
	return nil
}

// collect adds a block to the stretch it belongs to and hands the stretch over
// once all its blocks are there.
func (a *Assembly) collect(from int, block []byte) error {
	l := a.m.Layout
	blocks := wideBlocks(l)
	start := from - from%(blocks*kv.BlockTokens)
	rows := min(a.n-start, blocks*kv.BlockTokens)
	s := a.join(start, rows, from, block)
	if s == nil {
		return nil
	}
	return a.scatter(start, rows, rows, s.b)
}

// join copies a block into its stretch, and takes the stretch out when full.
func (a *Assembly) join(start, rows, from int, block []byte) *stretch {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.m.Layout
	s := a.open[start]
	if s == nil {
		s = &stretch{from: start, b: make([]byte, l.BlockBytes(rows))}
		a.open[start] = s
	}
	have := len(block) / int(l.RowBytes())
	use := min(have, a.n-from)
	strips(l, rows, from-start, have, use, func(w, b, n int) { copy(s.b[w:w+n], block[b:b+n]) })
	if s.rows += use; s.rows < rows {
		return nil
	}
	delete(a.open, start)
	return s
}
