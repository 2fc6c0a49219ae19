package fold

import (
	"math"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Doc is one thing that can be found: an element or a block of the session.
type Doc struct{ ID, Role, Text string }

// Hit is one found document. Index is its place in the searched list, Preview
// a piece of its text around the first word that was found.
type Hit struct {
	Index   int
	Score   float64
	Preview string
}

// Search ranks docs by query and returns the best limit of them; ties keep the
// order of docs, and a document that shares nothing with the query is no hit.
func Search(docs []Doc, query string, limit int) []Hit { return IndexOf(docs).Search(query, limit) }

// IndexOf makes documents ready to be searched.
func IndexOf(docs []Doc) *Index {
	x := new(Index)
	for _, d := range docs {
		x.Add(d)
	}
	return x
}

// The weights of the two scores, after each is divided by its best: BM25 finds
// the rare words, the bigram overlap the ones spelled otherwise.
const (
	bm25Weight   = 0.7
	bigramWeight = 0.3
)

// The constants of BM25: how soon repetition stops counting, and how much the
// length of a document counts against it.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// minAlike is the share of bigrams (Dice) two words have in common before they
// count as spellings of one; minAlikeLen the bytes a word needs for it.
const (
	minAlike    = 0.5
	minAlikeLen = 4
)

// Index is a growing list of documents ready to be searched. The zero value is
// empty. It may be searched by many goroutines, but not while it grows.
type Index struct {
	docs []indexed
	// ids numbers the terms; terms and postings are addressed by that number.
	ids      map[string]int32
	terms    []string
	postings [][]posting
	// words are the terms of the words seen so far.
	words map[string][]int32
	// grams lists the terms that contain a character bigram.
	grams map[gram][]int32
	// length is the number of terms in all documents.
	length int
}

type indexed struct {
	text   string
	length int
}

// posting says how often a term stands in a document.
type posting struct{ doc, count int32 }

// gram is a pair of neighbouring characters; zero stands before the first and
// after the last.
type gram [2]rune

// Len is the number of documents.
func (x *Index) Len() int { return len(x.docs) }

// Add appends a document; its Index in a Hit is the Len before.
func (x *Index) Add(d Doc) {
	doc, length := int32(len(x.docs)), 0
	runs(d.Text, func(run string, kind script) {
		for _, term := range x.termsOf(run, kind) {
			length++
			x.post(term, doc)
		}
	})
	x.docs = append(x.docs, indexed{d.Text, length})
	x.length += length
}

// termsOf are the numbers of a run's terms. A word is taken apart once: texts
// repeat theirs, and that is most of the work.
func (x *Index) termsOf(run string, kind script) (ids []int32) {
	if known, ok := x.words[run]; ok {
		return known
	}
	runTerms(run, kind, func(t string) { ids = append(ids, x.number(t)) })
	if kind == scriptWord && len(run) <= maxWord {
		if x.words == nil {
			x.words = map[string][]int32{}
		}
		x.words[run] = ids
	}
	return ids
}

// post counts one more occurrence; documents arrive in order, so the one being
// added is the last of every list.
func (x *Index) post(term, doc int32) {
	list := x.postings[term]
	if n := len(list); n > 0 && list[n-1].doc == doc {
		list[n-1].count++
		return
	}
	x.postings[term] = append(list, posting{doc, 1})
}

// number returns the number of a term, a new one if need be.
func (x *Index) number(term string) int32 {
	if id, ok := x.ids[term]; ok {
		return id
	}
	if x.ids == nil {
		x.ids, x.grams = map[string]int32{}, map[gram][]int32{}
	}
	id := int32(len(x.terms))
	x.ids[term] = id
	x.terms = append(x.terms, term)
	x.postings = append(x.postings, nil)
	if hasSpelling(term) {
		for _, g := range gramsOf(term) {
			x.grams[g] = append(x.grams[g], id)
		}
	}
	return id
}

// Search ranks the documents as the function Search does.
func (x *Index) Search(query string, limit int) []Hit {
	wanted := distinctTerms(query)
	exact, alike := make([]float64, len(x.docs)), make([]float64, len(x.docs))
	for _, term := range wanted {
		id, known := x.ids[term]
		if known {
			x.addBM25(exact, x.postings[id])
		}
		x.addAlike(alike, term)
	}
	hits := rank(exact, alike)
	if len(hits) > limit {
		hits = hits[:max(limit, 0)]
	}
	for i := range hits {
		hits[i].Preview = preview(x.docs[hits[i].Index].text, wanted)
	}
	return hits
}

// rank joins the two scores and sorts.
func rank(exact, alike []float64) (hits []Hit) {
	scale := func(weight float64, scores []float64) float64 {
		if best := slices.Max(append(scores, 0)); best > 0 {
			return weight / best
		}
		return 0
	}
	byWord, bySpelling := scale(bm25Weight, exact), scale(bigramWeight, alike)
	for i := range exact {
		if s := exact[i]*byWord + alike[i]*bySpelling; s > 0 {
			hits = append(hits, Hit{Index: i, Score: s})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return hits
}

// idf is the weight of a term that stands in n documents.
func (x *Index) idf(n int) float64 {
	return math.Log(1 + (float64(len(x.docs)-n)+0.5)/(float64(n)+0.5))
}

func (x *Index) addBM25(scores []float64, list []posting) {
	idf, mean := x.idf(len(list)), float64(x.length)/float64(len(x.docs))
	for _, p := range list {
		n := float64(p.count)
		long := 1 - bm25B + bm25B*float64(x.docs[p.doc].length)/mean
		scores[p.doc] += idf * n * (bm25K1 + 1) / (n + bm25K1*long)
	}
}

// addAlike adds to each document how much of a query term it holds: all of it
// where the term itself stands, else the likeness of its most similar word.
// Terms count by their rarity, unknown ones as the rarest.
func (x *Index) addAlike(scores []float64, term string) {
	best := make([]float64, len(x.docs))
	for _, s := range x.similar(term) {
		for _, p := range x.postings[s.id] {
			best[p.doc] = max(best[p.doc], s.likeness)
		}
	}
	n := 0
	if id, known := x.ids[term]; known {
		n = len(x.postings[id])
	}
	idf := x.idf(n)
	for doc, likeness := range best {
		scores[doc] += likeness * idf
	}
}

// similarTerm is a known term and the share of bigrams it has in common with
// the one asked for.
type similarTerm struct {
	id       int32
	likeness float64
}

// similar returns the known terms that share enough bigrams with term, itself
// among them.
func (x *Index) similar(term string) (out []similarTerm) {
	if id, known := x.ids[term]; known {
		out = append(out, similarTerm{id, 1})
	}
	if !hasSpelling(term) {
		return out
	}
	shared, own := make([]uint8, len(x.terms)), gramsOf(term)
	for _, g := range own {
		for _, id := range x.grams[g] {
			shared[id]++
		}
	}
	for id, n := range shared {
		if n == 0 {
			continue
		}
		other := utf8.RuneCountInString(x.terms[id]) + 1
		if dice := 2 * float64(n) / float64(len(own)+other); dice >= minAlike {
			out = append(out, similarTerm{int32(id), min(dice, 1)})
		}
	}
	return out
}

// hasSpelling reports whether a term is a word that can be misspelt: long
// enough to tell, and no blob.
func hasSpelling(term string) bool {
	r, _ := utf8.DecodeRuneInString(term)
	return len(term) >= minAlikeLen && len(term) <= maxWord && scriptOf(halfWidth(r)) == scriptWord
}

// gramsOf returns the bigrams of a word with its two ends, each once.
func gramsOf(term string) (out []gram) {
	last := rune(0)
	for _, r := range term + "\x00" {
		if g := (gram{last, r}); !slices.Contains(out, g) {
			out = append(out, g)
		}
		last = r
	}
	return out
}

// maxQueryTerms bounds the work of one search; a model may paste a page.
const maxQueryTerms = 64

// distinctTerms returns the first maxQueryTerms different terms of a query.
func distinctTerms(text string) (out []string) {
	terms(text, func(t string) {
		if len(out) < maxQueryTerms && !slices.Contains(out, t) {
			out = append(out, t)
		}
	})
	return out
}

// previewLen is how many characters of a document a hit shows.
const previewLen = 200

// preview cuts previewLen characters around the first wanted term, white space
// made single spaces and cut ends marked.
func preview(text string, wanted []string) string {
	flat := []rune(squeeze(text))
	at := firstFound(flat, wanted)
	from := max(0, min(at-previewLen/4, len(flat)-previewLen))
	to := min(len(flat), from+previewLen)
	out := string(flat[from:to])
	if from > 0 {
		out = "…" + out
	}
	if to < len(flat) {
		out += "…"
	}
	return out
}

// firstFound returns the place of the first word of text that holds a wanted
// term; 0 if only a similar one stands there.
func firstFound(text []rune, wanted []string) int {
	for from := 0; from < len(text); {
		kind, to := scriptOf(halfWidth(text[from])), from+1
		for to < len(text) && scriptOf(halfWidth(text[to])) == kind {
			to++
		}
		found := false
		if kind != scriptNone {
			terms(string(text[from:to]), func(t string) { found = found || slices.Contains(wanted, t) })
		}
		if found {
			return from
		}
		from = to
	}
	return 0
}

// squeeze makes every run of white space one space.
func squeeze(text string) string {
	out, space := make([]rune, 0, len(text)), true
	for _, r := range text {
		if unicode.IsSpace(r) {
			if !space {
				out = append(out, ' ')
			}
			space = true
			continue
		}
		out, space = append(out, r), false
	}
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	return string(out)
}
