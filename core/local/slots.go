package local

import (
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
)

// slot is what is known of one of the engine's slots. Only who took it changes
// it, and under the lock of slots, so that others may read it under the same.
type slot struct {
	id   int
	busy bool
	// yield ends what keeps it busy, where that can be done at any time; nil
	// otherwise.
	yield context.CancelFunc

	// held are tokens it certainly holds; it may hold more. nil: nothing known.
	held []kv.Token
	// body is the last request it took, in the engine's wire, to tell a request
	// that only goes on.
	body []byte
	// convo names the conversation for the store; open says that its last reply
	// called tools, so that the next request goes on exactly there.
	convo, branch string
	open          bool
	// sent is the prompt it took last, nil for none.
	sent *sent
	// stable is how much of it the next turn will find again, 0 when not yet
	// worked out.
	stable kv.Tokens
	used   time.Time
	// gen counts changes of the content; asked is the last of which a save was
	// asked for, 0 for none.
	gen, asked int
}

// holding names what a slot holds.
type holding struct{ id, gen int }

// slotFile is a file the engine wrote.
type slotFile struct {
	path string
	engine.Saved
}

// forget says that nothing is known of the content any more.
func (s *slot) forget() {
	*s = slot{id: s.id, busy: s.busy, yield: s.yield, used: s.used, gen: s.gen + 1}
}

// slots is all slots of one life of the engine.
type slots struct {
	mu   sync.Mutex
	list []*slot
	line []*waiter // who waits, first come first served
	// aside are contents that were saved before they were overwritten, and wait
	// for the store to take them.
	aside map[holding]slotFile
}

// waiter waits for a slot that its pick chooses.
type waiter struct {
	pick picker
	look bool // the slot is not taken
	late bool
	got  chan *slot
}

// picker chooses among all slots: an idle one, or none, to be asked again when
// one is given back. late says that a wait it asked for is over. It runs under
// the lock.
type picker func(all []*slot, late bool) choice

func newSlots(n int) *slots {
	s := &slots{aside: map[holding]slotFile{}}
	for i := range max(n, 1) {
		s.list = append(s.list, &slot{id: i})
	}
	return s
}

// choice is what a pick among slots comes to.
type choice struct {
	slot *slot // to be taken; nil to wait until one is given back
	// patience ends a wait early, to ask again with late set; 0 is none.
	patience time.Duration
}

// take waits until pick chooses a slot, and takes it. Those who waited longer
// were asked before, so that nobody is passed over.
func (s *slots) take(ctx context.Context, pick picker) (*slot, error) {
	return s.wait(ctx, &waiter{pick: pick, got: make(chan *slot, 1)})
}

func (s *slots) wait(ctx context.Context, w *waiter) (*slot, error) {
	s.mu.Lock()
	c := w.pick(s.list, false)
	if c.slot != nil {
		c.slot.busy = !w.look
		s.mu.Unlock()
		return c.slot, nil
	}
	s.line = append(s.line, w)
	s.mu.Unlock()
	var patience <-chan time.Time
	if c.patience > 0 {
		patience = time.After(c.patience)
	}
	for {
		select {
		case sl := <-w.got:
			return sl, nil
		case <-patience:
			patience = nil
			s.hurry(w)
		case <-ctx.Done():
			s.leave(w)
			return nil, ctx.Err()
		}
	}
}

// hurry asks a waiter whose patience is over.
func (s *slots) hurry(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.late = true
	s.offer()
}

// leave takes a waiter out of the line, and gives back what it was just given.
func (s *slots) leave(w *waiter) {
	s.mu.Lock()
	s.line = slices.DeleteFunc(s.line, func(o *waiter) bool { return o == w })
	s.mu.Unlock()
	select {
	case sl := <-w.got:
		if !w.look {
			s.give(sl)
		}
	default:
	}
}

// offer asks those who wait, in their order; the caller holds the lock.
func (s *slots) offer() {
	s.line = slices.DeleteFunc(s.line, func(w *waiter) bool {
		sl := w.pick(s.list, w.late).slot
		if sl == nil {
			return false
		}
		sl.busy = !w.look
		w.got <- sl
		return true
	})
}

// borrow takes an idle slot that still has the content gen, nil otherwise.
func (s *slots) borrow(id, gen int) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id >= len(s.list) || s.list[id].busy || s.list[id].gen != gen {
		return nil
	}
	s.list[id].busy = true
	return s.list[id]
}

// asks notes that a save of the content gen is about to be asked for.
func (s *slots) asks(id, gen int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.list[id]; sl.gen == gen {
		sl.asked = gen
	}
}

// setAside keeps a file of the content gen for the save that was asked for.
func (s *slots) setAside(id, gen int, f slotFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside[holding{id, gen}] = f
}

// collect takes what was set aside, once.
func (s *slots) collect(id, gen int) (f slotFile, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok = s.aside[holding{id, gen}]
	delete(s.aside, holding{id, gen})
	return f, ok
}

// known copies what is known of a slot by who took it.
func (s *slots) known(sl *slot) slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *sl
}

// peek copies what is known of a slot nobody has taken; ok is false for one that
// is in use.
func (s *slots) peek(id int) (copy slot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id >= len(s.list) || s.list[id].busy {
		return slot{}, false
	}
	return *s.list[id], true
}

// contents are what the slots certainly hold, busy ones too.
func (s *slots) contents() (held [][]kv.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.list {
		held = append(held, sl.held)
	}
	return held
}

// change changes a slot by the one who took it: others look at what busy slots
// hold, too.
func (s *slots) change(sl *slot, change func(*slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(sl)
}

// note changes what is known of a slot that still has the content gen.
func (s *slots) note(id, gen int, change func(*slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.list[id]; !sl.busy && sl.gen == gen {
		change(sl)
	}
}

// rest waits until a slot is idle, without taking it: a save must find it so.
func (s *slots) rest(ctx context.Context, id int) error {
	_, err := s.wait(ctx, &waiter{look: true, got: make(chan *slot, 1), pick: func(all []*slot, _ bool) choice {
		if all[id].busy {
			return choice{}
		}
		return choice{slot: all[id]}
	}})
	return err
}

// allIdle waits until no slot is busy.
func (s *slots) allIdle(ctx context.Context) error {
	_, err := s.wait(ctx, &waiter{look: true, got: make(chan *slot, 1), pick: func(all []*slot, _ bool) choice {
		if slices.ContainsFunc(all, func(sl *slot) bool { return sl.busy }) {
			return choice{}
		}
		return choice{slot: all[0]}
	}})
	return err
}

// give returns a slot.
func (s *slots) give(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.busy, sl.yield = false, nil
	s.offer()
}

// oldest is the idle slot that was used least lately, nil when all are busy.
// Ones that hold nothing come first.
func oldest(all []*slot) (old *slot) {
	for _, s := range all {
		if !s.busy && (old == nil || s.used.Before(old.used)) {
			old = s
		}
	}
	return old
}

// common is the number of tokens two lists begin with alike.
func common(a, b []kv.Token) kv.Tokens {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return kv.Tokens(i)
		}
	}
	return kv.Tokens(n)
}
