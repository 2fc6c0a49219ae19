package ledger

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
)

// A packed value is one byte that says how, then the bytes: plain, or zstd with
// the plain length in front.
const (
	packPlain = 0
	packZstd  = 1
)

// packMin is the length below which compressing is not tried. It stands on the
// path of a request: below it zstd's fixed cost, some 25 µs a blob, is a tenth
// of the whole commit and saves a few hundred bytes.
const packMin = 1024

// unpackMax bounds what a packed value may claim to hold; the largest body the
// program accepts is 100 MB.
const unpackMax = 256 << 20

// packer compresses. Both halves are safe for concurrent use and shared by the
// whole ledger: each holds tables of its own.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newPacker() (*packer, error) {
	// Hashes verify what is read, so the frame carries no checksum of its own.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(unpackMax))
	if err != nil {
		return nil, err
	}
	return &packer{enc, dec}, nil
}

func (p *packer) close() {
	p.enc.Close()
	p.dec.Close()
}

// pack returns b packed; never larger than b and one byte.
func (p *packer) pack(b []byte) []byte {
	if len(b) >= packMin {
		out := binary.AppendUvarint(append(make([]byte, 0, len(b)/2+16), packZstd), uint64(len(b)))
		if out = p.enc.EncodeAll(b, out); len(out) <= len(b) {
			return out
		}
	}
	return plain(b)
}

func plain(b []byte) []byte { return append(append(make([]byte, 0, len(b)+1), packPlain), b...) }

// unpack is the reverse of pack; nothing unpacks to nothing.
func (p *packer) unpack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	switch b[0] {
	case packPlain:
		return b[1:], nil
	case packZstd:
		n, k := binary.Uvarint(b[1:])
		if k <= 0 || n > unpackMax {
			return nil, fmt.Errorf("%w: a packed value claims %d bytes", ErrCorrupt, n)
		}
		out, err := p.dec.DecodeAll(b[1+k:], make([]byte, 0, n))
		if err != nil || uint64(len(out)) != n {
			return nil, fmt.Errorf("%w: a packed value does not unpack: %v", ErrCorrupt, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: a packed value of kind %d", ErrCorrupt, b[0])
}

// reader reads varints and fixed bytes; the first shortage is kept.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	n, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[k:]
	return n
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) hash() (id content.ID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

func (r *reader) more() bool { return !r.bad && len(r.b) > 0 }

func (r *reader) done(what string) error {
	if r.bad {
		return fmt.Errorf("%w: %s is cut short", ErrCorrupt, what)
	}
	return nil
}

func putItems(items []session.ListItem) []byte {
	out := make([]byte, 0, 35*len(items))
	for _, it := range items {
		out = append(binary.AppendUvarint(out, uint64(it.N)), it.Raw[:]...)
	}
	return out
}

func getItems(b []byte) ([]session.ListItem, error) {
	items := make([]session.ListItem, 0, len(b)/33)
	r := reader{b: b}
	for r.more() {
		items = append(items, session.ListItem{N: int64(r.uvarint()), Raw: r.hash()})
	}
	return items, r.done("an element list")
}

// field is a top-level field of a turn; own says that the turn holds the
// reference to its blob, not an earlier one.
type field struct {
	name string
	id   content.ID
	own  bool
}

func putFields(fs []field) []byte {
	var out []byte
	for _, f := range fs {
		own := byte(0)
		if f.own {
			own = 1
		}
		out = append(append(binary.AppendUvarint(out, uint64(len(f.name))), f.name...), own)
		out = append(out, f.id[:]...)
	}
	return out
}

func getFields(b []byte) ([]field, error) {
	var fs []field
	r := reader{b: b}
	for r.more() {
		f := field{name: string(r.take(r.uvarint()))}
		own := r.take(1)
		f.own = len(own) == 1 && own[0] == 1
		f.id = r.hash()
		fs = append(fs, f)
	}
	return fs, r.done("a field list")
}

func putCores(cores []session.CoreRef) []byte {
	out := make([]byte, 0, 26*len(cores))
	for _, c := range cores {
		out = append(append(binary.AppendUvarint(out, uint64(len(c.Kind))), c.Kind...), c.Canon[:]...)
		out = binary.AppendUvarint(out, uint64(c.Repeat))
	}
	return out
}

func getCores(b []byte) ([]session.CoreRef, error) {
	var cores []session.CoreRef
	r := reader{b: b}
	for r.more() {
		c := session.CoreRef{Kind: chat.Kind(r.take(r.uvarint()))}
		copy(c.Canon[:], r.take(uint64(len(c.Canon))))
		c.Repeat = int32(r.uvarint())
		cores = append(cores, c)
	}
	return cores, r.done("a core list")
}
