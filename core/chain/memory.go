package chain

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// DefaultMemory is the cap on cached session states in bytes: a dozen very long
// sessions, or a hundred ordinary ones. Past it the coldest are
// forgotten and read again when they come back.
const DefaultMemory = 4 << 20

// world is what memory keeps of one world. Its lock is held around state
// changes only, never across an upstream call.
type world struct {
	mu  sync.Mutex
	key session.World
	// loaded says that branches are the ledger's; forget clears it.
	loaded   bool
	branches []*branch
	// faults are the times, unix ms, of turns whose commit failed: no session row
	// has counted them. The next turn that commits does.
	faults []int64

	air     sync.Mutex // guards flights; a reply that ends waits for nothing else
	flights []*flight

	// size and at belong to memory.
	size int64
	at   *list.Element
	uses int
}

// branch is one ledger in memory. It belongs to its world's lock.
type branch struct {
	st   *session.State
	last lastTurn
	// head names the first elements of the last list by one hash.
	head head
	// echoes are the private rounds by element; 0 for those of the last reply,
	// whose element has not come yet. Never nil.
	echoes map[int64]*echo
	// served and compared count turns since the state was loaded.
	served, compared int
	// bypasses is Chain.bypass.ended as of the last turn.
	bypasses int64
}

// head is the start of a list as it was sent: sum is the hash of the bytes of
// its first n elements, separators included.
type head struct {
	n    int
	sum  content.ID
	list []session.Elem
	wire string
}

// headSlack is how many elements at the end are left out of the head: clients
// move their cache markers among the last few.
const headSlack = 4

// lastTurn is what the change report needs of the turn before.
type lastTurn struct {
	id, at      int64
	model, wire string
	fields      []session.FieldRef
	skeleton    []byte // of what the client sent
	form        *sentForm
}

// flight is a request between its identification and the end of its reply.
type flight struct {
	ledger string
	keys   []content.ID
}

func (w *world) states() []*session.State {
	out := make([]*session.State, len(w.branches))
	for i, b := range w.branches {
		out[i] = b.st
	}
	return out
}

// find returns the branch that a committed, signed exchange belongs to, nil
// when memory does not hold it any more (it was forgotten and is read again by
// the next turn).
func (w *world) find(x *Exchange) *branch {
	if !x.committed || !x.key.Signed() {
		return nil
	}
	for _, b := range w.branches {
		if b.st.Head.Ledger == x.next.Head.Ledger {
			return b
		}
	}
	return nil
}

// forget drops the cached branches; the next turn reads the ledger again.
func (w *world) forget() { w.loaded, w.branches = false, nil }

// missed keeps a fault whose turn has no session row to count it in. Three open
// any breaker; more say nothing new.
func (w *world) missed(x *Exchange) {
	if x.gate.Feeds && x.key.Signed() && len(w.faults) < 3 {
		w.faults = append(w.faults, x.judged)
	}
}

// depart registers a request in flight; a second walk of the same request
// takes the place of the first.
func (w *world) depart(old *flight, ledger string, keys []content.ID) *flight {
	w.land(old)
	f := &flight{ledger, keys}
	w.air.Lock()
	defer w.air.Unlock()
	w.flights = append(w.flights, f)
	return f
}

func (w *world) land(f *flight) {
	w.air.Lock()
	defer w.air.Unlock()
	for i := range w.flights {
		if w.flights[i] == f {
			w.flights = append(w.flights[:i], w.flights[i+1:]...)
			return
		}
	}
}

// collides reports whether another request in flight on the same ledger
// neither continues f nor is continued by it. An equal body is a retry.
func (w *world) collides(f *flight) bool {
	w.air.Lock()
	defer w.air.Unlock()
	for _, o := range w.flights {
		if o != f && o.ledger == f.ledger && !session.Extends(o.keys, f.keys) && !session.Extends(f.keys, o.keys) {
			return true
		}
	}
	return false
}

// memory caches worlds under one byte cap, coldest out first. A world in use
// is never dropped.
type memory struct {
	keys keyCache

	mu     sync.Mutex
	cap    int64
	used   int64
	worlds map[session.World]*world
	order  *list.List // front is the most recently used
}

func newMemory(limit int64) *memory {
	if limit <= 0 {
		limit = DefaultMemory
	}
	return &memory{cap: limit, worlds: map[session.World]*world{}, order: list.New()}
}

// world returns the world of a key, pinned until release.
func (m *memory) world(key session.World) *world {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.worlds[key]
	if w == nil {
		w = &world{key: key}
		w.at = m.order.PushFront(w)
		m.worlds[key] = w
	}
	m.order.MoveToFront(w.at)
	w.uses++
	return w
}

// heads returns what is known of the lists of a world's branches, longest
// first, without making the world.
func (m *memory) heads(key session.World, wire string) (out []head) {
	m.mu.Lock()
	w := m.worlds[key]
	m.mu.Unlock()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.branches {
		if b.head.n > 0 && b.head.wire == wire {
			out = append(out, b.head)
		}
	}
	slices.SortFunc(out, func(a, b head) int { return b.n - a.n })
	return out
}

func (m *memory) release(w *world) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.uses--
	if w.uses == 0 && len(w.branches)+len(w.faults) == 0 { // nothing came of it: the ledger failed, or the list forked
		m.drop(w)
	}
	m.shrink(m.cap)
}

