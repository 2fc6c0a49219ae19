package slotfile

import (
	"fmt"
	"slices"

	"holdfast/core/kv"
)

// extras are what may follow a state.
type extras struct {
	checks []check // in rising order of position
	draft  span    // tag and bytes
}

// check is one checkpoint.
type check struct {
	kv.Boundary
	span
}

// appendices reads what follows a state, to the end of the file: checkpoints and
// a draft model's state, each at most once. Checkpoints must be states of the
// same kind, or the file is refused: the engine would restore them.
func (f *File) appendices(c *cursor, k memories, s shape) (x extras) {
	seen := map[uint32]bool{}
	for c.err == nil && c.left() > 0 {
		magic := c.u32()
		if seen[magic] {
			c.fail(kv.ErrGeometry, "an appendix twice")
		}
		seen[magic] = true
		if v := c.u32(); v != 1 {
			c.fail(kv.ErrGeometry, fmt.Sprintf("bytes after the state, or an appendix of version %d", v))
		}
		switch {
		case magic == magicCheck && k.kind != kv.Dense:
			x.checks = f.checkpoints(c, k, s)
		case magic == magicDraft:
			x.draft = c.draft()
		default:
			c.fail(kv.ErrGeometry, "bytes after the state")
		}
	}
	return x
}

// draft passes a draft model's state: it has its own length, tag and layout, and
// only the engine knows what they mean. The tag travels with it.
func (c *cursor) draft() span {
	size := c.u64()
	where := span{at: c.at}
	c.u64()
	if size > uint64(c.left()) {
		c.fail(kv.ErrGeometry, "a draft state past the end")
		return span{}
	}
	c.skip(int64(size))
	where.size = c.at - where.at
	return where
}

// checkpoints reads the engine's own snapshots of shorter lengths. Draft and
// speculative state inside them is passed over, not kept. Of two at one length
// the later stands.
func (f *File) checkpoints(c *cursor, k memories, s shape) (list []check) {
	count := c.u32()
	if count > maxChecks {
		c.fail(kv.ErrGeometry, fmt.Sprintf("%d checkpoints", count))
	}
	for range count {
		if c.err != nil {
			return nil
		}
		b, where := f.checkpoint(c, k, s)
		i, same := slices.BinarySearchFunc(list, b, func(x check, y kv.Boundary) int { return int(x.Position - y.Position) })
		if same {
			list[i] = check{b, where}
			continue
		}
		list = slices.Insert(list, i, check{b, where})
	}
	return list
}

func (f *File) checkpoint(c *cursor, k memories, s shape) (kv.Boundary, span) {
	n := c.u64()
	b := kv.Boundary{PosMin: int32(c.u32()), PosMax: int32(c.u32())}
	size := c.u64()
	if n < 1 || n > uint64(len(f.Tokens)) || size > uint64(c.left()) || size < 8 || uint64(b.PosMax) != n-1 || b.PosMin < 0 || b.PosMin > b.PosMax {
		c.fail(kv.ErrGeometry, fmt.Sprintf("a checkpoint of %d tokens, %d bytes, positions %d to %d", n, size, b.PosMin, b.PosMax))
		return b, span{}
	}
	b.Position = kv.Tokens(n)
	end := c.at + int64(size)
	if c.u32() != magicState {
		c.fail(kv.ErrGeometry, "a checkpoint that is not a state")
	}
	c.u32() // sequence id
	where := span{at: c.at, size: end - c.at}
	inner := &cursor{src: c.src, size: end, at: c.at, err: c.err}
	inner.parts(k, s, int64(n))
	if inner.err == nil && inner.at != end {
		inner.fail(kv.ErrGeometry, "a checkpoint with bytes after its state")
	}
	if inner.err != nil {
		c.err = inner.err
		return b, where
	}
	c.skip(where.size)
	c.skipSized() // draft
	c.skipSized() // speculative
	return b, where
}

// skipSized passes a length and so many bytes.
func (c *cursor) skipSized() {
	n := c.u64()
	if n > uint64(c.left()) {
		c.fail(kv.ErrGeometry, "a length past the end")
		return
	}
	c.skip(int64(n))
}
