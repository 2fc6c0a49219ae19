package wire

import (
	"encoding/json"
	"errors"
)

// Slot is one place of a view that is to be rendered: a carrier where Carrier
// is set, else the element that Item names, changed as Overlays or Echo say.
type Slot struct {
	Item
	// Carrier is the text that stands in place of folded elements.
	Carrier string
	// Overlays shorten tool results inside the element.
	Overlays []Overlay
	// Echo are the rounds the model really produced where the client knows them
	// as this one merged assistant element. They are rendered in its place; what
	// our tools answered in the last of them goes to the element that follows.
	Echo []Private
}

// Overlay shortens the text of one tool result of an element.
type Overlay struct {
	// Core is the index of the result in the element's parts.
	Core int
	// Shorten gets the result's text without the mark of a failed one.
	Shorten func(text string) string
}

// Private is one round of the model as it really was: what it said, and what
// our tools answered. Calls of the client's tools in it are the client's to
// answer.
type Private struct {
	// Assistant is the reply as a whole element of this wire: Round.Element.
	Assistant []byte
	// Results answer the calls of our own tools in it, in their order.
	Results []Result
}

// Result is the answer of one of our own tools.
type Result struct {
	CallID string
	Text   string
	Failed bool
}

// Additions is all that leaves with a request besides its view. None of it is
// stored as an element. Paragraph and Tools are the same on every turn.
type Additions struct {
	// Paragraph goes to the end of the client's system text.
	Paragraph string
	// Tools go after the client's own, one JSON value each.
	Tools []json.RawMessage
	// Nudge goes to the end of the conversation, before Rounds.
	Nudge string
	// Rounds are the rounds of this turn so far, for the next of them.
	Rounds []Private
	// Strict says that the route takes no neighbours of one role.
	Strict bool
}

// Outgoing is what leaves, as changes to the body that came. It points into
// that body and into what it was made from.
type Outgoing struct {
	Items []Item
	// Edits change the frame. They are in order and outside the list.
	Edits []Edit
	// Nudged says that the nudge found a place.
	Nudged bool
}

// Bytes puts the changes into the body they were made for. Without any the
// result is b.Raw itself.
func (o *Outgoing) Bytes(b *Body) []byte { return Patch(b, o.Items, o.Edits) }

// ErrSlot: a slot asks for what its element cannot hold, such as a shortened
// result where there is no result. Nothing is rendered then.
var ErrSlot = errors.New("wire: the view does not fit its elements")

// Renderer writes what Holdfast adds to the requests of one family. It is pure,
// and all of it is byte splices: what is not named by a slot or an addition
// leaves as it came, and no cache marker is added.
type Renderer interface {
	// Render gives what leaves for a view. The elements of the view must have
	// passed Codec.Element. It errs with ErrSlot only; without overlays it is
	// total. The same arguments give the same bytes, and every element before
	// the first slot that differs, the nudge apart, is rendered as before; on a
	// strict route the last of them may be lengthened.
	Render(b *Body, view []Slot, add Additions) (Outgoing, error)
	// Unthink is an assistant element without reasoning, for upstreams that
	// refuse the reasoning of private rounds; the element itself when it has
	// none. ok is false when nothing would be left.
	Unthink(assistant []byte) (rest []byte, ok bool)
}

// ToolChoice is what a request demands of the model about tools.
type ToolChoice string

// The choices. Only Free lets the model answer a nudge: at every other it is
// useless to ask. Our tools stay in the list at all of them.
const (
	ChoiceFree    ToolChoice = ""        // auto, or nothing said
	ChoiceNone    ToolChoice = "none"    // no tool may be called
	ChoiceAny     ToolChoice = "any"     // some tool must be called
	ChoiceNamed   ToolChoice = "named"   // one named tool must be called
	ChoiceAllowed ToolChoice = "allowed" // only listed tools may be called
)
