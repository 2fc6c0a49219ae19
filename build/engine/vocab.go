package engine

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// text is what the vocabulary is learned from.
//
//go:embed words.txt
var text string

// The kinds of token that are used.
const (
	kindNormal, kindControl, kindUnused = 1, 3, 5
)

// vocab is a byte-level pair encoding in the spelling of GPT-2.
type vocab struct {
	tokens, merges []string
	types          []int32
	bytes          []string // what a token stands for, "" for special ones
	id             map[string]int
}

func (v *vocab) add(token, bytes string, kind int32) {
	if _, ok := v.id[token]; ok {
		return
	}
	v.id[token] = len(v.tokens)
	v.tokens, v.bytes, v.types = append(v.tokens, token), append(v.bytes, bytes), append(v.types, kind)
}

// printable says whether a token may be sampled.
func (v *vocab) printable(i int) bool {
	plain := func(r rune) bool { return r == '\n' || r >= ' ' && r <= '~' }
	return v.bytes[i] != "" && strings.IndexFunc(v.bytes[i], func(r rune) bool { return !plain(r) }) < 0
}

// learn makes a vocabulary of size tokens: the special ones, every byte, merges
// learned from text, and unused ones where the text has no more to give.
func learn(size int) *vocab {
	v := &vocab{id: map[string]int{}}
	for _, s := range []string{"<|pad|>", "<|begin|>", "<|im_start|>", "<|im_end|>", "<|unk|>"} {
		v.add(s, "", kindControl)
	}
	spelling := alphabet()
	for b, s := range spelling {
		v.add(s, string([]byte{byte(b)}), kindNormal)
	}
	words := count(spelling)
	for len(v.tokens) < size {
		best := frequent(words)
		if best == (pair{}) {
			break
		}
		v.merges = append(v.merges, best[0]+" "+best[1])
		v.add(best[0]+best[1], v.bytes[v.id[best[0]]]+v.bytes[v.id[best[1]]], kindNormal)
		for i := range words {
			words[i].merge(best)
		}
	}
	for i := 0; len(v.tokens) < size; i++ {
		v.add(fmt.Sprintf("<|unused_%d|>", i), "", kindUnused)
	}
	return v
}

type pair [2]string

// word is a word of the text in its current parts.
type word struct {
	parts []string
	n     int
}

// count lists the distinct words of the text, each also with the space that
// stands before it inside a sentence.
func count(spelling [256]string) (words []word) {
	seen := map[string]int{}
	for _, w := range strings.Fields(text) {
		seen[w]++
		seen[" "+w]++
	}
	for w, n := range seen {
		var parts []string
		for _, b := range []byte(w) {
			parts = append(parts, spelling[b])
		}
		words = append(words, word{parts, n})
	}
	return words
}

// frequent is the most frequent pair of neighbours, the first in order among
// equals; empty when no word has two parts left.
func frequent(words []word) (best pair) {
	pairs, most := map[pair]int{}, 0
	for _, w := range words {
		for i := range len(w.parts) - 1 {
			pairs[pair{w.parts[i], w.parts[i+1]}] += w.n
		}
	}
	for p, n := range pairs {
		if n > most || n == most && slices.Compare(p[:], best[:]) < 0 {
			best, most = p, n
		}
	}
	return best
}

func (w *word) merge(p pair) {
	parts := w.parts[:0]
	for i := 0; i < len(w.parts); i++ {
		if i+1 < len(w.parts) && w.parts[i] == p[0] && w.parts[i+1] == p[1] {
			parts = append(parts, p[0]+p[1])
			i++
			continue
		}
		parts = append(parts, w.parts[i])
	}
	w.parts = parts
}

// alphabet is GPT-2's spelling of bytes: printable Latin-1 stands for itself,
// the rest for code points from 256 on.
func alphabet() (s [256]string) {
	next := rune(256)
	for b := range s {
		r := rune(b)
		if r < '!' || r > '~' && r < 0xa1 || r == 0xad {
			r = next
			next++
		}
		s[b] = string(r)
	}
	return s
}
