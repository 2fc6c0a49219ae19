package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/seed"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 0))
}

func letterKeys(s string) []content.ID {
	keys := make([]content.ID, len(s))
	for i := range s {
		switch s[i] {
		case 'e':
			keys[i] = tokenKey("empty:user")
		case 'E':
			keys[i] = tokenKey("think:assistant")
		default:
			keys[i] = content.Of([]byte{s[i]})
		}
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

func tellAlign(stored, inbound []content.ID) string {
	a := Align(stored, inbound)
	return verdictOf(&a).tell()
}

func TestAlignAgainstReference(t *testing.T) {
	longest := 5
	if programs(t) < enough {
		longest = 4
	}
	for _, letters := range []string{"abc", "abe"} {
		all := words(letters, longest)
		keys := make([][]content.ID, len(all))
		for i, w := range all {
			keys[i] = letterKeys(w)
		}
		for i, s := range all {
			for j, in := range all {
				got, want := tellAlign(keys[i], keys[j]), newRefAlign(s, in).verdict().tell()
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
		s := randomWord(r, 14, "abcdeEfghijk")
		in := mutate(r, s)
		got, want := tellAlign(letterKeys(s), letterKeys(in)), newRefAlign(s, in).verdict().tell()
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

// TestAlignCoresProperties: kept elements are the same cores, each stored one
// once, in order; and cores of an element never come from two.
func TestAlignCoresProperties(t *testing.T) {
	r := seeded(t)
	group := func(letters string) (out [][]chat.CanonID) {
		for len(letters) > 0 {
			n := 1 + r.IntN(min(3, len(letters)))
			var cores []chat.CanonID
			for i := range n {
				cores = append(cores, chat.CanonID{letters[i]})
			}
			out, letters = append(out, cores), letters[n:]
		}
		return out
	}
	for range 5000 {
		s := randomWord(r, 16, "abcdefghijklmnop")
		stored, inbound := group(s), group(mutate(r, s))
		a := AlignCores(stored, inbound)
		if a.Row != RowWire && a.Row != RowBranch {
			t.Fatalf("row %d", a.Row)
		}
		last := -1
		for j, i := range a.Kept {
			switch {
			case i < 0:
			case !slices.Equal(stored[i], inbound[j]):
				t.Fatalf("stored %v is kept as %v", stored[i], inbound[j])
			case i <= last && !a.AnchorsOut:
				t.Fatalf("stored %d behind %d", i, last)
			default:
				last = i
			}
		}
		same := AlignCores(stored, stored)
		if len(stored) > 0 && (same.Prefix != len(stored) || same.Appended != len(stored)) {
			t.Fatalf("%v is not kept as itself: %+v", stored, same)
		}
	}
}
