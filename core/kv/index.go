package kv

import (
	"slices"
	"time"
)

// Index finds the stored state that shares the longest prefix with a prompt. It
// lives in memory and is rebuilt from the manifests at start. It is not safe for
// concurrent use: its owner holds a lock.
type Index struct {
	entries map[ManifestID]*entry
	// holders of a prefix of so many blocks, by its chain key.
	holders map[ChainKey][]*entry
	// states known of a model, with the number of manifests of each.
	states map[ModelIdentity]map[StateID]*known
	// gone are chain keys of evicted prefixes, bounded, oldest first.
	gone tombs
}

// entry is what the index keeps of a manifest.
type entry struct {
	id     ManifestID
	model  ModelIdentity
	state  StateID
	serial uint64
	free   bool // may end at any row
	keys   []ChainKey
	ends   []end
	length int
}

// end is a place an entry may end at: behind its block-aligned part stand rest,
// fewer than 64 tokens.
type end struct {
	position int
	rest     []Token
}

type known struct {
	identity  StateIdentity
	manifests int
}

// Match is the answer to a lookup: the manifest and how many of its tokens to
// restore. The zero Match found nothing.
type Match struct {
	Manifest ManifestID
	Tokens   int
	// Blocks is the number of whole blocks that agree; Tokens may be more by a
	// tail, or fewer where the state cannot be cut.
	Blocks int
}

// Found reports whether there is something to restore.
func (m Match) Found() bool { return m.Tokens > 0 }

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		entries: map[ManifestID]*entry{}, holders: map[ChainKey][]*entry{},
		states: map[ModelIdentity]map[StateID]*known{},
	}
}

// Len is the number of manifests.
func (x *Index) Len() int { return len(x.entries) }

// Has reports whether the index holds the manifest.
func (x *Index) Has(id ManifestID) bool { return x.entries[id] != nil }

// Add makes a manifest findable. Adding it again changes nothing.
func (x *Index) Add(id ManifestID, m *Manifest) {
	if x.Has(id) {
		return
	}
	e := &entry{id: id, model: m.Model, state: m.State.ID(), serial: m.Serial, free: m.Layout.Memory.Cuttable(), length: len(m.Tokens)}
	e.keys = e.state.Chain(m.Tokens)
	e.ends = ends(m)
	x.entries[id] = e
	for _, k := range e.keys {
		x.holders[k] = append(x.holders[k], e)
		x.gone.forget(k)
	}
	x.know(m.Model, e.state, m.State)
}

func ends(m *Manifest) []end {
	at := func(p int) end {
		return end{p, slices.Clone(m.Tokens[p-p%BlockTokens : p])}
	}
	if m.Layout.Memory.Cuttable() {
		return []end{at(len(m.Tokens))}
	}
	var out []end
	for _, b := range m.Boundaries {
		if !b.Appendix {
			out = append(out, at(int(b.Position)))
		}
	}
	return out
}

func (x *Index) know(model ModelIdentity, id StateID, s StateIdentity) {
	if x.states[model] == nil {
		x.states[model] = map[StateID]*known{}
	}
	if x.states[model][id] == nil {
		x.states[model][id] = &known{identity: s}
	}
	x.states[model][id].manifests++
}

// Touch makes a manifest the newest: it was written or used at this serial.
func (x *Index) Touch(id ManifestID, serial uint64) {
	if e := x.entries[id]; e != nil {
		e.serial = max(e.serial, serial)
	}
}

// Remove forgets a manifest. Evicted ones leave a trace, so that a later miss
// can say what became of the prefix.
func (x *Index) Remove(id ManifestID, evicted bool, at time.Time) {
	e := x.entries[id]
	if e == nil {
		return
	}
	delete(x.entries, id)
	for _, k := range e.keys {
		left := slices.DeleteFunc(x.holders[k], func(h *entry) bool { return h == e })
		if len(left) > 0 {
			x.holders[k] = left
			continue
		}
		delete(x.holders, k)
	}
	if n := len(e.keys); evicted && n > 0 && x.holders[e.keys[n-1]] == nil {
		x.gone.bury(e.keys[n-1], Tombstone{Tokens: Tokens(e.length), At: at})
	}
	x.unknow(e)
}

