package slotfile

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/core/kv"
)

// engine writes slot files as llama-server does, from the description of a state.
// It shares no code with the package: what both agree on, two readings of the
// format agree on.
type engine struct {
	tokens    []int32
	streams   int // 0 where the memory has none
	slot      int
	unified   bool // one stream whatever the slot
	extra     bool // M-RoPE
	layers    int
	row       int // bytes of a K row, and of a V row
	kind      uint32
	transpose bool
	latent    bool // K runs only
	rot       uint32
	window    int // cells of a sliding window; 0 for none
	recurrent int // layers with a recurrent state; 0 for none
	rowless   bool
	checks    []int // lengths of checkpoints
	draft     int   // bytes of a draft model's state
	order     []int // cell i holds position order[i]; nil for their own order
	seed      uint64
}

// Values of element types in files.
const (
	f32  = 0
	f16  = 1
	q4_0 = 2
	q8_0 = 8
)

// samples are small files of every kind: 2 blocks and a tail.
func samples() map[string]engine {
	tokens := make([]int32, 2*64+27)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range tokens {
		tokens[i] = int32(r.IntN(384))
	}
	dense := engine{tokens: tokens, streams: 1, layers: 2, row: 32, kind: f16, seed: 3}
	with := func(change func(*engine)) engine {
		e := dense
		change(&e)
		return e
	}
	return map[string]engine{
		"dense":      dense,
		"streams":    with(func(e *engine) { e.streams, e.slot = 4, 2 }),
		"last":       with(func(e *engine) { e.streams, e.slot = 4, 3 }),
		"unified":    with(func(e *engine) { e.unified, e.slot = true, 3 }),
		"shuffled":   with(func(e *engine) { e.unified, e.slot, e.order = true, 1, shuffled(len(tokens)) }),
		"q8_0":       with(func(e *engine) { e.row, e.kind = 34, q8_0 }),
		"q4_0":       with(func(e *engine) { e.row, e.kind, e.rot = 18, q4_0, 64 }),
		"transposed": with(func(e *engine) { e.transpose = true }),
		"crossed":    with(func(e *engine) { e.transpose, e.unified, e.slot, e.order = true, true, 1, shuffled(len(tokens)) }),
		"mrope":      with(func(e *engine) { e.extra, e.streams, e.slot = true, 2, 1 }),
		"latent":     with(func(e *engine) { e.latent = true }),
		"draft":      with(func(e *engine) { e.draft = 100 }),
		"window":     with(func(e *engine) { e.window, e.streams, e.slot, e.checks = 16, 3, 2, []int{30, 100, 150} }),
		"window one": with(func(e *engine) { e.window = 16 }),
		"hybrid":     with(func(e *engine) { e.recurrent, e.streams, e.slot, e.checks = 2, 2, 1, []int{50, 154} }),
		"all three":  with(func(e *engine) { e.recurrent, e.window, e.checks = 2, 16, []int{128} }),
		"recurrent":  with(func(e *engine) { e.rowless, e.recurrent, e.streams, e.checks = true, 3, 0, []int{64, 128} }),
	}
}

// shuffled keeps stretches, as a unified pool does: cells are taken where they
// are free.
func shuffled(n int) []int {
	var out []int
	for _, s := range [][2]int{{100, n}, {0, 37}, {37, 38}, {64, 100}, {38, 64}} {
		for i := s[0]; i < s[1]; i++ {
			out = append(out, i)
		}
	}
	return out
}

func (e engine) file() []byte {
	n := len(e.tokens)
	b := words(nil, 0x67677371, 4, uint32(n+4), 0xffffffff, 1, uint32(n))
	for _, t := range e.tokens {
		b = words(b, uint32(t))
	}
	b = words(b, 0)
	if !e.rowless {
		b = e.attention(b, 1, e.layers, e.positions(0, n))
	}
	b = e.parts(b, n)
	if len(e.checks) > 0 {
		b = append(b, "SCKP"...)
		b = words(b, 1, uint32(len(e.checks)))
	}
	for _, c := range e.checks {
		part := e.parts(words(nil, 0xaf143cd8, uint32(e.slot)), c)
		b = binary.LittleEndian.AppendUint64(b, uint64(c))
		b = words(b, uint32(max(0, c-max(1, e.window))), uint32(c-1))
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(part))), part...)
		b = append(b, make([]byte, 16)...)
	}
	if e.draft > 0 {
		b = append(b, "SDFT"...)
		b = binary.LittleEndian.AppendUint64(words(b, 1), uint64(e.draft))
		b = append(b, noise(e.seed, 99, 0, e.draft+8)...)
	}
	return b
}

func (e engine) positions(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	if e.order != nil && from == 0 {
		return slices.DeleteFunc(slices.Clone(e.order), func(p int) bool { return p >= to })
	}
	return out
}

// parts are the memories that hold for exactly n tokens.
func (e engine) parts(b []byte, n int) []byte {
	if e.window > 0 {
		b = e.attention(b, 100+n, 3, e.positions(max(0, n-e.window), n))
	}
	if e.recurrent > 0 {
		b = words(b, 1, uint32(n-1), 0, 0, uint32(e.recurrent+1))
		for l := range 2 * e.recurrent {
			size := []int{24, 0}[l/e.recurrent]
			b = binary.LittleEndian.AppendUint64(words(b, f32), uint64(size))
			b = append(b, noise(e.seed, 1000+n, l, size)...)
		}
	}
	return b
}

