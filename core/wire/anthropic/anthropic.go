// Package anthropic reads the Messages API: its frame, its messages and its
// replies.
package anthropic

import (
	"bytes"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Codec reads the Messages API.
type Codec struct{}

var _ wire.Codec = Codec{}

// Family names the wire.
func (Codec) Family() wire.Family { return wire.Anthropic }

// List is the member that holds the messages.
func (Codec) List() string { return "messages" }

// Frame reads the top-level fields.
func (Codec) Frame(b *wire.Body) (wire.Frame, error) {
	var f wire.Frame
	r := frameReader{b: b, f: &f}
	for _, read := range []func() error{r.plain, r.system, r.tools, r.choice, r.format, r.session} {
		if err := read(); err != nil {
			return wire.Frame{}, err
		}
	}
	return f, nil
}

type frameReader struct {
	b *wire.Body
	f *wire.Frame
}

func (r frameReader) plain() (err error) {
	if r.f.Model, err = r.b.Get("model").Text(); err != nil {
		return err
	}
	if r.f.Stream, err = r.b.Get("stream").Bool(); err != nil {
		return err
	}
	most, err := r.b.Get("max_tokens").Int()
	r.f.MaxOutput = max(most, 0)
	return err
}

func (r frameReader) system() error {
	system := r.b.Get("system")
	if !system.Is('[') {
		text, err := system.Text()
		r.f.System = text
		return err
	}
	blocks, err := system.List()
	if err != nil {
		return err
	}
	texts := make([]string, 0, len(blocks))
	for _, v := range blocks {
		text, err := blockText(v)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	r.f.System = strings.Join(texts, "\n")
	return nil
}

func blockText(v wire.Value) (string, error) {
	block, err := v.Object()
	if err != nil {
		return "", err
	}
	return block.Get("text").Text()
}

// tools also counts MCP servers, whose tools only the provider knows.
func (r frameReader) tools() error {
	tools, err := r.b.Get("tools").List()
	if err != nil {
		return err
	}
	for _, v := range tools {
		tool, err := v.Object()
		if err != nil {
			return err
		}
		name, err := tool.Get("name").Text()
		if err != nil {
			return err
		}
		r.f.ToolNames = append(r.f.ToolNames, name)
	}
	servers, err := r.b.Get("mcp_servers").List()
	r.f.Tools = len(tools)+len(servers) > 0
	return err
}

// choice is never refused: one in a form we do not know demands something.
func (r frameReader) choice() error {
	choice := r.b.Get("tool_choice")
	if choice.Absent() {
		return nil
	}
	switch choice.Obj().Get("type").Str() {
	case "auto":
	case "none":
		r.f.Choice = wire.ChoiceNone
	case "tool":
		r.f.Choice = wire.ChoiceNamed
	default:
		r.f.Choice = wire.ChoiceAny
	}
	return nil
}

// format looks at both places a JSON format was asked for over time.
func (r frameReader) format() error {
	config, err := r.b.Get("output_config").Object()
	if err != nil {
		return err
	}
	for _, v := range []wire.Value{config.Get("format"), r.b.Get("output_format")} {
		format, err := v.Object()
		if err != nil {
			return err
		}
		kind, err := format.Get("type").Text()
		if err != nil {
			return err
		}
		r.f.JSONFormat = r.f.JSONFormat || strings.HasPrefix(kind, "json")
	}
	return nil
}

// session reads the session id that some clients hide as JSON inside the user
// id. A user id that is anything else names a user, not a session.
func (r frameReader) session() error {
	metadata, err := r.b.Get("metadata").Object()
	if err != nil {
		return err
	}
	user, err := metadata.Get("user_id").Text()
	if err != nil || !strings.HasPrefix(user, "{") || wire.Strict([]byte(user)) != nil {
		return err
	}
	r.f.SessionHint = wire.ValueOf([]byte(user)).Obj().Get("session_id").Str()
	return nil
}

const billing = "x-anthropic-billing-header:"

// BillingLine cuts the first system block when it is a client's billing line.
func (Codec) BillingLine(system []byte) (rest []byte, found bool) {
	blocks, err := wire.ValueOf(system).List()
	if err != nil || len(blocks) == 0 {
		return system, false
	}
	text := blocks[0].Obj().Get("text").Str()
	if !strings.HasPrefix(text, billing) {
		return system, false
	}
	if len(blocks) == 1 {
		return []byte("[]"), true
	}
	return bytes.Join([][]byte{{'['}, system[blocks[1].Start:]}, nil), true
}

// Element decodes one message.
func (Codec) Element(raw []byte) (chat.Message, error) {
	d, err := wire.NewDraft(raw)
	if err != nil {
		return chat.Message{}, err
	}
	role, err := d.Get("role").Text()
	if err != nil {
		return chat.Message{}, err
	}
	r := reader{d, chat.Role(role)}
	if err := r.content(d.Get("content")); err != nil {
		return chat.Message{}, err
	}
	d.AddRest(r.role, "role", "content")
	return d.Message(r.role, ""), nil
}
