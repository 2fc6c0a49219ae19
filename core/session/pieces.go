package session

import (
	"slices"

	"holdfast/core/content"
)

// Piece is one stretch of a body by what it is, without its bytes: the value of
// a top-level field, an element of the list, or (no name, no element) what
// stands between two of those. The pieces of a body in order are the whole
// body, so that their lengths add up to offsets.
type Piece struct {
	Name string // of the field; of the list, for an element
	Elem bool
	N    int64 // element number
	ID   content.ID
	Len  int64 // of the new body's pieces; the old body's may be unknown
}

// Divergence is where two bodies first differ, a plain extension of the list
// apart. Indexes are into the pieces of the two bodies; -1 where a side has no
// such piece.
type Divergence struct {
	// Old and New are the first pieces that differ.
	Old, New int
	// OldOf and NewOf are the field or element the change is about. They are Old
	// and New themselves unless the bodies first differ between two segments.
	OldOf, NewOf int
	// Offset is where piece New starts in the new body.
	Offset int64
	// Index is the number of elements before NewOf, or before the place where
	// OldOf is missing.
	Index int
}

// Between reports whether the bodies first differ outside the segments the
// change is about; the exact offset then needs the bytes of Old and New.
func (d Divergence) Between() bool { return d.Old != d.OldOf || d.New != d.NewOf }

// FirstChanged compares two bodies piece by piece. prefixSame is the length of
// the pieces equal from the start; found is false when the bodies are equal or
// the new one only has more elements at the end of its list.
func FirstChanged(old, new []Piece) (d Divergence, prefixSame int64, found bool) {
	i := equalRun(old, new)
	j := i
	prefixSame = lengthOf(new[:i])
	if ended(old, i) { // with all its elements equal: the new list may go on
		j = lastElem(new) + 1
		n := equalRun(old[i:], new[j:])
		i, j = i+n, j+n
	}
	if i == len(old) && j == len(new) {
		return Divergence{}, prefixSame, false
	}
	d = Divergence{Old: at(old, i), New: at(new, j), Offset: lengthOf(new[:j])}
	d.OldOf, d.NewOf = subjects(old, new, i, j)
	d.Index = elements(new[:j])
	return d, prefixSame, true
}

func equalRun(a, b []Piece) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i].ID != b[i].ID {
			return i
		}
	}
	return n
}

// ended reports whether piece i is the first behind the last element.
func ended(ps []Piece, i int) bool { return i > 0 && lastElem(ps) == i-1 }

// subjects names the segments behind a difference: a pair where both bodies
// have them, one alone where the other body has no such segment at all.
func subjects(old, new []Piece, i, j int) (oldOf, newOf int) {
	oldOf, newOf = segmentFrom(old, i), segmentFrom(new, j)
	gone := oldOf >= 0 && !hasSegment(new, old[oldOf])
	born := newOf >= 0 && !hasSegment(old, new[newOf])
	switch {
	case gone && !born:
		return oldOf, -1
	case born && !gone:
		return -1, newOf
	case gone && old[oldOf].Elem != new[newOf].Elem:
		return oldOf, -1
	}
	return oldOf, newOf
}

// segmentFrom is the first field or element at or behind piece i, -1 for none.
func segmentFrom(ps []Piece, i int) int {
	for ; i < len(ps); i++ {
		if ps[i].segment() {
			return i
		}
	}
	return -1
}

func (p Piece) segment() bool { return p.Elem || p.Name != "" }

func hasSegment(ps []Piece, s Piece) bool {
	return slices.ContainsFunc(ps, func(p Piece) bool {
		return p.segment() && p.Elem == s.Elem && p.N == s.N && (p.Elem || p.Name == s.Name)
	})
}

func lastElem(ps []Piece) int {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].Elem {
			return i
		}
	}
	return -1
}

func lengthOf(ps []Piece) (n int64) {
	for i := range ps {
		n += ps[i].Len
	}
	return n
}

func elements(ps []Piece) (n int) {
	for i := range ps {
		if ps[i].Elem {
			n++
		}
	}
	return n
}

func at(ps []Piece, i int) int {
	if i >= len(ps) {
		return -1
	}
	return i
}
