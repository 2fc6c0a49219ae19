package kv

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/core/content"
)

// day is an instant that plans of tests are made at.
func day() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// named is a digest of a word, for things whose bytes do not matter.
func named(s string) content.ID { return content.Of([]byte(s)) }

// seeded is the n-th generator of a test that prints its seed.
func seeded(seed uint64, n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }

func testState() State {
	return State{
		Model: ModelIdentity(named("a model")), Engine: "llama-server", Build: "b11669-Debian", Version: 4, CacheK: "f16", CacheV: "f16",
		FlashAttention: On, UnifiedKV: Off, Context: 32768, ByteOrder: "little",
	}
}

// smallLayout is two layers of K and V, 64 bytes a token.
func smallLayout(memory Memory) Layout {
	l := Layout{Version: 4, Memory: memory, Layers: 2}
	if memory.Rows() {
		l.Runs = []Run{{1, 16, 0}, {1, 16, 0}, {1, 16, 0}, {1, 16, 0}}
	}
	return l
}

// conversation is n tokens, the same for the same word.
func conversation(word string, n int) []Token {
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(append([]byte(word), make([]byte, 8)...)), 7))
	out := make([]Token, n)
	for i := range out {
		out[i] = Token(r.IntN(32000))
	}
	return out
}

// saved is a manifest of tokens as one history has them: blocks follow from the
// tokens before them.
func saved(memory Memory, tokens []Token, serial uint64) *Manifest {
	s := testState()
	m := &Manifest{
		Model: s.Model, State: s.Identity(), Codec: Raw(), Layout: smallLayout(memory), Streams: 1, Tokens: tokens, Serial: serial,
		Session: "s", Branch: "b", Created: day(), LastUsed: day(),
	}
	if memory.Rows() {
		var prev BlockID
		for k := range len(tokens) / BlockTokens {
			prev = rowsOf(prev, tokens[k*BlockTokens:(k+1)*BlockTokens])
			m.Blocks = append(m.Blocks, prev)
		}
		if m.TailRows() > 0 {
			m.Tail = rowsOf(prev, tokens[len(m.Blocks)*BlockTokens:])
		}
	}
	if !memory.Cuttable() {
		m.Boundaries = []Boundary{boundaryAt(len(tokens), 500)}
	}
	return m
}

func rowsOf(prev BlockID, tokens []Token) BlockID {
	return BlockOf(appendTokens(append([]byte("rows"), prev[:]...), tokens))
}

func boundaryAt(n int, size Bytes) Boundary {
	return Boundary{Position: Tokens(n), PosMax: int32(n - 1), Blob: BlockOf(binary.LittleEndian.AppendUint64([]byte("part"), uint64(n))), Size: size}
}

// encoded is a manifest's name and bytes.
func encoded(t testing.TB, m *Manifest) ([]byte, ManifestID) {
	t.Helper()
	b, id, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b, id
}

// added puts manifests into a new index.
func indexed(t testing.TB, list ...*Manifest) (*Index, []ManifestID) {
	t.Helper()
	x := NewIndex()
	var ids []ManifestID
	for _, m := range list {
		_, id := encoded(t, m)
		x.Add(id, m)
		ids = append(ids, id)
	}
	return x, ids
}

// warehouse is a store in memory that carries plans out: what a plan says must
// be what it finds.
type warehouse struct {
	Contents
	serial uint64
}

func newWarehouse() *warehouse {
	return &warehouse{Contents: Contents{Cost: PackCost{Fixed: 48, Piece: 48}}}
}

// spill stores a manifest as a tier does: missing pieces in one pack.
func (w *warehouse) spill(t testing.TB, m *Manifest, before Tokens) SpillPlan {
	t.Helper()
	p := PlanSpill(m, before, w.holds, w.Cost)
	var pieces []Piece
	for _, x := range p.Missing {
		pieces = append(pieces, x.Piece)
	}
	if len(pieces) > 0 {
		w.serial++
		w.Packs = append(w.Packs, PackFile{ID: PackID(named("pack" + string(rune(w.serial)))), Size: p.Pack, Pieces: pieces})
	}
	b, id := encoded(t, m)
	w.Manifests = append(w.Manifests, m.Stored(id, Bytes(len(b))))
	return p
}

func (w *warehouse) holds(id BlockID) bool {
	for _, p := range w.Packs {
		for _, x := range p.Pieces {
			if x.ID == id {
				return true
			}
		}
	}
	return false
}

// used is a full scan.
func (w *warehouse) used() Bytes {
	n := w.Other
	for _, m := range w.Manifests {
		n += m.Bytes
	}
	for _, p := range w.Packs {
		n += p.Size
	}
	return n
}

// carryOut does the steps one by one and compares every running total with a
// full scan; most is the highest usage on the way.
func (w *warehouse) carryOut(t testing.TB, p Plan) (most Bytes) {
	t.Helper()
	if w.used() != p.Before {
		t.Fatalf("the plan begins at %d, the store holds %d", p.Before, w.used())
	}
	for i, s := range p.Steps {
		most = max(most, w.used()+s.Writes)
		w.step(t, s)
		if w.used() != s.Used {
			t.Fatalf("step %d (%v): the store holds %d, the plan says %d", i, s, w.used(), s.Used)
		}
	}
	if w.used() != p.After {
		t.Fatalf("the plan ends at %d, the store holds %d", p.After, w.used())
	}
	return most
}

func (w *warehouse) step(t testing.TB, s Step) {
	t.Helper()
	switch s.Kind {
	case RemoveManifest:
		w.Manifests = without(t, w.Manifests, func(m Stored) bool { return m.ID == s.Manifest })
	case DeletePack:
		w.Packs = without(t, w.Packs, func(k PackFile) bool { return k.ID == s.Pack })
	case CompactPack:
		w.Packs = without(t, w.Packs, func(k PackFile) bool { return k.ID == s.Pack })
		size := Bytes(0)
		for _, p := range s.Live {
			size += p.Size
		}
		w.Packs = append(w.Packs, PackFile{ID: s.Pack, Size: w.Cost.Of(len(s.Live), size), Pieces: s.Live})
	}
	for _, m := range w.Manifests {
		for _, p := range m.Pieces {
			if !w.holds(p.ID) {
				t.Fatalf("after %v, manifest %v has lost a piece", s, m.ID)
			}
		}
	}
}

// without takes out the one element that is meant.
func without[T any](t testing.TB, list []T, it func(T) bool) []T {
	t.Helper()
	for i, x := range list {
		if it(x) {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	t.Fatal("the plan names something the store does not hold")
	return nil
}
