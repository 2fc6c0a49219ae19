package local

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// ticket is one request in its slot, from the choice to the end of its reply.
// One goroutine owns it.
type ticket struct {
	e    *Engine
	life *life
	slot *slot // nil: the engine chooses, and nothing is remembered
	req  request
	call upstream.Call

	yield context.CancelFunc // of a warm-up, which anybody may end

	ids       []kv.Token // of the prompt; nil where it only goes on
	sent      *sent      // what is remembered of the prompt, nil before it is sent
	same      bool       // another request is at work on the same prompt
	fresh     bool       // what the slot holds is of no use
	source    usage.Reused
	promised  kv.Tokens
	rest      string // why no more was there to reuse
	begun     time.Time
	took      time.Duration // up to the request's leaving
	filled    *tier.Filled  // restored from disk, until settled
	restoring time.Duration // of that, the engine's part

	// What the reply said.
	timings *engine.Timings
	reason  string
	ended   bool
	settled bool
}

// body is the request as the engine gets it.
func (t *ticket) body(req request) []byte {
	t.took = t.e.now().Sub(t.begun)
	if t.slot == nil {
		return req.body
	}
	return fields(req.body, t.slot.id, !t.fresh, req.stream)
}

// hear reads one event or a whole reply.
func (t *ticket) hear(data []byte) {
	if string(data) == done {
		t.ended = true
		return
	}
	var in chatReply
	if json.Unmarshal(data, &in) != nil {
		return
	}
	if in.Progress != nil {
		t.proof(kv.Tokens(in.Progress.Cached))
		t.long(kv.Tokens(in.Progress.Total))
	}
	for _, c := range in.Choices {
		if c.Finish != "" {
			t.reason = c.Finish
		}
	}
	if in.Timings != nil {
		t.timings = in.Timings
		t.long(in.Timings.Cached + in.Timings.Prompt)
	}
}

// proof settles a restore by what the engine says it reused.
func (t *ticket) proof(used kv.Tokens) {
	if t.filled == nil {
		return
	}
	outcome := tier.Restored
	if used < t.promised {
		outcome = tier.SlotTaken
		if used > 0 && used >= t.promised-kv.BlockTokens { // engines keep a few rows to compute again
			outcome = tier.Restored
		}
	}
	t.e.settle(t.filled, outcome, int(used), t.restoring)
	t.filled = nil
}

// finish ends a ticket whose reply is complete.
func (t *ticket) finish() {
	if t.settled {
		return
	}
	if t.timings != nil {
		t.proof(t.timings.Cached)
		t.measure()
		t.call.Report(t.receipt())
	}
	if t.slot != nil {
		t.remember()
	}
	t.drop()
}

// abandon ends a ticket whose reply broke off or never came: of the slot only
// what both the old content and the prompt begin with is certain.
func (t *ticket) abandon() {
	if t.settled {
		return
	}
	if t.filled != nil {
		t.e.settle(t.filled, tier.NotTried, 0, t.restoring)
		t.filled = nil
	}
	if t.slot != nil {
		held := t.slot.held
		if t.ids != nil {
			held = held[:common(held, t.ids)]
		}
		t.change(func(s *slot) {
			s.forget()
			s.held = held
		})
	}
	t.drop()
}

// drop gives the slot back.
func (t *ticket) drop() {
	t.settled = true
	if t.slot != nil {
		t.life.slots.give(t.slot)
	}
}

// remember notes what the slot holds now, and has it reckoned with.
func (t *ticket) remember() {
	gen := 0
	t.change(func(s *slot) {
		if t.ids != nil {
			s.held = t.ids
		}
		s.body, s.open, s.used = t.req.body, t.reason == "tool_calls", t.e.now()
		s.convo, s.branch, s.sent = t.call.Conversation, t.call.Branch, t.sent
		s.stable, s.gen = 0, s.gen+1
		gen = s.gen
	})
	t.e.reckon(t.life, t.slot.id, gen)
}

// change changes what is known of the ticket's slot.
func (t *ticket) change(change func(*slot)) { t.life.slots.change(t.slot, change) }

// measure books how fast the engine computes. Short prompts say nothing.
func (t *ticket) measure() {
	n, ms := t.timings.Prompt, t.timings.PromptMs
	if n < kv.BlockTokens || ms <= 0 {
		return
	}
	took := time.Duration(ms * float64(time.Millisecond))
	t.e.speed.took(n, took)
	if id, _, why := t.life.reuse(); why == "" && !t.e.o.Eager {
		t.e.o.Tier.Prefilled(id, n, took)
	}
}

// receipt says what was reused, by the engine's own account. An engine computes
// at least one token of every prompt, so no more than the others were promised.
func (t *ticket) receipt() usage.Receipt {
	got := t.timings.Cached
	promised := min(t.promised, max(got+t.timings.Prompt-1, 0))
	r := usage.Receipt{Promised: promised, Restored: got, Source: t.source, Ms: float64(t.took.Microseconds()) / 1000, RestReason: t.rest}
	if got == 0 {
		r.Source = usage.Computed
	} else if r.Source == usage.Computed {
		r.Source = usage.FromSlot // the engine knew better
	}
	if got < promised && r.RestReason == "" {
		r.RestReason = string(kv.MissSlotTaken)
	}
	if saved := t.e.speed.seconds(got) - t.took.Seconds(); saved > 0 {
		r.SavedS = saved
	}
	return r
}

// speeds are moving averages of the engine's speed.
type speeds struct {
	mu    sync.Mutex
	rates kv.Rates // Prefill only
	save  kv.Rates // Prefill is the speed of saves: tokens a second as well
}

func (s *speeds) took(n kv.Tokens, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rates = s.rates.Prefilled(n, d)
}

// seconds is what computing n tokens takes, 0 while nothing is measured.
func (s *speeds) seconds(n kv.Tokens) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rates.Prefill <= 0 {
		return 0
	}
	return float64(n) / s.rates.Prefill
}

// half is half of that, a second while nothing is measured.
func (s *speeds) half(n kv.Tokens) time.Duration {
	if sec := s.seconds(n); sec > 0 {
		return time.Duration(sec / 2 * float64(time.Second))
	}
	return time.Second
}

// saved books a save of n tokens.
func (s *speeds) saved(n kv.Tokens, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save = s.save.Prefilled(n, d)
}

// savePays is how many times the time of a save computing must take for the save
// to be made while a request waits.
const savePays = 8

// worthSaving reports whether a state of n tokens is worth a wait, of which
// fresh would have to be computed again. What is not measured is tried.
func (s *speeds) worthSaving(n, fresh kv.Tokens) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rates.Prefill <= 0 || s.save.Prefill <= 0 {
		return true
	}
	return savePays*float64(n)/s.save.Prefill <= float64(fresh)/s.rates.Prefill
}
