package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// block is one part of an element as a person reads it, whatever its wire.
type block struct {
	Kind string // text, call, result, reasoning, media, data
	Name string // of a tool
	Text string
}

// part is the union of what the four wires call the parts of an element.
type part struct {
	Type             string
	Text             *string
	Thinking         string
	Name             string
	Input, Arguments json.RawMessage
	Content          json.RawMessage
	Output           json.RawMessage
	Summary          json.RawMessage
	Function         *struct{ Name, Arguments string }
	FunctionCall     *struct {
		Name string
		Args json.RawMessage
	}
	FunctionResponse *struct {
		Name     string
		Response json.RawMessage
	}
	Topic     string // of a fold's body
	Role      string
	Reasoning string            `json:"reasoning_content"`
	ToolCalls []json.RawMessage `json:"tool_calls"`
	Parts     []json.RawMessage
}

// blocksOf reads an element; what it does not know is shown as data, never
// left out.
func blocksOf(raw []byte) []block {
	var p part
	if json.Unmarshal(raw, &p) != nil {
		return []block{{Kind: "data", Text: string(raw)}}
	}
	var out []block
	if p.Role == "" {
		return []block{p.block(raw)}
	}
	if p.Reasoning != "" {
		out = append(out, block{Kind: "reasoning", Text: p.Reasoning})
	}
	for _, b := range list(p.Content) {
		if p.Role == "tool" && b.Kind == "text" {
			b.Kind = "result"
		}
		out = append(out, b)
	}
	for _, sub := range append(p.Parts, p.ToolCalls...) {
		out = append(out, one(sub))
	}
	return out
}

// list reads content that is a text or a list of parts.
func list(raw json.RawMessage) (out []block) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Kind: "text", Text: text}}
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return []block{{Kind: "data", Text: pretty(raw)}}
	}
	for _, p := range parts {
		out = append(out, one(p))
	}
	return out
}

func one(raw json.RawMessage) block {
	var p part
	if json.Unmarshal(raw, &p) != nil {
		return block{Kind: "data", Text: string(raw)}
	}
	return p.block(raw)
}

func (p *part) block(raw []byte) block {
	switch {
	case p.Topic != "" && len(p.Summary) > 0:
		return block{Kind: "text", Text: p.Topic + "\n" + string(unquoted(p.Summary))}
	case p.FunctionCall != nil:
		return block{"call", p.FunctionCall.Name, pretty(p.FunctionCall.Args)}
	case p.FunctionResponse != nil:
		return block{"result", p.FunctionResponse.Name, pretty(p.FunctionResponse.Response)}
	case p.Function != nil:
		return block{"call", p.Function.Name, pretty([]byte(p.Function.Arguments))}
	case p.Text != nil:
		return block{Kind: "text", Text: *p.Text}
	}
	switch p.Type {
	case "tool_use", "server_tool_use":
		return block{"call", p.Name, pretty(p.Input)}
	case "function_call", "custom_tool_call":
		return block{"call", p.Name, pretty(unquoted(p.Arguments))}
	case "tool_result":
		return block{"result", "", joined(list(p.Content))}
	case "function_call_output", "custom_tool_call_output":
		return block{"result", "", joined(list(p.Output))}
	case "thinking":
		return block{Kind: "reasoning", Text: p.Thinking}
	case "reasoning":
		return block{Kind: "reasoning", Text: joined(list(p.Summary))}
	case "image", "image_url", "input_image", "document":
		return block{Kind: "media", Text: fmt.Sprintf("%s, %d bytes of JSON", p.Type, len(raw))}
	}
	return block{Kind: "data", Text: pretty(raw)}
}

// unquoted takes JSON out of the text some wires carry it in.
func unquoted(raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}

func joined(blocks []block) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.Text
	}
	return strings.Join(texts, "\n")
}

// pretty indents JSON; anything else stays as it is.
func pretty(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// previewRunes is how much of a part a row shows before it is opened.
const previewRunes = 260

// preview is the beginning of a part on one line.
func preview(b block) string {
	text := b.Text
	if len(text) > 8*previewRunes { // no need to look at a whole file
		text = text[:8*previewRunes]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if utf8.RuneCountInString(text) > previewRunes {
		text = string([]rune(text)[:previewRunes]) + "…"
	}
	if b.Name != "" {
		text = b.Name + " " + text
	}
	return text
}
