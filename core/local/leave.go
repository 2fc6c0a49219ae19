package local

import (
	"context"
	"errors"

	"holdfast/core/kv"
	"holdfast/core/tier"
)

// keepFirst saves what the ticket's slot holds of another conversation before
// that is overwritten. With more conversations than slots none is ever idle, so
// this is the only moment there is, and without it every turn would be computed
// from nothing. The request waits for the engine's save alone, never for the
// disk, and only where computing the same would take far longer.
func (t *ticket) keepFirst(ctx context.Context) {
	s := t.life.slots.known(t.slot)
	if s.body == nil || t.goesOnFrom(s) || !t.e.wouldKeep(t.life, s.held) {
		return
	}
	if s.stable == 0 {
		ids, stable, err := stableOf(ctx, t.life.client, s.body, s.open)
		if err != nil {
			return // the request meets the same trouble, and tells of it
		}
		s.held, s.stable = ids, stable
		t.change(func(sl *slot) { sl.held, sl.stable = ids, stable })
	}
	if common(s.held, t.ids) >= s.stable {
		return // nothing that matters is overwritten
	}
	if r, _ := t.e.dueOf(t.life, s, false); r != nil {
		t.e.keepNow(ctx, *r, s)
	}
}

// goesOnFrom reports whether the ticket is a later turn of what a slot holds, or
// changed it, so that nobody comes back to the old.
func (t *ticket) goesOnFrom(s slot) bool {
	if s.convo != "" && s.convo == t.call.Conversation && s.branch == t.call.Branch {
		return true
	}
	return common(s.held, t.ids) == kv.Tokens(len(s.held))
}

// wouldKeep reports whether the store would take a slot's content now, and
// whether it is worth that a request waits for the engine's save.
func (e *Engine) wouldKeep(l *life, held []kv.Token) bool {
	id, _, why := l.reuse()
	if why != "" || !e.o.Tier.Due(id, held, 0, false).Spill || !e.o.Tier.Takes() {
		return false
	}
	fresh := kv.Tokens(len(held) - e.o.Tier.Stored(id, held))
	return e.o.Eager || e.speed.worthSaving(kv.Tokens(len(held)), fresh)
}

// keepNow has the engine write a slot that is ours and leaves the rest to the
// store: to the spill that was asked for while the slot was idle and comes too
// late, or to a new one.
func (e *Engine) keepNow(ctx context.Context, r tier.Request, s slot) {
	save := r.Slots.(saver)
	f, err := save.write(ctx, s.id)
	if err != nil {
		e.log.Debug("a slot was not saved before it was taken", "slot", s.id, "err", err)
		return
	}
	save.l.slots.setAside(s.id, s.gen, f)
	err = e.o.Tier.Spill(r)
	if asked := s.asked == s.gen && errors.Is(err, &tier.Refusal{Reason: tier.ReasonInFlight}); err != nil && !asked {
		save.drop(s.id)
	}
}
