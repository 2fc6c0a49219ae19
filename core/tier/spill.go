package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
)

// Bounds of the queue in front of the one spill worker. A state waits in the
// engine's slot, so a queued spill costs nothing; the bytes bound what would be
// written one after the other. One that is larger than the bound is taken when
// nothing else waits.
const (
	queueItems             = 2
	queueBytes    kv.Bytes = 512 << 20
	queueRAMShare          = 0.06
)

// Request is one state to be written.
type Request struct {
	Model kv.ModelIdentity
	State kv.StateIdentity
	Slots Slots
	Slot  int
	// Tokens the slot is believed to hold, as far as they are worth keeping: up to
	// the stable boundary. What is stored comes from the file; these decide
	// whether it is needed, and that equal requests write once.
	Tokens []kv.Token
	// Tail keeps the rows behind the last whole block as well.
	Tail bool
	// Closing: the slot is about to be lost. Only then is a state stored whole
	// whose layout is not known.
	Closing bool
	// Session and Branch are the ledger's names of the conversation.
	Session, Branch string
	// Done is told what became of it, from the worker. It may be nil.
	Done func(Spilled, error)
}

// Spilled is what a spill wrote.
type Spilled struct {
	Manifest kv.ManifestID
	Tokens   int // restorable from now on
	// Payload is the bytes of new rows, Pack of the file they are in, Record of the
	// manifest. Storable is what Payload is measured against.
	Payload, Pack, Record, Storable kv.Bytes
	Took                            time.Duration
}

// Reasons a spill is declined for, beside those of room.go.
const (
	ReasonOff       = "tier_off"
	ReasonStarting  = "starting"
	ReasonClosed    = "closing"
	ReasonQueueFull = "queue_full"
	ReasonInFlight  = "in_flight"
	ReasonStored    = "already_stored"
	ReasonShort     = "below_min_tokens"
	ReasonWeights   = string(kv.MissNoWeights)
	ReasonLayout    = string(kv.MissLayout)
)

func declined(reason, what string) error { return &Refusal{Op: "spill", Reason: reason, What: what} }

// recordKey names what a spill would make restorable.
type recordKey struct {
	state kv.StateID
	chain kv.ChainKey
	rows  int
}

func keyOf(r Request) recordKey {
	id := r.State.ID()
	k := recordKey{state: id, rows: len(r.Tokens) / kv.BlockTokens * kv.BlockTokens}
	if r.Tail {
		k.rows = len(r.Tokens)
	}
	if chain := id.Chain(r.Tokens); len(chain) > 0 {
		k.chain = chain[len(chain)-1]
	}
	return k
}

// job is one queued spill.
type job struct {
	Request
	key    recordKey
	growth kv.Bytes // estimated
	unpin  func()   // lets go of what the state continues; set by spill
}

// Due says whether a branch is worth a spill now, given how many leading tokens
// are stable in the slot.
func (m *Manager) Due(state kv.StateIdentity, stable []kv.Token, idle time.Duration, closing bool) kv.SpillDue {
	if m.off || !m.usable() {
		return kv.SpillDue{Reason: "the tier is not open"}
	}
	stored := m.Stored(state, stable)
	m.mu.Lock()
	defer m.mu.Unlock()
	rule := kv.SpillRule{Min: m.limits.MinTokens, Written: m.wear.today(m.now()), Cap: m.limits.DailyWrites}
	return rule.Due(kv.Branch{Held: kv.Tokens(len(stable)), Spilled: kv.Tokens(stored), Tail: stored < len(stable),
		Idle: idle, Closing: closing})
}

