package slotfile

import (
	"fmt"
	"io"

	"holdfast/core/kv"
)

// Gather reads the rows of tokens [from, to) of all runs into buf, which grows as
// needed: run after run, each with the rows in token order; of a transposed run
// column after column. For whole blocks that is the block's bytes.
func (f *File) Gather(from, to int, buf []byte) ([]byte, error) {
	if from < 0 || to > len(f.Tokens) || from > to {
		return nil, fmt.Errorf("slotfile: no rows [%d, %d) in a file of %d tokens", from, to, len(f.Tokens))
	}
	size := int(f.Layout.BlockBytes(to - from))
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	read := f.gather
	if wideBlocks(f.Layout) > 1 {
		read = f.wideGather
	}
	if err := read(from, to, buf); err != nil {
		return nil, fmt.Errorf("slotfile: %w", err)
	}
	return buf, nil
}

func (f *File) gather(from, to int, buf []byte) error {
	at := 0
	for i, r := range f.Layout.Runs {
		n := int(r.Row) * (to - from)
		if err := f.gatherRun(i, from, to, buf[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (f *File) gatherRun(i, from, to int, dst []byte) error {
	r := f.Layout.Runs[i]
	if r.Elem == 0 {
		return f.strip(f.runs[i], int(r.Row), from, to, dst)
	}
	column, strip := int64(len(f.Tokens))*int64(r.Elem), (to-from)*int(r.Elem)
	for c := range int(r.Row / r.Elem) {
		err := f.strip(f.runs[i]+int64(c)*column, int(r.Elem), from, to, dst[c*strip:(c+1)*strip])
		if err != nil {
			return err
		}
	}
	return nil
}

// strip reads the items of tokens [from, to) of an array of them, in token
// order. Cells that follow each other are read at once: with streams of their
// own, all of them.
func (f *File) strip(at int64, size, from, to int, dst []byte) error {
	for from < to {
		cell, n := f.cells(from, to)
		if err := readFull(f.src, dst[:n*size], at+int64(cell)*int64(size)); err != nil {
			return err
		}
		from, dst = from+n, dst[n*size:]
	}
	return nil
}

// cells is the cell of a token, and how many tokens up to to follow it in the
// cells that follow.
func (f *File) cells(from, to int) (cell, n int) {
	if f.order == nil {
		return from, to - from
	}
	cell = int(f.order[from])
	for n = 1; from+n < to && int(f.order[from+n]) == cell+n; {
		n++
	}
	return cell, n
}

func readFull(src io.ReaderAt, dst []byte, at int64) error {
	n, err := src.ReadAt(dst, at)
	if n == len(dst) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Scan gathers the blocks of the first n tokens in order, names each and hands
// it over: index k, the name, and the bytes, which are valid until the next. The
// last may be ragged. See may be nil.
func (f *File) Scan(n int, see func(k int, id kv.BlockID, block []byte) error) ([]kv.BlockID, error) {
	if !f.Layout.Memory.Rows() {
		return nil, nil
	}
	ids := make([]kv.BlockID, 0, (n+kv.BlockTokens-1)/kv.BlockTokens)
	var buf []byte
	for from := 0; from < n; from += kv.BlockTokens {
		block, err := f.Gather(from, min(from+kv.BlockTokens, n), buf)
		if err != nil {
			return nil, err
		}
		buf = block
		id := kv.BlockOf(block)
		if see != nil {
			if err := see(len(ids), id, block); err != nil {
				return nil, err
			}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Manifest names every piece of the first n tokens and lists them: rows, and the
// boundaries that keep picks from Parts. Who it belongs to is for the caller to
// fill in: model, state, session, serial, times.
//
// n must be an end of the state: any length where rows can be cut, the position
// of one of the parts elsewhere.
func (f *File) Manifest(n int, keep []kv.Boundary, see func(k int, id kv.BlockID, block []byte) error) (*kv.Manifest, error) {
	m := &kv.Manifest{Codec: kv.Raw(), Layout: f.Layout, Streams: f.Streams, Tokens: f.Tokens[:n:n]}
	for _, b := range keep {
		blob, err := f.Blob(b, nil)
		if err != nil {
			return nil, err
		}
		b.Blob, b.Size = kv.BlockOf(blob), kv.Bytes(len(blob))
		m.Boundaries = append(m.Boundaries, b)
	}
	ids, err := f.Scan(n, see)
	if err != nil {
		return nil, err
	}
	m.Blocks = ids
	if whole := n / kv.BlockTokens; len(ids) > whole {
		m.Blocks, m.Tail = ids[:whole:whole], ids[whole]
	}
	if m.End(n) != n {
		return nil, fmt.Errorf("slotfile: a %v state of %d tokens cannot end at %d", f.Layout.Memory, len(f.Tokens), n)
	}
	return m, nil
}

// Piece reads piece i of a manifest that this file made.
func (f *File) Piece(m *kv.Manifest, i int, buf []byte) ([]byte, error) {
	rows := len(m.Blocks)
	if !m.Tail.IsZero() {
		rows++
	}
	if i < rows {
		return f.Gather(i*kv.BlockTokens, min((i+1)*kv.BlockTokens, len(m.Tokens)), buf)
	}
	return f.Blob(m.Boundaries[i-rows], buf)
}

// Blob reads one of Parts, as it would be in an engine of one stream.
func (f *File) Blob(b kv.Boundary, buf []byte) ([]byte, error) {
	for i, p := range f.Parts {
		if p.Position == b.Position && p.Appendix == b.Appendix {
			return f.blob(i, buf)
		}
	}
	return nil, fmt.Errorf("slotfile: no part at %d tokens", b.Position)
}

func (f *File) blob(i int, buf []byte) ([]byte, error) {
	at := f.at[i]
	if int64(cap(buf)) < at.size {
		buf = make([]byte, at.size)
	}
	buf = buf[:at.size]
	if err := readFull(f.src, buf, at.at); err != nil {
		return nil, fmt.Errorf("slotfile: %w", err)
	}
	if f.Parts[i].Appendix {
		return buf, nil
	}
	return restream(buf, f.Layout, Target{Streams: 1})
}
