package kv

import (
	"fmt"
	"math"
	"time"
)

// Rates are moving averages of what restoring and computing cost on this
// machine. 0 is not measured yet.
type Rates struct {
	Prefill float64 // tokens a second, cold
	Disk    float64 // bytes a second, read, verify and hand over
	Engine  float64 // bytes a second, the engine's own restore
}

// smoothing of a moving average: the last ten samples weigh about two thirds.
const smoothing = 0.1

// isRate reports whether a rate was measured.
func isRate(r float64) bool { return r > 0 && !math.IsInf(r, 1) }

// average folds a sample into a mean; a sample that is not a speed changes nothing.
func average(mean, amount float64, took time.Duration) float64 {
	if amount <= 0 || took <= 0 {
		return mean
	}
	sample := amount / took.Seconds()
	if !isRate(mean) {
		return sample
	}
	return mean + smoothing*(sample-mean)
}

// Prefilled books a measured prefill.
func (r Rates) Prefilled(n Tokens, took time.Duration) Rates {
	r.Prefill = average(r.Prefill, float64(n), took)
	return r
}

// Filled books a measured read, verify and hand-over.
func (r Rates) Filled(n Bytes, took time.Duration) Rates {
	r.Disk = average(r.Disk, float64(n), took)
	return r
}

// Restored books a measured restore by the engine.
func (r Rates) Restored(n Bytes, took time.Duration) Rates {
	r.Engine = average(r.Engine, float64(n), took)
	return r
}

// Offer compares restoring with computing.
type Offer struct {
	Restore, Prefill time.Duration // 0 where a rate is not measured
	Pays             bool
}

// Saved is the time a restore is expected to save.
func (o Offer) Saved() time.Duration { return max(0, o.Prefill-o.Restore) }

// restoreFixed is what a restore costs at any size: two HTTP calls, a file, and
// the batch in progress in another slot.
const restoreFixed = 20 * time.Millisecond

// Offer decides whether n tokens of so many bytes beyond what is resident are
// worth a restore. Without measurements it is: a missing timing must never keep
// the tier from trying.
func (r Rates) Offer(n Tokens, bytes Bytes) Offer {
	if !isRate(r.Prefill) || !isRate(r.Disk) {
		return Offer{Pays: n > 0}
	}
	seconds := func(amount, rate float64) time.Duration {
		if !isRate(rate) {
			return 0
		}
		return time.Duration(amount / rate * float64(time.Second))
	}
	o := Offer{
		Restore: restoreFixed + seconds(float64(bytes), r.Disk) + seconds(float64(bytes), r.Engine),
		Prefill: seconds(float64(n), r.Prefill),
	}
	o.Pays = o.Restore < o.Prefill
	return o
}

// Read is one read of a pack: adjacent pieces in the order the file is
// assembled in.
type Read struct {
	Pack   PackID
	Offset Bytes
	Size   Bytes
	Pieces []ReadPiece
}

// ReadPiece is a piece inside a Read. Index counts the manifest's Pieces.
type ReadPiece struct {
	Index int
	At    Bytes // from the start of the read
	Piece
}

// readMax bounds a read: beyond 8 MiB a disk is no faster, and two in flight are
// all the memory a fill takes. A larger piece is read alone.
const readMax Bytes = 8 << 20

// FillPlan is what a restore reads: the pieces of one manifest, in file order.
type FillPlan struct {
	Manifest ManifestID
	// Tokens the restored state will have; the last block may be cut.
	Tokens int
	// Boundaries are indexes into the manifest's: the part at Tokens, then
	// appendices that still hold there.
	Boundaries []int
	Reads      []Read
	Bytes      Bytes
	Offer      Offer
}

// Beats reports whether the restore gives more than what a slot already holds: a
// resident prefix wins unless the stored one is strictly longer.
func (p FillPlan) Beats(resident Tokens) bool { return Tokens(p.Tokens) > resident }

// MissingError is a piece that no pack holds: the manifest is of no use.
type MissingError struct{ ID BlockID }

func (e *MissingError) Error() string { return fmt.Sprintf("kv: block %v is not stored", e.ID) }

// PlanFill lists the reads that bring back the first n tokens of a manifest; n
// must be one of its ends. where asks the store.
func PlanFill(id ManifestID, m *Manifest, n int, where func(BlockID) (Location, bool), rates Rates) (FillPlan, error) {
	p := FillPlan{Manifest: id, Tokens: n}
	if n < 1 || m.End(n) != n {
		return p, fmt.Errorf("kv: a state of %d tokens cannot end at %d", len(m.Tokens), n)
	}
	p.Boundaries = m.boundariesAt(n)
	pieces := m.Pieces()
	for _, i := range m.piecesFor(n, p.Boundaries) {
		at, ok := where(pieces[i].ID)
		if !ok || at.Size != pieces[i].Size {
			return p, &MissingError{pieces[i].ID}
		}
		p.Reads = appendRead(p.Reads, i, pieces[i], at)
		p.Bytes += at.Size
	}
	p.Offer = rates.Offer(Tokens(n), p.Bytes)
	return p, nil
}

// boundariesAt lists the boundaries a state of n tokens is rebuilt with: earlier
// ones travel along, so that the engine can go back to them.
func (m *Manifest) boundariesAt(n int) (out []int) {
	for i, b := range m.Boundaries {
		whole := n == len(m.Tokens)
		if b.Position <= Tokens(n) && (!b.Appendix || whole) {
			out = append(out, i)
		}
	}
	return out
}

// piecesFor lists the indexes of the pieces of the first n tokens.
func (m *Manifest) piecesFor(n int, boundaries []int) (out []int) {
	rows := 0
	if m.Layout.Memory.Rows() {
		rows = (n + BlockTokens - 1) / BlockTokens
	}
	for i := range rows {
		out = append(out, i)
	}
	first := len(m.Blocks)
	if !m.Tail.IsZero() {
		first++
	}
	for _, b := range boundaries {
		out = append(out, first+b)
	}
	return out
}

// appendRead adds a piece to the last read where it continues it.
func appendRead(reads []Read, index int, p Piece, at Location) []Read {
	if n := len(reads); n > 0 {
		last := &reads[n-1]
		if last.Pack == at.Pack && last.Offset+last.Size == at.Offset && last.Size+at.Size <= readMax {
			last.Pieces = append(last.Pieces, ReadPiece{index, last.Size, p})
			last.Size += at.Size
			return reads
		}
	}
	return append(reads, Read{at.Pack, at.Offset, at.Size, []ReadPiece{{index, 0, p}}})
}