// Spill queues a state to be written, and never waits. An error says why it was
// not queued: what is stored or under way already is not written twice, and a
// full queue drops the write rather than delay anybody.
func (m *Manager) Spill(r Request) error {
	if err := m.mayQueue(r); err != nil {
		return err
	}
	j := &job{Request: r, key: keyOf(r)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meet(r.Model, j.key.state)
	switch stored := m.index.Longest(j.key.state, r.Tokens, len(r.Tokens)).Tokens; {
	case kv.Tokens(j.key.rows) < max(m.limits.MinTokens, 1):
		return declined(ReasonShort, "it is shorter than kv.disk.min_tokens")
	case stored >= j.key.rows:
		return declined(ReasonStored, "it is stored already")
	case m.records[j.key]:
		return declined(ReasonInFlight, "it is being written already")
	default:
		j.growth = kv.Bytes(j.key.rows-stored) * m.rows[j.key.state]
	}
	if m.capped(j.growth) {
		m.capHit = m.now().Format(time.DateOnly)
		return declined(ReasonDailyCap, "the day's kv.disk.daily_write_cap is reached")
	}
	return m.enqueue(j)
}

// Takes reports whether a spill that is asked for now would be taken up: the
// store is being written to, and the queue has room.
func (m *Manager) Takes() bool {
	state, _ := m.mood.get()
	return (state == kv.StateActive || state == kv.StatePruningToBudget) && len(m.queue) < cap(m.queue)
}

// mayQueue refuses what needs no look at the store.
func (m *Manager) mayQueue(r Request) error {
	select {
	case <-m.done:
		return declined(ReasonClosed, "the tier is closing")
	default:
	}
	switch state, reason := m.mood.get(); {
	case m.off:
		return declined(ReasonOff, "the tier is off")
	case state == kv.StateStarting:
		return declined(ReasonStarting, "the tier is starting")
	case !m.usable():
		return declined(reason, "the store could not be opened")
	case m.mood.conditions().worker:
		return declined(ReasonWorker, "the spill worker failed; restart Holdfast")
	case r.Model == kv.ModelIdentity{}:
		return declined(ReasonWeights, kv.ErrNoWeights.Error())
	}
	return nil
}

// enqueue queues a job within the bounds; the caller holds mu.
func (m *Manager) enqueue(j *job) error {
	bound := queueBytes
	if m.memory > 0 {
		bound = min(bound, kv.Bytes(queueRAMShare*float64(m.memory)))
	}
	if m.queueItems > 0 && m.queued+j.growth > bound {
		m.activity.Queue.Dropped++
		return declined(ReasonQueueFull, "too many bytes wait to be written")
	}
	select {
	case m.queue <- j:
	default:
		m.activity.Queue.Dropped++
		return declined(ReasonQueueFull, "too many states wait to be written")
	}
	m.records[j.key] = true
	m.queued += j.growth
	m.queueItems++
	return nil
}

// tick is how often the worker looks after what time alone changes.
const tick = 30 * time.Second

// work spills until Close, then empties the queue.
func (m *Manager) work(ctx context.Context) {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		select {
		case j := <-m.queue:
			m.attend(ctx, j)
		case <-every.C:
			m.look()
		case <-m.done:
			m.drain(ctx)
			return
		}
	}
}

// look is what the worker does now and then. The note is also the probe that
// ends a storage error nobody writes anything after.
func (m *Manager) look() {
	m.recheck()
	failing := m.mood.conditions().write
	m.mu.Lock()
	dirty := m.noteDirty
	m.mu.Unlock()
	if !dirty && !failing || !m.enter() {
		return
	}
	defer m.gate.RUnlock()
	if err := m.saveNote(); err != nil {
		m.log.Warn("the KV tier could not write down its uses", "error", err)
		return
	}
	m.condition(func(c *conditions) { c.write = false })
}

func (m *Manager) drain(ctx context.Context) {
	for {
		select {
		case j := <-m.queue:
			m.attend(ctx, j)
		default:
			return
		}
	}
}

// attend spills one job and keeps the books, whatever happens in between.
func (m *Manager) attend(ctx context.Context, j *job) {
	out, err := m.guarded(ctx, j)
	m.mu.Lock()
	delete(m.records, j.key)
	m.queued -= j.growth
	m.queueItems--
	if err != nil && !errors.Is(err, ErrSlotInUse) {
		m.activity.LastError = err.Error()
	}
	m.mu.Unlock()
	m.concluded(err)
	m.publish()
	if j.Done != nil {
		j.Done(out, err)
	}
}

// guarded contains a panic of the worker: the tier writes no more and says so,
// and everything else goes on.
func (m *Manager) guarded(ctx context.Context, j *job) (out Spilled, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("the KV tier's worker failed", "panic", p, "stack", string(debug.Stack()))
			m.condition(func(c *conditions) { c.worker = true })
			err = fmt.Errorf("tier: internal error: the spill worker panicked: %v", p)
		}
	}()
	if !m.share() {
		return out, declined(ReasonClosed, "the tier is closing")
	}
	defer m.gate.RUnlock()
	if m.mood.conditions().worker {
		return out, declined(ReasonWorker, "the spill worker failed; restart Holdfast")
	}
	return m.spill(ctx, j)
}

// concluded takes the end of a spill into the state. A refusal for want of room
// has been taken already, and one of the engine's says nothing about the disk.
func (m *Manager) concluded(err error) {
	var store *storeError
	m.condition(func(c *conditions) {
		switch {
		case err == nil:
			c.write = false
		case outOfSpace(err):
			c.low = true
		case errors.As(err, &store):
			c.write = true
		}
	})
	switch {
	case errors.Is(err, ErrSlotInUse):
		m.log.Debug("a slot was taken before it was saved")
	case err != nil:
		m.log.Warn("a state was not kept", "error", err)
	}
}

