package local

import (
	"context"
	"errors"
	"time"

	"holdfast/core/kv"
	"holdfast/core/tier"
)

// eagerPatience replaces what is measured where saves must not be given up.
const eagerPatience = 10 * time.Minute

// keepFirst saves what the ticket's slot holds of another conversation before
// that is overwritten. With more conversations than slots none is ever idle, so
// this is the only moment there is, and without it every turn would be computed
// from nothing. The request waits for the engine's save alone, not for the disk,
// and only where computing takes far longer; it never waits longer than half of
// that.
func (t *ticket) keepFirst(ctx context.Context) {
	s := t.life.slots.known(t.slot)
	if s.body == nil || t.goesOnFrom(s) {
		return
	}
	fresh, due := t.e.unsaved(t.life, s.held)
	if !due || !t.e.o.Eager && !t.e.speed.worthSaving(kv.Tokens(len(s.held)), fresh) {
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
		t.await(ctx, *r, s, fresh)
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

// unsaved is how many tokens of a slot's content no disk has, and whether they
// are enough for a save.
func (e *Engine) unsaved(l *life, held []kv.Token) (fresh kv.Tokens, due bool) {
	id, _, why := l.reuse()
	if why != "" {
		return 0, false
	}
	return kv.Tokens(len(held) - e.o.Tier.Stored(id, held)), e.o.Tier.Due(id, held, 0, false).Spill
}

// await asks for a save and waits until the engine has made it.
func (t *ticket) await(ctx context.Context, r tier.Request, s slot, fresh kv.Tokens) {
	l := t.life.slots.leaving(t.slot)
	defer t.life.slots.stay(t.slot, l)
	t.life.slots.asks(s.id, s.gen)
	if err := t.e.o.Tier.Spill(r); err != nil && (s.asked != s.gen || !errors.Is(err, &tier.Refusal{Reason: tier.ReasonInFlight})) {
		return // not wanted, or another slot saves the same
	}
	patience := t.e.speed.half(fresh)
	if t.e.o.Eager {
		patience = eagerPatience
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.over:
	case <-late.C:
	case <-ctx.Done():
	}
}
