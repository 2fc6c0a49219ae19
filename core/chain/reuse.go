package chain

import (
	"net/http"
	"strconv"
	"time"

	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// call is what a local engine's sender may know of this exchange, and where its
// receipt goes. The first of a reply's rounds tells what was restored; the later
// ones find it in the engine.
func (x *Exchange) call() upstream.Call {
	call := x.caller()
	call.Report = func(r usage.Receipt) {
		if x.done.Receipt == nil {
			x.done.Receipt = &r
		}
	}
	return call
}

// caller names the conversation of a call that reports nothing.
func (x *Exchange) caller() (call upstream.Call) {
	if x.next == nil {
		return call
	}
	h := &x.next.Head
	call.Conversation, call.Branch = h.Ledger, strconv.Itoa(h.Branch)
	if h.CreatedAt > 0 {
		call.Since = time.UnixMilli(h.CreatedAt)
	}
	return call
}

// warm has a local engine compute the prompt that a fold has changed, while the
// client is busy with its own part of the turn: the next request then finds it.
func (c *Chain) warm(x *Exchange) {
	if len(x.folded) == 0 || !x.committed || x.done.Status != http.StatusOK {
		return
	}
	w := c.upstream.Warmer(&x.target)
	if w == nil {
		return
	}
	body, err := c.nextBody(x, nil)
	if err != nil {
		c.log.Warn("the prompt after a fold could not be rendered ahead", "turn", x.id, "err", err)
		return
	}
	w.Warm(x.caller(), x.target.URL.Path, body)
}
