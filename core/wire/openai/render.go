package openai

import "holdfast/core/wire"

// Render gives what leaves for a view.
func (Codec) Render(b *wire.Body, view []wire.Slot, add wire.Additions) (wire.Outgoing, error) {
	return wire.Render(pen{}, b, view, add)
}

// Unthink leaves the thinking of an assistant message out.
func (Codec) Unthink(assistant []byte) (rest []byte, ok bool) { return assistant, true }

// pen writes messages.
type pen struct{}
