package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/core/seed"
	"holdfast/core/wire/sse"
	"holdfast/core/wire/wiretest"
)

var update = flag.Bool("update", false, "rewrite the goldens of the tool loop; review the diff")

func TestLoopGolden(t *testing.T) { wiretest.LoopGolden(t, speaker{}, *update) }

// However a reply of several rounds is made up and cut, the client gets one
// whole reply without our calls, and the model gets back what it said.
func TestLoopProgram(t *testing.T) {
	from := seed.Of(t)
	for i := range uint64(600) {
		wiretest.LoopProgram(t, speaker{}, from+i)
	}
}

func TestLoopRecorded(t *testing.T) {
	wiretest.LoopRecorded(t, speaker{}, "anthropic-stream", true)
	wiretest.LoopRecorded(t, speaker{}, "anthropic-final", false)
}

// speaker is the Messages API as a provider speaks it and as an SDK reads it.
type speaker struct{ Codec }

func (speaker) usage(s wiretest.Spoken) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,"output_tokens":`, s.Input, s.Cached)
}

func (speaker) stop(s wiretest.Spoken) string {
	own, client := s.Calls()
	switch {
	case s.Stop != "":
		return s.Stop
	case own+client > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (sp speaker) Stream(s wiretest.Spoken) []byte {
	var b bytes.Buffer
	send := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", kind, kind, fmt.Sprintf(format, args...))
	}
	send("message_start", `,"message":{"id":"%s","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":%s1}}`, s.ID, sp.usage(s))
	i := 0
	for _, said := range s.Said {
		if said.Kind == "raw" {
			b.WriteString(said.Text)
			continue
		}
		start, deltas := sp.block(said)
		send("content_block_start", `,"index":%d,"content_block":%s`, i, start)
		for _, d := range deltas {
			send("content_block_delta", `,"index":%d,"delta":%s`, i, d)
		}
		send("content_block_stop", `,"index":%d`, i)
		i++
	}
	send("message_delta", `,"delta":{"stop_reason":"%s","stop_sequence":null},"usage":{"output_tokens":%d}`, sp.stop(s), s.Output)
	send("message_stop", "")
	return b.Bytes()
}

// block is how a block starts and goes on.
func (speaker) block(said wiretest.Said) (start string, deltas []string) {
	format := ""
	switch said.Kind {
	case "text":
		start, format = `{"type":"text","text":""}`, `{"type":"text_delta","text":%s}`
	case "think":
		start, format = `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":%s}`
	case "call":
		start = fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"%s","input":{}}`, said.ID, wiretest.Joined(said.Name))
		format = `{"type":"input_json_delta","partial_json":%s}`
	}
	for _, piece := range wiretest.Pieces(said.Text) {
		deltas = append(deltas, fmt.Sprintf(format, quoted(piece)))
	}
	if said.Kind == "think" {
		deltas = append(deltas, `{"type":"signature_delta","signature":"c2ln"}`)
	}
	return start, deltas
}

func quoted(s string) string {
	q, _ := json.Marshal(s)
	return string(q)
}

func (speaker) content(s wiretest.Spoken) string {
	var blocks []string
	for _, said := range s.Said {
		text := wiretest.Joined(said.Text)
		switch said.Kind {
		case "text":
			blocks = append(blocks, `{"type":"text","text":`+quoted(text)+`}`)
		case "think":
			blocks = append(blocks, `{"type":"thinking","thinking":`+quoted(text)+`,"signature":"c2ln"}`)
		case "call":
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"%s","input":%s}`, said.ID, wiretest.Joined(said.Name), text))
		}
	}
	return "[" + strings.Join(blocks, ",") + "]"
}

func (sp speaker) Body(s wiretest.Spoken) []byte {
	return fmt.Appendf(nil, `{"id":"%s","type":"message","role":"assistant","model":"m","content":%s,"stop_reason":"%s","stop_sequence":null,"usage":%s%d}}`,
		s.ID, sp.content(s), sp.stop(s), sp.usage(s), s.Output)
}

func (sp speaker) Whole(s wiretest.Spoken) []byte {
	if len(s.Said) == 0 {
		return nil
	}
	return []byte(`{"role":"assistant","content":` + sp.content(s) + "}")
}

