package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"holdfast/core/wire"
)

// chatter talks Chat Completions as agents for any provider do.
type chatter struct{}

func (chatter) path() string { return "/v1/chat/completions" }

func (chatter) session(h http.Header) {
	h.Set("Authorization", "Bearer demo")
	h.Set("X-Session-Affinity", SessionID)
}

func (chatter) body(history []message) object {
	messages := []object{{{"role", "system"}, {"content", systemText()}}}
	for _, m := range history {
		if m.chat == nil {
			m.chat = object{{"role", m.role}, {"content", m.blocks[0][1].value}}
		}
		messages = append(messages, m.chat)
	}
	var tools []object
	for _, t := range toolSpecs() {
		tools = append(tools, object{{"type", "function"}, {"function", object{{"name", t.name}, {"description", t.does}, {"parameters", t.schema()}}}})
	}
	return object{
		{"model", "gpt-5.2"},
		{"messages", messages},
		{"tools", tools},
		{"stream", true},
		{"stream_options", object{{"include_usage", true}}},
	}
}

// chunk is one event of a stream.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
			Calls   []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// reply reads a reply to its end.
func (chatter) reply(r io.Reader, counts *wire.Counts) (message, error) {
	m, done := message{role: "assistant"}, false
	var calls []contentBlock
	err := eachData(r, func(data []byte) error {
		if string(data) == "[DONE]" {
			done = true
			return nil
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("chunk: %w", err)
		}
		if c.Error != nil {
			return errors.New(c.Error.Message)
		}
		if u := c.Usage; u != nil {
			*counts = wire.Counts{Input: u.Prompt - u.Details.Cached, Cached: u.Details.Cached, Output: u.Completion, Seen: true}
		}
		calls = c.apply(&m, calls)
		return nil
	})
	if err == nil && !done {
		err = errEarly
	}
	return m.closed(calls), err
}

func (c *chunk) apply(m *message, calls []contentBlock) []contentBlock {
	for _, choice := range c.Choices {
		m.said += choice.Delta.Content
		for _, d := range choice.Delta.Calls {
			for d.Index >= len(calls) {
				calls = append(calls, contentBlock{})
			}
			b := &calls[d.Index]
			b.ID, b.Name, b.Text = b.ID+d.ID, b.Name+d.Function.Name, b.Text+d.Function.Arguments
		}
	}
	return calls
}

// closed is the reply as it goes back into the history.
func (m message) closed(calls []contentBlock) message {
	m.chat = object{{"role", m.role}, {"content", m.said}}
	var list []object
	for _, b := range calls {
		m.calls = append(m.calls, object{{"type", "function"}, {"id", b.ID}, {"name", b.Name}, {"input", json.RawMessage(b.Text)}})
		list = append(list, object{{"id", b.ID}, {"type", "function"}, {"function", object{{"name", b.Name}, {"arguments", b.Text}}}})
	}
	if list != nil {
		m.chat = m.chat.with(member{"tool_calls", list})
	}
	return m
}

// results are a message each.
func (chatter) results(said message, texts []string) (out []message) {
	for i, c := range said.calls {
		out = append(out, message{role: "tool", chat: object{{"role", "tool"}, {"tool_call_id", c[1].value}, {"content", texts[i]}}})
	}
	return out
}