// attention is one memory whose rows depend on where, the layer and the position.
func (e engine) attention(b []byte, where, layers int, positions []int) []byte {
	streams, stream := e.streams, e.slot
	if e.unified || streams == 1 {
		streams, stream = 1, 0
	}
	b = words(b, uint32(streams))
	b = append(b, make([]byte, 4*stream)...)
	b = words(b, uint32(len(positions)))
	for _, p := range positions {
		b = words(b, uint32(p), 1)
		if e.extra {
			b = words(b, uint32(p), uint32(p), uint32(e.tokens[p]))
		}
		b = words(b, uint32(e.slot))
	}
	b = words(b, uint32(map[bool]int{true: 1}[e.transpose]), uint32(layers), e.rot, e.rot)
	for l := range 2 * layers {
		switch {
		case l >= layers && e.latent:
		case l >= layers && e.transpose:
			b = words(b, e.kind, 2, uint32(e.row/2))
			for c := range e.row / 2 {
				for _, p := range positions {
					b = append(b, noise(e.seed, where, l*1000+p, e.row)[2*c:2*c+2]...)
				}
			}
		default:
			b = binary.LittleEndian.AppendUint64(words(b, e.kind), uint64(e.row))
			for _, p := range positions {
				b = append(b, noise(e.seed, where, l*1000+p, e.row)...)
			}
		}
	}
	return append(b, make([]byte, 4*(streams-1-stream))...)
}

// cut is the engine at an earlier length: what it would have saved there.
func (e engine) cut(n int) engine {
	e.tokens = e.tokens[:n]
	e.order = nil
	e.checks = slices.DeleteFunc(slices.Clone(e.checks), func(c int) bool { return c >= n })
	e.draft = 0
	return e
}

// at is the same state in another place.
func (e engine) at(t Target) engine {
	e.unified, e.streams, e.slot = t.Streams == 1, int(t.Streams), int(t.Slot)
	return e
}

// target is the place the engine has.
func (e engine) target() Target {
	if e.unified || e.streams == 0 {
		return Target{1, uint32(e.slot)}
	}
	return Target{uint32(e.streams), uint32(e.slot)}
}

func words(b []byte, list ...uint32) []byte {
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// noise is n bytes that follow from where they stand.
func noise(seed uint64, a, b, n int) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(a)<<32|uint64(b)))
	out := make([]byte, 0, n+8)
	for len(out) < n {
		out = binary.LittleEndian.AppendUint64(out, r.Uint64())
	}
	return out[:n]
}

// disk is a file in memory.
type disk struct{ b []byte }

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	if end := int(at) + len(p); end > len(d.b) {
		d.b = append(d.b, make([]byte, end-len(d.b))...)
	}
	return copy(d.b[at:], p), nil
}

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(d.b)) {
		return 0, io.EOF
	}
	n := copy(p, d.b[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func parse(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Parse(&disk{b}, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// split reads a file into a manifest and its pieces.
func split(t testing.TB, b []byte, n int) (*kv.Manifest, [][]byte) {
	t.Helper()
	f := parse(t, b)
	keep := slices.DeleteFunc(slices.Clone(f.Parts), func(p kv.Boundary) bool { return int(p.Position) > n })
	m, err := f.Manifest(n, keep, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pieces [][]byte
	for i, want := range m.Pieces() {
		p, err := f.Piece(m, i, nil)
		if err != nil || kv.BlockOf(p) != want.ID || kv.Bytes(len(p)) != want.Size {
			t.Fatalf("piece %d: %d bytes of %d, %v", i, len(p), want.Size, err)
		}
		pieces = append(pieces, p)
	}
	return m, pieces
}

// plan is the fill of n tokens, every piece in a pack of its own.
func plan(t testing.TB, m *kv.Manifest, n int) kv.FillPlan {
	t.Helper()
	sizes := map[kv.BlockID]kv.Bytes{}
	for _, p := range m.Pieces() {
		sizes[p.ID] = p.Size
	}
	p, err := kv.PlanFill(kv.ManifestID{}, m, n, func(id kv.BlockID) (kv.Location, bool) {
		return kv.Location{Pack: kv.PackID(id), Size: sizes[id]}, true
	}, kv.Rates{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// join assembles the file of n tokens.
func join(t testing.TB, m *kv.Manifest, pieces [][]byte, n int, at Target) []byte {
	t.Helper()
	var d disk
	p := plan(t, m, n)
	a, err := Assemble(&d, m, p, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Reads {
		for _, x := range r.Pieces {
			if err := a.Put(x.Index, pieces[x.Index]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	if int64(len(d.b)) != a.Size() {
		t.Fatalf("%d bytes written, %d foretold", len(d.b), a.Size())
	}
	return d.b
}

// same compares files and says where they part.
func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d, first difference at %d", what, len(got), len(want), at)
}
