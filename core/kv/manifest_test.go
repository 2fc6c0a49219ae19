package kv

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"holdfast/core/content"
)

func allMemories() []Memory { return []Memory{Dense, Window, Hybrid, HybridWindow, Recurrent, Opaque} }

func TestManifestComesBack(t *testing.T) {
	for _, memory := range allMemories() {
		for _, n := range []int{64, 65, 127, 1000} {
			m := saved(memory, conversation("back", n), 9)
			b, id := encoded(t, m)
			if Bytes(len(b)) > m.EncodedBytes() {
				t.Errorf("%v, %d tokens: %d bytes, %d foretold", memory, n, len(b), m.EncodedBytes())
			}
			got, gotID, err := DecodeManifest(b)
			if err != nil || gotID != id || !reflect.DeepEqual(got, m) {
				t.Errorf("%v, %d tokens: %v\n%+v\n%+v", memory, n, err, got, m)
			}
		}
	}
}

// What a manifest must hold, one broken rule each.
func TestManifestInvariants(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Manifest)
		want  error
	}{
		"no codec":            {func(m *Manifest) { m.Codec = Codec{} }, ErrCodec},
		"a lossy codec":       {func(m *Manifest) { m.Codec.Class = Lossy }, ErrCodec},
		"no tokens":           {func(m *Manifest) { m.Tokens, m.Blocks, m.Tail = nil, nil, BlockID{} }, ErrManifest},
		"a block short":       {func(m *Manifest) { m.Blocks = m.Blocks[1:] }, ErrManifest},
		"no tail":             {func(m *Manifest) { m.Tail = BlockID{} }, ErrManifest},
		"a tail too many":     {func(m *Manifest) { m.Tokens = m.Tokens[:2*BlockTokens] }, ErrManifest},
		"no layout":           {func(m *Manifest) { m.Layout = Layout{} }, ErrGeometry},
		"rows of nothing":     {func(m *Manifest) { m.Layout.Runs[0].Row = 0 }, ErrGeometry},
		"rows of half items":  {func(m *Manifest) { m.Layout.Runs[0].Elem = 3 }, ErrGeometry},
		"negative rows":       {func(m *Manifest) { m.Layout.Runs[0].Row = -16 }, ErrGeometry},
		"rowless with blocks": {func(m *Manifest) { m.Layout = smallLayout(Recurrent) }, ErrManifest},
		"nowhere to end":      {func(m *Manifest) { m.Layout.Memory = Window }, ErrManifest},
		"a boundary past it":  {func(m *Manifest) { m.Boundaries = []Boundary{boundaryAt(131, 1)} }, ErrManifest},
		"an empty boundary":   {func(m *Manifest) { m.Boundaries = []Boundary{boundaryAt(130, 0)} }, ErrManifest},
		"twice a boundary":    {func(m *Manifest) { m.Boundaries = []Boundary{boundaryAt(99, 1), boundaryAt(99, 1)} }, ErrManifest},
		"out of order":        {func(m *Manifest) { m.Boundaries = []Boundary{boundaryAt(99, 1), boundaryAt(98, 1)} }, ErrManifest},
		"five boundaries": {func(m *Manifest) {
			for i := range 5 {
				m.Boundaries = append(m.Boundaries, boundaryAt(10+i, 1))
			}
		}, ErrManifest},
	} {
		m := saved(Dense, conversation("rules", 130), 1)
		c.spoil(m)
		if _, _, err := m.Encode(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := DecodeManifest(sealed(m)); !errors.Is(err, c.want) {
			t.Errorf("%s, written all the same: %v", name, err)
		}
	}
}

// sealed encodes without asking, as a broken writer would: digest and all.
func sealed(m *Manifest) []byte {
	good := saved(Dense, conversation("rules", 130), 1)
	b, _, _ := good.Encode()
	body := append([]byte(nil), b[:len(manifestMagic)+4]...)
	body = append(body, m.Model[:]...)
	body = appendLayout(appendCodec(appendFields(body, m.State.Fields), m.Codec), m.Layout)
	body = append(body, 1, 0, 0, 0)
	body = appendBlocks(appendTokens(body, m.Tokens), m.Blocks)
	body = appendBoundaries(append(body, m.Tail[:]...), m.Boundaries)
	body = append(appendText(appendText(body, m.Session), m.Branch), make([]byte, 24)...)
	sum := content.Of(body)
	return append(body, sum[:]...)
}

