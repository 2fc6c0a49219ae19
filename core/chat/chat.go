// Package chat is the protocol-neutral model of a conversation: elements and
// the cores they are made of, and the one definition of when two are equal.
//
// A Message is one element of the client's inbound list; a Part is one core.
// A Message keeps the client's exact bytes: parts are a reading of them, never
// a replacement. Nothing here knows JSON or a wire.
package chat

import (
	"strings"

	"holdfast/core/content"
)

// Role is who speaks, in the wire's own spelling. Unknown roles pass through.
type Role string

// The roles the chain itself looks at.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Kind says what a core is.
type Kind string

// The kinds of core. Opaque is any part the codec does not know: it passes
// whole. Empty stands for an element without parts; it is never an anchor.
const (
	Text       Kind = "text"
	ToolCall   Kind = "tool_call"
	ToolResult Kind = "tool_result"
	Reasoning  Kind = "reasoning"
	Media      Kind = "media"
	Opaque     Kind = "opaque"
	Empty      Kind = "empty"
)

// Span is a half-open range of byte offsets.
type Span struct{ Start, End int }

// Len is the number of bytes in s.
func (s Span) Len() int { return s.End - s.Start }

// Of returns the bytes of b that s covers.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End:s.End] }

// Part is one core.
type Part struct {
	Kind Kind
	// Role is the element's role, except that a result has the role tool on
	// every wire.
	Role Role
	// CallID pairs a call with its result. Empty where the wire has none or the
	// client invents it.
	CallID string
	// Tool is the called tool's name; empty on results, on every wire.
	Tool string
	// Text is the decoded text, the canonical tool arguments (sorted keys,
	// numbers as decimal text; invalid JSON as it came), or for opaque and media
	// cores the canonical JSON of the block without cache markers.
	Text string
	// Canon is the bare canonical id, 16 bytes; set by Seal.
	Canon CanonID
}

// Message is one decoded element.
type Message struct {
	// Raw is the client's bytes, a slice of the inbound body.
	Raw []byte
	// Stripped is Raw without cache markers: the form that is stored. It is the
	// same slice as Raw when there are none.
	Stripped []byte
	Role     Role
	// Type is the wire's own type of the element, where it has one.
	Type  string
	Parts []Part
	// Media are the base64 payloads of at least MediaMin bytes inside Stripped,
	// in order; the quotes are outside. They are stored by hash.
	Media []Span
	// RawMedia are the same payloads inside Raw.
	RawMedia []Span
	// Key names the element; equal keys are equal elements. Set by Seal.
	Key content.ID
}

// MediaMin is the shortest base64 payload that leaves its element: below it
// the bookkeeping costs more than the bytes.
const MediaMin = 1 << 10

// Seal computes the canonical id of each part and the key of m.
func (m *Message) Seal() {
	for i := range m.Parts {
		m.Parts[i].Canon = m.Parts[i].canon()
	}
	m.Key = KeyOf(m.Parts)
}

// FirstText returns the first text of m that its author wrote, for titles. Where
// there is none, own is false and the text is the first that a host wrapped in
// a tag of its own, such as a reminder or a description of its surroundings.
func (m *Message) FirstText() (text string, own bool) {
	for _, p := range m.Parts {
		switch {
		case p.Kind != Text || p.Text == "":
		case !wrapped(p.Text):
			return p.Text, true
		case text == "":
			text = p.Text
		}
	}
	return text, false
}

// wrapped reports whether a text is one element from its first tag, which may
// have no attributes, to its last.
func wrapped(text string) bool {
	text = strings.TrimSpace(text)
	name, _, found := strings.Cut(text, ">")
	if !found || len(name) < 2 || name[0] != '<' || strings.ContainsAny(name, " \n/") {
		return false
	}
	return strings.HasSuffix(text, "</"+name[1:]+">")
}
