package tier

import (
	"slices"
	"sync"
	"time"

	"holdfast/core/kv"
)

// Query is a prompt looking for its longest stored prefix.
type Query struct {
	Model  kv.ModelIdentity
	State  kv.StateIdentity
	Tokens []kv.Token
	// Resident is how many leading tokens a slot already holds: only more is worth
	// a restore.
	Resident int
	// Limit is the longest prefix of use, 0 for all but the last token: one is
	// always computed anyway.
	Limit int
}

// Hit is the answer to a Query: what to restore, or why nothing. One that was
// found keeps its manifest from being evicted until Release.
type Hit struct {
	Manifest kv.ManifestID
	Tokens   int
	Offer    kv.Offer
	// Miss is why nothing is restored, "" for a hit; Fields are the fields of the
	// state identity that differ, for identity_mismatch.
	Miss   kv.MissReason
	Fields []string

	state   kv.StateID
	release func()
}

// Found reports whether there is something to fill.
func (h *Hit) Found() bool { return h.Miss == "" && h.Tokens > 0 }

// Release lets the manifest go. It may be called more than once.
func (h *Hit) Release() {
	if h.release != nil {
		h.release()
	}
}

// Lookup finds the longest stored prefix of a prompt that is worth restoring. It
// reads nothing from disk. A miss is counted here; a hit has its outcome
// counted by Fill or Settle, so that every lookup has exactly one.
func (m *Manager) Lookup(q Query) *Hit {
	h := m.lookup(q)
	if !h.Found() {
		m.missed(h.Miss, h.Fields)
	}
	return h
}

func (m *Manager) lookup(q Query) *Hit {
	switch {
	case m.off:
		return &Hit{Miss: kv.MissTierOff}
	case !m.usable():
		if state, _ := m.mood.get(); state == kv.StateStarting {
			return &Hit{Miss: kv.MissStarting}
		}
		return &Hit{Miss: kv.MissStorageError}
	case q.Model == kv.ModelIdentity{}:
		return &Hit{Miss: kv.MissNoWeights}
	}
	limit := q.Limit
	if limit == 0 {
		limit = len(q.Tokens) - 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if kv.Tokens(limit) < m.limits.MinTokens {
		return &Hit{Miss: kv.MissBelowMinTokens}
	}
	id := q.State.ID()
	m.meet(q.Model, id)
	match := m.index.Longest(id, q.Tokens, limit)
	switch e := m.entries[match.Manifest]; {
	case e == nil || kv.Tokens(match.Tokens) < m.limits.MinTokens:
		why, fields := m.index.Why(q.Model, q.State, q.Tokens)
		if match.Found() {
			why = kv.MissBelowMinTokens
		}
		return &Hit{Miss: why, Fields: fields}
	case match.Tokens <= q.Resident:
		return &Hit{Miss: kv.MissResidentIsLonger}
	default:
		return m.offer(q, e, match)
	}
}

// offer weighs a restore against computing; the caller holds mu.
func (m *Manager) offer(q Query, e *entry, match kv.Match) *Hit {
	share := float64(match.Tokens) / float64(e.tokens)
	size := kv.Bytes(share * float64(e.bytes()-e.size))
	h := &Hit{Manifest: e.id, Tokens: match.Tokens, state: e.state,
		Offer: m.rates[e.state].Offer(kv.Tokens(match.Tokens-q.Resident), size)}
	if !h.Offer.Pays {
		h.Miss = kv.MissNotWorthIt
		return h
	}
	h.release = m.pin(e.id)
	return h
}

// missed counts a miss; fields are those of the identity that differ.
func (m *Manager) missed(why kv.MissReason, fields []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activity.Misses[why]++
	if why == kv.MissIdentity {
		m.mismatch = mismatch{fields, m.now()}
	}
}

// Mismatch is in which fields of the identity the engine differed from the one
// that stored a prompt, the last time that was why it got nothing; none if it
// never was since the start.
func (m *Manager) Mismatch() (fields []string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mismatch.fields), m.mismatch.at
}

// Stored is how many leading tokens of a conversation can be restored from disk.
// Nothing is counted.
func (m *Manager) Stored(state kv.StateIdentity, tokens []kv.Token) int {
	return m.longest(state, tokens).Tokens
}

// Restorable is Stored for a person who looks: nothing where the store cannot be
// used now, or where it is too short to be restored.
func (m *Manager) Restorable(state kv.StateIdentity, tokens []kv.Token) kv.Tokens {
	if m.off || !m.usable() {
		return 0
	}
	n := kv.Tokens(m.Stored(state, tokens))
	m.mu.Lock()
	defer m.mu.Unlock()
	if n < m.limits.MinTokens {
		return 0
	}
	return n
}

func (m *Manager) longest(state kv.StateIdentity, tokens []kv.Token) kv.Match {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Longest(state.ID(), tokens, len(tokens))
}

// Prefilled books a measured cold prefill, from which it is worked out whether
// restores pay and what they saved.
func (m *Manager) Prefilled(state kv.StateIdentity, n kv.Tokens, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := state.ID()
	m.rates[id] = m.rates[id].Prefilled(n, took)
	m.noteDirty = true
}

// claimKey names what one fill reads. The state identity is in it: equal bytes
// under two identities must not keep each other out.
type claimKey struct {
	state    kv.StateID
	manifest kv.ManifestID
	tokens   int
}

// claim is one fill under way, up to the engine's answer.
type claim struct {
	done   chan struct{}
	once   sync.Once
	good   bool // restored; set before done is closed
	losers int  // that wait for it, or did; guarded by the manager's mu
}

func (c *claim) end(good bool) {
	c.once.Do(func() {
		c.good = good
		close(c.done)
	})
}
