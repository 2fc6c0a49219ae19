package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/wire"
)

// tickEvery is how often idle slots are looked at for what only time makes due.
const tickEvery = time.Second

// reckonAgain is how long a slot's stable boundary may be unknown before it is
// worked out once more: the first try may have failed.
const reckonAgain = 5 * time.Second

// tick considers idle slots now and then, until Close.
func (e *Engine) tick() {
	every := time.NewTicker(tickEvery)
	defer every.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-every.C:
		}
		l := e.life.Load()
		if l == nil {
			continue
		}
		for i := range l.slots.list {
			if s, ok := l.slots.peek(i); ok && s.body != nil && s.stable == 0 && e.now().Sub(s.used) > reckonAgain {
				e.reckon(l, i, s.gen)
				continue
			}
			e.consider(l, i)
		}
	}
}

// reckon works out, behind the reply, what of a slot the next turn will find
// again, and has it saved where it is worth it. gen is the content it is about:
// a slot that took another request meanwhile is reckoned with after that one.
func (e *Engine) reckon(l *life, id, gen int) {
	if e.ctx.Err() != nil {
		return
	}
	e.work.Go(func() {
		if err := e.settleStable(e.ctx, l, id, gen); err != nil {
			if e.ctx.Err() == nil {
				e.log.Debug("what is stable in a slot could not be worked out", "err", err)
			}
			return
		}
		e.consider(l, id)
	})
}

// settleStable finds the stable boundary of a slot's conversation. It waits for
// a slot that is being saved; one that took another request is left to that.
func (e *Engine) settleStable(ctx context.Context, l *life, id, gen int) error {
	var ids []kv.Token
	var stable kv.Tokens
	for {
		if err := l.slots.rest(ctx, id); err != nil {
			return err
		}
		now, ok := l.slots.peek(id)
		switch {
		case !ok:
			continue
		case now.gen != gen || now.stable > 0 || now.body == nil:
			return nil
		case ids != nil:
			l.slots.note(id, gen, func(s *slot) { s.held, s.stable = ids, stable })
			e.prompts.learn(now.sent, ids, kv.Tokens(len(ids)))
			continue
		}
		var err error
		if ids, stable, err = stableOf(ctx, l.client, now.body, now.open); err != nil {
			return err
		}
	}
}

// What stands for a reply and the next question where it is asked what of a
// prompt survives them: templates treat the last turns in their own way.
const (
	dummyReply    = `{"role":"assistant","content":"So it is."}`
	dummyQuestion = `{"role":"user","content":"Go on."}`
)

// stableOf renders a conversation as it is and as it will be after another turn:
// what both begin with is what the next turn reuses. While a tool loop is open,
// nothing of the prompt is rewritten yet.
func stableOf(ctx context.Context, c *engine.Client, body []byte, open bool) (ids []kv.Token, stable kv.Tokens, err error) {
	if ids, err = promptOf(ctx, c, body); err != nil {
		return nil, 0, err
	}
	if open {
		return ids, kv.Tokens(len(ids)), nil
	}
	later, err := promptOf(ctx, c, continued(body))
	if err != nil {
		return nil, 0, err
	}
	return ids, common(ids, later), nil
}

// continued is a chat body with another turn behind its messages.
func continued(body []byte) []byte {
	v := wire.ValueOf(body).Obj().Get("messages")
	if !v.Is('[') {
		return body
	}
	at := v.End - 1
	add := dummyReply + "," + dummyQuestion
	if len(bytes.TrimSpace(body[v.Start+1:at])) > 0 {
		add = "," + add
	}
	out := make([]byte, 0, len(body)+len(add))
	return append(append(append(out, body[:at]...), add...), body[at:]...)
}

// consider queues a spill of a slot where one is due.
func (e *Engine) consider(l *life, id int) {
	r, _ := e.due(l, id, false)
	if r == nil {
		return
	}
	l.slots.asks(id, r.Slots.(saver).gen)
	var declined *tier.Refusal
	if err := e.o.Tier.Spill(*r); err != nil && !errors.As(err, &declined) {
		e.log.Warn("a state was not saved", "err", err)
	}
}

// due is the spill an idle slot is due for, nil for none, and why.
func (e *Engine) due(l *life, id int, closing bool) (*tier.Request, string) {
	s, ok := l.slots.peek(id)
	if !ok {
		return nil, "busy"
	}
	return e.dueOf(l, s, closing)
}

