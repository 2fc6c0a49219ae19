package kv

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"holdfast/core/content"
)

// The format of a manifest file: magic and version, the fields in the order of
// the struct, little-endian with every length in front, and the digest of all of
// it. One encoding per manifest: Decode refuses what Encode would not write.
const (
	manifestMagic   = "HFKVMAN\x00"
	ManifestVersion = 1
)

// Encode writes the manifest and names it. A manifest that does not hold its
// invariants is refused.
func (m *Manifest) Encode() ([]byte, ManifestID, error) {
	if err := m.Check(); err != nil {
		return nil, ManifestID{}, err
	}
	b := make([]byte, 0, m.EncodedBytes())
	b = append(b, manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, ManifestVersion)
	b = append(b, m.Model[:]...)
	b = appendFields(b, m.State.Fields)
	b = appendCodec(b, m.Codec)
	b = appendLayout(b, m.Layout)
	b = binary.LittleEndian.AppendUint32(b, m.Streams)
	b = appendTokens(b, m.Tokens)
	b = appendBlocks(b, m.Blocks)
	b = append(b, m.Tail[:]...)
	b = appendBoundaries(b, m.Boundaries)
	b = appendText(appendText(b, m.Session), m.Branch)
	b = binary.LittleEndian.AppendUint64(b, m.Serial)
	b = appendTime(appendTime(b, m.Created), m.LastUsed)
	sum := content.Of(b)
	return append(b, sum[:]...), ManifestID(sum), nil
}

// EncodedBytes is close above the size Encode will write: to reserve room with.
func (m *Manifest) EncodedBytes() Bytes {
	n := 512 + 4*len(m.Tokens) + 32*len(m.Blocks) + 64*len(m.Boundaries) + 20*len(m.Layout.Runs) +
		64*len(m.State.Fields) + len(m.Session) + len(m.Branch) + len(m.Codec.Name)
	return Bytes(n)
}

// DecodeManifest reads what Encode wrote. Nothing in b is believed before the
// digest over it holds, and no allocation exceeds its length.
func DecodeManifest(b []byte) (*Manifest, ManifestID, error) {
	var id ManifestID
	head := len(manifestMagic) + 4
	if len(b) < head+len(id) || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, id, ErrManifest
	}
	body := b[:len(b)-len(id)]
	copy(id[:], b[len(body):])
	if content.Of(body) != content.ID(id) {
		return nil, ManifestID{}, fmt.Errorf("%w: its digest does not hold", ErrManifest)
	}
	if v := binary.LittleEndian.Uint32(b[len(manifestMagic):]); v != ManifestVersion {
		return nil, ManifestID{}, fmt.Errorf("%w: %d", ErrManifestVersion, v)
	}
	r := &reader{b: body[head:]}
	m := r.manifest()
	if r.bad || len(r.b) > 0 {
		return nil, ManifestID{}, fmt.Errorf("%w: its lengths do not add up", ErrManifest)
	}
	if err := m.Check(); err != nil {
		return nil, ManifestID{}, err
	}
	return m, id, nil
}

func appendFields(b []byte, fields []FieldDigest) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(fields)))
	for _, f := range fields {
		b = append(appendText(b, f.Tag), f.Digest[:]...)
	}
	return b
}

func appendCodec(b []byte, c Codec) []byte {
	b = appendText(b, c.Name)
	b = binary.LittleEndian.AppendUint32(b, c.Version)
	return append(append(b, byte(c.Class)), c.Calibration[:]...)
}

func appendLayout(b []byte, l Layout) []byte {
	b = binary.LittleEndian.AppendUint32(b, l.Version)
	b = append(b, byte(l.Memory), l.CellExtra, bit(l.Transposed))
	for _, v := range []uint32{l.RotK, l.RotV, l.Layers, uint32(len(l.Runs))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, r := range l.Runs {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Type))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Row))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Elem))
	}
	return b
}

func appendTokens(b []byte, tokens []Token) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(tokens)))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

func appendBlocks(b []byte, ids []BlockID) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

func appendBoundaries(b []byte, list []Boundary) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(list)))
	for _, x := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(x.Position))
		b = binary.LittleEndian.AppendUint32(b, uint32(x.PosMin))
		b = binary.LittleEndian.AppendUint32(b, uint32(x.PosMax))
		b = append(b, x.Blob[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Size))
		b = append(b, bit(x.Appendix))
	}
	return b
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// appendTime writes Unix nanoseconds; the zero time is 0.
func appendTime(b []byte, t time.Time) []byte {
	var n int64
	if !t.IsZero() {
		n = t.UnixNano()
	}
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

// reader takes fields off b. Once short it stays bad and gives zeroes; the
// caller looks at bad once, at the end.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) manifest() *Manifest {
	m := &Manifest{}
	copy(m.Model[:], r.take(len(m.Model)))
	m.State.Fields = list(r, 4+32, func() FieldDigest { return FieldDigest{r.text(), content.ID(r.id())} })
	m.Codec = Codec{r.text(), r.u32(), Class(r.u8()), content.ID(r.id())}
	m.Layout = r.layout()
	m.Streams = r.u32()
	m.Tokens = list(r, 4, func() Token { return Token(r.u32()) })
	m.Blocks = list(r, 32, r.id)
	m.Tail = r.id()
	m.Boundaries = list(r, 53, r.boundary)
	m.Session, m.Branch = r.text(), r.text()
	m.Serial = r.u64()
	m.Created, m.LastUsed = r.time(), r.time()
	return m
}

func (r *reader) layout() Layout {
	l := Layout{Version: r.u32(), Memory: Memory(r.u8()), CellExtra: r.u8(), Transposed: r.flag(), RotK: r.u32(), RotV: r.u32(), Layers: r.u32()}
	l.Runs = list(r, 20, func() Run { return Run{int32(r.u32()), Bytes(r.u64()), Bytes(r.u64())} })
	return l
}

func (r *reader) boundary() Boundary {
	return Boundary{
		Position: Tokens(r.u32()), PosMin: int32(r.u32()), PosMax: int32(r.u32()), Blob: r.id(), Size: Bytes(r.u64()), Appendix: r.flag(),
	}
}

// flag reads a byte that is 0 or 1: any other would be a second encoding.
func (r *reader) flag() bool {
	f := r.u8()
	r.bad = r.bad || f > 1
	return f == 1
}

// list reads a count and so many elements of at least size bytes each: a count
// that the rest cannot hold allocates nothing.
func list[T any](r *reader, size int, one func() T) []T {
	n := int(r.u32())
	if n > len(r.b)/size {
		r.bad = true
	}
	if r.bad || n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, one())
	}
	return out
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) id() (id BlockID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) text() string { return string(slices.Clone(r.take(int(r.u32())))) }

func (r *reader) time() time.Time {
	n := int64(r.u64())
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
