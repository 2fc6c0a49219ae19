package session

import (
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
)

// Row numbers of the alignment table (design section 2); the first row that
// fits wins. Rows 2 and 3 need ids or a declaration and come with the plugin.
const (
	RowUnknown = 1 // unknown world: a new ledger
	RowBranch  = 4 // nothing kept: a new branch of the same world
	RowTail    = 5 // only the tail differs: new turn, retry, rewind
	RowReplace = 6 // edits in place
	RowRemove  = 7 // the client dropped elements
	RowRestamp = 8 // anything else with an anchor
	RowWire    = 9 // wire switch: a re-stamp whose alignment runs core by core
	notAligned = -1
)

// Pair is a stored element index and an inbound element index.
type Pair struct{ Stored, Inbound int }

// Alignment says how an inbound list follows from a stored one. Indexes are
// into the two lists; both are in order.
type Alignment struct {
	// Row of the table.
	Row int
	// Kept has for each inbound element the stored index it continues, or -1.
	Kept []int
	// Prefix is the number of kept elements at the head.
	Prefix int
	// Replaced are the runs of equal length before the last kept element.
	Replaced []Pair
	// Removed are stored elements the client dropped before the last kept one.
	Removed []int
	// Rewound are the stored elements behind the last kept one.
	Rewound []int
	// Appended is the first inbound index behind the last kept one;
	// len(inbound) when nothing is new.
	Appended int
	// AnchorsOut says that elements stand in another order than before (R1).
	AnchorsOut bool
}

// Retry reports whether the inbound list is the stored one.
func (a *Alignment) Retry() bool {
	return a.Row == RowTail && len(a.Rewound) == 0 && a.Appended == len(a.Kept)
}

// Restamps reports whether the rows must be written anew.
func (a *Alignment) Restamps() bool { return a.Row == RowRestamp || a.Row == RowWire }

// frame is how many elements at the head of a list a host's own compaction
// touches in any case: it puts its summary there.
const frame = 3

// Compacts reports whether edits in place are a host's own compaction that came
// out as long as what it replaced: they touch the head of the list and reach
// into a fold. The summary would stand behind the fold and never be read, so
// the list is re-stamped, where such a fold ends.
func (a *Alignment) Compacts(st *State) bool {
	if a.Restamps() || len(st.Kernel.Blocks) == 0 || !slices.ContainsFunc(a.Replaced, func(p Pair) bool { return p.Stored < frame }) {
		return false
	}
	held := Spared(&st.Kernel)
	return slices.ContainsFunc(a.Replaced, func(p Pair) bool { return held[st.List[p.Stored].N] })
}

// Align compares an inbound list with a stored one, exactly: the common prefix
// of equal keys is kept, then the common suffix; in between, elements whose key
// occurs once in both rests anchor, and their equal neighbours are kept too.
// Elements without content of their own follow others, they prove nothing: they
// never anchor, and a suffix or a divergent list that shares nothing else keeps
// nothing.
func Align(stored, inbound []content.ID) Alignment { return align(stored, inbound, weakKeys) }

func align(stored, inbound []content.ID, weak map[content.ID]bool) Alignment {
	m := matcher{stored: stored, inbound: inbound, weak: weak, kept: filled(len(inbound)), used: make([]bool, len(stored))}
	m.ends()
	m.anchors()
	if m.unproven() {
		m.kept, m.prefix = filled(len(inbound)), 0
	}
	return m.classify()
}

// matcher holds the state of one comparison. kept is the result in the making,
// used its reverse: the stored elements that are kept.
type matcher struct {
	stored, inbound []content.ID
	weak            map[content.ID]bool
	kept            []int
	used            []bool
	prefix          int
	a0, a1, b0, b1  int // the rests: stored[a0:a1], inbound[b0:b1]
	out             bool
}

func (m *matcher) keep(i, j int) { m.kept[j], m.used[i] = i, true }

func filled(n int) []int {
	kept := make([]int, n)
	for i := range kept {
		kept[i] = notAligned
	}
	return kept
}

func (m *matcher) ends() {
	n := min(len(m.stored), len(m.inbound))
	for m.prefix < n && m.stored[m.prefix] == m.inbound[m.prefix] {
		m.keep(m.prefix, m.prefix)
		m.prefix++
	}
	m.a0, m.b0 = m.prefix, m.prefix
	m.a1, m.b1 = len(m.stored), len(m.inbound)
	n = m.suffix()
	for range n {
		m.a1--
		m.b1--
		m.keep(m.a1, m.b1)
	}
}

