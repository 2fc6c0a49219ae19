// Package wire cuts request bodies into frame and elements, puts views
// together again byte for byte, and names the families of model APIs.
//
// The splice is the product's promise in code: an element the view keeps
// leaves as the very bytes it came in. A body is never marshalled again from a
// parsed form. Codecs (one subpackage each) read elements, and write only what
// Holdfast itself adds.
package wire

import (
	"errors"

	"holdfast/core/chat"
)

// Family is one of the four model APIs.
type Family string

// The families, named as in config and JSON.
const (
	Anthropic Family = "anthropic"
	OpenAI    Family = "openai" // Chat Completions
	Responses Family = "responses"
	Google    Family = "google"
)

// Errors a body can be refused with. Every one of them means: the body goes
// out verbatim, with a degrade row.
var (
	// ErrNotJSON: the bytes are not one JSON value.
	ErrNotJSON = errors.New("wire: body is not JSON")
	// ErrShape: JSON, but not this family's shape (no list of elements, a field
	// of the wrong type).
	ErrShape = errors.New("wire: body has an unknown shape")
	// ErrDuplicateKey: a key stands twice at top level or inside an element, so
	// readers may disagree on what it says.
	ErrDuplicateKey = errors.New("wire: body has a duplicate key")
	// ErrTooDeep: nesting passes MaxDepth.
	ErrTooDeep = errors.New("wire: body is nested too deep")
)

// MaxDepth is the deepest nesting that is read; encoding/json stops at the
// same depth, no client comes near it.
const MaxDepth = 10000

// MaxElements and MaxFields bound what a body is cut into; past them it is
// ErrShape. A window of a million tokens holds no more elements that say
// anything, and without a bound 40 MB of zeros take gigabytes of bookkeeping.
const (
	MaxElements = 1 << 16
	MaxFields   = 1 << 12
)

// Frame is what a codec reads from the top-level fields. It decides how a
// request is treated; it is never written back.
type Frame struct {
	Model  string
	Stream bool
	// Tools says that the request offers tools in any form.
	Tools bool
	// ToolNames in the order they are offered, for the change report.
	ToolNames []string
	// Choice is the request's tool_choice.
	Choice ToolChoice
	// OldTools says that tools are offered as functions alone, the form before
	// tools. Ours cannot stand beside them, so such a session is not armed.
	OldTools bool
	// MaxOutput is the requested output limit in tokens; 0 when absent.
	MaxOutput int64
	// JSONFormat says the reply must be JSON (response_format, output_config).
	JSONFormat bool
	// SessionHint is the session id that metadata.user_id holds when it parses
	// to JSON with a session_id; empty otherwise.
	SessionHint string
	// IncludeUsage says whether a chat stream was asked to report usage.
	IncludeUsage bool
	// System is the frame's system text field, decoded, for the change report
	// and for window estimates; empty where system is an element.
	System string
}

// Counts are token counts as the upstream reported them, in its own classes:
// Input excludes Cached and CacheWrite on every wire (codecs subtract where the
// wire's total includes them).
type Counts struct {
	Input, Cached, CacheWrite, Output int64
	// Seen is false until the upstream reported anything.
	Seen bool
}

// ReplyInfo is what a reader knows of a reply so far.
type ReplyInfo struct {
	Model      string
	ResponseID string
	StopReason string
	Counts     Counts
	// Terminal is set when the wire's last meaningful event has passed
	// (message_stop or message_delta with a stop reason, [DONE] or finish_reason
	// plus usage when asked for). A client may close its socket from here on
	// without that being a cancel.
	Terminal bool
	// Err is the wire's own error type of an error event or error body.
	Err string
}

// Reply reads a decoded response body as it passes. It never alters it, never
// fails and keeps no more than one event in memory (bounded; past the bound it
// stops reading).
type Reply interface {
	Write(p []byte) (int, error)
	// Info may be called at any time; after the last Write it is final.
	Info() ReplyInfo
}

// Codec reads one family. Implementations are stateless values.
type Codec interface {
	Family() Family
	// List is the top-level key that holds the elements.
	List() string
	// Frame reads the top-level fields. It errs with ErrShape only.
	Frame(b *Body) (Frame, error)
	// Element strictly decodes one element; the result is sealed and its Raw is
	// raw. Unknown roles, types, parts and fields pass as opaque. It errs with
	// ErrNotJSON, ErrShape, ErrDuplicateKey or ErrTooDeep.
	Element(raw []byte) (chat.Message, error)
	// Reply starts reading a response; stream says whether it is an event stream.
	Reply(stream bool) Reply
	// BillingLine cuts a client's per-request billing line (a changing comment at
	// the head of system) from a system field's raw JSON, for comparison only.
	BillingLine(system []byte) (rest []byte, found bool)
	Renderer
}
