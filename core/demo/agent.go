package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"holdfast/core/wire"
)

// A speaker is an agent's side of a wire: how a history is asked with, and how
// a reply is read.
type speaker interface {
	path() string
	// session sets the headers that name the session.
	session(h http.Header)
	body(history []message) object
	reply(r io.Reader, counts *wire.Counts) (message, error)
	// results answer the calls of a reply in their order.
	results(said message, texts []string) []message
}

// message is one element of a history, on either wire.
type message struct {
	role string
	// blocks are the content of an Anthropic message.
	blocks []object
	// chat is a whole Chat Completions message.
	chat object
	// said is the text of a reply, calls what it calls.
	said  string
	calls []object
}

// claude talks Anthropic Messages as Claude Code does.
type claude struct{}

func (claude) path() string { return "/v1/messages?beta=true" }

func (claude) session(h http.Header) {
	h.Set("X-Api-Key", "demo")
	h.Set("Anthropic-Version", "2023-06-01")
	h.Set("Anthropic-Beta", "interleaved-thinking-2025-05-14")
	h.Set("X-Claude-Code-Session-Id", SessionID)
}

// body is the request for the history as it stands.
func (claude) body(history []message) object {
	messages := make([]object, len(history))
	for i, m := range history {
		messages[i] = object{{"role", m.role}, {"content", m.content(i == len(history)-1)}}
	}
	return object{
		{"model", "claude-sonnet-4-5"},
		{"messages", messages},
		{"system", []object{
			{{"type", "text"}, {"text", "You are the coding agent of the demo."}},
			{{"type", "text"}, {"text", systemText()}, marker()},
		}},
		{"tools", tools()},
		{"metadata", object{{"user_id", string(mustEncode(object{{"device_id", "demo"}, {"session_id", SessionID}}))}}},
		{"max_tokens", 32000},
		{"thinking", object{{"budget_tokens", 8000}, {"type", "enabled"}}},
		{"stream", true},
	}
}

// content writes a message as agents do: the newest carries a cache marker on
// its last block, and a lone text without a marker shrinks to a string.
func (m message) content(newest bool) any {
	if newest {
		marked := append([]object(nil), m.blocks...)
		marked[len(marked)-1] = marked[len(marked)-1].with(marker())
		return marked
	}
	if m.role == "user" && len(m.blocks) == 1 && m.blocks[0][0].value == "text" {
		return m.blocks[0][1].value
	}
	return m.blocks
}

func marker() member { return member{"cache_control", object{{"type", "ephemeral"}}} }

func systemText() string {
	return strings.TrimSpace(`
You work on tidehouse, a server for tide tables, in /home/keeper/tidehouse.
Read before you change. Make the smallest change that does the job. Run the
tests of the package you touched, and vet at the end. Say what you did in a few
sentences, with numbers. Leave other packages alone unless you are asked.`)
}

// tools are the ones the session uses.
func tools() (out []object) {
	for _, t := range toolSpecs() {
		out = append(out, object{{"name", t.name}, {"description", t.does}, {"input_schema", t.schema()}})
	}
	return out
}

// toolSpec is a tool of the client, all of its arguments texts.
type toolSpec struct {
	name, does string
	args       []string
}

func toolSpecs() []toolSpec {
	return []toolSpec{
		{"Bash", "Run a command in the project folder and return its output.", []string{"command", "description"}},
		{"Edit", "Replace one exact string in a file.", []string{"file_path", "old_string", "new_string"}},
		{"Grep", "Search files for a regular expression.", []string{"pattern", "path"}},
		{"Read", "Read a file, with line numbers.", []string{"file_path"}},
		{"Write", "Write a whole file.", []string{"file_path", "content"}},
	}
}

func (t toolSpec) schema() object {
	var props object
	for _, arg := range t.args {
		props = append(props, member{arg, object{{"type", "string"}}})
	}
	return object{{"type", "object"}, {"properties", props}, {"required", t.args}}
}

// maxEvent bounds one event of a stream.
const maxEvent = 1 << 20

// event is one event of an Anthropic stream, all kinds in one.
type event struct {
	Type    string       `json:"type"`
	Index   int          `json:"index"`
	Block   contentBlock `json:"content_block"`
	Delta   contentDelta `json:"delta"`
	Message struct {
		Usage streamUsage `json:"usage"`
	} `json:"message"`
	Usage streamUsage `json:"usage"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

type contentBlock struct {
	Type, ID, Name, Text, Thinking, Signature string
}

type contentDelta struct {
	Text, Thinking, Signature string
	Partial                   string `json:"partial_json"`
}

type streamUsage struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// eachData reads a stream's data lines to its end.
func eachData(r io.Reader, do func(data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			if err := do(data); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// errEarly: the reply stopped before its end.
var errEarly = errors.New("the stream ended early")

// reply reads a reply to its end and returns its blocks as they go back into
// the history.
func (claude) reply(r io.Reader, counts *wire.Counts) (message, error) {
	var open []contentBlock
	done := false
	err := eachData(r, func(data []byte) error {
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		if e.Type == "error" {
			return fmt.Errorf("%s: %s", e.Error.Type, e.Error.Message)
		}
		open = e.apply(open, counts)
		done = done || e.Type == "message_stop"
		return nil
	})
	if err == nil && !done {
		err = errEarly
	}
	return closed(open), err
}

// results are one user message.
func (claude) results(said message, texts []string) []message {
	var out []object
	for i, c := range said.calls {
		out = append(out, object{{"tool_use_id", c[1].value}, {"type", "tool_result"}, {"content", texts[i]}})
	}
	return []message{{role: "user", blocks: out}}
}

func (e *event) apply(open []contentBlock, counts *wire.Counts) []contentBlock {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		*counts = wire.Counts{Input: u.Input, Cached: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Seen: true}
	case "content_block_start":
		open = append(open, e.Block)
	case "content_block_delta":
		if e.Index < len(open) {
			b := &open[e.Index]
			b.Text += e.Delta.Text + e.Delta.Partial
			b.Thinking += e.Delta.Thinking
			b.Signature += e.Delta.Signature
		}
	case "message_delta":
		counts.Output = e.Usage.Output
	}
	return open
}

func closed(open []contentBlock) message {
	m := message{role: "assistant"}
	for _, b := range open {
		var o object
		switch b.Type {
		case "thinking":
			o = object{{"type", b.Type}, {"thinking", b.Thinking}, {"signature", b.Signature}}
		case "text":
			o = object{{"type", b.Type}, {"text", b.Text}}
			m.said += b.Text
		case "tool_use":
			o = object{{"type", b.Type}, {"id", b.ID}, {"name", b.Name}, {"input", json.RawMessage(b.Text)}}
			m.calls = append(m.calls, o)
		default:
			continue
		}
		m.blocks = append(m.blocks, o)
	}
	return m
}

// describe says a reply without ids: two runs of a session are the same work
// when these are.
func (m message) describe() string {
	var b strings.Builder
	b.WriteString(m.said)
	for _, c := range m.calls {
		fmt.Fprintf(&b, "\n%s %s", c[2].value, c[3].value)
	}
	return b.String()
}
