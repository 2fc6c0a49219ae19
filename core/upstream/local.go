package upstream

import (
	"context"
	"net/http"
	"time"

	"holdfast/core/usage"
)

// A Sender carries requests of one route in its own way: a route whose upstream
// is a local engine. It gets the request as the transport would.
type Sender = http.RoundTripper

// Route lets senders take over routes: sender is asked by name for every request
// and answers nil for those that travel as usual. It is called before the first
// request.
func (c *Client) Route(sender func(route string) Sender) { c.sender = sender }

// A Warmer is a sender that can compute a prompt before it is asked for.
type Warmer interface {
	// Warm computes the prompt of a body that the path would be called with, when
	// nobody else wants the engine. Nothing is reported to the call. It does not
	// wait.
	Warm(call Call, path string, body []byte)
}

// Warmer is the warmer behind a target, nil for an upstream that is not ours to
// keep busy.
func (c *Client) Warmer(t *Target) Warmer {
	if t.Guarded {
		return nil
	}
	w, _ := c.sender(t.Route).(Warmer)
	return w
}

// A Gauge is a sender that measures how fast it computes; a rate of 0 was not
// measured yet.
type Gauge interface{ Rates() usage.Rates }

// Rates are the measured speeds behind a target, zero where nothing measures.
func (c *Client) Rates(t *Target) usage.Rates {
	if t.Guarded {
		return usage.Rates{}
	}
	if g, ok := c.sender(t.Route).(Gauge); ok {
		return g.Rates()
	}
	return usage.Rates{}
}

// Call is what a sender may know of a model call, and what it tells in return.
type Call struct {
	// Conversation and Branch name what the request belongs to, "" for nothing.
	Conversation, Branch string
	// Since is when the conversation began, zero for nothing.
	Since time.Time
	// Report takes the receipt, at most once, before the reply's body ends.
	Report func(usage.Receipt)
}

type callKey struct{}

// WithCall hands a call to the sender of its request.
func WithCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallOf is the call a request was made for; the zero Call reports to nobody.
func CallOf(ctx context.Context) Call {
	call, _ := ctx.Value(callKey{}).(Call)
	if call.Report == nil {
		call.Report = func(usage.Receipt) {}
	}
	return call
}
