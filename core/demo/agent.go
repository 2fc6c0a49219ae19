package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdfast/core/wire"
)

// body is the request for the history as it stands.
func (a *agent) body() object {
	messages := make([]object, len(a.history))
	for i, m := range a.history {
		messages[i] = object{{"role", m.role}, {"content", m.content(i == len(a.history)-1)}}
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
	for _, t := range []struct {
		name, does string
		args       []string
	}{
		{"Bash", "Run a command in the project folder and return its output.", []string{"command", "description"}},
		{"Edit", "Replace one exact string in a file.", []string{"file_path", "old_string", "new_string"}},
		{"Grep", "Search files for a regular expression.", []string{"pattern", "path"}},
		{"Read", "Read a file, with line numbers.", []string{"file_path"}},
		{"Write", "Write a whole file.", []string{"file_path", "content"}},
	} {
		var props object
		for _, arg := range t.args {
			props = append(props, member{arg, object{{"type", "string"}}})
		}
		out = append(out, object{{"name", t.name}, {"description", t.does},
			{"input_schema", object{{"type", "object"}, {"properties", props}, {"required", t.args}}}})
	}
	return out
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

// readStream reads a reply to its end and returns its blocks as they go back
// into the history.
func readStream(r io.Reader, counts *wire.Counts) ([]object, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var open []contentBlock
	done := false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
		if e.Type == "error" {
			return nil, fmt.Errorf("%s: %s", e.Error.Type, e.Error.Message)
		}
		open = e.apply(open, counts)
		done = done || e.Type == "message_stop"
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !done {
		return nil, errors.New("the stream ended early")
	}
	return closed(open), nil
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

func closed(open []contentBlock) (out []object) {
	for _, b := range open {
		switch b.Type {
		case "thinking":
			out = append(out, object{{"type", b.Type}, {"thinking", b.Thinking}, {"signature", b.Signature}})
		case "text":
			out = append(out, object{{"type", b.Type}, {"text", b.Text}})
		case "tool_use":
			out = append(out, object{{"type", b.Type}, {"id", b.ID}, {"name", b.Name}, {"input", json.RawMessage(b.Text)}})
		}
	}
	return out
}
