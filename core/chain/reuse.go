package chain

import (
	"strconv"

	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// call is what a local engine's sender may know of this exchange, and where its
// receipt goes. The first of a reply's rounds tells what was restored; the later
// ones find it in the engine.
func (x *Exchange) call() upstream.Call {
	call := upstream.Call{Report: func(r usage.Receipt) {
		if x.done.Receipt == nil {
			x.done.Receipt = &r
		}
	}}
	if x.next != nil {
		call.Conversation, call.Branch = x.next.Head.Ledger, strconv.Itoa(x.next.Head.Branch)
	}
	return call
}
