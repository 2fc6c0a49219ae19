package demo

import (
	"net/http"

	"holdfast/core/wire"
)

// chatWire is OpenAI Chat Completions.
type chatWire struct{}

type chatRequest struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Function struct {
			Name       string  `json:"name"`
			Parameters *schema `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Format struct {
		Schema struct {
			Schema *schema `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (chatWire) read(body []byte) (request, error) {
	var in chatRequest
	if err := readFrame(body, &in); err != nil {
		return request{}, err
	}
	q := request{model: in.Model, stream: in.Stream, usage: in.Options.Usage, tokens: tokensOf(body), format: in.Format.Schema.Schema}
	for _, t := range in.Tools {
		q.tools = append(q.tools, tool{t.Function.Name, t.Function.Parameters})
	}
	q.hear(wire.ValueOf(body).Obj(), hearChat)
	q.lifetime = chatLifetime
	return q, nil
}

// calls are a turn's tool calls, whole.
func (chatWire) calls(t Turn, ids *idSource) (out []object) {
	for i := range t.Calls {
		c := &t.Calls[i]
		out = append(out, object{{"id", ids.call("call_", c)}, {"type", "function"},
			{"function", object{{"name", c.Tool}, {"arguments", string(c.Args)}}}})
	}
	return out
}

// rules are those of local servers whose templates want turns to alternate: a
// request that passes them passes everywhere.
func (chatWire) rules() rules { return rules{alternate: true} }

func (chatWire) stop(t Turn) string {
	if len(t.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// usageOf has the wire's own arithmetic: prompt_tokens includes the cached ones.
func (chatWire) usageOf(q request, t Turn) object {
	input, cached, written, output := q.counts(t)
	prompt := input + cached + written
	return object{{"prompt_tokens", prompt}, {"completion_tokens", output}, {"total_tokens", prompt + output},
		{"prompt_tokens_details", object{{"cached_tokens", cached}}},
		{"completion_tokens_details", object{{"reasoning_tokens", 0}}}}
}

func (chatWire) base(q request, ids *idSource, kind string) object {
	return object{{"id", ids.next("chatcmpl-")}, {"object", kind}, {"created", created},
		{"model", q.model}, {"system_fingerprint", "fp_scripted"}}
}

func (w chatWire) whole(out *reply, q request, t Turn, ids *idSource) {
	message := object{{"role", "assistant"}, {"content", t.Text}}
	if t.Thinking != "" {
		message = message.with(member{"reasoning_content", t.Thinking})
	}
	if calls := w.calls(t, ids); calls != nil {
		message = message.with(member{"tool_calls", calls})
	}
	choice := object{{"index", 0}, {"message", message}, {"logprobs", nil}, {"finish_reason", w.stop(t)}}
	out.json(200, w.base(q, ids, "chat.completion").with(member{"choices", []object{choice}}, member{"usage", w.usageOf(q, t)}))
}

func (w chatWire) stream(out *reply, q request, t Turn, ids *idSource) {
	base := w.base(q, ids, "chat.completion.chunk")
	chunk := func(delta object, stop any) {
		c := base.with(member{"choices", []object{{{"index", 0}, {"delta", delta}, {"logprobs", nil}, {"finish_reason", stop}}}})
		if q.usage {
			c = c.with(member{"usage", nil})
		}
		out.event("", c)
	}
	chunk(object{{"role", "assistant"}, {"content", ""}}, nil)
	if t.Thinking != "" {
		for _, p := range parts(t.Thinking, 2) {
			chunk(object{{"reasoning_content", p}}, nil)
		}
	}
	for _, p := range parts(t.Text, 3) {
		chunk(object{{"content", p}}, nil)
		if out.interrupted(w) {
			return
		}
	}
	w.streamCalls(t, ids, func(call object) { chunk(object{{"tool_calls", []object{call}}}, nil) })
	chunk(object{}, w.stop(t))
	if q.usage {
		out.event("", base.with(member{"choices", []object{}}, member{"usage", w.usageOf(q, t)}))
	}
	out.event("", "[DONE]")
}

// streamCalls sends each call's id and name once, then its arguments in pieces.
func (w chatWire) streamCalls(t Turn, ids *idSource, send func(object)) {
	for i := range t.Calls {
		c := &t.Calls[i]
		send(object{{"index", i}, {"id", ids.call("call_", c)}, {"type", "function"},
			{"function", object{{"name", c.Tool}, {"arguments", ""}}}})
		for _, p := range parts(string(c.Args), 3) {
			send(object{{"index", i}, {"function", object{{"arguments", p}}}})
		}
	}
}

func (chatWire) body(kind, message string) object {
	return object{{"error", object{{"message", message}, {"type", kind}, {"param", nil}, {"code", nil}}}}
}

func (w chatWire) refuse(out *reply, why error) {
	out.json(http.StatusBadRequest, w.body("invalid_request_error", why.Error()))
}

func (w chatWire) fault(out *reply, status int) {
	out.json(status, w.body("server_error", "scripted error"))
}

func (w chatWire) midFault(out *reply) { out.event("", w.body("server_error", "scripted error")) }
