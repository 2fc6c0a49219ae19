package local

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// eraseBelow is the common prefix under which a slot is as good as empty for
// another conversation: what little would be kept is not worth a lineage that the
// store cannot share. The engine is told so with the request; emptying the slot
// first would wait for the batch that another slot is at.
const eraseBelow = kv.BlockTokens

// place finds the request its slot, with as much of its prompt in it as can be
// had. Its only errors are that the client left or the engine went away.
func (e *Engine) place(ctx context.Context, l *life, req request, call upstream.Call, cold bool) (*ticket, error) {
	t := &ticket{e: e, life: l, req: req, call: call, source: usage.Computed, begun: e.now()}
	t.arrive()
	select {
	case <-l.quick:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	id, able, why := l.reuse()
	if why != "" && why != kv.MissStarting {
		t.rest = string(why)
		return t, nil // the engine's own choice of a slot is as good as ours
	}
	if sl := e.going(l, req); sl != nil {
		t.slot, t.source, t.promised = sl, usage.FromSlot, kv.Tokens(len(sl.held))
		t.goOn()
		return t, nil
	}
	var err error
	if t.ids, err = promptOf(ctx, l.client, req.body); err != nil {
		if engine.Gone(err) || ctx.Err() != nil {
			return nil, err
		}
		t.rest = "not_rendered" // the engine will say what is wrong with it
	}
	e.prompts.learn(t.sent, t.ids, kv.Tokens(len(t.ids)))
	if cold {
		why = kv.MissEngineUnavailable
	}
	return t, t.find(ctx, id, able, why)
}

// going takes the idle slot whose last request this one only continues.
func (e *Engine) going(l *life, req request) *slot {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	var best *slot
	for _, s := range l.slots.list {
		if !s.busy && len(s.held) > 0 && extends(s.body, req.body) && (best == nil || len(s.body) > len(best.body)) {
			best = s
		}
	}
	if best != nil {
		best.busy = true
	}
	return best
}

// promptOf turns a chat body into the tokens a slot would hold.
func promptOf(ctx context.Context, c *engine.Client, body []byte) ([]kv.Token, error) {
	text, err := c.Render(ctx, body)
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, text)
}

// find looks in the slots and on the disk, until one of them has been chosen.
func (t *ticket) find(ctx context.Context, id kv.StateIdentity, able Ability, why kv.MissReason) error {
	open := why == ""
	for {
		hit := t.lookup(id, why)
		sl, err := t.life.slots.take(ctx, func(all []*slot, late bool) choice { return t.pick(all, hit, late) })
		if err != nil {
			hit.Release()
			return err
		}
		t.slot = sl
		if open {
			t.keepFirst(ctx)
		}
		if why == "" {
			hit = t.lookAgain(id, hit)
		}
		resident := common(sl.held, t.ids)
		if !hit.Found() || t.same || resident >= kv.Tokens(hit.Tokens) {
			hit.Release()
			t.resident(resident, hit.Miss)
			return nil
		}
		again, err := t.restore(ctx, hit, able)
		if !again || err != nil {
			return err
		}
		t.life.slots.give(sl)
		t.slot = nil
		why = kv.MissFillInFlight // it is in a slot by now, or not worth another try
	}
}

// lookup asks the disk for more than the slots hold.
func (t *ticket) lookup(id kv.StateIdentity, why kv.MissReason) *tier.Hit {
	if why != "" || len(t.ids) == 0 {
		return &tier.Hit{Miss: why}
	}
	best := kv.Tokens(0)
	for _, held := range t.life.slots.contents() {
		best = max(best, common(held, t.ids))
	}
	return t.beyond(id, best)
}

// beyond asks the disk for more than so many tokens.
func (t *ticket) beyond(id kv.StateIdentity, resident kv.Tokens) *tier.Hit {
	return t.e.o.Tier.Lookup(tier.Query{Model: t.life.model, State: id, Tokens: t.ids, Resident: int(resident)})
}

// lookAgain asks once more where the wait for a slot has brought more to the
// disk: when the request came, its conversation was in a slot that was taken, and
// so saved, meanwhile.
func (t *ticket) lookAgain(id kv.StateIdentity, hit *tier.Hit) *tier.Hit {
	resident := common(t.slot.held, t.ids)
	stored := t.e.o.Tier.Restorable(id, t.ids)
	if t.same || stored <= max(resident, kv.Tokens(hit.Tokens)) {
		return hit
	}
	hit.Release()
	return t.beyond(id, resident)
}

