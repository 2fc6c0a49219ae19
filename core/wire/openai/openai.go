// Package openai reads the Chat Completions API: its frame, its messages and
// its replies, with the members that compatible servers add.
package openai

import (
	"strings"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Codec reads the Chat Completions API.
type Codec struct{}

var _ wire.Codec = Codec{}

// Family names the wire.
func (Codec) Family() wire.Family { return wire.OpenAI }

// List is the member that holds the messages.
func (Codec) List() string { return "messages" }

// BillingLine finds none: no client of this wire writes one, and system is an
// element here.
func (Codec) BillingLine(system []byte) (rest []byte, found bool) { return system, false }

// Frame reads the top-level fields.
func (Codec) Frame(b *wire.Body) (wire.Frame, error) {
	var f wire.Frame
	r := frameReader{b: b, f: &f}
	for _, read := range []func() error{r.plain, r.limit, r.tools, r.choice, r.options} {
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
	r.f.Stream, err = r.b.Get("stream").Bool()
	return err
}

// limit takes the newer spelling where both stand.
func (r frameReader) limit() error {
	older, err := r.b.Get("max_tokens").Int()
	if err != nil {
		return err
	}
	newer, err := r.b.Get("max_completion_tokens").Int()
	if newer != 0 {
		older = newer
	}
	r.f.MaxOutput = max(older, 0)
	return err
}

func (r frameReader) tools() error {
	tools, err := r.b.Get("tools").List()
	if err != nil {
		return err
	}
	functions, err := r.b.Get("functions").List()
	if err != nil {
		return err
	}
	for _, v := range append(tools, functions...) {
		name, err := toolName(v)
		if err != nil {
			return err
		}
		r.f.ToolNames = append(r.f.ToolNames, name)
	}
	r.f.Tools = len(r.f.ToolNames) > 0
	r.f.OldTools = len(functions) > 0 && len(tools) == 0
	return nil
}

// choice is never refused: one in a form we do not know demands something. The
// older spelling counts where the newer is absent.
func (r frameReader) choice() error {
	choice := r.b.Get("tool_choice")
	if choice.Absent() {
		choice = r.b.Get("function_call")
	}
	switch o := choice.Obj(); {
	case choice.Absent() || choice.Str() == "auto":
	case choice.Str() == "none":
		r.f.Choice = wire.ChoiceNone
	case o.Get("type").Str() == "allowed_tools":
		r.f.Choice = wire.ChoiceAllowed
	case !o.Get("type").Absent() || !o.Get("name").Absent():
		r.f.Choice = wire.ChoiceNamed
	default:
		r.f.Choice = wire.ChoiceAny
	}
	return nil
}

// toolName finds the name where the tool's type puts it; a tool without one is
// called by its type.
func toolName(v wire.Value) (string, error) {
	tool, err := v.Object()
	if err != nil {
		return "", err
	}
	for _, holder := range []wire.Object{tool.Get("function").Obj(), tool.Get("custom").Obj(), tool} {
		if name := holder.Get("name"); !name.Absent() {
			return name.Text()
		}
	}
	return tool.Get("type").Text()
}

func (r frameReader) options() error {
	format, err := r.b.Get("response_format").Object()
	if err != nil {
		return err
	}
	kind, err := format.Get("type").Text()
	if err != nil {
		return err
	}
	r.f.JSONFormat = strings.HasPrefix(kind, "json_")
	options, err := r.b.Get("stream_options").Object()
	if err != nil {
		return err
	}
	r.f.IncludeUsage, err = options.Get("include_usage").Bool()
	return err
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
	d.Unmark(d.Object)
	r := reader{d, chat.Role(role)}
	if err := r.message(); err != nil {
		return chat.Message{}, err
	}
	return d.Message(r.role, ""), nil
}
