package demo

import (
	"encoding/base64"
	"encoding/json"
	"net/http"

	"holdfast/core/wire"
)

// anthropicWire is Anthropic Messages.
type anthropicWire struct{}

type anthropicRequest struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Name   string  `json:"name"`
		Schema *schema `json:"input_schema"`
	} `json:"tools"`
	Thinking struct {
		Type    string `json:"type"`
		Display string `json:"display"`
	} `json:"thinking"`
	Output struct {
		Format struct {
			Schema *schema `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

func (anthropicWire) read(body []byte) (request, error) {
	var in anthropicRequest
	if err := readFrame(body, &in); err != nil {
		return request{}, err
	}
	q := request{model: in.Model, stream: in.Stream, tokens: tokensOf(body), format: in.Output.Format.Schema,
		think: in.Thinking.Type != "" && in.Thinking.Type != "disabled", omit: in.Thinking.Display == "omitted"}
	for _, t := range in.Tools {
		if t.Schema != nil {
			q.tools = append(q.tools, tool{t.Name, t.Schema})
		}
	}
	q.hear(wire.ValueOf(body).Obj(), hearAnthropic)
	q.marked, q.lifetime = true, anthropicLifetime
	return q, nil
}

// blocks are the content blocks of a turn, whole.
func (w anthropicWire) blocks(q request, t Turn, ids *idSource) []object {
	rest := w.spoken(t, ids)
	if t.Thinking == "" {
		return rest
	}
	text, next := t.Thinking, ""
	if q.omit {
		text = ""
	}
	if len(rest) > 0 {
		next = follows(blockPart(wire.ValueOf(mustEncode(rest[0]))))
	}
	return append([]object{{{"type", "thinking"}, {"thinking", text}, {"signature", signature(text, 0, next)}}}, rest...)
}

// spoken are the content blocks of a turn behind its reasoning.
func (anthropicWire) spoken(t Turn, ids *idSource) (out []object) {
	if t.Redacted {
		out = append(out, object{{"type", "redacted_thinking"}, {"data", opaque(ids)}})
	}
	if t.Text != "" {
		out = append(out, object{{"type", "text"}, {"text", t.Text}})
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		out = append(out, object{{"type", "tool_use"}, {"id", ids.call("toolu_01", c)}, {"name", c.Tool}, {"input", c.Args}})
	}
	return out
}

// opaque makes something that looks like encrypted reasoning.
func opaque(ids *idSource) string {
	return base64.StdEncoding.EncodeToString([]byte(ids.next(redactedMark)))
}

func (anthropicWire) rules() rules { return rules{together: true} }

func (w anthropicWire) message(q request, t Turn, ids *idSource, content []object, stop any, output int) object {
	input, cached, written, _ := q.counts(t)
	return object{{"id", ids.next("msg_01")}, {"type", "message"}, {"role", "assistant"}, {"model", q.model},
		{"content", content}, {"stop_reason", stop}, {"stop_sequence", nil},
		{"usage", object{{"input_tokens", input}, {"cache_creation_input_tokens", written}, {"cache_read_input_tokens", cached},
			{"cache_creation", object{{"ephemeral_5m_input_tokens", written}, {"ephemeral_1h_input_tokens", 0}}},
			{"output_tokens", output}, {"service_tier", "standard"}}}}
}

func (anthropicWire) stop(t Turn) string {
	if len(t.Calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (w anthropicWire) whole(out *reply, q request, t Turn, ids *idSource) {
	content := w.blocks(q, t, ids)
	_, _, _, output := q.counts(t)
	out.json(200, w.message(q, t, ids, content, w.stop(t), output))
}

func (w anthropicWire) stream(out *reply, q request, t Turn, ids *idSource) {
	content := w.blocks(q, t, ids)
	start := w.message(q, t, ids, []object{}, nil, 1)
	send := func(kind string, rest ...member) { out.event(kind, object{{"type", kind}}.with(rest...)) }
	send("message_start", member{"message", start})
	send("ping")
	for i, b := range content {
		if !w.block(out, send, i, b) {
			return
		}
	}
	_, _, _, output := q.counts(t)
	send("message_delta", member{"delta", object{{"stop_reason", w.stop(t)}, {"stop_sequence", nil}}},
		member{"usage", object{{"output_tokens", output}}})
	send("message_stop")
}

// block streams one content block; false means the stream ended inside it.
func (w anthropicWire) block(out *reply, send func(string, ...member), i int, b object) bool {
	index := member{"index", i}
	delta := func(d ...member) { send("content_block_delta", index, member{"delta", object(d)}) }
	empty, text := opened(b)
	send("content_block_start", index, member{"content_block", empty})
	switch b[0].value {
	case "thinking":
		for _, p := range parts(text, 2) {
			if p != "" { // omitted
				delta(member{"type", "thinking_delta"}, member{"thinking", p})
			}
		}
		delta(member{"type", "signature_delta"}, member{"signature", b[2].value})
	case "text":
		for _, p := range parts(text, 3) {
			delta(member{"type", "text_delta"}, member{"text", p})
			if out.interrupted(w) {
				return false
			}
		}
	case "tool_use":
		delta(member{"type", "input_json_delta"}, member{"partial_json", ""})
		for _, p := range parts(text, 3) {
			delta(member{"type", "input_json_delta"}, member{"partial_json", p})
		}
	}
	send("content_block_stop", index)
	return true
}

// opened is a block as its start event shows it, and the text its deltas carry.
func opened(b object) (empty object, text string) {
	switch b[0].value {
	case "thinking":
		return object{b[0], {"thinking", ""}, {"signature", ""}}, b[1].value.(string)
	case "text":
		return object{b[0], {"text", ""}}, b[1].value.(string)
	case "tool_use":
		return object{b[0], b[1], b[2], {"input", object{}}}, string(b[3].value.(json.RawMessage))
	}
	return b, ""
}

func (anthropicWire) refuse(out *reply, why error) {
	out.json(http.StatusBadRequest, errorBody("invalid_request_error", why.Error()))
}

func (anthropicWire) fault(out *reply, status int) {
	kind := "api_error"
	if status == 529 {
		kind = "overloaded_error"
	}
	out.json(status, errorBody(kind, "scripted error"))
}

func (anthropicWire) midFault(out *reply) {
	out.event("error", errorBody("overloaded_error", "Overloaded"))
}
