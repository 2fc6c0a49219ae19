package openai

import (
	"slices"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Render gives what leaves for a view.
func (Codec) Render(b *wire.Body, view []wire.Slot, add wire.Additions) (wire.Outgoing, error) {
	return wire.Render(pen{}, b, view, add)
}

// pen writes messages.
type pen struct{}

func says(role chat.Role, text string) []byte {
	return slices.Concat([]byte(`{"role":"`+role+`","content":`), wire.Quote(text), []byte(`}`))
}

// User is a user message.
func (pen) User(text string) []byte { return says(chat.User, text) }

// Append adds to the end of a message: to its text, or as one more part.
func (pen) Append(elem []byte, text string) []byte {
	message := wire.ValueOf(elem).Obj()
	content := message.Get("content")
	switch {
	case content.Is('"'):
		return wire.Apply(elem, wire.Lengthen(content, text))
	case content.Is('['):
		parts, _ := content.List()
		return wire.Apply(elem, wire.Insert(content, parts, len(parts), textPart(text)))
	}
	return message.Set("content", wire.Quote(text))
}

// Prepend adds to the head of a message.
func (pen) Prepend(user []byte, text string) []byte {
	message := wire.ValueOf(user).Obj()
	content := message.Get("content")
	switch {
	case content.Is('"'):
		return wire.Apply(user, wire.Preface(content, text))
	case content.Is('['):
		parts, _ := content.List()
		return wire.Apply(user, wire.Insert(content, parts, 0, textPart(text)))
	}
	return message.Set("content", wire.Quote(text))
}

// Merge is the first message saying what the second says as well: two texts are
// one, anything else is a list of parts.
func (pen) Merge(first, second []byte) []byte {
	message := wire.ValueOf(first).Obj()
	one, two := message.Get("content"), wire.ValueOf(second).Obj().Get("content")
	switch {
	case two.Absent():
		return first
	case one.Absent():
		return message.Set("content", two.Bytes())
	case one.Is('"') && two.Is('"'):
		return message.Set("content", slices.Concat(one.Bytes()[:one.Len()-1], []byte(`\n\n`), two.Bytes()[1:]))
	}
	return message.Set("content", wire.JoinList(slices.Concat(partsOf(one), partsOf(two))))
}

func partsOf(content wire.Value) (parts [][]byte) {
	if content.Is('"') {
		return [][]byte{asPart(content.Bytes())}
	}
	list, _ := content.List()
	for _, p := range list {
		parts = append(parts, p.Bytes())
	}
	return parts
}

func textPart(text string) []byte { return asPart(wire.Quote(text)) }

// asPart is the text part of a quoted string.
func asPart(quoted []byte) []byte {
	return slices.Concat([]byte(`{"type":"text","text":`), quoted, []byte(`}`))
}

// Answer is a tool message for each result. The wire has no word for a failed
// one; the text says it.
func (pen) Answer(results []wire.Result) [][]byte {
	out := make([][]byte, len(results))
	for i, r := range results {
		out[i] = slices.Concat([]byte(`{"role":"tool","tool_call_id":`), wire.Quote(r.CallID),
			[]byte(`,"content":`), wire.Quote(r.Text), []byte(`}`))
	}
	return out
}

// Join refuses: results are messages here, and stand beside the client's.
func (pen) Join([]byte, []wire.Result) (joined []byte, ok bool) { return nil, false }

// Shorten shortens the one result that a tool message is.
func (pen) Shorten(raw []byte, overlays []wire.Overlay) ([]byte, error) {
	message := wire.ValueOf(raw).Obj()
	if !isResult(message) || overlays[0].Core != 0 || len(overlays) > 1 {
		return nil, wire.ErrSlot
	}
	return wire.Apply(raw, wire.ShortenResult(message.Get("content"), overlays[0].Shorten)...), nil
}

func isResult(message wire.Object) bool {
	role := message.Get("role").Str()
	return role == string(chat.Tool) || role == roleFunction
}

// Instruct lengthens the last leading system message that says anything, else
// the first; without any it puts one in front.
func (pen) Instruct(l *wire.Layout, paragraph string) {
	at := -1
	for i := range l.Len() {
		if role := l.Role(i); role != chat.System && role != chat.Developer {
			break
		}
		if at < 0 || hasText(l.Raw(i)) {
			at = i
		}
	}
	if at < 0 {
		l.Lead(says(chat.System, paragraph))
		return
	}
	l.Change(at, lengthen(l.Raw(at), paragraph))
}

func hasText(raw []byte) bool {
	_, ok := lastText(wire.ValueOf(raw).Obj().Get("content"))
	return ok
}

// lastText is the last text in a message's content that says anything.
func lastText(content wire.Value) (wire.Value, bool) {
	if content.Is('"') {
		return content, content.Str() != ""
	}
	parts, _ := content.List()
	for _, p := range slices.Backward(parts) {
		if text := p.Obj().Get("text"); text.Str() != "" {
			return text, true
		}
	}
	return wire.Value{}, false
}

// lengthen adds to the last text of a message, or gives it one.
func lengthen(raw []byte, text string) []byte {
	if last, ok := lastText(wire.ValueOf(raw).Obj().Get("content")); ok {
		return wire.Apply(raw, wire.Lengthen(last, text))
	}
	return pen{}.Append(raw, text)
}

// Remind adds a user message behind one of the user's; behind a result there is
// no room for one, so the result is lengthened.
func (p pen) Remind(l *wire.Layout, last int, nudge string) {
	if l.Role(last) == chat.User {
		l.Add(p.User(nudge))
		return
	}
	l.Change(last, p.Append(l.Raw(last), nudge))
}

// Unthink leaves the reasoning of an assistant message out, in whatever member
// it stands.
func (Codec) Unthink(assistant []byte) (rest []byte, ok bool) {
	rest = assistant
	for _, member := range reasoningMembers() {
		rest = wire.ValueOf(rest).Obj().Without(member)
	}
	message := wire.ValueOf(rest).Obj()
	_, said := lastText(message.Get("content"))
	calls, _ := message.Get("tool_calls").List()
	return rest, said || len(calls) > 0 || !message.Get("function_call").Absent()
}

func reasoningMembers() []string {
	return []string{"reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "reasoning_opaque"}
}
