package local

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"holdfast/core/engine"
)

// The engine's reply, whole or one chunk of a stream.
type (
	chatReply struct {
		ID       string          `json:"id"`
		Model    string          `json:"model"`
		Choices  []chatChoice    `json:"choices"`
		Usage    *chatUsage      `json:"usage"`
		Timings  *engine.Timings `json:"timings"`
		Progress *progress       `json:"prompt_progress"`
		Error    *chatError      `json:"error"`
	}
	chatChoice struct {
		Finish  string     `json:"finish_reason"`
		Message replyDelta `json:"message"`
		Delta   replyDelta `json:"delta"`
	}
	replyDelta struct {
		Content   string      `json:"content"`
		Reasoning string      `json:"reasoning_content"`
		ToolCalls []replyCall `json:"tool_calls"`
	}
	replyCall struct {
		Index    int            `json:"index"`
		ID       string         `json:"id"`
		Function chatInvocation `json:"function"`
	}
	chatUsage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	// progress is what the engine says between two batches of a prompt.
	progress struct {
		Total     int64 `json:"total"`
		Cached    int64 `json:"cache"`
		Processed int64 `json:"processed"`
	}
	chatError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Type    string `json:"type"`
		Prompt  int64  `json:"n_prompt_tokens"`
		Context int64  `json:"n_ctx"`
	}
)

// The reply as an Anthropic client reads it.
type (
	message struct {
		ID           string     `json:"id"`
		Type         string     `json:"type"`
		Role         string     `json:"role"`
		Model        string     `json:"model"`
		Content      []outBlock `json:"content"`
		StopReason   *string    `json:"stop_reason"`
		StopSequence *string    `json:"stop_sequence"`
		Usage        outUsage   `json:"usage"`
	}
	outBlock struct {
		Type      string          `json:"type"`
		Text      *string         `json:"text,omitempty"`
		Thinking  *string         `json:"thinking,omitempty"`
		Signature *string         `json:"signature,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
	}
	outUsage struct {
		Input      int64 `json:"input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		Output     int64 `json:"output_tokens"`
	}
)

func (u *chatUsage) out() outUsage {
	if u == nil {
		return outUsage{}
	}
	return outUsage{Input: max(u.Prompt-u.Details.Cached, 0), CacheRead: u.Details.Cached, Output: u.Completion}
}

func textBlock(s string) outBlock { return outBlock{Type: "text", Text: &s} }

func thinkingBlock(s string) outBlock {
	none := ""
	return outBlock{Type: "thinking", Thinking: &s, Signature: &none}
}

// callBlock is a call; arguments that are no JSON object (the reply was cut) are
// handed over as text, so that nothing the model wrote is lost.
func callBlock(c replyCall) outBlock {
	input := json.RawMessage(c.Function.Arguments)
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil {
		input, _ = json.Marshal(map[string]string{"unparsed": c.Function.Arguments}) // a map of strings always encodes
		if strings.TrimSpace(c.Function.Arguments) == "" {
			input = json.RawMessage("{}")
		}
	}
	return outBlock{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: input}
}

// fromChat turns a whole reply into the Anthropic one.
func fromChat(body []byte) ([]byte, error) {
	var in chatReply
	if err := json.Unmarshal(body, &in); err != nil || len(in.Choices) == 0 {
		return nil, fmt.Errorf("local: the engine's reply has an unknown shape: %w", err)
	}
	d := in.Choices[0].Message
	out := message{ID: messageID(in.ID), Type: "message", Role: "assistant", Model: in.Model, Content: []outBlock{}, Usage: in.Usage.out()}
	if d.Reasoning != "" {
		out.Content = append(out.Content, thinkingBlock(d.Reasoning))
	}
	if d.Content != "" {
		out.Content = append(out.Content, textBlock(d.Content))
	}
	for _, c := range d.ToolCalls {
		out.Content = append(out.Content, callBlock(c))
	}
	reason := stopReason(in.Choices[0].Finish)
	out.StopReason = &reason
	return marshal(out)
}

func messageID(id string) string { return "msg_" + strings.TrimPrefix(id, "chatcmpl-") }

func stopReason(finish string) string {
	switch finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return "end_turn"
}

// anthropicError writes an error the way Anthropic's clients read it.
func anthropicError(status int, text string) []byte {
	b, _ := marshal(map[string]any{"type": "error", "error": map[string]string{"type": errorType(status), "message": text}})
	return b // maps of strings always encode
}

func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusServiceUnavailable:
		return "overloaded_error"
	case status >= 400 && status < 500:
		return "invalid_request_error"
	}
	return "api_error"
}

// errorText is the engine's error in words; a prompt that is too long is said
// the way clients recognise, so that they compact by themselves.
func errorText(body []byte) string {
	var in struct {
		Error chatError `json:"error"`
	}
	if json.Unmarshal(body, &in) != nil || in.Error.Message == "" {
		return "the local engine answered with an error it did not explain"
	}
	if in.Error.Type == "exceed_context_size_error" {
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", in.Error.Prompt, in.Error.Context)
	}
	return in.Error.Message
}