// Rest gives back what only a burst needs: the caches shrink to a quarter, the
// coldest first. The session used last stays, however long it is: somebody is
// reading its reply. Whatever was dropped is read again with its next turn.
func (c *Chain) Rest() {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.order.Front(); last != nil {
		m.shrink(max(m.cap/4, last.Value.(*world).size))
	}
	m.keys.rest()
}

func (m *memory) drop(w *world) {
	m.used -= w.size
	delete(m.worlds, w.key)
	m.order.Remove(w.at)
}

// busy reports whether a world that is in use holds the ledger. A world that is
// locked right now is busy by definition.
func (m *memory) busy(ledger string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.worlds {
		if w.uses == 0 {
			continue
		}
		if !w.mu.TryLock() {
			return true
		}
		held := w.holds(ledger)
		w.mu.Unlock()
		if held {
			return true
		}
	}
	return false
}

func (w *world) holds(ledger string) bool {
	for _, b := range w.branches {
		if b.st.Head.Ledger == ledger {
			return true
		}
	}
	return w.key.SessRaw == ledger
}

// grew measures a world again after a commit; the caller holds its lock.
func (m *memory) grew(w *world) {
	size := w.measure()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += size - w.size
	w.size = size
}

// shrink drops the coldest idle worlds until a limit in bytes holds.
func (m *memory) shrink(limit int64) {
	for at := m.order.Back(); at != nil && m.used > limit; {
		w := at.Value.(*world)
		prev := at.Prev()
		if w.uses == 0 {
			m.drop(w)
		}
		at = prev
	}
}

// size is an upper estimate in bytes of what the caches hold.
func (m *memory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Sizes of the parts of a cached state in bytes, map overhead included.
const (
	elemBytes   = 72
	rowBytes    = 136
	repeatBytes = 48
	itemBytes   = 40
	branchBytes = 2048
	metaBytes   = 320
)

func (w *world) measure() (n int64) {
	for _, b := range w.branches {
		n += branchBytes + int64(len(b.st.List))*elemBytes + int64(cap(b.st.Rows))*rowBytes +
			int64(len(b.st.Repeats))*repeatBytes + int64(len(b.st.Meta))*metaBytes + b.last.form.bytes() + int64(len(b.last.skeleton)) + b.echoBytes()
	}
	return n
}

// echoBytes is the size of the private rounds kept for rendering.
func (b *branch) echoBytes() (n int64) {
	for _, e := range b.echoes {
		for i := range e.Rounds {
			n += int64(len(e.Rounds[i].Assistant))
			for _, r := range e.Rounds[i].Results {
				n += int64(len(r.Text))
			}
		}
	}
	return n
}

// keyCache remembers the element key of raw bytes by their hash, so that an
// element is decoded once however often it is sent. Two generations: when the
// young one is full it becomes the old one, which bounds both time and space.
type keyCache struct {
	mu         sync.Mutex
	young, old map[content.ID]content.ID
}

// keyCacheSize is per generation: several long sessions side by side, about
// half a megabyte each.
const keyCacheSize = 4096

func (k *keyCache) get(raw content.ID, f wire.Family) (content.ID, bool) {
	id := tagged(raw, f)
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.young[id]; ok {
		return v, true
	}
	v, ok := k.old[id]
	if ok {
		k.insert(id, v)
	}
	return v, ok
}

func (k *keyCache) set(raw content.ID, f wire.Family, key content.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.insert(tagged(raw, f), key)
}

func (k *keyCache) insert(id, v content.ID) {
	if k.young == nil || len(k.young) >= keyCacheSize {
		k.old, k.young = k.young, make(map[content.ID]content.ID)
	}
	k.young[id] = v
}

// rest forgets the older half.
func (k *keyCache) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.old = nil
}

// has and put remember values that were checked and need no key.
func (k *keyCache) has(id content.ID) bool {
	if id.IsZero() {
		return false
	}
	_, ok := k.get(id, "")
	return ok
}

func (k *keyCache) put(id, v content.ID) { k.set(id, "", v) }

// tagged keeps the families apart: the same bytes read differently.
func tagged(raw content.ID, f wire.Family) content.ID {
	for i := range len(f) {
		raw[i] ^= f[i]
	}
	return raw
}

// lastTurnOf reads what the next turn needs of the one before a restart; its
// form is rendered again only when the change report asks for it. Without it
// the first report is missing, nothing else.
func (c *Chain) lastTurnOf(ctx context.Context, st *session.State) lastTurn {
	lt := lastTurn{model: st.Head.Model, wire: st.Head.Wire, form: &sentForm{}}
	rec, err := c.ledger.Turn(ctx, st.Head.ListTurn)
	if err != nil {
		return lt
	}
	lt.id, lt.at, lt.model, lt.wire, lt.skeleton = rec.ID, rec.At, rec.Model, rec.WireIn, rec.Skeleton
	lt.form.rec = rec
	var sk wire.Skeleton
	if sk.UnmarshalBinary(rec.Skeleton) == nil {
		for _, f := range sk.FieldHashes() {
			lt.fields = append(lt.fields, session.FieldRef{Name: f.Name, ID: f.ID, Hash: f.ID.String()})
		}
	}
	return lt
}
