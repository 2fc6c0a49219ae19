package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/content"
)

// seeded returns a random source and prints its seed, so that a failure can be
// run again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// refAlign is the alignment told over one-letter tokens by the words of the
// design, as a matrix of equal pairs and string operations: slow, and written
// apart from Align. The letter e is an empty element.
type refAlign struct {
	s, in string
	pairs map[[2]int]bool
	out   bool
}

func newRefAlign(s, in string) *refAlign {
	r := &refAlign{s: s, in: in, pairs: map[[2]int]bool{}}
	p := 0
	for p < len(s) && p < len(in) && strings.HasPrefix(in, s[:p+1]) {
		p++
	}
	q := 0
	for p+q < len(s) && p+q < len(in) && strings.HasSuffix(in[p:], s[len(s)-q-1:]) {
		q++
	}
	if strings.Trim(s[len(s)-q:], "e") == "" {
		q = 0
	}
	for i := range p {
		r.pairs[[2]int{i, i}] = true
	}
	for d := range q {
		r.pairs[[2]int{len(s) - 1 - d, len(in) - 1 - d}] = true
	}
	r.middle(p, len(s)-q, len(in)-q)
	strong := false
	for pr := range r.pairs {
		strong = strong || s[pr[0]] != 'e'
	}
	if !strong && p < len(s) {
		r.pairs = map[[2]int]bool{}
	}
	return r
}

// middle pairs what lies in s[p:se] and in[p:ie].
func (r *refAlign) middle(p, se, ie int) {
	a, b := r.s[p:se], r.in[p:ie]
	var anchors [][2]int
	for j := range b {
		c := string(b[j])
		if c != "e" && strings.Count(a, c) == 1 && strings.Count(b, c) == 1 {
			anchors = append(anchors, [2]int{p + strings.Index(a, c), p + j})
		}
	}
	r.out = !slices.IsSortedFunc(anchors, func(x, y [2]int) int { return x[0] - y[0] })
	for _, x := range anchors {
		r.pairs[x] = true
	}
	if r.out {
		return
	}
	for _, x := range anchors {
		for _, d := range []int{-1, 1} {
			for k := d; ; k += d {
				i, j := x[0]+k, x[1]+k
				if i < p || j < p || i >= se || j >= ie || r.s[i] != r.in[j] || r.taken(i, j) {
					break
				}
				r.pairs[[2]int{i, j}] = true
			}
		}
	}
}

func (r *refAlign) taken(i, j int) bool {
	for pr := range r.pairs {
		if pr[0] == i || pr[1] == j {
			return true
		}
	}
	return false
}

// tell names the row and what happens to each element, one word each.
func (r *refAlign) tell() string {
	kept := make([][2]int, 0, len(r.pairs))
	for pr := range r.pairs {
		kept = append(kept, pr)
	}
	slices.SortFunc(kept, func(x, y [2]int) int { return x[1] - y[1] })
	switch {
	case len(kept) == 0:
		return "row 4"
	case r.out:
		return fmt.Sprint("row 8 out ", kept)
	}
	row, i, j := 5, 0, 0
	var replaced, removed, rewound []int
	for _, k := range kept {
		n, m := k[0]-i, k[1]-j
		for d := range n {
			switch {
			case n == m:
				replaced = append(replaced, i+d, j+d)
			case m == 0:
				removed = append(removed, i+d)
			}
		}
		switch {
		case n == 0 && m == 0:
		case n == m:
			row = max(row, 6)
		case m == 0:
			row = max(row, 7)
		default:
			row = 8
		}
		i, j = k[0]+1, k[1]+1
	}
	for ; i < len(r.s); i++ {
		rewound = append(rewound, i)
	}
	return fmt.Sprint("row ", row, " kept ", kept, " replaced ", replaced, " removed ", removed, " rewound ", rewound, " appended from ", j)
}

