package kv

import (
	"errors"
	"fmt"
	"time"
)

// Boundary is a place at which a state that cannot be cut may end: what such a
// state holds beside its rows, as it was after Position tokens.
type Boundary struct {
	Position Tokens
	// PosMin and PosMax are the positions the part covers, as the engine says.
	PosMin, PosMax int32
	Blob           BlockID
	Size           Bytes
	// Appendix marks bytes behind a complete state, a draft model's: without them
	// a restore is whole and only the first drafts are slow.
	Appendix bool
}

// MaxBoundaries is how many boundaries one manifest may hold: each is a whole
// copy of what does not grow by rows.
const MaxBoundaries = 4

// Manifest is one saved conversation point. It pins its blocks; a block that no
// manifest names is garbage. An encoded manifest never changes.
type Manifest struct {
	Model  ModelIdentity
	State  StateIdentity
	Codec  Codec
	Layout Layout
	// Streams the saving engine had; parts we cannot read fit no other number.
	Streams uint32
	// Tokens whose state is stored, all of them.
	Tokens []Token
	// Blocks names the rows of every whole block of Tokens; empty when the memory
	// has no rows.
	Blocks []BlockID
	// Tail names the rows after the last block; zero when there are none.
	Tail BlockID
	// Boundaries in rising order of position; at a position at most one that is
	// not an appendix.
	Boundaries []Boundary
	// Session and Branch are the ledger's names of the conversation.
	Session, Branch string
	// Serial counts the manifests of a store: it orders where clocks tie or go
	// backwards.
	Serial            uint64
	Created, LastUsed time.Time
}

// Errors of manifests.
var (
	// ErrManifest refuses a manifest that is damaged or that Encode did not write.
	ErrManifest = errors.New("kv: not a manifest")
	// ErrManifestVersion refuses a manifest of another format.
	ErrManifestVersion = errors.New("kv: a manifest of another version")
)

// TailRows is the number of rows after the last whole block.
func (m *Manifest) TailRows() int {
	if !m.Layout.Memory.Rows() {
		return 0
	}
	return len(m.Tokens) % BlockTokens
}

// BlockSize is the size of block k; k = len(Blocks) is the tail.
func (m *Manifest) BlockSize(k int) Bytes {
	if k < len(m.Blocks) {
		return m.Layout.BlockBytes(BlockTokens)
	}
	return m.Layout.BlockBytes(m.TailRows())
}

// PayloadBytes is the size of everything the manifest names.
func (m *Manifest) PayloadBytes() (n Bytes) {
	for _, p := range m.Pieces() {
		n += p.Size
	}
	return n
}

// Piece is one stored thing that a manifest names.
type Piece struct {
	ID   BlockID
	Size Bytes
}

// Pieces lists blocks, tail and blobs in the order a pack holds them.
func (m *Manifest) Pieces() []Piece {
	out := make([]Piece, 0, len(m.Blocks)+1+len(m.Boundaries))
	for k, id := range m.Blocks {
		out = append(out, Piece{id, m.BlockSize(k)})
	}
	if !m.Tail.IsZero() {
		out = append(out, Piece{m.Tail, m.BlockSize(len(m.Blocks))})
	}
	for _, b := range m.Boundaries {
		out = append(out, Piece{b.Blob, b.Size})
	}
	return out
}

// Common is the length of the prefix that tokens share with the manifest.
func (m *Manifest) Common(tokens []Token) int {
	n := min(len(tokens), len(m.Tokens))
	for i := range n {
		if tokens[i] != m.Tokens[i] {
			return i
		}
	}
	return n
}

// End is the longest restorable prefix of at most limit tokens.
func (m *Manifest) End(limit int) int {
	limit = min(limit, len(m.Tokens))
	if m.Layout.Memory.Cuttable() {
		return max(limit, 0)
	}
	end := 0
	for _, b := range m.Boundaries {
		if p := int(b.Position); !b.Appendix && p <= limit {
			end = max(end, p)
		}
	}
	return end
}

// Supersedes reports whether everything old can restore, m restores too: old may
// go once m is committed.
func (m *Manifest) Supersedes(old *Manifest) bool {
	if old.State.ID() != m.State.ID() || !old.Layout.Equal(m.Layout) || len(old.Tokens) > len(m.Tokens) ||
		m.Common(old.Tokens) < len(old.Tokens) || len(old.Blocks) > len(m.Blocks) {
		return false
	}
	for k, id := range old.Blocks {
		if m.Blocks[k] != id {
			return false
		}
	}
	if old.Layout.Memory.Cuttable() {
		return old.Tail.IsZero() || old.Tail == m.Tail || len(m.Blocks) > len(old.Blocks)
	}
	return old.End(len(old.Tokens)) == m.End(len(old.Tokens))
}

// Check holds the invariants of a manifest, before a byte of its data is read.
func (m *Manifest) Check() error {
	if err := m.Codec.Check(); err != nil {
		return err
	}
	if err := m.Layout.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	for _, c := range []struct {
		broken bool
		what   string
	}{
		{len(m.Tokens) == 0, "no tokens"},
		{m.Layout.Memory.Rows() && len(m.Blocks) != len(m.Tokens)/BlockTokens, "its blocks are not its tokens"},
		{!m.Layout.Memory.Rows() && len(m.Blocks) > 0, "blocks of a memory without rows"},
		{m.Tail.IsZero() != (m.TailRows() == 0), "its tail is not its tokens"},
		{len(m.Boundaries) > MaxBoundaries, "too many boundaries"},
		{!m.Layout.Memory.Cuttable() && m.End(len(m.Tokens)) == 0, "nowhere to end"},
		{!m.boundariesRise(), "boundaries out of order"},
	} {
		if c.broken {
			return fmt.Errorf("%w: %s", ErrManifest, c.what)
		}
	}
	return nil
}

func (m *Manifest) boundariesRise() bool {
	last := Tokens(0)
	for i, b := range m.Boundaries {
		again := i > 0 && b.Position == last && m.Boundaries[i-1].Appendix == b.Appendix
		if b.Position < 1 || b.Position < last || again || b.Position > Tokens(len(m.Tokens)) || b.Blob.IsZero() || b.Size < 1 {
			return false
		}
		last = b.Position
	}
	return true
}
