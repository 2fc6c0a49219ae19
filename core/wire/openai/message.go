package openai

import (
	"bytes"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// reader reads one message into a draft. Cores stand in a fixed order, whatever
// the order of the members: reasoning, content, refusal, calls, the rest.
type reader struct {
	d    *wire.Draft
	role chat.Role
}

// roleFunction is the role of a result in the oldest form of calling.
const roleFunction = "function"

// parsed is what a client library's stream helper leaves in a message it gives
// back: the content once more, as values.
const parsed = "parsed"

func (r reader) message() error {
	if r.role == chat.Tool || r.role == roleFunction {
		return r.result()
	}
	for _, read := range []func() error{r.reasoning, r.content, r.refusal, r.calls, r.legacyCall} {
		if err := read(); err != nil {
			return err
		}
	}
	r.d.AddRest(r.role, "role", "content", "refusal", "tool_calls", "function_call",
		"reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "reasoning_opaque",
		parsed, "parsed_arguments", wire.CacheMarker)
	return nil
}

// result leaves the tool's name out: other wires have none on results.
func (r reader) result() error {
	id, err := r.d.Get("tool_call_id").Text()
	if err != nil {
		return err
	}
	texts, err := r.resultTexts(r.d.Get("content"))
	r.d.Add(chat.Part{
		Kind: chat.ToolResult, Role: chat.Tool, CallID: id,
		Text: wire.ResultText(false, texts),
	})
	r.d.AddRest(r.role, "role", "content", "tool_call_id", "name", parsed, wire.CacheMarker)
	return err
}

func (r reader) resultTexts(v wire.Value) ([]string, error) {
	if !v.Is('[') {
		text, err := v.Text()
		return []string{text}, err
	}
	parts, err := v.List()
	if err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		part := p.Obj()
		r.d.Unmark(part)
		if part.Get("type").Str() == "text" {
			text, err := part.Get("text").Text()
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
			continue
		}
		r.payload(part)
		texts = append(texts, p.BlockText())
	}
	return texts, nil
}

// reasoning is one core, read from the first member that has it: servers that
// send several say the same in each.
func (r reader) reasoning() error {
	for _, member := range []string{"reasoning_content", "reasoning", "reasoning_text"} {
		text, err := r.d.Get(member).Text()
		if err != nil {
			return err
		}
		if text != "" {
			r.d.Add(chat.Part{Kind: chat.Reasoning, Role: r.role, Text: text})
			return nil
		}
	}
	details, err := r.d.Get("reasoning_details").List()
	if err != nil || len(details) == 0 {
		return err
	}
	var text strings.Builder
	for _, v := range details {
		detail := v.Obj()
		for _, member := range []string{"text", "summary", "data"} {
			text.WriteString(detail.Get(member).Str())
		}
	}
	r.d.Add(chat.Part{Kind: chat.Reasoning, Role: r.role, Text: text.String()})
	return nil
}

// content takes a string for one text part.
func (r reader) content() error {
	v := r.d.Get("content")
	if v.Is('"') {
		text, err := v.Text()
		r.d.Add(chat.Part{Kind: chat.Text, Role: r.role, Text: text})
		return err
	}
	parts, err := v.List()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := r.part(p); err != nil {
			return err
		}
	}
	return nil
}

// part reads one content part. What is no object, or has no type that is a
// string, is as opaque as an unknown type.
func (r reader) part(v wire.Value) error {
	part := wire.Object{}
	if v.Is('{') {
		part = v.Obj()
		r.d.Unmark(part)
	}
	switch part.Get("type").Str() {
	case "text":
		text, err := part.Get("text").Text()
		r.d.Add(chat.Part{Kind: chat.Text, Role: r.role, Text: text})
		return err
	case "refusal":
		return r.refused(part.Get("refusal"))
	case "image_url", "input_audio", "file":
		r.d.AddBlock(r.role, chat.Media, v)
		r.payload(part)
	default:
		r.d.AddBlock(r.role, chat.Opaque, v)
	}
	return nil
}

// payload notes the base64 text of an image, a sound or a file.
func (r reader) payload(part wire.Object) {
	r.d.Payload(part.Get("input_audio").Obj().Get("data"))
	r.d.Payload(part.Get("file").Obj().Get("file_data"))
	url := part.Get("image_url").Obj().Get("url")
	if bytes.HasPrefix(url.Bytes(), []byte(`"data:`)) {
		r.d.Payload(url)
	}
}

func (r reader) refusal() error { return r.refused(r.d.Get("refusal")) }

// refused is the same core whether the refusal is a part or a member.
func (r reader) refused(v wire.Value) error {
	text, err := v.Text()
	if text != "" {
		r.d.Add(chat.Part{Kind: chat.Opaque, Role: r.role, Text: `{"refusal":` + v.BlockText() + `}`})
	}
	return err
}

func (r reader) calls() error {
	calls, err := r.d.Get("tool_calls").List()
	if err != nil {
		return err
	}
	for _, v := range calls {
		if err := r.call(v); err != nil {
			return err
		}
	}
	return nil
}

// call reads a function call or a custom one, whose input is free text and
// stays as it is.
func (r reader) call(v wire.Value) error {
	call := v.Obj()
	id, err := call.Get("id").Text()
	if err != nil {
		return err
	}
	if custom := call.Get("custom"); custom.Is('{') {
		input, err := custom.Obj().Get("input").Text()
		if err != nil {
			return err
		}
		return r.addCall(id, custom.Obj(), input)
	}
	function := call.Get("function")
	if !function.Is('{') {
		r.d.AddBlock(r.role, chat.Opaque, v)
		return nil
	}
	text, err := arguments(function.Obj())
	if err != nil {
		return err
	}
	return r.addCall(id, function.Obj(), text)
}

func (r reader) legacyCall() error {
	function, err := r.d.Get("function_call").Object()
	if err != nil || len(function.Members) == 0 {
		return err
	}
	text, err := arguments(function)
	if err != nil {
		return err
	}
	return r.addCall("", function, text)
}

func (r reader) addCall(id string, function wire.Object, text string) error {
	name, err := function.Get("name").Text()
	r.d.Add(chat.Part{Kind: chat.ToolCall, Role: r.role, CallID: id, Tool: name, Text: text})
	return err
}

// arguments are a string that holds JSON; some servers send the object itself.
func arguments(function wire.Object) (string, error) {
	v := function.Get("arguments")
	if v.Is('{') {
		return v.Arguments(), nil
	}
	text, err := v.Text()
	return wire.ArgumentText(text), err
}
