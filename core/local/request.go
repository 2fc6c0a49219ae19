package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
)

// What of an Anthropic request has a meaning for a local engine. The rest
// (metadata, cache markers, service tiers) is about somebody else's servers.
type (
	messagesRequest struct {
		Model         string          `json:"model"`
		MaxTokens     int64           `json:"max_tokens"`
		System        json.RawMessage `json:"system"`
		Messages      []inMessage     `json:"messages"`
		Tools         []inTool        `json:"tools"`
		ToolChoice    *inChoice       `json:"tool_choice"`
		StopSequences []string        `json:"stop_sequences"`
		Temperature   *float64        `json:"temperature"`
		TopP          *float64        `json:"top_p"`
		TopK          *int64          `json:"top_k"`
		Stream        bool            `json:"stream"`
		Thinking      *struct {
			Type string `json:"type"`
		} `json:"thinking"`
		Output *struct {
			Format *struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	inMessage struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	inTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	inChoice struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		OneAtAll bool   `json:"disable_parallel_tool_use"`
	}
	inBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
	}
)

// The request as the engine gets it. The order of the fields is the order of
// the bytes: what stays the same stands in front of what grows.
type (
	chatRequest struct {
		Model          string         `json:"model,omitempty"`
		Tools          []chatTool     `json:"tools,omitempty"`
		ToolChoice     any            `json:"tool_choice,omitempty"`
		Parallel       *bool          `json:"parallel_tool_calls,omitempty"`
		TemplateArgs   map[string]any `json:"chat_template_kwargs,omitempty"`
		ResponseFormat any            `json:"response_format,omitempty"`
		MaxTokens      int64          `json:"max_tokens"`
		Temperature    *float64       `json:"temperature,omitempty"`
		TopP           *float64       `json:"top_p,omitempty"`
		TopK           *int64         `json:"top_k,omitempty"`
		Stop           []string       `json:"stop,omitempty"`
		Stream         bool           `json:"stream,omitempty"`
		StreamOptions  any            `json:"stream_options,omitempty"`
		Messages       []chatMessage  `json:"messages"`
	}
	chatTool struct {
		Type     string       `json:"type"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"`
		Reasoning  string     `json:"reasoning_content,omitempty"`
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	chatCall struct {
		ID       string         `json:"id"`
		Type     string         `json:"type"`
		Function chatInvocation `json:"function"`
	}
	chatInvocation struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

// unfit is a request that a local engine cannot take; its text is for a person.
type unfit struct{ what string }

func (u unfit) Error() string { return u.what }

func unfitf(format string, args ...any) error { return unfit{fmt.Sprintf(format, args...)} }

// toChat turns an Anthropic request into a chat request that asks the same.
func toChat(body []byte) (chat []byte, stream bool, err error) {
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, false, unfitf("the request is not a Messages request: %v", err)
	}
	out := chatRequest{Model: in.Model, MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, TopK: in.TopK,
		Stop: in.StopSequences, Stream: in.Stream}
	if in.Stream {
		out.StreamOptions = map[string]bool{"include_usage": true}
	}
	if in.Thinking != nil && in.Thinking.Type == "disabled" {
		out.TemplateArgs = map[string]any{"enable_thinking": false}
	}
	if in.Output != nil && in.Output.Format != nil && len(in.Output.Format.Schema) > 0 {
		out.ResponseFormat = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "output", "schema": in.Output.Format.Schema}}
	}
	if err := errors.Join(out.system(in.System), out.tools(in.Tools, in.ToolChoice)); err != nil {
		return nil, false, err
	}
	for i, m := range in.Messages {
		if err := out.message(m); err != nil {
			return nil, false, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	chat, err = marshal(out)
	return chat, in.Stream, err
}

// marshal writes JSON as small as it gets, without escaping what HTML would
// need: the engine renders the text as it stands.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// system puts the system text in front, without a client's billing line: it
// changes with every request, means nothing here, and would leave no prefix.
func (c *chatRequest) system(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if rest, found := (anthropic.Codec{}).BillingLine(raw); found {
		raw = rest
	}
	text, err := plainText(raw)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	if text != "" {
		c.Messages = append(c.Messages, chatMessage{Role: "system", Content: &text})
	}
	return nil
}

// plainText reads content that may hold text only.
func plainText(raw json.RawMessage) (string, error) {
	blocks, err := blocksOf(raw)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		default:
			return "", refuse(b.Type)
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

func blocksOf(raw json.RawMessage) ([]inBlock, error) {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		return []inBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []inBlock
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, unfitf("content is neither text nor a list of blocks")
	}
	return blocks, nil
}

// refuse names what cannot be sent to a local engine, and what to do.
func refuse(kind string) error {
	switch kind {
	case "image", "document":
		return unfitf("%ss cannot be sent to this local engine through the KV tier; remove the %s, or send the request to another route", kind, kind)
	}
	return unfitf("content of type %q cannot be sent to a local engine", kind)
}

func (c *chatRequest) tools(tools []inTool, choice *inChoice) error {
	for _, t := range tools {
		if t.Type != "" && t.Type != "custom" {
			return unfitf("tool %q runs on Anthropic's servers and is not there on a local engine; turn it off for this route", t.Type)
		}
		c.Tools = append(c.Tools, chatTool{"function", chatFunction{t.Name, t.Description, t.InputSchema}})
	}
	if len(tools) == 0 {
		return nil
	}
	parallel := choice == nil || !choice.OneAtAll
	c.Parallel = &parallel
	if choice == nil {
		return nil
	}
	switch choice.Type {
	case "auto", "none":
		c.ToolChoice = choice.Type
	case "any":
		c.ToolChoice = "required"
	case "tool":
		c.ToolChoice = map[string]any{"type": "function", "function": map[string]string{"name": choice.Name}}
	default:
		return unfitf("tool_choice %q is not known", choice.Type)
	}
	return nil
}

// message adds one message. Results become messages of their own, in front of
// what the user says beside them.
func (c *chatRequest) message(m inMessage) error {
	blocks, err := blocksOf(m.Content)
	if err != nil {
		return err
	}
	if m.Role == "assistant" {
		return c.assistant(blocks)
	}
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "tool_result":
			if err := c.result(b); err != nil {
				return err
			}
		default:
			return refuse(b.Type)
		}
	}
	if len(texts) > 0 {
		text := strings.Join(texts, "\n\n")
		c.Messages = append(c.Messages, chatMessage{Role: m.Role, Content: &text})
	}
	return nil
}

func (c *chatRequest) result(b inBlock) error {
	text, err := plainText(b.Content)
	if err != nil {
		return fmt.Errorf("tool_result: %w", err)
	}
	if b.IsError {
		text = "Error: " + text
	}
	c.Messages = append(c.Messages, chatMessage{Role: "tool", Content: &text, ToolCallID: b.ToolUseID})
	return nil
}

func (c *chatRequest) assistant(blocks []inBlock) error {
	m := chatMessage{Role: "assistant"}
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "thinking":
			m.Reasoning += b.Thinking
		case "redacted_thinking": // readable by its maker only
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, chatCall{b.ID, "function", chatInvocation{b.Name, arguments(b.Input)}})
		default:
			return refuse(b.Type)
		}
	}
	if text := strings.Join(texts, ""); text != "" || len(m.ToolCalls) == 0 {
		m.Content = &text
	}
	c.Messages = append(c.Messages, m)
	return nil
}

// arguments are a call's input as the string chat wants.
func arguments(input json.RawMessage) string {
	if v := wire.ValueOf(input); !v.Is('{') {
		return "{}"
	}
	return string(input)
}