// ErrSlotInUse is Slots' answer where a slot has moved on: nobody's fault, and
// what it holds then is saved in its turn.
var ErrSlotInUse = errors.New("tier: the slot is in use again")

// storeError marks trouble of the store, apart from the engine's.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// spill writes one state. Room is asked for before the engine is: an export can
// be gigabytes and stands in everybody's way.
func (m *Manager) spill(ctx context.Context, j *job) (out Spilled, err error) {
	began := m.now()
	j.unpin = m.pinBase(j.key.state, j.Tokens)
	defer j.unpin()
	release, err := m.reserve(ctx, kv.Claim{Write: j.growth, Growth: j.growth})
	if err != nil {
		return out, err
	}
	release() // the true claim follows; nobody else writes in between
	path, tokens, size, err := j.Slots.Save(ctx, j.Slot)
	if err != nil {
		return out, fmt.Errorf("tier: the engine did not save: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	f, err := os.Open(path)
	if err != nil {
		return out, fmt.Errorf("tier: the engine's file: %w", err)
	}
	defer f.Close()
	file, err := m.parse(f, tokens, size, j.Closing)
	if err != nil {
		return out, err
	}
	out, err = m.commit(ctx, j, file)
	out.Took = m.now().Sub(began)
	return out, err
}

// pinBase keeps what a state continues from being evicted to make room for it:
// the growth alone would be of no use. A sibling that only begins alike may go;
// the blocks they share are held.
func (m *Manager) pinBase(state kv.StateID, tokens []kv.Token) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	match := m.index.Longest(state, tokens, len(tokens))
	if e := m.entries[match.Manifest]; e != nil && match.Tokens >= int(e.tokens)/kv.BlockTokens*kv.BlockTokens {
		return m.pin(e.id)
	}
	return func() {}
}

// parse reads what the engine wrote and believes none of it: size and tokens
// must be what it said, and the layout must describe the file exactly.
func (m *Manager) parse(f *os.File, tokens int, size int64, closing bool) (*slotfile.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("tier: the engine's file: %w", err)
	}
	if tokens < 1 || info.Size() != size {
		return nil, fmt.Errorf("tier: the engine saved %d tokens and %d bytes, its file has %d", tokens, size, info.Size())
	}
	file, err := slotfile.Parse(f, size)
	if errors.Is(err, kv.ErrGeometry) {
		m.mu.Lock()
		m.activity.GeometryRejected++
		m.mu.Unlock()
		if !closing {
			return nil, &Refusal{Op: "spill", Reason: ReasonLayout, What: "the engine's state has a layout that cannot be cut; it is kept whole when the slot closes", Err: err}
		}
		file, err = slotfile.ParseOpaque(f, size)
	}
	if err == nil && len(file.Tokens) != tokens {
		err = fmt.Errorf("tier: the engine saved %d tokens, its file has %d", tokens, len(file.Tokens))
	}
	return file, err
}

// extent is how much of a file is stored, and with which boundaries: up to what
// the caller calls stable where the file agrees, as kv.SpillEnd has it.
func extent(f *slotfile.File, stable []kv.Token, tail bool, room kv.Bytes) (n int, keep []kv.Boundary) {
	limit := 0
	for limit < min(len(f.Tokens), len(stable)) && f.Tokens[limit] == stable[limit] {
		limit++
	}
	return kv.SpillEnd(f.Layout.Memory, f.Parts, kv.Tokens(limit), tail, room)
}

// boundaryRoom is what boundaries of one branch may take.
func (m *Manager) boundaryRoom() kv.Bytes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return kv.BoundaryRoom(m.budget)
}

// commit writes what is missing of a state, then its manifest.
//
// The order is the safety: bytes are claimed before one is written, a block is
// held before the store is asked for it, the pack is durable before the manifest
// names it, and the manifest's rename is the commit point. A stop or an error
// before it leaves bytes that nobody names, which are swept at once or at the
// next start; after it, an entry that is whole.
func (m *Manager) commit(ctx context.Context, j *job, f *slotfile.File) (out Spilled, err error) {
	n, keep := extent(f, j.Tokens, j.Tail, m.boundaryRoom())
	if n < 1 {
		return out, declined(ReasonShort, "the slot holds nothing of this conversation that can be kept")
	}
	before := m.Stored(j.State, f.Tokens[:n])
	beside, pieces := m.expected(j, f, n, keep, before)
	p := &packing{m: m, ctx: ctx, f: f, needed: beside, fresh: map[kv.BlockID]bool{}}
	defer p.release()
	if err := p.claim(beside + pieces); err != nil {
		return out, err
	}
	man, size, err := p.write(n, keep)
	if err == nil {
		m.describe(man, j)
		out.Manifest, out.Record, err = m.writeManifest(man)
	}
	if err != nil {
		p.release()
		return Spilled{}, errors.Join(p.blame(err), m.discarded())
	}
	done := kv.PlanSpill(man, kv.Tokens(before), func(id kv.BlockID) bool { return !p.fresh[id] }, m.cost)
	out.Tokens, out.Pack, out.Payload, out.Storable = n, size, done.Payload, done.Storable
	j.unpin()
	if err := m.supersede(ctx, out.Manifest, man); err != nil {
		m.log.Warn("a state is stored, but not all it replaces could be removed", "error", err)
	}
	return out, nil
}