// suffix is the length of the common suffix of the rests, 0 when all of it is
// weak.
func (m *matcher) suffix() (n int) {
	strong := false
	for m.a1-n > m.a0 && m.b1-n > m.b0 && m.stored[m.a1-n-1] == m.inbound[m.b1-n-1] {
		n++
		strong = strong || !m.weak[m.stored[m.a1-n]]
	}
	if !strong {
		return 0
	}
	return n
}

// unproven reports that the inbound diverges from the stored list and shares
// only weak elements with it.
func (m *matcher) unproven() bool {
	if m.prefix == len(m.stored) {
		return false
	}
	for j, i := range m.kept {
		if i >= 0 && !m.weak[m.inbound[j]] {
			return false
		}
	}
	return true
}

// anchors matches what lies between the common ends.
func (m *matcher) anchors() {
	if m.a0 == m.a1 || m.b0 == m.b1 {
		return
	}
	inA, inB := once(m.stored[m.a0:m.a1]), once(m.inbound[m.b0:m.b1])
	last := -1
	var at []int
	for j := m.b0; j < m.b1; j++ {
		k := m.inbound[j]
		i, inStored := inA[k]
		if !inStored || i < 0 || inB[k] < 0 || m.weak[k] {
			continue
		}
		m.keep(m.a0+i, j)
		m.out = m.out || m.a0+i < last
		last = m.a0 + i
		at = append(at, j)
	}
	if m.out {
		return
	}
	for _, j := range at {
		m.grow(j, -1)
		m.grow(j, 1)
	}
}

// grow keeps the equal neighbours of the anchor at inbound index j on one side.
// It stops at anything kept already, so pairs never cross.
func (m *matcher) grow(j, step int) {
	i, j := m.kept[j]+step, j+step
	for i >= m.a0 && i < m.a1 && j >= m.b0 && j < m.b1 && m.kept[j] < 0 && !m.used[i] && m.stored[i] == m.inbound[j] {
		m.keep(i, j)
		i, j = i+step, j+step
	}
}

// once maps each key to its index, or to -1 when it occurs more than once.
func once(keys []content.ID) map[content.ID]int {
	at := make(map[content.ID]int, len(keys))
	for i, k := range keys {
		if _, twice := at[k]; twice {
			i = -1
		}
		at[k] = i
	}
	return at
}

// classify walks the runs between kept elements and names the row.
func (m *matcher) classify() Alignment {
	a := Alignment{Kept: m.kept, Prefix: m.prefix, AnchorsOut: m.out}
	last := lastKept(m.kept)
	a.Appended = last + 1
	if last < 0 {
		a.Row = RowBranch
		return a
	}
	if m.out {
		a.Row = RowRestamp
		return a
	}
	a.Row = RowTail
	i, j := 0, 0 // the run being measured starts here in both lists
	for k := 0; k <= last; k++ {
		if m.kept[k] < 0 {
			continue
		}
		a.Row = max(a.Row, a.run(i, m.kept[k], j, k))
		i, j = m.kept[k]+1, k+1
	}
	for ; i < len(m.stored); i++ {
		a.Rewound = append(a.Rewound, i)
	}
	return a
}

// run files the run stored[i0:i1] against inbound[j0:j1] and returns its row.
func (a *Alignment) run(i0, i1, j0, j1 int) int {
	n, in := i1-i0, j1-j0
	switch {
	case n == 0 && in == 0:
		return RowTail
	case n == in:
		for d := range n {
			a.Replaced = append(a.Replaced, Pair{i0 + d, j0 + d})
		}
		return RowReplace
	case in == 0:
		for d := range n {
			a.Removed = append(a.Removed, i0+d)
		}
		return RowRemove
	}
	return RowRestamp
}

func lastKept(kept []int) int {
	for j := len(kept) - 1; j >= 0; j-- {
		if kept[j] >= 0 {
			return j
		}
	}
	return -1
}

// weakKeys are the keys of elements without content of their own (empty, or
// reasoning alone), weakCores the empty cores of flattened lists.
var (
	weakKeys  = keysOf(chat.Empty, chat.Reasoning)
	weakCores = func() map[content.ID]bool {
		keys := make(map[content.ID]bool)
		for _, m := range bare(chat.Empty) {
			keys[coreKey(m.Parts[0].Canon)] = true
		}
		return keys
	}()
)

// keysOf returns the keys of elements that are one textless core of a kind.
func keysOf(kinds ...chat.Kind) map[content.ID]bool {
	keys := make(map[content.ID]bool)
	for _, kind := range kinds {
		for _, m := range bare(kind) {
			keys[m.Key] = true
		}
	}
	return keys
}

