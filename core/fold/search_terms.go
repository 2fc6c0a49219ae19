package fold

import (
	"strings"
	"unicode"
)

// terms cuts text into what search compares: lower-cased English words without
// their endings, the parts of compound identifiers beside the whole, and the
// bigrams of runs written without spaces. emit is called in text order.
func terms(text string, emit func(term string)) {
	runs(text, func(run string, kind script) { runTerms(run, kind, emit) })
}

// runs cuts text where the script changes.
func runs(text string, each func(run string, kind script)) {
	from, kind := 0, scriptNone
	for i, r := range text {
		k := scriptOf(halfWidth(r))
		if k == kind {
			continue
		}
		if kind != scriptNone {
			each(text[from:i], kind)
		}
		from, kind = i, k
	}
	if kind != scriptNone {
		each(text[from:], kind)
	}
}

// runTerms are the terms of one run.
func runTerms(text string, kind script, emit func(term string)) {
	run := []rune(text)
	for i, r := range run {
		run[i] = halfWidth(r)
	}
	if kind == scriptUnspaced {
		bigramTerms(run, emit)
		return
	}
	wordTerms(run, emit)
}

// script tells how a run of characters is cut into terms.
type script uint8

const (
	scriptNone     script = iota // separates terms
	scriptWord                   // letters and digits, words apart
	scriptUnspaced               // Han, kana and Hangul: words not reliably apart
)

func scriptOf(r rune) script {
	switch {
	case r < 0x80:
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
			return scriptWord
		}
		return scriptNone
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == 'ー':
		return scriptUnspaced
	case unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number):
		return scriptWord
	}
	return scriptNone
}

// halfWidth maps the full-width forms of ASCII, which East Asian keyboards
// write, to ASCII.
func halfWidth(r rune) rune {
	if r >= 0xFF01 && r <= 0xFF5E {
		return r - 0xFEE0
	}
	return r
}

// maxWord is the length, in characters, above which a run is only compared
// whole: keys and encoded data.
const maxWord = 64

// wordTerms emits a word; of a compound (fooBar, foo_bar, foo2) the whole and
// every part, so that either spelling finds the other.
func wordTerms(run []rune, emit func(string)) {
	whole := strings.ReplaceAll(strings.ToLower(string(run)), "_", "")
	if whole == "" {
		return
	}
	if len(run) > maxWord { // a blob, not an identifier
		emit(whole)
		return
	}
	parts := compound(run)
	if len(parts) < 2 {
		if !isFunctionWord(whole) {
			emit(stem(whole))
		}
		return
	}
	emit(whole)
	for _, p := range parts {
		if p = strings.ToLower(p); !isFunctionWord(p) {
			emit(stem(p))
		}
	}
}

// compound cuts an identifier at underscores, at a change from lower to upper
// case (and before the last capital of an acronym), and between letters and
// digits.
func compound(run []rune) (parts []string) {
	from := 0
	cut := func(to int) {
		if to > from {
			parts = append(parts, string(run[from:to]))
		}
		from = to
	}
	for i, r := range run {
		switch {
		case r == '_':
			cut(i)
			from = i + 1
		case i > from && borders(run, i):
			cut(i)
		}
	}
	cut(len(run))
	return parts
}

// borders reports whether a part of an identifier begins at run[i].
func borders(run []rune, i int) bool {
	before, r := run[i-1], run[i]
	if unicode.IsDigit(before) != unicode.IsDigit(r) {
		return true
	}
	if !unicode.IsUpper(r) {
		return false
	}
	return !unicode.IsUpper(before) || i+1 < len(run) && unicode.IsLower(run[i+1])
}

// bigramTerms emits the overlapping pairs of a run; one character alone is its
// own term.
func bigramTerms(run []rune, emit func(string)) {
	if len(run) == 1 {
		emit(string(run))
	}
	for i := 1; i < len(run); i++ {
		emit(string(run[i-1 : i+1]))
	}
}

// isFunctionWord reports the English words that say nothing about a subject.
// They are common in prose but rare in tool output, where their rarity would
// count for them.
func isFunctionWord(w string) bool {
	switch w {
	case "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does",
		"for", "from", "had", "has", "have", "how", "i", "if", "in", "is", "it", "its", "may", "me", "must", "my",
		"no", "not", "of", "on", "or", "our", "should", "so", "than", "that", "the", "their", "them", "then",
		"there", "these", "they", "this", "those", "to", "was", "we", "were", "what", "when", "where", "which",
		"while", "who", "why", "will", "with", "would", "you", "your":
		return true
	}
	return false
}

// stem takes the common English endings off a word: plural, -ed, -ing, -ly,
// final e and y. It is light on purpose: what it leaves apart, the bigrams
// still find alike.
func stem(w string) string {
	if len(w) < 4 || !isASCIILetters(w) {
		return w
	}
	w = singular(w)
	for _, ending := range []string{"ing", "ed", "ly"} {
		if s, ok := strings.CutSuffix(w, ending); ok && len(s) >= 3 && hasVowel(s) {
			w = undouble(s)
			break
		}
	}
	if s, ok := strings.CutSuffix(w, "e"); ok && len(s) >= 3 {
		return s
	}
	if s, ok := strings.CutSuffix(w, "y"); ok && len(s) >= 3 {
		return s + "i"
	}
	return w
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		return w[:len(w)-1]
	}
	return w
}

// undouble turns the stem of "dropped" into that of "drop"; l, s and z are
// doubled in base words too.
func undouble(s string) string {
	n := len(s)
	if n > 3 && s[n-1] == s[n-2] && !strings.ContainsRune("lsz", rune(s[n-1])) {
		return s[:n-1]
	}
	return s
}

func hasVowel(s string) bool { return strings.ContainsAny(s, "aeiouy") }

func isASCIILetters(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}