// pick chooses among the slots: the idle one that holds the longest prefix,
// unless the disk has more. A busy slot that holds much more than both is worth
// waiting for, but no longer than half of what computing it would take. One that
// holds the very same prompt is waited for even where the disk has it: of
// requests that come together one reads, and after that wait they compute.
func (t *ticket) pick(all []*slot, hit *tier.Hit, late bool) choice {
	var idle *slot
	var best, busy kv.Tokens
	for _, s := range all {
		n := common(s.held, t.ids)
		switch {
		case s.busy:
			if s.yield != nil && t.yield == nil {
				s.yield()
			}
			busy = max(busy, n)
		case n > best:
			idle, best = s, n
		}
	}
	stored := kv.Tokens(0)
	if hit.Found() {
		stored = kv.Tokens(hit.Tokens)
	}
	t.same = len(t.ids) > 1 && busy >= kv.Tokens(len(t.ids)-1)
	if t.same {
		stored = 0
	}
	if more := busy - max(best, stored); more >= eraseBelow && !late {
		return choice{patience: t.e.speed.half(more)}
	}
	if idle != nil && best >= max(stored, eraseBelow) {
		return choice{slot: idle}
	}
	return choice{slot: oldest(all)}
}

// resident settles for what the slot holds.
func (t *ticket) resident(n kv.Tokens, miss kv.MissReason) {
	if n < eraseBelow {
		if len(t.slot.held) > 0 {
			t.fresh = true
			t.change((*slot).forget)
		}
		t.rest = string(miss)
		return
	}
	t.change(func(s *slot) { s.held = s.held[:n] }) // the rest is about to be overwritten
	t.source, t.promised = usage.FromSlot, min(n, kv.Tokens(len(t.ids)-1))
}

// restore brings a stored state into the ticket's slot. again says that another
// request has restored the same meanwhile. Whatever else goes wrong, the request
// goes on cold in an empty slot.
func (t *ticket) restore(ctx context.Context, hit *tier.Hit, able Ability) (again bool, err error) {
	name := rand.Text() + ".slot"
	path := filepath.Join(t.e.o.Handover, name)
	f, err := t.e.o.Tier.Fill(ctx, hit, path, slotfile.Target{Streams: uint32(able.Streams), Slot: uint32(t.slot.id)})
	if err != nil {
		var miss *tier.Miss
		if errors.As(err, &miss) {
			t.rest = string(miss.Reason)
			again = miss.Elsewhere
		}
		if ctx.Err() != nil {
			t.drop()
			return false, ctx.Err()
		}
		if !again {
			t.resident(common(t.slot.held, t.ids), kv.MissReason(t.rest))
		}
		return again, nil
	}
	defer os.Remove(path)
	began := t.e.now()
	got, err := t.life.client.Restore(ctx, t.slot.id, name)
	t.restoring = t.e.now().Sub(began)
	switch {
	case engine.Gone(err):
		outcome := tier.EngineGone
		if ctx.Err() != nil { // the client left; the engine has the file or not
			outcome = tier.NotTried
		}
		t.e.settle(f, outcome, 0, t.restoring)
		t.change((*slot).forget)
		t.drop()
		return false, err
	case err != nil || int(got.Tokens) != f.Tokens:
		t.e.log.Warn("the engine did not take a stored state; the request is computed", "err", err, "restored", got.Tokens, "of", f.Tokens)
		t.e.settle(f, tier.Rejected, 0, t.restoring)
		t.change((*slot).forget)
		t.rest = string(kv.MissImportFailed)
		if err := t.life.client.Erase(ctx, t.slot.id); engine.Gone(err) {
			t.drop()
			return false, err
		}
		return false, nil
	}
	t.change(func(s *slot) {
		s.forget()
		s.held = t.ids[:f.Tokens]
	})
	t.filled, t.source = f, usage.FromDisk
	t.promised = min(kv.Tokens(f.Tokens), kv.Tokens(len(t.ids)-1))
	return false, nil
}

func (e *Engine) settle(f *tier.Filled, o tier.Outcome, used int, took time.Duration) {
	if err := e.o.Tier.Settle(f, o, used, took); err != nil {
		e.log.Warn("a stored state could not be put aside", "err", err)
	}
}