// bare makes one such element for each role.
func bare(kind chat.Kind) (ms []chat.Message) {
	for _, r := range [...]chat.Role{chat.User, chat.Assistant, chat.System, chat.Developer, chat.Tool} {
		m := chat.Message{Parts: []chat.Part{{Kind: kind, Role: r}}}
		m.Seal()
		ms = append(ms, m)
	}
	return ms
}

// coreKey lets a core stand in a list of keys.
func coreKey(c chat.CanonID) (k content.ID) {
	copy(k[:], c[:])
	return k
}

// Extends reports whether inbound is stored plus any number of new elements:
// the only thing an unsigned ledger accepts.
func Extends(stored, inbound []content.ID) bool {
	if len(stored) > len(inbound) {
		return false
	}
	for i := range stored {
		if stored[i] != inbound[i] {
			return false
		}
	}
	return true
}

// ChainSums returns the chained sum of every prefix of keys: sums[i] names
// keys[:i+1]. A list is found again by its sum in one index probe.
func ChainSums(keys []content.ID) []content.ID {
	sums := make([]content.ID, len(keys))
	var buf [64]byte
	for i, k := range keys {
		copy(buf[32:], k[:])
		sums[i] = content.Of(buf[:])
		copy(buf[:32], sums[i][:])
	}
	return sums
}

// ChainSum is the sum of the whole list; the zero ID for an empty one.
func ChainSum(keys []content.ID) content.ID {
	if len(keys) == 0 {
		return content.ID{}
	}
	return ChainSums(keys)[len(keys)-1]
}

// Choose picks the branch an inbound list continues: among those whose tool
// offer fits, the one with the longest kept prefix, then the most kept, then
// the newest. It returns -1 when no branch keeps anything.
func Choose(branches []*State, tools bool, wire string, inbound []content.ID) (int, Alignment) {
	best, chosen := -1, Alignment{}
	for i, b := range branches {
		if b.Head.Tools != tools || b.Head.Wire != wire {
			continue
		}
		a := Align(Keys(b.List), inbound)
		if a.Row == RowBranch {
			continue
		}
		if best < 0 || better(&a, &chosen) {
			best, chosen = i, a
		}
	}
	return best, chosen
}

// better prefers longer prefixes, then more kept elements; of equals the later
// (newer) branch wins.
func better(a, b *Alignment) bool {
	if a.Prefix != b.Prefix {
		return a.Prefix > b.Prefix
	}
	return count(a.Kept) >= count(b.Kept)
}

func count(kept []int) (n int) {
	for _, i := range kept {
		if i >= 0 {
			n++
		}
	}
	return n
}

// Keys returns the keys of a list.
func Keys(list []Elem) []content.ID {
	keys := make([]content.ID, len(list))
	for i := range list {
		keys[i] = list[i].Key
	}
	return keys
}

// AlignCores compares lists of two wires core by core: an inbound element
// continues a stored one when their cores (reasoning apart) are the same run of
// the two flattened lists. Kept pairs are exact; the verdict is RowWire, or
// RowBranch when nothing is kept.
func AlignCores(stored, inbound [][]chat.CanonID) Alignment {
	flatS, fromS := flatten(stored)
	flatI, fromI := flatten(inbound)
	flat := align(flatS, flatI, weakCores)
	a := Alignment{Row: RowWire, Kept: filled(len(inbound)), AnchorsOut: flat.AnchorsOut}
	for j := range inbound {
		a.Kept[j] = sameRun(flat.Kept, fromI[j], len(inbound[j]), fromS, stored)
	}
	if count(flat.Kept) == 0 {
		a.Row = RowBranch
	}
	for a.Prefix < len(a.Kept) && a.Kept[a.Prefix] == a.Prefix {
		a.Prefix++
	}
	a.Appended = lastKept(a.Kept) + 1
	return a
}

// flatten lays the cores of a list end to end as keys; from[i] is where element
// i starts.
func flatten(list [][]chat.CanonID) (flat []content.ID, from []int) {
	for _, cores := range list {
		from = append(from, len(flat))
		for _, c := range cores {
			flat = append(flat, coreKey(c))
		}
	}
	return flat, from
}

// sameRun returns the stored element whose whole run of n cores was kept as the
// inbound run at start, or -1.
func sameRun(kept []int, start, n int, fromS []int, stored [][]chat.CanonID) int {
	if n == 0 || kept[start] < 0 {
		return notAligned
	}
	for d := range n {
		if kept[start+d] != kept[start]+d {
			return notAligned
		}
	}
	for i, f := range fromS {
		if f == kept[start] && len(stored[i]) == n {
			return i
		}
	}
	return notAligned
}