func (sp speaker) Hear(stream bool, reply []byte) (wiretest.Heard, error) {
	if !stream {
		return hearBody(reply)
	}
	l := listener{}
	s := sse.New(func(ev sse.Event) {
		if l.err == nil {
			l.err = l.hear(ev)
		}
	})
	s.Write(reply)
	if _, pending := s.Pending(); l.err == nil && (pending || !l.over) {
		l.err = errors.New("no end")
	}
	if l.err != nil {
		return wiretest.Heard{}, l.err
	}
	return l.message.heard(), nil
}

// message is a reply as an SDK builds it.
type message struct {
	Role    string           `json:"role"`
	Content []map[string]any `json:"content"`
	Stop    string           `json:"stop_reason"`
	Usage   struct {
		Input  int `json:"input_tokens"`
		Made   int `json:"cache_creation_input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	} `json:"usage"`
}

func (m message) heard() wiretest.Heard {
	content, _ := json.Marshal(m.Content)
	element := slices.Concat([]byte(`{"role":"assistant","content":`), content, []byte("}"))
	return wiretest.Heard{Element: element, Stop: m.Stop, Input: m.Usage.Input + m.Usage.Made + m.Usage.Cached, Output: m.Usage.Output}
}

func hearBody(reply []byte) (wiretest.Heard, error) {
	var m message
	if err := json.Unmarshal(reply, &m); err != nil {
		return wiretest.Heard{}, err
	}
	return m.heard(), nil
}

// listener reads a stream as strictly as the protocol allows.
type listener struct {
	message       message
	started       bool
	stopped, over bool
	open          bool
	json          string
	err           error
}

func (l *listener) hear(ev sse.Event) error {
	var e struct {
		Type    string
		Index   int
		Message json.RawMessage
		Block   map[string]any `json:"content_block"`
		Delta   map[string]any
		Usage   json.RawMessage
	}
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return err
	}
	if e.Type != ev.Name || l.over || l.started != (e.Type != "message_start") && e.Type != "ping" {
		return fmt.Errorf("out of order: %s", ev.Data)
	}
	switch e.Type {
	case "ping":
	case "message_start":
		l.started = true
		return json.Unmarshal(e.Message, &l.message)
	case "content_block_start":
		if l.open || l.stopped || e.Index != len(l.message.Content) {
			return fmt.Errorf("not the next block: %s", ev.Data)
		}
		l.open = true
		l.message.Content = append(l.message.Content, e.Block)
	case "content_block_delta":
		return l.inside(e.Index, e.Delta)
	case "content_block_stop":
		return l.stop(e.Index)
	case "message_delta":
		if l.open || l.stopped {
			return fmt.Errorf("ended twice or too early: %s", ev.Data)
		}
		l.stopped = true
		l.message.Stop, _ = e.Delta["stop_reason"].(string)
		return json.Unmarshal(e.Usage, &l.message.Usage)
	case "message_stop":
		l.over = l.stopped
	case "error":
		return wiretest.ErrFailed
	default:
		return fmt.Errorf("unknown: %s", ev.Data)
	}
	return nil
}

func (l *listener) inside(index int, delta map[string]any) error {
	last := len(l.message.Content) - 1
	if !l.open || index != last {
		return fmt.Errorf("orphan delta of %d", index)
	}
	block := l.message.Content[last]
	for name, v := range delta {
		switch s, _ := v.(string); name {
		case "type":
		case "partial_json":
			l.json += s
		default:
			before, _ := block[name].(string)
			block[name] = before + s
		}
	}
	return nil
}

func (l *listener) stop(index int) error {
	last := len(l.message.Content) - 1
	if !l.open || index != last {
		return fmt.Errorf("orphan end of %d", index)
	}
	l.open = false
	text := l.json
	l.json = ""
	if text == "" {
		return nil
	}
	var input any
	err := json.Unmarshal([]byte(text), &input)
	l.message.Content[last]["input"] = input
	return err
}

func TestLoopTooLong(t *testing.T) { wiretest.LoopTooLong(t, speaker{}) }

func FuzzLoop(f *testing.F) { wiretest.FuzzLoop(f, speaker{}) }