// dueOf is due for what a slot is known to hold.
func (e *Engine) dueOf(l *life, s slot, closing bool) (*tier.Request, string) {
	identity, _, why := l.reuse()
	if why != "" {
		return nil, string(why)
	}
	if s.stable == 0 || int(s.stable) > len(s.held) {
		return nil, "nothing known"
	}
	tokens := s.held[:s.stable]
	d := e.o.Tier.Due(identity, tokens, e.now().Sub(s.used), closing)
	if !d.Spill {
		return nil, d.Reason
	}
	return &tier.Request{Model: l.model, State: identity, Slots: saver{e, l, s.gen}, Slot: s.id, Tokens: tokens, Tail: d.Tail,
		Closing: closing, Session: s.convo, Branch: s.branch, Done: func(kept tier.Spilled, err error) {
			saver{e, l, s.gen}.drop(s.id)
			if e.o.Kept != nil {
				e.o.Kept(kept, err)
			}
		}}, d.Reason
}

// saver saves one content of a slot; it declines once the slot holds another.
type saver struct {
	e   *Engine
	l   *life
	gen int
}

// Save has the engine write the slot, or gives what was written before the slot
// was taken. It does not wait for a busy one: what keeps it busy is saved when it
// is done.
func (s saver) Save(ctx context.Context, id int) (path string, tokens int, size int64, err error) {
	f, ok := s.l.slots.collect(id, s.gen)
	if !ok {
		if f, err = s.writeIdle(ctx, id); err == nil {
			s.standBack(ctx)
		}
	}
	return f.path, int(f.Tokens), int64(f.Bytes), err
}

// writeIdle has the engine write a slot that nobody uses.
func (s saver) writeIdle(ctx context.Context, id int) (f slotFile, err error) {
	sl := s.l.slots.borrow(id, s.gen)
	if sl == nil {
		return f, tier.ErrSlotInUse
	}
	defer s.l.slots.give(sl)
	return s.write(ctx, id)
}

// write has the engine write a slot that is ours.
func (s saver) write(ctx context.Context, id int) (f slotFile, err error) {
	f.path, f.Saved, err = save(ctx, s.l.client, s.e.o.Handover, id)
	if engine.Gone(err) && ctx.Err() == nil {
		s.e.lost(s.l)
	}
	if err == nil {
		s.e.speed.saved(f.Tokens, f.Took())
	}
	return f, err
}

// standBackFor is a few tokens long: an engine stands still while it saves, and
// the clients beside it should not pay for the reading of the file in the same
// breath.
const standBackFor = 150 * time.Millisecond

// standBack lets the clients of other slots on before a file is read, where there
// are any.
func (s saver) standBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, standBackFor)
	defer cancel()
	_ = s.l.slots.allIdle(ctx) // over either way: the time is up, or nobody generates
}

// drop removes a file that nobody collected.
func (s saver) drop(id int) {
	if f, ok := s.l.slots.collect(id, s.gen); ok {
		os.Remove(f.path) // gone with the folder at the next start, at the latest
	}
}

// Flush saves what the slots hold and is not on disk yet, tails included: the
// engine is about to end. It stops at ctx.
func (e *Engine) Flush(ctx context.Context) {
	l := e.life.Load()
	if l == nil || e.o.Tier == nil {
		return
	}
	if _, _, why := l.reuse(); why != "" {
		return // nothing could be saved, and a slot may be busy being tried out
	}
	for _, s := range l.slots.list {
		if err := e.flushSlot(ctx, l, s.id); err != nil {
			e.log.Info("a slot was not saved before the end", "slot", s.id, "err", err)
		}
	}
}

func (e *Engine) flushSlot(ctx context.Context, l *life, id int) error {
	if err := l.slots.rest(ctx, id); err != nil {
		return err
	}
	if s, ok := l.slots.peek(id); ok {
		if err := e.settleStable(ctx, l, id, s.gen); err != nil {
			return err
		}
	}
	r, _ := e.due(l, id, true)
	if r == nil {
		return nil
	}
	done := make(chan error, 1)
	told := r.Done
	r.Done = func(kept tier.Spilled, err error) {
		told(kept, err)
		done <- err
	}
	if err := e.o.Tier.Spill(*r); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
