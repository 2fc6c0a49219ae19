package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	wiretest.LoopRecorded(t, speaker{}, "chat-stream", true)
	wiretest.LoopRecorded(t, speaker{}, "chat-json", false)
}

// speaker is Chat Completions as a provider speaks it and as an SDK reads it.
type speaker struct{ Codec }

func (speaker) stop(s wiretest.Spoken) string {
	own, client := s.Calls()
	switch {
	case s.Stop != "":
		return s.Stop
	case own+client > 0:
		return "tool_calls"
	}
	return "stop"
}

func (speaker) usage(s wiretest.Spoken) string {
	input := s.Input + s.Cached
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		input, s.Output, input+s.Output, s.Cached)
}

func (sp speaker) Stream(s wiretest.Spoken) []byte {
	var b bytes.Buffer
	send := func(rest string) {
		fmt.Fprintf(&b, "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":%d,\"model\":\"m\",%s}\n\n", s.ID, len(s.ID)+s.Output, rest)
	}
	delta := func(format string, args ...any) {
		send(`"choices":[{"index":0,"delta":{` + fmt.Sprintf(format, args...) + `},"finish_reason":null}]`)
	}
	delta(`"role":"assistant","content":""`)
	calls := 0
	for _, said := range s.Said {
		switch said.Kind {
		case "raw":
			b.WriteString(said.Text)
		case "call":
			sp.call(delta, calls, said)
			calls++
		default:
			for _, piece := range wiretest.Pieces(said.Text) {
				delta(`"%s":%s`, member(said.Kind), quoted(piece))
			}
		}
	}
	send(`"choices":[{"index":0,"delta":{},"finish_reason":"` + sp.stop(s) + `"}]`)
	send(`"choices":[],"usage":` + sp.usage(s))
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

// call sends a call in fragments: the name may come in several.
func (speaker) call(delta func(string, ...any), index int, said wiretest.Said) {
	names := wiretest.Pieces(said.Name)
	delta(`"tool_calls":[{"index":%d,"id":"%s","type":"function","function":{"name":"%s","arguments":""}}]`, index, said.ID, names[0])
	for _, name := range names[1:] {
		delta(`"tool_calls":[{"index":%d,"function":{"name":"%s"}}]`, index, name)
	}
	for _, piece := range wiretest.Pieces(said.Text) {
		delta(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, index, quoted(piece))
	}
}

func member(kind string) string {
	if kind == "think" {
		return "reasoning_content"
	}
	return "content"
}

func quoted(s string) string {
	q, _ := json.Marshal(s)
	return string(q)
}

// Whole has texts and thoughts run together, as the wire has them.
func (speaker) Whole(s wiretest.Spoken) []byte {
	texts := map[string]string{}
	var calls []string
	for _, said := range s.Said {
		switch said.Kind {
		case "call":
			calls = append(calls, fmt.Sprintf(`{"id":"%s","type":"function","function":{"name":"%s","arguments":%s}}`,
				said.ID, wiretest.Joined(said.Name), quoted(wiretest.Joined(said.Text))))
		case "text", "think":
			texts[member(said.Kind)] += wiretest.Joined(said.Text)
		}
	}
	if texts["content"] == "" && calls == nil {
		return nil
	}
	out := `{"role":"assistant","content":null`
	if text := texts["content"]; text != "" {
		out = `{"role":"assistant","content":` + quoted(text)
	}
	if text := texts["reasoning_content"]; text != "" {
		out += `,"reasoning_content":` + quoted(text)
	}
	if calls != nil {
		out += `,"tool_calls":[` + strings.Join(calls, ",") + "]"
	}
	return []byte(out + "}")
}

func (sp speaker) Body(s wiretest.Spoken) []byte {
	message := sp.Whole(s)
	if message == nil {
		message = []byte(`{"role":"assistant","content":""}`)
	}
	return fmt.Appendf(nil, `{"id":"%s","object":"chat.completion","created":%d,"model":"m","choices":[{"index":0,"message":%s,"finish_reason":"%s"}],"usage":%s}`,
		s.ID, s.Output, message, sp.stop(s), sp.usage(s))
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
	if _, pending := s.Pending(); l.err == nil && (pending || !l.done) {
		l.err = errors.New("no end")
	}
	return wiretest.Heard{Element: l.element(), Stop: l.stop, Input: l.usage.Input, Output: l.usage.Output}, l.err
}

type usageOf struct {
	Input  int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
	Total  int `json:"total_tokens"`
}

func hearBody(reply []byte) (wiretest.Heard, error) {
	var r struct {
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
		Usage usageOf
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return wiretest.Heard{}, err
	}
	if r.Usage.Total != r.Usage.Input+r.Usage.Output {
		return wiretest.Heard{}, errors.New("the total is another")
	}
	return wiretest.Heard{Element: r.Choices[0].Message, Stop: r.Choices[0].FinishReason, Input: r.Usage.Input, Output: r.Usage.Output}, nil
}

// heardCall is a tool call as a client builds it.
type heardCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// listener reads a stream as the strictest client does.
type listener struct {
	id, stop           string
	created            int
	content, reasoning string
	calls              []heardCall
	usage              usageOf
	roles              int
	done               bool
	err                error
}

type chunk struct {
	ID      string
	Created int
	Choices []struct {
		Delta struct {
			Role      string
			Content   string
			Reasoning string `json:"reasoning_content"`
			ToolCalls []struct {
				Index int
				heardCall
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *usageOf
	Error *struct{ Type, Message string }
}

func (l *listener) hear(ev sse.Event) error {
	if l.done {
		return errors.New("more after the end")
	}
	if string(ev.Data) == done {
		l.done = true
		return nil
	}
	var c chunk
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		return err
	}
	if l.id == "" {
		l.id, l.created = c.ID, c.Created
	}
	switch {
	case c.Error != nil:
		return wiretest.ErrFailed
	case c.ID != l.id || c.Created != l.created:
		return fmt.Errorf("another reply: %s", ev.Data)
	}
	if c.Usage != nil {
		l.usage = *c.Usage
		return nil
	}
	return l.delta(c, ev)
}

func (l *listener) delta(c chunk, ev sse.Event) error {
	if len(c.Choices) != 1 || l.stop != "" {
		return fmt.Errorf("out of place: %s", ev.Data)
	}
	d := c.Choices[0].Delta
	if d.Role != "" {
		l.roles++
	}
	l.content, l.reasoning, l.stop = l.content+d.Content, l.reasoning+d.Reasoning, c.Choices[0].FinishReason
	for _, t := range d.ToolCalls {
		if t.Index == len(l.calls) && t.ID != "" {
			l.calls = append(l.calls, t.heardCall)
			continue
		}
		if t.Index >= len(l.calls) || t.ID != "" {
			return fmt.Errorf("orphan fragment: %s", ev.Data)
		}
		f := &l.calls[t.Index].Function
		f.Name, f.Arguments = f.Name+t.Function.Name, f.Arguments+t.Function.Arguments
	}
	if l.roles != 1 {
		return fmt.Errorf("%d roles: %s", l.roles, ev.Data)
	}
	return nil
}

func (l *listener) element() []byte {
	m := map[string]any{"role": "assistant", "content": nil}
	if l.content != "" {
		m["content"] = l.content
	}
	if l.reasoning != "" {
		m["reasoning_content"] = l.reasoning
	}
	if l.calls != nil {
		m["tool_calls"] = l.calls
	}
	out, _ := json.Marshal(m)
	return out
}

func TestLoopTooLong(t *testing.T) { wiretest.LoopTooLong(t, speaker{}) }

func FuzzLoop(f *testing.F) { wiretest.FuzzLoop(f, speaker{}) }
