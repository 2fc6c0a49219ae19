package tier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
)

// Filled is a slot file that was assembled and verified.
type Filled struct {
	Tokens int
	Bytes  kv.Bytes // read from the store
	Size   int64    // of the file
	Took   time.Duration

	state    kv.StateID
	manifest kv.ManifestID
	key      claimKey
	claim    *claim
	pin      func()
}

// Miss is an error of Fill: nothing was handed over, compute instead.
type Miss struct {
	Reason kv.MissReason
	// Elsewhere says that another request has just restored the same state: look
	// at the slots again before computing.
	Elsewhere bool
	Err       error // the cause, nil for none
}

func (e *Miss) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("tier: nothing restored (%s): %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("tier: nothing restored (%s)", e.Reason)
}

func (e *Miss) Unwrap() error { return e.Err }

// defaultWait is how long a loser waits when nothing is measured yet.
const defaultWait = time.Second

// Fill assembles the state of a hit into a new file at path, which must not
// exist. Every block is verified on its way; after an error nothing is left at
// path. The caller has the engine restore the file, removes it, and calls Settle
// whatever came of it.
//
// Of several requests for the same state one reads. The others wait for its
// Settle, at most half the time the prefill would take, and get a Miss that says
// whether to look for the state in a slot.
func (m *Manager) Fill(ctx context.Context, h *Hit, path string, t slotfile.Target) (*Filled, error) {
	if !h.Found() {
		return nil, &Miss{Reason: h.Miss}
	}
	f, err := m.fill(ctx, h, path, t)
	if err != nil {
		h.Release()
		var miss *Miss
		if !errors.As(err, &miss) {
			miss = &Miss{Reason: kv.MissStorageError, Err: err}
		}
		m.missed(miss.Reason, nil)
		return nil, miss
	}
	return f, nil
}

func (m *Manager) fill(ctx context.Context, h *Hit, path string, t slotfile.Target) (*Filled, error) {
	key := claimKey{h.state, h.Manifest, h.Tokens}
	mine, other := m.claimFill(key)
	if mine == nil {
		return nil, await(ctx, other, h.Offer)
	}
	f, err := m.fillAlone(ctx, h, path, t)
	if err != nil {
		m.endClaim(key, mine, false)
		return nil, err
	}
	f.key, f.claim, f.pin = key, mine, h.Release
	return f, nil
}

// fillAlone fills unless a lifecycle operation is under way or waiting.
func (m *Manager) fillAlone(ctx context.Context, h *Hit, path string, t slotfile.Target) (*Filled, error) {
	if !m.enter() {
		return nil, &Miss{Reason: kv.MissLifecycleBusy}
	}
	defer m.gate.RUnlock()
	return m.assemble(ctx, h, path, t)
}

// claimFill returns a new claim, or the one that is held.
func (m *Manager) claimFill(key claimKey) (mine, other *claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.claims[key]; c != nil {
		c.losers++
		return nil, c
	}
	c := &claim{done: make(chan struct{})}
	m.claims[key] = c
	return c, nil
}

func (m *Manager) endClaim(key claimKey, c *claim, good bool) {
	m.mu.Lock()
	if m.claims[key] == c {
		delete(m.claims, key)
	}
	m.mu.Unlock()
	c.end(good)
}

// await waits for another request's fill.
func await(ctx context.Context, c *claim, o kv.Offer) error {
	wait := o.Prefill / 2
	if o.Prefill == 0 {
		wait = defaultWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return &Miss{Reason: kv.MissFillInFlight, Elsewhere: c.good}
	case <-timer.C:
	case <-ctx.Done():
	}
	return &Miss{Reason: kv.MissFillInFlight}
}

// assemble reads, verifies and writes one state.
func (m *Manager) assemble(ctx context.Context, h *Hit, path string, t slotfile.Target) (*Filled, error) {
	began := m.now()
	man, err := m.load(h.Manifest)
	if err != nil {
		return nil, err
	}
	plan, err := kv.PlanFill(h.Manifest, man, h.Tokens, m.where, m.ratesOf(h.state))
	if err != nil {
		return nil, m.spoilt(err, h.Manifest)
	}
	size, err := m.write(ctx, man, plan, path, t)
	if err != nil {
		return nil, m.spoilt(err, h.Manifest)
	}
	f := &Filled{Tokens: h.Tokens, Bytes: plan.Bytes, Size: size, Took: m.now().Sub(began), state: h.state, manifest: h.Manifest}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activity.Fills++
	m.activity.BytesRead += plan.Bytes
	m.rates[h.state] = m.rates[h.state].Filled(plan.Bytes, f.Took)
	return f, nil
}

func (m *Manager) ratesOf(state kv.StateID) kv.Rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rates[state]
}

// where is the store's, in the planners' words.
func (m *Manager) where(id kv.BlockID) (kv.Location, bool) {
	pack, off, size, ok := m.segments.Where(content.ID(id))
	return kv.Location{Pack: kv.PackID(pack), Offset: kv.Bytes(off), Size: kv.Bytes(size)}, ok
}

