package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"holdfast/core/wire/sse"
)

// A turner reads the engine's stream event by event and writes the client's.
type turner interface {
	// event takes the data of one event and returns what goes to the client.
	event(data []byte) []byte
	// end is called once the engine's stream ended; whole says whether it ended
	// the way it should.
	end(whole bool) []byte
}

// done is the data of the last event of a chat stream.
const done = "[DONE]"

// chatStream passes a chat stream on, without the progress reports nobody asked
// for.
type chatStream struct {
	progress bool // the client asked for it
}

func (c chatStream) event(data []byte) []byte {
	if !c.progress && bytes.Contains(data, []byte(`"prompt_progress"`)) {
		var in chatReply
		if json.Unmarshal(data, &in) == nil && in.Progress != nil {
			return nil
		}
	}
	return append(append([]byte("data: "), data...), "\n\n"...)
}

func (chatStream) end(bool) []byte { return nil }

// messageStream turns a chat stream into an Anthropic one: one block at a time,
// in the order text and calls begin.
type messageStream struct {
	started bool
	stopped bool
	usage   outUsage
	// open is the kind of the block that is open, "" for none; index its number.
	open   string
	index  int
	call   int // of the open tool_use, as the engine numbers it
	finish string
}

func (m *messageStream) event(data []byte) []byte {
	var out bytes.Buffer
	if string(data) == done {
		return m.end(true)
	}
	var in chatReply
	if json.Unmarshal(data, &in) != nil {
		return nil
	}
	if in.Error != nil {
		return m.fail(in.Error)
	}
	if in.Progress != nil {
		m.usage.Input, m.usage.CacheRead = in.Progress.Total-in.Progress.Cached, in.Progress.Cached
		m.start(&out, &in)
		emit(&out, "ping", map[string]string{"type": "ping"})
		return out.Bytes()
	}
	m.start(&out, &in)
	if in.Usage != nil {
		m.usage = in.Usage.out()
	}
	for _, c := range in.Choices {
		m.delta(&out, c.Delta)
		if c.Finish != "" {
			m.finish = c.Finish
		}
	}
	return out.Bytes()
}

func (m *messageStream) start(out *bytes.Buffer, in *chatReply) {
	if m.started {
		return
	}
	m.started = true
	emit(out, "message_start", map[string]any{"type": "message_start", "message": message{
		ID: messageID(in.ID), Type: "message", Role: "assistant", Model: in.Model, Content: []outBlock{}, Usage: m.usage}})
}

func (m *messageStream) delta(out *bytes.Buffer, d replyDelta) {
	if d.Reasoning != "" {
		m.begin(out, "thinking", thinkingBlock(""))
		m.piece(out, map[string]string{"type": "thinking_delta", "thinking": d.Reasoning})
	}
	if d.Content != "" {
		m.begin(out, "text", textBlock(""))
		m.piece(out, map[string]string{"type": "text_delta", "text": d.Content})
	}
	for _, c := range d.ToolCalls {
		if m.open != "tool_use" || m.call != c.Index {
			m.close(out)
			m.call = c.Index
			m.begin(out, "tool_use", outBlock{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: json.RawMessage("{}")})
		}
		if c.Function.Arguments != "" {
			m.piece(out, map[string]string{"type": "input_json_delta", "partial_json": c.Function.Arguments})
		}
	}
}

// begin opens a block unless one of its kind is open.
func (m *messageStream) begin(out *bytes.Buffer, kind string, b outBlock) {
	if m.open == kind {
		return
	}
	m.close(out)
	m.open = kind
	emit(out, "content_block_start", map[string]any{"type": "content_block_start", "index": m.index, "content_block": b})
}

func (m *messageStream) piece(out *bytes.Buffer, delta map[string]string) {
	emit(out, "content_block_delta", map[string]any{"type": "content_block_delta", "index": m.index, "delta": delta})
}

func (m *messageStream) close(out *bytes.Buffer) {
	if m.open == "" {
		return
	}
	emit(out, "content_block_stop", map[string]any{"type": "content_block_stop", "index": m.index})
	m.open = ""
	m.index++
}

// end closes the message once. A stream that broke off gets no end: the client
// must see that it did.
func (m *messageStream) end(whole bool) []byte {
	if m.stopped || !whole || !m.started {
		return nil
	}
	m.stopped = true
	var out bytes.Buffer
	m.close(&out)
	emit(&out, "message_delta", map[string]any{"type": "message_delta",
		"delta": map[string]any{"stop_reason": stopReason(m.finish), "stop_sequence": nil}, "usage": m.usage})
	emit(&out, "message_stop", map[string]string{"type": "message_stop"})
	return out.Bytes()
}

func (m *messageStream) fail(e *chatError) []byte {
	m.stopped = true
	status := e.Code
	if status == 0 {
		status = http.StatusInternalServerError
	}
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", anthropicError(status, e.Message))
}

// emit writes one event; the values here always encode.
func emit(out *bytes.Buffer, name string, v any) {
	data, _ := marshal(v)
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
}

// splitter feeds the events of a stream to a turner and keeps what it writes.
func splitter(t turner, seen func(data []byte), out *bytes.Buffer) *sse.Splitter {
	return sse.New(func(ev sse.Event) {
		seen(ev.Data)
		out.Write(t.event(ev.Data))
	})
}
