package tier

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"holdfast/core/kv"
)

// roomState is the disk as last asked about, for readers that must not wait.
type roomState struct {
	mu     sync.Mutex // guards the rest
	free   kv.Bytes
	wanted kv.Bytes // of the last claim the reserve refused
}

func (r *roomState) set(free kv.Bytes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = free
}

func (r *roomState) get() (free, wanted kv.Bytes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free, r.wanted
}

// measure asks the disk and the store.
func (m *Manager) measure() (kv.Room, error) {
	free, err := m.segments.Free()
	if err != nil {
		return kv.Room{}, err
	}
	m.room.set(kv.Bytes(free))
	used := kv.Bytes(m.segments.Used())
	m.mu.Lock()
	defer m.mu.Unlock()
	return kv.Room{Budget: m.budget, Used: used, Inflight: m.inflight, Free: kv.Bytes(free), Reserve: m.limits.Reserve}, nil
}

// reserve claims room for a write before its first byte, and makes room where
// that is allowed and needed. Until release is called the claim counts against
// the budget as if it were written.
//
// No refusal is believed before the store was counted anew: a running total that
// drifted must never keep a write out.
func (m *Manager) reserve(ctx context.Context, c kv.Claim) (release func(), err error) {
	m.admission.Lock()
	defer m.admission.Unlock()
	a, err := m.decide(c, false)
	if err == nil && a.Verdict != kv.Admitted && a.Verdict != kv.SkippedOversize {
		if _, err = m.segments.Rescan(); err == nil {
			a, err = m.decide(c, false)
		}
	}
	if err == nil && a.Verdict == kv.Evict {
		if err = m.makeRoom(ctx, a.Target, c.Growth); err == nil {
			a, err = m.decide(c, true)
		}
	}
	if err != nil {
		return nil, err
	}
	m.judged(a.Verdict, c)
	if a.Verdict != kv.Admitted {
		return nil, refusedFor(a.Verdict)
	}
	return m.claim(c.Growth), nil
}

// claim books bytes in flight.
func (m *Manager) claim(n kv.Bytes) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inflight += n
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inflight -= n
		n = 0
	}
}

func (m *Manager) decide(c kv.Claim, evicted bool) (kv.Admission, error) {
	room, err := m.measure()
	if err != nil {
		return kv.Admission{}, err
	}
	return kv.Reserve(room, c, evicted), nil
}

// judged takes a verdict into the state.
func (m *Manager) judged(v kv.Verdict, c kv.Claim) {
	if v == kv.ReadOnlyLowSpace {
		m.room.mu.Lock()
		m.room.wanted = c.Write
		m.room.mu.Unlock()
	}
	m.condition(func(s *conditions) {
		switch v {
		case kv.ReadOnlyLowSpace:
			s.low = true
		case kv.InsufficientSpace:
			s.low, s.full = false, true
		case kv.Admitted:
			s.low, s.full = false, false
		}
	})
}

// refusedFor is a verdict as an error.
func refusedFor(v kv.Verdict) error {
	text := map[kv.Verdict][2]string{
		kv.SkippedOversize:   {"it is larger than the whole budget", "raise kv.disk.budget to keep states of this size"},
		kv.ReadOnlyLowSpace:  {"the disk is so full that the reserve would be broken", "free some space on the disk, or lower kv.disk.reserve"},
		kv.InsufficientSpace: {"nothing more may be evicted for it", "raise kv.disk.budget, or clear the cache"},
	}[v]
	return &Refusal{Op: "spill", Reason: string(v), What: text[0], Hint: text[1]}
}

// recheck looks whether a shortage is over. It is called every while and by
// Status, so that the tier recovers by itself and not at the next write.
func (m *Manager) recheck() {
	free, err := m.segments.Free()
	if err != nil {
		return // the next write will say so
	}
	m.room.set(kv.Bytes(free))
	c := m.mood.conditions()
	if !c.low {
		return
	}
	m.mu.Lock()
	reserve := m.limits.Reserve
	m.mu.Unlock()
	_, wanted := m.room.get()
	m.condition(func(c *conditions) { c.low = c.low && kv.Bytes(free)-wanted < reserve })
}

// outOfSpace reports an error that means a full disk rather than a broken one.
func outOfSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errReserve) }

// errReserve stops a write under way that would break the reserve, because
// somebody else filled the disk meanwhile.
var errReserve = errors.New("tier: the reserve would be broken")

// watchEvery is how many bytes are written between two looks at the disk.
const watchEvery kv.Bytes = 16 << 20

// watcher keeps a write under way from breaking the reserve.
type watcher struct {
	m           *Manager
	left, since kv.Bytes // still to be written; written since the last look
}

// wrote books bytes and looks at the disk now and then.
func (w *watcher) wrote(n kv.Bytes) error {
	w.left, w.since = w.left-n, w.since+n
	if w.since < watchEvery {
		return nil
	}
	w.since = 0
	room, err := w.m.measure()
	if err != nil {
		return err
	}
	if room.Free-max(w.left, 0) < room.Reserve {
		return errReserve
	}
	return nil
}

// wear is what was written on which day, to spare the disk.
type wear struct {
	Day     string   `json:"day"`
	Written kv.Bytes `json:"written"`
}

// book adds bytes to the day's. A clock that went back stays in the later day:
// setting it must not give a new allowance.
func (w *wear) book(n kv.Bytes, at time.Time) {
	if day := at.Format(time.DateOnly); day > w.Day {
		*w = wear{Day: day}
	}
	w.Written += n
}

// today is what the day's cap is compared with.
func (w wear) today(at time.Time) kv.Bytes {
	if at.Format(time.DateOnly) > w.Day {
		return 0
	}
	return w.Written
}

// capped reports whether so many more bytes would exceed the day's cap; the
// caller holds mu.
func (m *Manager) capped(more kv.Bytes) bool {
	return m.limits.DailyWrites > 0 && m.wear.today(m.now())+more > m.limits.DailyWrites
}

// booked counts bytes that reached the disk.
func (m *Manager) booked(n kv.Bytes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wear.book(n, m.now())
	m.activity.BytesWritten += n
	m.noteDirty = true
}
