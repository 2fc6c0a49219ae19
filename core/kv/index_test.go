package kv

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"holdfast/core/seed"
)

// What is stored is found again, at its full length: by itself, by what
// continues it, and up to where a prompt leaves it.
func TestLongest(t *testing.T) {
	base := conversation("base", 400)
	m := saved(Dense, base, 1)
	x, ids := indexed(t, m)
	id := m.State.ID()
	other := slices.Clone(base)
	other[300]++
	for name, c := range map[string]struct {
		prompt []Token
		limit  int
		want   int
	}{
		"itself":                   {base, 400, 400},
		"the prompt less one":      {base, 399, 399},
		"continued":                {append(slices.Clone(base), 1, 2, 3), 403, 400},
		"diverging in block 4":     {other, 400, 256},
		"its first block":          {base[:64], 64, 64},
		"less than a block":        {base[:63], 63, 0},
		"other from the beginning": {conversation("x", 400), 400, 0},
		"nothing":                  {nil, 0, 0},
		"limited to nothing":       {base, 0, 0},
		"a limit past the end":     {base, 9999, 400},
	} {
		got := x.Longest(id, c.prompt, c.limit)
		if got.Tokens != c.want || got.Found() != (c.want > 0) || got.Found() && got.Manifest != ids[0] {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
	s := testState()
	s.Context = 4096
	if got := x.Longest(s.Identity().ID(), base, 400); got.Found() {
		t.Errorf("another state finds %+v", got)
	}
}

// The longest wins, then the newest by serial, whatever the order of adding.
func TestLongestThenNewest(t *testing.T) {
	base := conversation("base", 320)
	a, b := saved(Dense, base[:256], 5), saved(Dense, base, 3)
	x, ids := indexed(t, a, b)
	id := a.State.ID()
	if got := x.Longest(id, base, 320); got.Manifest != ids[1] || got.Tokens != 320 {
		t.Errorf("of two lengths: %+v", got)
	}
	if got := x.Longest(id, base[:256], 256); got.Manifest != ids[0] {
		t.Error("at equal length the older was taken")
	}
	x.Touch(ids[1], 9)
	if got := x.Longest(id, base[:256], 256); got.Manifest != ids[1] {
		t.Error("a use did not make it the newest")
	}
	x.Touch(ids[1], 2)
	x.Remove(ids[1], false, day())
	if got := x.Longest(id, base, 320); got.Manifest != ids[0] || got.Tokens != 256 {
		t.Errorf("after removal: %+v", got)
	}
}

// States that cannot be cut are found at their boundaries only, and only where
// every token before it agrees.
func TestLongestAtBoundaries(t *testing.T) {
	base := conversation("bound", 300)
	m := saved(Hybrid, base, 1)
	m.Boundaries = []Boundary{boundaryAt(40, 1), boundaryAt(100, 1), boundaryAt(128, 1), boundaryAt(300, 1)}
	x, _ := indexed(t, m)
	for n, want := range map[int]int{30: 0, 40: 0, 64: 0, 99: 0, 100: 100, 127: 100, 128: 128, 299: 128, 300: 300} {
		if got := x.Longest(m.State.ID(), base[:n], n); got.Tokens != want {
			t.Errorf("a prompt of %d tokens: %+v, want %d", n, got, want)
		}
	}
	changed := slices.Clone(base)
	changed[110]++
	if got := x.Longest(m.State.ID(), changed, 300); got.Tokens != 100 {
		t.Errorf("changed behind a boundary: %+v", got)
	}
}

// Random stores and prompts against a search through everything.
func TestLongestEqualsASearch(t *testing.T) {
	base := seed.Of(t)
	for n := range 40 {
		r := seeded(base, n)
		x, kept := NewIndex(), map[ManifestID]*Manifest{}
		root := conversation("root", 500)
		for i := range 25 {
			size := 1 + r.IntN(len(root))
			tokens := slices.Clone(root[:size])
			if cut := r.IntN(size); r.IntN(2) == 0 {
				tokens = append(tokens[:cut:cut], conversation(string(rune('a'+r.IntN(3))), size-cut)...)
			}
			m := saved([]Memory{Dense, Window, Recurrent}[r.IntN(3)], tokens, uint64(i+1))
			if size > 100 && !m.Layout.Memory.Cuttable() {
				m.Boundaries = append([]Boundary{boundaryAt(1+r.IntN(size-1), 3)}, m.Boundaries...)
			}
			_, id := encoded(t, m)
			x.Add(id, m)
			kept[id] = m
			if r.IntN(4) == 0 {
				ids := slices.SortedFunc(maps.Keys(kept), func(a, b ManifestID) int { return bytes.Compare(a[:], b[:]) })
				victim := ids[r.IntN(len(ids))] // not any of the map's: the seed says which
				x.Remove(victim, true, day())
				delete(kept, victim)
			}
			prompt := slices.Clone(root[:1+r.IntN(len(root))])
			if r.IntN(2) == 0 {
				prompt[r.IntN(len(prompt))]++
			}
			limit := 1 + r.IntN(len(prompt))
			got := x.Longest(m.State.ID(), prompt, limit)
			want, newest := search(kept, prompt, limit)
			if got.Tokens != want || want > 0 && kept[got.Manifest].Serial != newest {
				t.Fatalf("store %d, step %d: %+v, a search finds %d by %d", n, i, got, want, newest)
			}
		}
		if x.Len() != len(kept) {
			t.Fatalf("store %d: %d entries of %d", n, x.Len(), len(kept))
		}
		for id := range kept {
			x.Remove(id, false, day())
		}
		if len(x.holders)+len(x.entries)+len(x.states) > 0 {
			t.Fatalf("store %d: an emptied index holds %d keys, %d states", n, len(x.holders), len(x.states))
		}
	}
}

// search is the definition of Longest: of every manifest, the longest end within
// the common prefix, from the first whole block on. Of a state that may end
// anywhere, blocks behind a divergence count whole.
func search(kept map[ManifestID]*Manifest, prompt []Token, limit int) (best int, serial uint64) {
	for _, m := range kept {
		c := m.Common(prompt[:limit])
		if m.Layout.Memory.Cuttable() && c < len(m.Tokens)/BlockTokens*BlockTokens {
			c -= c % BlockTokens
		}
		n := m.End(c)
		if n < BlockTokens {
			continue
		}
		if n > best || n == best && m.Serial > serial {
			best, serial = n, m.Serial
		}
	}
	return best, serial
}

// One miss has one reason, and a mismatch names the field.
func TestWhy(t *testing.T) {
	base := conversation("why", 400)
	other := testState()
	other.CacheV, other.Build = "q8_0", "b12000"
	elsewhere := saved(Dense, base, 1)
	elsewhere.State = other.Identity()
	x, ids := indexed(t, elsewhere)
	mine := testState()
	why := func(m ModelIdentity, tokens []Token) (MissReason, []string) { return x.Why(m, mine.Identity(), tokens) }
	if r, fields := why(mine.Model, base); r != MissIdentity || !slices.Equal(fields, []string{"build", "cache-type-v"}) {
		t.Errorf("stored under another state: %v %q", r, fields)
	}
	if r, _ := why(mine.Model, conversation("new", 400)); r != MissNeverSeen {
		t.Errorf("a new prompt: %v", r)
	}
	if r, _ := why(ModelIdentity(named("another")), base); r != MissNeverSeen {
		t.Errorf("another model: %v", r)
	}
	x.Remove(ids[0], true, day())
	if r, _ := why(mine.Model, base); r != MissNeverSeen {
		t.Errorf("evicted under another state: %v", r)
	}
	m := saved(Dense, base, 2)
	_, id := encoded(t, m)
	x.Add(id, m)
	x.Remove(id, true, day())
	if r, _ := why(mine.Model, append(slices.Clone(base), 5)); r != MissEvicted {
		t.Errorf("evicted: %v", r)
	}
	x.Add(id, m)
	x.Remove(id, false, day())
	if r, _ := why(mine.Model, base); r != MissNeverSeen {
		t.Errorf("cleared: %v", r)
	}
	w := saved(Window, base, 3)
	_, id = encoded(t, w)
	x.Add(id, w)
	if r, _ := why(mine.Model, base[:200]); r != MissNoBoundary {
		t.Errorf("stored, but it ends later: %v", r)
	}
}

// Traces of evictions are bounded, the oldest first, and kept in order.
func TestTombsAreBounded(t *testing.T) {
	var g tombs
	for i := range maxTombs + 100 {
		g.bury(ChainKey{byte(i), byte(i >> 8), byte(i >> 16)}, Tombstone{Tokens(i), day().Add(time.Duration(i))})
	}
	if len(g.at) != maxTombs || len(g.order) != maxTombs {
		t.Errorf("%d kept, %d in order", len(g.at), len(g.order))
	}
	if _, ok := g.find(ChainKey{99}); ok {
		t.Error("the oldest stayed")
	}
	if s, ok := g.find(ChainKey{100}); !ok || s.Tokens != 100 {
		t.Error("one that fits is gone")
	}
}
