package anthropic

import (
	"bytes"
	"slices"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Render gives what leaves for a view.
func (Codec) Render(b *wire.Body, view []wire.Slot, add wire.Additions) (wire.Outgoing, error) {
	return wire.Render(pen{}, b, view, add)
}

// pen writes messages. What we say is always a block of its own: blocks beside
// it keep their bytes and their cache markers.
type pen struct{}

// asBlock is the text block of a quoted string.
func asBlock(quoted []byte) []byte {
	return slices.Concat([]byte(`{"type":"text","text":`), quoted, []byte(`}`))
}

// User is a user message.
func (pen) User(text string) []byte {
	return slices.Concat([]byte(`{"role":"user","content":[`), textBlock(text), []byte(`]}`))
}

// Append adds a block at the end of a message.
func (pen) Append(user []byte, text string) []byte {
	return put(user, atEnd, textBlock(text))
}

// Prepend adds a block in front of what the message says, behind its results.
func (pen) Prepend(user []byte, text string) []byte {
	return put(user, behindResults, textBlock(text))
}

func atEnd(blocks []wire.Value) int { return len(blocks) }

func atHead([]wire.Value) int { return 0 }

func behindResults(blocks []wire.Value) int {
	for i, b := range slices.Backward(blocks) {
		if b.Obj().Get("type").Str() == "tool_result" {
			return i + 1
		}
	}
	return 0
}

// put inserts blocks into a message's content. A string becomes the text block
// it stands for; one that says nothing goes, because a block may not be empty.
func put(raw []byte, place func([]wire.Value) int, blocks ...[]byte) []byte {
	message := wire.ValueOf(raw).Obj()
	content := message.Get("content")
	if content.Is('[') {
		list, _ := content.List()
		return wire.Apply(raw, wire.Insert(content, list, place(list), blocks...))
	}
	if content.Str() == "" {
		return message.Set("content", wire.JoinList(blocks))
	}
	at := place([]wire.Value{content})
	said := asBlock(content.Bytes())
	if at == 0 {
		blocks = append(blocks, said)
	} else {
		blocks = append([][]byte{said}, blocks...)
	}
	return message.Set("content", wire.JoinList(blocks))
}

// Merge is the first message with the blocks of the second behind its own.
func (pen) Merge(first, second []byte) []byte {
	content := wire.ValueOf(second).Obj().Get("content")
	var blocks [][]byte
	if content.Is('[') {
		list, _ := content.List()
		for _, b := range list {
			blocks = append(blocks, b.Bytes())
		}
	} else if content.Str() != "" {
		blocks = [][]byte{asBlock(content.Bytes())}
	}
	if len(blocks) == 0 {
		return first
	}
	return put(first, atEnd, blocks...)
}

// Answer is one user message with all results.
func (pen) Answer(results []wire.Result) [][]byte {
	content := wire.JoinList(resultBlocks(results))
	return [][]byte{slices.Concat([]byte(`{"role":"user","content":`), content, []byte(`}`))}
}

func resultBlocks(results []wire.Result) [][]byte {
	blocks := make([][]byte, len(results))
	for i, r := range results {
		var b bytes.Buffer
		b.WriteString(`{"type":"tool_result","tool_use_id":`)
		b.Write(wire.Quote(r.CallID))
		b.WriteString(`,"content":`)
		b.Write(wire.Quote(r.Text))
		if r.Failed {
			b.WriteString(`,"is_error":true`)
		}
		b.WriteByte('}')
		blocks[i] = b.Bytes()
	}
	return blocks
}

// Join puts results in front of a user message's content: all results of a turn
// have to stand first in the one message after it.
func (pen) Join(next []byte, results []wire.Result) (joined []byte, ok bool) {
	if wire.ValueOf(next).Obj().Get("role").Str() != string(chat.User) {
		return nil, false
	}
	return put(next, atHead, resultBlocks(results)...), true
}

// Shorten shortens results of a message.
func (pen) Shorten(raw []byte, overlays []wire.Overlay) ([]byte, error) {
	blocks, _ := wire.ValueOf(raw).Obj().Get("content").List()
	var edits []wire.Edit
	for _, o := range overlays {
		block, ok := blockOf(blocks, o.Core)
		if !ok || block.Get("type").Str() != "tool_result" {
			return nil, wire.ErrSlot
		}
		edits = append(edits, wire.ShortenResult(block.Get("content"), o.Shorten)...)
	}
	return wire.Apply(raw, edits...), nil
}

// blockOf finds the block that core i was read from: texts that say nothing
// make no core beside others.
func blockOf(blocks []wire.Value, i int) (wire.Object, bool) {
	for _, v := range blocks {
		block := v.Obj()
		if block.Get("type").Str() == "text" && block.Get("text").Str() == "" {
			continue
		}
		if i == 0 {
			return block, true
		}
		i--
	}
	return wire.Object{}, false
}

// Instruct lengthens the last text of the system field, or makes the field.
func (pen) Instruct(l *wire.Layout, paragraph string) {
	system := l.Body.Get("system")
	switch {
	case system.Is('"'):
		l.Edit(wire.Lengthen(system, paragraph))
	case system.Is('['):
		l.Edit(instructBlocks(system, paragraph))
	default:
		l.Edit(l.Body.Set("system", wire.Quote(paragraph)))
	}
}

// instructBlocks leaves a client's billing line alone: it is no text for the
// model.
func instructBlocks(system wire.Value, paragraph string) wire.Edit {
	blocks, _ := system.List()
	for _, v := range slices.Backward(blocks) {
		text := v.Obj().Get("text")
		if said := text.Str(); said != "" && !strings.HasPrefix(said, billing) {
			return wire.Lengthen(text, paragraph)
		}
	}
	return wire.Insert(system, blocks, len(blocks), textBlock(paragraph))
}

// Remind adds a block.
func (p pen) Remind(l *wire.Layout, last int, nudge string) {
	l.Change(last, p.Append(l.Raw(last), nudge))
}

// Unthink leaves the thinking of an assistant message out.
func (Codec) Unthink(assistant []byte) (rest []byte, ok bool) {
	content := wire.ValueOf(assistant).Obj().Get("content")
	blocks, _ := content.List()
	kept := make([][]byte, 0, len(blocks))
	for _, v := range blocks {
		if kind := v.Obj().Get("type").Str(); kind != "thinking" && kind != "redacted_thinking" {
			kept = append(kept, v.Bytes())
		}
	}
	switch {
	case len(kept) == len(blocks):
		return assistant, true
	case len(kept) == 0:
		return nil, false
	}
	return wire.Apply(assistant, wire.Edit{Span: content.Span, New: wire.JoinList(kept)}), true
}
