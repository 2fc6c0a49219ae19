package slotfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"holdfast/core/kv"
)

// window is how much of the file a cursor holds: headers are small and far
// apart, cell records are adjacent.
const window = 4 << 10

// cursor reads a file's headers in order. It stays at its first error and gives
// zeroes from there; callers look at err once.
type cursor struct {
	src      io.ReaderAt
	size, at int64
	err      error

	buf  []byte // of the file, from base
	base int64
}

func (c *cursor) fail(kind error, what string) {
	if c.err == nil {
		c.err = &Refusal{kind, c.at, what}
	}
}

func (c *cursor) left() int64 { return c.size - c.at }

// clone is a cursor at the same place that fails on its own.
func (c *cursor) clone() *cursor { return &cursor{src: c.src, size: c.size, at: c.at, err: c.err} }

// peek returns the next n bytes, at most window, or nil.
func (c *cursor) peek(n int64) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.left() {
		c.fail(ErrFormat, "it ends in the middle of a record")
		return nil
	}
	if c.at < c.base || c.at+n > c.base+int64(len(c.buf)) {
		c.fill(n)
	}
	if c.err != nil {
		return nil
	}
	from := c.at - c.base
	return c.buf[from : from+n]
}

// fill reads ahead from at. A small first read keeps the hop from run header to
// run header cheap.
func (c *cursor) fill(n int64) {
	ahead := max(n, 64)
	if c.at == c.base+int64(len(c.buf)) { // adjacent: read on
		ahead = window
	}
	ahead = min(ahead, c.left())
	if int64(cap(c.buf)) < ahead {
		c.buf = make([]byte, ahead)
	}
	c.buf, c.base = c.buf[:ahead], c.at
	got, err := c.src.ReadAt(c.buf, c.at)
	switch {
	case int64(got) == ahead:
		return
	case err == nil || errors.Is(err, io.EOF):
		c.fail(ErrFormat, "the file is shorter than it was said to be")
	default: // the disk's trouble says nothing about the file
		c.err = fmt.Errorf("slotfile: %w", err)
	}
	c.buf = c.buf[:0]
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func (c *cursor) u32() uint32 {
	b := c.peek(4)
	if b == nil {
		return 0
	}
	c.at += 4
	return word(b)
}

func (c *cursor) u64() uint64 {
	low := uint64(c.u32())
	return low | uint64(c.u32())<<32
}

// skip passes n bytes that are not looked at.
func (c *cursor) skip(n int64) {
	if c.err != nil {
		return
	}
	if n < 0 || n > c.left() {
		c.fail(ErrFormat, "it ends in the middle of its rows")
		return
	}
	c.at += n
}

// records hands over n records of size bytes until one is refused, which fails
// with what.
func (c *cursor) records(n, size int64, ok func(b []byte) bool, what string) {
	for n > 0 && c.err == nil {
		batch := min(n, window/size)
		b := c.peek(batch * size)
		for i := int64(0); b != nil && i < batch; i++ {
			if !ok(b[i*size : (i+1)*size]) {
				c.at += i * size
				c.fail(kv.ErrGeometry, what)
				return
			}
		}
		if b != nil {
			c.at += batch * size
		}
		n -= batch
	}
}