func (x *Index) unknow(e *entry) {
	k := x.states[e.model][e.state]
	if k.manifests--; k.manifests == 0 {
		delete(x.states[e.model], e.state)
	}
	if len(x.states[e.model]) == 0 {
		delete(x.states, e.model)
	}
}

// Longest finds the longest restorable prefix of tokens, at most limit long; of
// several, the newest. It looks at no more than one chain key per block.
func (x *Index) Longest(state StateID, tokens []Token, limit int) Match {
	tokens = tokens[:max(0, min(limit, len(tokens)))]
	best, bestSerial := Match{}, uint64(0)
	var key ChainKey
	for k := 0; ; k++ {
		for _, e := range x.level(key, k) {
			n := e.reach(tokens, k)
			if n > best.Tokens || n == best.Tokens && n > 0 && e.serial > bestSerial {
				best, bestSerial = Match{e.id, n, k}, e.serial
			}
		}
		if (k+1)*BlockTokens > len(tokens) {
			return best
		}
		key = state.NextKey(key, tokens[k*BlockTokens:(k+1)*BlockTokens])
		if len(x.holders[key]) == 0 {
			return best
		}
	}
}

// level is the entries whose first k blocks have that key. Level 0 has none: a
// prefix under one block is never worth a restore.
func (x *Index) level(key ChainKey, k int) []*entry {
	if k == 0 {
		return nil
	}
	return x.holders[key]
}

// reach is how far the entry restores a prompt whose first k blocks it holds.
func (e *entry) reach(tokens []Token, k int) int {
	best := 0
	if e.free {
		best = k * BlockTokens
	}
	for _, end := range e.ends {
		if end.position/BlockTokens != k {
			continue
		}
		n := common(end.rest, tokens[k*BlockTokens:])
		if e.free || n == len(end.rest) {
			best = max(best, k*BlockTokens+n)
		}
	}
	return best
}

func common(a, b []Token) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Why says why Longest found nothing for a prompt: the reason, and for another
// state identity of the same model the fields that differ.
func (x *Index) Why(model ModelIdentity, state StateIdentity, tokens []Token) (MissReason, []string) {
	id := state.ID()
	keys := id.Chain(tokens)
	if len(keys) > 0 && len(x.holders[keys[0]]) > 0 {
		return MissNoBoundary, nil
	}
	for other, k := range x.states[model] {
		first := other.Chain(tokens[:min(BlockTokens, len(tokens))])
		if other != id && len(first) > 0 && len(x.holders[first[0]]) > 0 {
			return MissIdentity, state.Differs(k.identity)
		}
	}
	for _, key := range slices.Backward(keys) {
		if _, ok := x.gone.find(key); ok {
			return MissEvicted, nil
		}
	}
	return MissNeverSeen, nil
}

// Tombstone is what is left of an evicted prefix.
type Tombstone struct {
	Tokens Tokens
	At     time.Time
}

// maxTombs bounds the memory of evictions: 8,192 prefixes are months of a
// person's use, and under a megabyte.
const maxTombs = 8192

// tombs is a bounded set, first in first out.
type tombs struct {
	at    map[ChainKey]Tombstone
	order []ChainKey
}

func (t *tombs) bury(k ChainKey, s Tombstone) {
	if t.at == nil {
		t.at = map[ChainKey]Tombstone{}
	}
	if _, ok := t.at[k]; !ok {
		t.order = append(t.order, k)
	}
	t.at[k] = s
	for len(t.order) > maxTombs {
		delete(t.at, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *tombs) forget(k ChainKey) {
	if _, ok := t.at[k]; ok {
		delete(t.at, k)
		t.order = slices.DeleteFunc(t.order, func(o ChainKey) bool { return o == k })
	}
}

func (t *tombs) find(k ChainKey) (Tombstone, bool) {
	s, ok := t.at[k]
	return s, ok
}
