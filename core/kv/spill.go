package kv

import (
	"slices"
	"time"
)

// PackCost is what a pack file has beside its pieces, in bytes: once, and for
// each piece. The store knows it.
type PackCost struct{ Fixed, Piece Bytes }

// Of is the size of a pack of so many pieces of payload bytes together.
func (c PackCost) Of(pieces int, payload Bytes) Bytes {
	if pieces == 0 {
		return 0
	}
	return c.Fixed + Bytes(pieces)*c.Piece + payload
}

// SpillPlan is what a spill writes: one pack of the missing pieces, then the
// manifest.
type SpillPlan struct {
	// Missing pieces in the order of the pack. Index counts the manifest's Pieces.
	Missing []SpillPiece
	// Reused is the number of pieces that are stored already.
	Reused int
	// Payload is the bytes of the missing pieces, Pack of the file they make,
	// Manifest of the manifest's.
	Payload, Pack, Manifest Bytes
	// Storable is the bytes of the rows that this spill makes restorable: what
	// Payload is measured against.
	Storable Bytes
}

// SpillPiece is one piece to write.
type SpillPiece struct {
	Index int
	Piece
}

// Claim is the room the spill asks for: all of it is growth.
func (p SpillPlan) Claim() Claim {
	n := p.Pack + p.Manifest
	return Claim{Write: n, Growth: n}
}

// PlanSpill lists what of a manifest is not stored yet. before is the number of
// tokens of this branch that were restorable; stored asks the store.
func PlanSpill(m *Manifest, before Tokens, stored func(BlockID) bool, cost PackCost) SpillPlan {
	p := SpillPlan{Manifest: m.EncodedBytes(), Storable: Bytes(max(0, Tokens(len(m.Tokens))-before)) * m.Layout.RowBytes()}
	seen := map[BlockID]bool{}
	for i, piece := range m.Pieces() {
		if seen[piece.ID] || stored(piece.ID) {
			p.Reused++
			continue
		}
		seen[piece.ID] = true
		p.Missing = append(p.Missing, SpillPiece{i, piece})
		p.Payload += piece.Size
	}
	p.Pack = cost.Of(len(p.Missing), p.Payload)
	return p
}

// SpillEnd says how much of a saved state to store, and with which of its parts.
// stable is the length that the next turn is expected to reuse: behind it stands
// what the next prompt will not repeat. Rows are cut at the last whole block
// before it, or with tail at it; a state that cannot be cut ends at its last part
// before it. 0 means there is nothing to store. Room is what parts before that
// end may take, as BoundaryRoom gives it.
func SpillEnd(memory Memory, parts []Boundary, stable Tokens, tail bool, room Bytes) (n int, keep []Boundary) {
	if memory.Cuttable() {
		n = int(stable)
		if !tail {
			n -= n % BlockTokens
		}
	}
	for _, b := range parts {
		if !b.Appendix && b.Position <= stable {
			keep = append(keep, b)
		}
	}
	slices.SortStableFunc(keep, func(a, b Boundary) int { return int(a.Position) - int(b.Position) })
	keep = slices.CompactFunc(keep, func(a, b Boundary) bool { return a.Position == b.Position })
	if len(keep) > 0 && !memory.Cuttable() {
		n = int(keep[len(keep)-1].Position)
	}
	var beside []Boundary
	for _, b := range parts {
		if b.Appendix && int(b.Position) == n && len(beside) == 0 {
			beside = append(beside, b)
		}
	}
	return n, append(fewer(keep, MaxBoundaries-len(beside), room), beside...)
}

// boundaryShare is the part of the budget that the parts before the end of one
// branch may take: each is a whole state of its kind, opaque, and shared with
// nobody who did not come by the same position.
const boundaryShare = 16

// BoundaryRoom is how many bytes of a budget one branch's parts may take, beside
// the one it ends at, without which nothing could be restored.
func BoundaryRoom(budget Bytes) Bytes { return budget / boundaryShare }

// fewer picks at most n of the parts, in order: the last; the lowest, which is
// the one other sessions share; then the latest that fit in the room.
func fewer(parts []Boundary, n int, room Bytes) (keep []Boundary) {
	if len(parts) == 0 {
		return nil
	}
	rest := slices.Clone(parts[:len(parts)-1])
	if len(rest) > 0 { // the lowest comes first, then backwards
		slices.Reverse(rest[1:])
	}
	keep = append(keep, parts[len(parts)-1])
	for _, b := range rest {
		if len(keep) < n && b.Size <= room {
			keep, room = append(keep, b), room-b.Size
		}
	}
	slices.SortFunc(keep, func(a, b Boundary) int { return int(a.Position) - int(b.Position) })
	return keep
}

// Branch is what is known of a conversation's branch when a spill is considered.
type Branch struct {
	Held    Tokens // stable tokens in the engine's slot
	Spilled Tokens // of these, restorable from disk
	Tail    bool   // rows behind the last whole block are not on disk yet
	Idle    time.Duration
	// Closing: the slot is about to be lost, by unload, suspend or shutdown.
	Closing bool
}

// SpillRule bounds spills. The zero value of a field takes the default.
type SpillRule struct {
	Min     Tokens // shortest prefix worth storing
	Written Bytes  // today
	Cap     Bytes  // a day; 0 is none
}

// Spill triggers. 256 tokens keep at most 63 ragged rows under a quarter of a
// spill; idle times are the design's.
const (
	spillTokens Tokens = 256
	spillIdle          = 10 * time.Second
	tailIdle           = 30 * time.Second
)

// SpillDue says whether a branch is worth a spill now.
type SpillDue struct {
	Spill bool
	// Tail: with the ragged rows, so that continuing is equal to the bit.
	Tail bool
	// Reason a person can read, for both answers.
	Reason string
}

// Due decides by new tokens, idle time and closing, within the day's cap.
func (r SpillRule) Due(b Branch) SpillDue {
	fresh := b.Held/BlockTokens*BlockTokens - b.Spilled/BlockTokens*BlockTokens
	tail := b.Tail && (b.Closing || b.Idle >= tailIdle)
	switch {
	case b.Held < max(r.Min, 1):
		return SpillDue{Reason: "shorter than min_tokens"}
	case r.Cap > 0 && r.Written >= r.Cap:
		return SpillDue{Reason: "daily_write_cap reached"}
	case tail:
		return SpillDue{true, true, "the last rows, at rest"}
	case fresh >= spillTokens:
		return SpillDue{true, false, "256 new tokens"}
	case fresh > 0 && b.Closing:
		return SpillDue{true, false, "the slot is closing"}
	case fresh > 0 && b.Idle >= spillIdle:
		return SpillDue{true, false, "idle for 10 s"}
	}
	return SpillDue{Reason: "too little is new"}
}