// tellAlign tells an Alignment in the words of refAlign.
func tellAlign(a Alignment) string {
	var kept [][2]int
	for j, i := range a.Kept {
		if i >= 0 {
			kept = append(kept, [2]int{i, j})
		}
	}
	switch {
	case a.Row == RowBranch:
		return "row 4"
	case a.AnchorsOut:
		return fmt.Sprint("row ", a.Row, " out ", kept)
	}
	var replaced []int
	for _, p := range a.Replaced {
		replaced = append(replaced, p.Stored, p.Inbound)
	}
	return fmt.Sprint("row ", a.Row, " kept ", kept, " replaced ", replaced, " removed ", a.Removed, " rewound ", a.Rewound, " appended from ", a.Appended)
}

func letterKeys(s string) []content.ID {
	keys := make([]content.ID, len(s))
	for i := range s {
		if s[i] == 'e' {
			keys[i] = tokenKey("empty:user")
			continue
		}
		keys[i] = content.Of([]byte{s[i]})
	}
	return keys
}

// words returns every word over the letters up to a length.
func words(letters string, n int) []string {
	all, last := []string{""}, []string{""}
	for range n {
		var next []string
		for _, w := range last {
			for _, l := range letters {
				next = append(next, w+string(l))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

func TestAlignAgainstReference(t *testing.T) {
	for _, letters := range []string{"abc", "abe"} {
		all := words(letters, 5)
		keys := make([][]content.ID, len(all))
		for i, w := range all {
			keys[i] = letterKeys(w)
		}
		for i, s := range all {
			for j, in := range all {
				got, want := tellAlign(Align(keys[i], keys[j])), newRefAlign(s, in).tell()
				if got != want {
					t.Fatalf("stored %q inbound %q\ngot:  %s\nwant: %s", s, in, got, want)
				}
			}
		}
	}
}

func TestAlignRandomAgainstReference(t *testing.T) {
	r := seeded(t)
	for range 5000 {
		s := randomWord(r, 14, "abcdefghijk")
		in := mutate(r, s)
		got, want := tellAlign(Align(letterKeys(s), letterKeys(in))), newRefAlign(s, in).tell()
		if got != want {
			t.Fatalf("stored %q inbound %q\ngot:  %s\nwant: %s", s, in, got, want)
		}
	}
}

func randomWord(r *rand.Rand, n int, letters string) string {
	b := make([]byte, r.IntN(n+1))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// mutate edits, cuts, inserts and swaps a few places.
func mutate(r *rand.Rand, s string) string {
	b := []byte(s)
	for range r.IntN(4) {
		if len(b) == 0 {
			break
		}
		i := r.IntN(len(b))
		switch r.IntN(5) {
		case 0:
			b[i] = byte('a' + r.IntN(12))
		case 1:
			b = slices.Delete(b, i, i+1)
		case 2:
			b = slices.Insert(b, i, byte('a'+r.IntN(12)))
		case 3:
			k := r.IntN(len(b))
			b[i], b[k] = b[k], b[i]
		case 4:
			b = b[:i]
		}
	}
	return string(b) + randomWord(r, 2, "abcxyz")
}

func TestAlignProperties(t *testing.T) {
	r := seeded(t)
	for range 5000 {
		s := randomWord(r, 20, "abcdefghijklmnope")
		in := mutate(r, s)
		stored, inbound := letterKeys(s), letterKeys(in)
		a := Align(stored, inbound)
		for _, err := range []string{
			pairsEqual(&a, stored, inbound), inOrder(&a), fullPrefix(&a, stored, inbound), eachOnce(&a, stored, inbound),
		} {
			if err != "" {
				t.Fatalf("stored %q inbound %q: %s\n%+v", s, in, err, a)
			}
		}
	}
}

func pairsEqual(a *Alignment, stored, inbound []content.ID) string {
	seen := map[int]bool{}
	for j, i := range a.Kept {
		switch {
		case i < 0:
		case stored[i] != inbound[j]:
			return fmt.Sprintf("kept pair %d-%d has two keys", i, j)
		case seen[i]:
			return fmt.Sprintf("stored %d is kept twice", i)
		default:
			seen[i] = true
		}
	}
	return ""
}

func inOrder(a *Alignment) string {
	last := -1
	for j, i := range a.Kept {
		if i >= 0 && i < last && !a.AnchorsOut {
			return fmt.Sprintf("the pair of inbound %d crosses", j)
		}
		last = max(last, i)
	}
	return ""
}

// fullPrefix: everything equal from the start is kept, unless nothing is.
func fullPrefix(a *Alignment, stored, inbound []content.ID) string {
	if a.Row == RowBranch {
		return ""
	}
	n := 0
	for n < min(len(stored), len(inbound)) && stored[n] == inbound[n] {
		if a.Kept[n] != n {
			return fmt.Sprintf("element %d of the common prefix is not kept", n)
		}
		n++
	}
	if a.Prefix != n {
		return fmt.Sprintf("prefix %d, want %d", a.Prefix, n)
	}
	return ""
}

// eachOnce: a stored element has one fate; only runs of row 8, branches and
// reordered lists leave some without.
func eachOnce(a *Alignment, stored, inbound []content.ID) string {
	fate := make([]int, len(stored))
	taken := make([]bool, len(inbound))
	for j, i := range a.Kept {
		if i >= 0 {
			fate[i]++
			taken[j] = true
		}
	}
	for _, p := range a.Replaced {
		fate[p.Stored]++
		if taken[p.Inbound] {
			return fmt.Sprintf("inbound %d is kept and replaces", p.Inbound)
		}
		taken[p.Inbound] = true
	}
	for _, i := range append(slices.Clone(a.Removed), a.Rewound...) {
		fate[i]++
	}
	for i, n := range fate {
		if n > 1 || n == 0 && a.Row != RowBranch && a.Row != RowRestamp {
			return fmt.Sprintf("stored %d has %d fates", i, n)
		}
	}
	for j := range taken {
		if !taken[j] && j < a.Appended && a.Row != RowRestamp {
			return fmt.Sprintf("inbound %d has no origin", j)
		}
	}
	return ""
}

// TestAlignMoves: what a client did is what the verdict says, on lists without
// repeats.
func TestAlignMoves(t *testing.T) {
	r := seeded(t)
	const letters = "abcdfghijklmnopqrstuv"
	for range 2000 {
		n := 3 + r.IntN(len(letters)-3)
		s := letters[:n]
		stored := letterKeys(s)
		if a := Align(stored, stored); !a.Retry() {
			t.Fatalf("%q again is row %d", s, a.Row)
		}
		if a := Align(stored, letterKeys(s+"xyz"[:1+r.IntN(3)])); a.Row != RowTail || len(a.Rewound) > 0 || a.Appended != n {
			t.Fatalf("append to %q: %+v", s, a)
		}
		k := 1 + r.IntN(n-2) // never the first, never the last
		if a := Align(stored, stored[:k]); a.Row != RowTail || len(a.Rewound) != n-k || a.Appended != k {
			t.Fatalf("rewind of %q to %d: %+v", s, k, a)
		}
		if a := Align(stored, letterKeys(s[:k]+"X"+s[k+1:])); a.Row != RowReplace || !slices.Equal(a.Replaced, []Pair{{k, k}}) {
			t.Fatalf("edit of %q at %d: %+v", s, k, a)
		}
		if a := Align(stored, letterKeys(s[:k]+s[k+1:])); a.Row != RowRemove || !slices.Equal(a.Removed, []int{k}) {
			t.Fatalf("prune of %q at %d: %+v", s, k, a)
		}
		if a := Align(stored, letterKeys(s[:k]+"X"+s[k:])); a.Row != RowRestamp || a.AnchorsOut {
			t.Fatalf("insertion into %q at %d: %+v", s, k, a)
		}
		if a := Align(stored, letterKeys(strings.Repeat("X", 3))); a.Row != RowBranch {
			t.Fatalf("stranger to %q: %+v", s, a)
		}
	}
}
