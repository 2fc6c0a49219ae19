package chain

import (
	"context"
	"sync"
	"time"

	"holdfast/core/fold"
	"holdfast/core/usage"
)

// A fold pays over the turns still to come. How many that will be is known from
// how long the host's past sessions went on.

// overAfter is how long a session has been silent before it counts as past, and
// lengthsLast how long its length is taken from memory.
const (
	overAfter   = time.Hour
	lengthsLast = 10 * time.Minute
)

// horizon remembers the lengths of past sessions by host signal, of which there
// are few.
type horizon struct {
	mu sync.Mutex
	of map[string]pastLengths
}

type pastLengths struct {
	at    time.Time
	turns []int
}

// lengths are those of a host's past sessions, newest first. What cannot be read
// is no history.
func (c *Chain) lengths(signal string) []int {
	h, now := &c.horizon, c.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.of[signal]; ok && now.Sub(known.at) < lengthsLast {
		return known.turns
	}
	turns, err := c.ledger.Lengths(context.Background(), signal, now.Add(-overAfter).UnixMilli())
	if err != nil {
		c.log.Warn("the lengths of past sessions cannot be read", "signal", signal, "err", err)
	}
	if h.of == nil {
		h.of = map[string]pastLengths{}
	}
	h.of[signal] = pastLengths{now, turns}
	return turns
}

// terms are what folding is reckoned with: the list prices of the model, or of
// a local engine without one its time; a wrong price is worse than none.
func (c *Chain) terms(x *Exchange, rhythm *fold.Rhythm) usage.Terms {
	p, ok := usage.PriceOf(x.frame.Model)
	t := usage.Terms{Price: p, Priced: ok, Turns: usage.RemainingTurns(c.lengths(x.key.Signal), int(rhythm.Turns))}
	if !ok && x.cfg.Routes[x.target.Route].Engine != "" {
		t.Local = c.upstream.Rates(&x.target).Filled()
	}
	return t
}
