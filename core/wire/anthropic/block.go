package anthropic

import (
	"holdfast/core/chat"
	"holdfast/core/wire"
)

// reader reads the content of one message into a draft.
type reader struct {
	d    *wire.Draft
	role chat.Role
}

// content takes a string for one text block.
func (r reader) content(v wire.Value) error {
	if v.Is('"') {
		text, err := v.Text()
		r.d.Add(chat.Part{Kind: chat.Text, Role: r.role, Text: text})
		return err
	}
	blocks, err := v.List()
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if err := r.block(b); err != nil {
			return err
		}
	}
	return nil
}

// block reads one block. What is no object, or has no type that is a string,
// is as opaque as an unknown type.
func (r reader) block(v wire.Value) error {
	if !v.Is('{') {
		r.d.AddBlock(r.role, chat.Opaque, v)
		return nil
	}
	block, err := v.Object()
	if err != nil {
		return err
	}
	r.d.Unmark(block)
	switch block.Get("type").Str() {
	case "text":
		return r.text(block, "text", chat.Text)
	case "thinking":
		return r.text(block, "thinking", chat.Reasoning)
	case "redacted_thinking":
		return r.text(block, "data", chat.Reasoning)
	case "tool_use":
		return r.call(block)
	case "tool_result":
		return r.result(block)
	case "image", "document":
		r.d.AddBlock(r.role, chat.Media, v)
		r.payload(block)
	default:
		r.d.AddBlock(r.role, chat.Opaque, v)
	}
	return nil
}

func (r reader) text(block wire.Object, member string, kind chat.Kind) error {
	text, err := block.Get(member).Text()
	r.d.Add(chat.Part{Kind: kind, Role: r.role, Text: text})
	return err
}

func (r reader) call(block wire.Object) error {
	id, err := block.Get("id").Text()
	if err != nil {
		return err
	}
	name, err := block.Get("name").Text()
	r.d.Add(chat.Part{
		Kind: chat.ToolCall, Role: r.role, CallID: id, Tool: name,
		Text: block.Get("input").Arguments(),
	})
	return err
}

func (r reader) result(block wire.Object) error {
	id, err := block.Get("tool_use_id").Text()
	if err != nil {
		return err
	}
	failed, err := block.Get("is_error").Bool()
	if err != nil {
		return err
	}
	texts, err := r.resultTexts(block.Get("content"))
	r.d.Add(chat.Part{
		Kind: chat.ToolResult, Role: chat.Tool, CallID: id,
		Text: wire.ResultText(failed, texts),
	})
	return err
}

// resultTexts are the texts of a result's content; a block that is not text
// stands as its canonical JSON.
func (r reader) resultTexts(v wire.Value) ([]string, error) {
	if !v.Is('[') {
		text, err := v.Text()
		return []string{text}, err
	}
	blocks, err := v.List()
	if err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		block := b.Obj()
		r.d.Unmark(block)
		if block.Get("type").Str() == "text" {
			text, err := block.Get("text").Text()
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
			continue
		}
		r.payload(block)
		texts = append(texts, b.BlockText())
	}
	return texts, nil
}

// payload notes the base64 source of an image or document.
func (r reader) payload(block wire.Object) {
	source := block.Get("source").Obj()
	if source.Get("type").Str() == "base64" {
		r.d.Payload(source.Get("data"))
	}
}