// load reads and checks one manifest. A damaged one is put aside and forgotten;
// one that could not be read for other reasons stays.
func (m *Manager) load(id kv.ManifestID) (*kv.Manifest, error) {
	data, err := m.manifests.Manifest(content.ID(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Miss{Reason: kv.MissStorageError, Err: err}
	}
	if err == nil {
		var man *kv.Manifest
		var got kv.ManifestID
		if man, got, err = kv.DecodeManifest(data); err == nil && got == id {
			return man, nil
		}
	}
	reason := kv.MissCorrupt
	if errors.Is(err, kv.ErrCodec) {
		reason = kv.MissCodec
	}
	return nil, &Miss{Reason: reason, Err: errors.Join(err, m.quarantine(id))}
}

// write assembles the slot file. On any error nothing is left at path.
func (m *Manager) write(ctx context.Context, man *kv.Manifest, plan kv.FillPlan, path string, t slotfile.Target) (size int64, err error) {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	return m.into(ctx, man, plan, out, t)
}

// into reads, verifies and places what a plan says, and returns the size of what
// w then holds.
func (m *Manager) into(ctx context.Context, man *kv.Manifest, plan kv.FillPlan, w io.WriterAt, t slotfile.Target) (int64, error) {
	a, err := slotfile.Assemble(w, man, plan, t)
	if err != nil {
		return 0, &Miss{Reason: kv.MissLayout, Err: err}
	}
	ids, index := wanted(plan)
	err = m.segments.Read(ctx, ids, func(i int, b []byte) error { return put(a, index[i], b) })
	if err != nil {
		return 0, err
	}
	return a.Size(), a.Finish()
}

// put checks a block and writes it; the store is told of a damaged one, so that
// it tries another copy.
func put(a *slotfile.Assembly, index int, b []byte) error {
	err := a.Put(index, b)
	var bad *slotfile.CorruptError
	if errors.As(err, &bad) {
		return &content.MismatchError{ID: content.ID(bad.ID)}
	}
	return err
}

// wanted lists what a plan reads, in its order.
func wanted(plan kv.FillPlan) (ids []content.ID, index []int) {
	for _, r := range plan.Reads {
		for _, p := range r.Pieces {
			ids, index = append(ids, content.ID(p.ID)), append(index, p.Index)
		}
	}
	return ids, index
}

// spoilt takes a failed read for what it says. Damaged or missing blocks take
// every manifest that names them out of use; trouble of the machine takes none.
func (m *Manager) spoilt(err error, id kv.ManifestID) error {
	var mismatch *content.MismatchError
	var missing *kv.MissingError
	var block kv.BlockID
	switch {
	case errors.As(err, &mismatch):
		block = kv.BlockID(mismatch.ID)
	case errors.As(err, &missing):
		block = missing.ID
	case errors.Is(err, fs.ErrNotExist):
		return &Miss{Reason: kv.MissCorrupt, Err: errors.Join(err, m.quarantine(id))}
	default:
		return err
	}
	m.mu.Lock()
	ids := m.naming(block)
	m.mu.Unlock()
	return &Miss{Reason: kv.MissCorrupt, Err: errors.Join(err, m.quarantine(ids...))}
}

// quarantine takes damaged manifests out of use and sweeps what nobody names any
// more.
func (m *Manager) quarantine(ids ...kv.ManifestID) (err error) {
	for _, id := range ids {
		m.mu.Lock()
		known := m.entries[id] != nil
		m.remove(id, false, m.now())
		if known {
			m.activity.CorruptEntries++
		}
		m.mu.Unlock()
		if !known {
			continue
		}
		if one := m.manifests.QuarantineManifest(content.ID(id)); one != nil && !errors.Is(one, fs.ErrNotExist) {
			err = errors.Join(err, one)
		}
	}
	m.log.Warn("stored states are damaged and were taken out of use", "manifests", len(ids))
	return errors.Join(err, m.discarded())
}

// Outcome is what the engine made of a filled file.
type Outcome int

// The outcomes.
const (
	// Restored: the engine took it, and cache_n shows that it used it.
	Restored Outcome = iota
	// Rejected: the engine refused the file or restored another number of tokens.
	// The entry is put aside.
	Rejected
	// SlotTaken: restored, but another request got the slot. Nobody's fault.
	SlotTaken
	// EngineGone: the engine went away meanwhile. It may have been the file, so
	// the entry is put aside as well.
	EngineGone
	// NotTried: the file was not handed over.
	NotTried
)

// Settle books the end of a fill: used is cache_n of the answer, took the
// engine's own restore. It must be called once for every Filled.
func (m *Manager) Settle(f *Filled, o Outcome, used int, took time.Duration) error {
	good := o == Restored && used > 0
	m.endClaim(f.key, f.claim, good)
	f.pin()
	m.settled(f, good, o, used, took)
	if o == Rejected || o == EngineGone {
		return m.quarantine(f.manifest)
	}
	return nil
}

func (m *Manager) settled(f *Filled, good bool, o Outcome, used int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !good {
		reasons := map[Outcome]kv.MissReason{Rejected: kv.MissImportFailed, SlotTaken: kv.MissSlotTaken,
			EngineGone: kv.MissEngineUnavailable, NotTried: kv.MissNoIdleSlot, Restored: kv.MissImportFailed}
		m.activity.Misses[reasons[o]]++
		if o != NotTried {
			m.activity.RestoreFailures++
		}
		return
	}
	m.activity.Hits++
	m.activity.RestoresOK++
	r := m.rates[f.state].Restored(kv.Bytes(f.Size), took)
	m.rates[f.state] = r
	if r.Prefill > 0 {
		m.activity.SecondsSavedEstimate += max(0, float64(used)/r.Prefill-(f.Took+took).Seconds())
	}
	if e := m.entries[f.manifest]; e != nil {
		m.touch(e)
	}
}
