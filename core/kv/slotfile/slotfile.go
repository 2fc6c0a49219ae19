// Package slotfile reads and rebuilds llama-server's slot files: the exported
// attention state of one conversation, sequence state version 4.
//
// The engine believes whatever such a file says: it aborts on a short one and
// answers garbage from a changed one. So nothing here is believed either. Every
// length is checked against what is left of the file before it is used, nothing
// is allocated that the file could not fill, every record is compared with the
// one the engine would write, and a layout counts only if it describes the file
// down to the last byte, alone among all layouts we know. Everything else is a
// Refusal, and a refused file is never adopted.
//
// A file is layer-major: every layer's K rows, then every layer's V rows, one row
// per token; a transposed V is one run of elements per column. Scan gathers the
// rows of 64 tokens from all runs into a block, an Assembly scatters blocks back.
// The two are inverse: splitting a file and assembling it gives the same bytes,
// and assembling fewer tokens gives the file the engine would have saved there.
//
// What the file ties to a place in its engine is normalised when it is read and
// written anew for the target: the number of streams, the stream, sequence ids.
//
// States with more than rows (a sliding window, a recurrent state) keep that in
// parts which hold for one exact length; the engine's own checkpoints are such
// parts of shorter lengths, and travel as appendix SCKP.
//
// Not read: media in the token block (images would need their content in the
// token path), cells at positions other than 0…n−1, transposed recurrent states.
package slotfile

import (
	"errors"
	"fmt"
	"io"

	"holdfast/core/kv"
)

// Version is the sequence state version that is read and written. 3 lacks two
// words a section, 5 is not known: both are refused.
const Version = 4

// Errors a caller branches on; kv.ErrGeometry is the third.
var (
	// ErrFormat refuses what is not a slot file, or is damaged.
	ErrFormat = errors.New("slotfile: not a slot file, or a damaged one")
	// ErrVersion refuses a version that is not read.
	ErrVersion = errors.New("slotfile: a slot file of another version")
)

// Refusal says where a file stopped making sense. It unwraps to one of the
// errors a caller branches on.
type Refusal struct {
	Err    error
	Offset int64
	What   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%v: at byte %d: %s", r.Err, r.Offset, r.What) }

func (r *Refusal) Unwrap() error { return r.Err }

// On disk, little-endian.
const (
	magicFile  = 0x67677371 // begins a slot file
	magicState = 0xaf143cd8 // begins a state inside an appendix
	magicCheck = 0x504b4353 // "SCKP": checkpoints
	magicDraft = 0x54464453 // "SDFT": a draft model's state

	fixedWords = 4 // of a token block without media: −1, 1, n, and 0 at its end
	cellBytes  = 12
	cellExtra  = 12 // more with M-RoPE: two coordinates and the token
	maxStreams = 256
	maxLayers  = 1024
	maxType    = 255
	maxElem    = 16
	maxChecks  = 1024
)

// File is a parsed slot file. It is read by one goroutine at a time.
type File struct {
	Layout   kv.Layout
	Tokens   []kv.Token
	Geometry kv.Geometry
	// Streams is how many the engine had, Stream the saved slot's, Slot its number:
	// all 0 for a state without attention.
	Streams, Stream, Slot uint32
	// Parts are the places a state that cannot be cut may end at, and appendices,
	// in rising order of position. Their Blob is not filled in.
	Parts []kv.Boundary

	src   io.ReaderAt
	size  int64
	runs  []int64 // offset of each run's first row
	order []int32 // cell of each position; nil when they are in order
	at    []span  // of each of Parts, in the file

	stretch stretch // last read of a transposed layout
}

// span is a stretch of the file.
type span struct{ at, size int64 }

// Parse reads the headers of a slot file of that size and checks that they
// describe all of it. Rows are not read.
func Parse(src io.ReaderAt, size int64) (*File, error) {
	f, c, err := open(src, size)
	if err != nil {
		return nil, err
	}
	if err := f.place(c); err != nil {
		return nil, err
	}
	return f, f.Geometry.Exact(kv.Bytes(size))
}

// ParseOpaque reads only the tokens of a file that Parse refuses with
// kv.ErrGeometry: its state is kept as one part, whole or not at all.
func ParseOpaque(src io.ReaderAt, size int64) (*File, error) {
	f, c, err := open(src, size)
	if err != nil {
		return nil, err
	}
	f.Layout.Memory = kv.Opaque
	rest := span{c.at, size - c.at}
	if n := c.u32(); n <= maxStreams {
		f.Streams = n
	}
	if c.err != nil {
		return nil, c.err
	}
	f.addPart(kv.Boundary{Position: kv.Tokens(len(f.Tokens)), PosMax: int32(len(f.Tokens) - 1)}, rest)
	return f, nil
}

// open reads up to the end of the token block.
func open(src io.ReaderAt, size int64) (*File, *cursor, error) {
	c := &cursor{src: src, size: size}
	f := &File{src: src, size: size, Layout: kv.Layout{Version: Version}}
	if c.u32() != magicFile {
		c.fail(ErrFormat, "no magic")
	}
	if v := c.u32(); v != Version {
		c.fail(ErrVersion, fmt.Sprintf("version %d, only %d is read", v, Version))
	}
	words := int64(c.u32())
	start := c.at
	if words < fixedWords+1 || words > c.left()/4 {
		c.fail(ErrFormat, fmt.Sprintf("a token block of %d words", words))
	}
	f.Tokens = c.tokens(words)
	if c.err != nil {
		return nil, nil, c.err
	}
	f.region(kv.RegionHeader, 0, start)
	f.region(kv.RegionTokens, start, c.at)
	return f, c, nil
}

// tokens reads a packed token block of so many words, text only.
func (c *cursor) tokens(words int64) []kv.Token {
	if c.u32() != 0xffffffff || c.u32() != 1 {
		c.fail(ErrFormat, "a token block of another kind")
	}
	n := int64(c.u32())
	if n != words-fixedWords {
		c.fail(kv.ErrGeometry, "a token block with media")
		return nil
	}
	tokens := make([]kv.Token, 0, n)
	c.records(n, 4, func(b []byte) bool {
		tokens = append(tokens, kv.Token(int32(word(b))))
		return true
	}, "")
	if c.u32() != 0 {
		c.fail(kv.ErrGeometry, "a token block with media")
	}
	return tokens
}

// region adds a stretch of the file to the geometry, if there is one.
func (f *File) region(kind kv.RegionKind, from, to int64) {
	if to > from {
		f.Geometry.Regions = append(f.Geometry.Regions, kv.Region{Kind: kind, Offset: kv.Bytes(from), Size: kv.Bytes(to - from)})
	}
}

func (f *File) addPart(b kv.Boundary, at span) {
	b.Size = kv.Bytes(at.size)
	f.Parts = append(f.Parts, b)
	f.at = append(f.at, at)
}