// Every flipped bit and every shorter or longer file is refused.
func TestDamagedManifest(t *testing.T) {
	b, _ := encoded(t, saved(Hybrid, conversation("damage", 130), 1))
	for i := range b {
		for bit := range 8 {
			c := slices.Clone(b)
			c[i] ^= 1 << bit
			if _, _, err := DecodeManifest(c); err == nil {
				t.Fatalf("byte %d, bit %d: read", i, bit)
			}
		}
	}
	for n := range b {
		if _, _, err := DecodeManifest(b[:n]); !errors.Is(err, ErrManifest) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, _, err := DecodeManifest(append(slices.Clone(b), 0)); !errors.Is(err, ErrManifest) {
		t.Error("a byte more is read")
	}
}

// A writer that seals nonsense is not believed either: what is read is written
// back as the same bytes, so there is one encoding.
func TestOneEncoding(t *testing.T) {
	b, _ := encoded(t, saved(Hybrid, conversation("one", 70), 1))
	for at := len(manifestMagic) + 4; at < len(b)-32; at++ {
		for _, flip := range []byte{1, 2, 0x80} {
			c := slices.Clone(b)
			c[at] ^= flip
			sum := content.Of(c[:len(c)-32])
			copy(c[len(c)-32:], sum[:])
			m, _, err := DecodeManifest(c)
			if err != nil {
				continue
			}
			if again, _, err := m.Encode(); err != nil || !bytes.Equal(again, c) {
				t.Fatalf("byte %d changed by %#x has a second encoding: %v", at, flip, err)
			}
		}
	}
}

// A manifest of another version is refused as such, so that it can be kept for
// the program that wrote it.
func TestManifestOfAnotherVersion(t *testing.T) {
	b, _ := encoded(t, saved(Dense, conversation("v", 64), 1))
	b[len(manifestMagic)] = 2
	sum := content.Of(b[:len(b)-32])
	copy(b[len(b)-32:], sum[:])
	if _, _, err := DecodeManifest(b); !errors.Is(err, ErrManifestVersion) {
		t.Error(err)
	}
}

// FuzzDecodeManifest: whatever is read is written as the same bytes, and counts
// that lie allocate nothing.
func FuzzDecodeManifest(f *testing.F) {
	for _, memory := range allMemories() {
		b, _, err := saved(memory, conversation("fuzz", 130), 1).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-32])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := content.Of(body)
		b := append(slices.Clone(body), sum[:]...)
		m, id, err := DecodeManifest(b)
		if err != nil {
			return
		}
		again, againID, err := m.Encode()
		if err != nil || id != againID || !bytes.Equal(again, b) {
			t.Errorf("read but not written back: %v", err)
		}
	})
}

func TestEnds(t *testing.T) {
	dense := saved(Dense, conversation("ends", 200), 1)
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 199: 199, 200: 200, 900: 200} {
		if got := dense.End(limit); got != want {
			t.Errorf("dense, at most %d: %d", limit, got)
		}
	}
	bound := saved(Window, conversation("ends", 200), 1)
	bound.Boundaries = []Boundary{boundaryAt(70, 1), boundaryAt(150, 1), boundaryAt(200, 1), {Position: 200, Blob: BlockOf(nil), Size: 9, Appendix: true}}
	if err := bound.Check(); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{69: 0, 70: 70, 149: 70, 199: 150, 200: 200, 999: 200} {
		if got := bound.End(limit); got != want {
			t.Errorf("window, at most %d: %d", limit, got)
		}
	}
}

func TestSupersedes(t *testing.T) {
	short, long := conversation("grow", 300), conversation("grow", 300)
	long = append(long, conversation("more", 200)...)
	other := saved(Dense, long, 2)
	other.Blocks = slices.Clone(other.Blocks)
	other.Blocks[1] = BlockOf([]byte("another history"))
	quantised := saved(Dense, long, 2)
	s := testState()
	s.CacheK = "q8_0"
	quantised.State = s.Identity()
	checkpointed := saved(Window, long, 2)
	checkpointed.Boundaries = []Boundary{boundaryAt(300, 500), boundaryAt(500, 500)}
	renamed := saved(Dense, long, 2) // the same bytes for other tokens
	renamed.Tokens = slices.Clone(renamed.Tokens)
	renamed.Tokens[7]++
	for name, c := range map[string]struct {
		next, old *Manifest
		want      bool
	}{
		"the bytes of other tokens": {renamed, saved(Dense, short, 1), false},
		"grown":                     {saved(Dense, long, 2), saved(Dense, short, 1), true},
		"itself":                    {saved(Dense, short, 2), saved(Dense, short, 1), true},
		"shorter":                   {saved(Dense, short, 2), saved(Dense, long, 1), false},
		"other tokens":              {saved(Dense, conversation("x", 500), 2), saved(Dense, short, 1), false},
		"other bytes":               {other, saved(Dense, short, 1), false},
		"other state":               {quantised, saved(Dense, short, 1), false},
		"a boundary lost":           {saved(Window, long, 2), saved(Window, short, 1), false},
		"with a checkpoint":         {checkpointed, saved(Window, short, 1), true},
		"of another memory kind":    {saved(Dense, long, 2), saved(Window, short, 1), false},
	} {
		if got := c.next.Supersedes(c.old); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A geometry is exact or refused: one byte more, less, or out of place.
func TestGeometryExact(t *testing.T) {
	g := Geometry{Layout: smallLayout(Dense), Rows: 3, Regions: []Region{
		{RegionHeader, 0, 0, 12}, {RegionTokens, 0, 12, 28}, {RegionRows, 0, 40, 48}, {RegionRows, 1, 88, 48},
	}}
	if err := g.Exact(136); err != nil {
		t.Fatal(err)
	}
	for _, size := range []Bytes{0, 40, 135, 137} {
		if err := g.Exact(size); !errors.Is(err, ErrGeometry) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for i := range g.Regions {
		for _, d := range []Bytes{-1, 1} {
			moved := Geometry{g.Layout, g.Rows, slices.Clone(g.Regions)}
			moved.Regions[i].Offset += d
			resized := Geometry{g.Layout, g.Rows, slices.Clone(g.Regions)}
			resized.Regions[i].Size += d
			for _, bad := range []Geometry{moved, resized} {
				if err := bad.Exact(136); !errors.Is(err, ErrGeometry) {
					t.Errorf("region %d by %d: %v", i, d, err)
				}
			}
		}
	}
	if err := (Geometry{Layout: g.Layout, Rows: 4, Regions: g.Regions}).Exact(136); !errors.Is(err, ErrGeometry) {
		t.Errorf("a row more than there are: %v", err)
	}
}

func ExampleLayout_RowBytes() {
	l := Layout{Runs: []Run{{Type: 1, Row: 2048}, {Type: 1, Row: 2048}}}
	fmt.Println(l.RowBytes(), l.BlockBytes(BlockTokens))
	// Output: 4096 262144
}