// expected is what a spill will write if the store has what it has for the same
// tokens: the pieces, and what is written beside them. Where another history made
// other bytes of the tokens it is more, and claimed as it comes.
func (m *Manager) expected(j *job, f *slotfile.File, n int, keep []kv.Boundary, before int) (beside, pieces kv.Bytes) {
	man := kv.Manifest{State: j.State, Layout: f.Layout, Tokens: f.Tokens[:n], Blocks: make([]kv.BlockID, n/kv.BlockTokens),
		Boundaries: keep, Session: j.Session, Branch: j.Branch}
	rows := max(0, n-before/kv.BlockTokens*kv.BlockTokens)
	payload := kv.Bytes(rows) * f.Layout.RowBytes()
	count := (rows + kv.BlockTokens - 1) / kv.BlockTokens
	for _, b := range keep {
		if int(b.Position) > before { // what is restorable now has the others
			payload += b.Size
			count++
		}
	}
	return m.cost.Fixed + man.EncodedBytes(), payload + kv.Bytes(count)*m.cost.Piece
}

// describe says whose state it is.
func (m *Manager) describe(man *kv.Manifest, j *job) {
	man.Model, man.State, man.Session, man.Branch = j.Model, j.State, j.Session, j.Branch
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serial++
	man.Serial = m.serial
	man.Created = m.now().UTC()
	man.LastUsed = man.Created
}

// stored reports whether a block is in the store and will stay: a block that no
// manifest names may be about to be swept, or may be a damaged leftover.
func (m *Manager) stored(id kv.BlockID) bool {
	m.mu.Lock()
	named := m.refs[id] > 0
	m.mu.Unlock()
	_, ok := m.where(id)
	return named && ok
}

// writeManifest is the commit point.
func (m *Manager) writeManifest(man *kv.Manifest) (id kv.ManifestID, size kv.Bytes, err error) {
	data, id, err := man.Encode()
	if err == nil {
		err = m.manifests.PutManifest(content.ID(id), data)
	}
	if err != nil {
		return id, 0, err
	}
	size = kv.Bytes(len(data))
	m.booked(size)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(id, man, size, kv.Use{Weight: 1, At: man.Created, Serial: man.Serial})
	m.activity.Writes++
	return id, size, nil
}

// supersede drops what the new manifest can restore as well, and comes back
// under the budget where something else took room meanwhile.
func (m *Manager) supersede(ctx context.Context, id kv.ManifestID, man *kv.Manifest) (err error) {
	for _, old := range m.relatives(id, man) {
		before, one := m.load(old)
		if one == nil && man.Supersedes(before) {
			one = m.evict(old, false)
		}
		var miss *Miss
		if !errors.As(one, &miss) { // a damaged one is out of use already
			err = errors.Join(err, one)
		}
	}
	if _, one := m.segments.Sweep(m.wanted); one != nil {
		err = errors.Join(err, one)
	}
	return errors.Join(err, m.keepBudget(ctx))
}

// relatives are manifests that a new one may have made needless: of the same
// state, no longer, and all of whose blocks it has.
func (m *Manager) relatives(id kv.ManifestID, man *kv.Manifest) (out []kv.ManifestID) {
	blocks := make(map[kv.BlockID]bool, len(man.Blocks))
	for _, b := range man.Blocks {
		blocks[b] = true
	}
	state := man.State.ID()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.id == id || e.state != state || e.tokens > kv.Tokens(len(man.Tokens)) || e.pins > 0 {
			continue
		}
		whole := e.pieces[:min(len(e.pieces), int(e.tokens)/kv.BlockTokens)]
		if !slices.ContainsFunc(whole, func(p kv.Piece) bool { return !blocks[p.ID] }) {
			out = append(out, e.id)
		}
	}
	return out
}

// keepBudget evicts when the store is over its budget: it was lowered, or the
// disk holds more than was counted.
func (m *Manager) keepBudget(ctx context.Context) error {
	m.admission.Lock()
	defer m.admission.Unlock()
	m.mu.Lock()
	budget := m.budget
	m.mu.Unlock()
	if kv.Bytes(m.segments.Used()) <= budget || budget == 0 {
		return nil
	}
	return m.makeRoom(ctx, kv.LowWater(budget), 0)
}
