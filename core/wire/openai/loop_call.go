package openai

import (
	"bytes"
	"slices"
	"strings"

	"holdfast/core/wire"
)

// owner says whose a call is.
type owner int

const (
	unknown owner = iota
	ours
	theirs
)

// call is one tool call of the round that is being sent.
type call struct {
	// index is the upstream's.
	index int64
	// as is how much lower the client's index is.
	lower int64
	is    owner
	id    string
	// kind is the member that says what is called: function, or custom for a
	// tool that takes text. None of ours does.
	kind string
	// what are the members of that one, rest the others of the call.
	what, rest wire.Growing
}

func (c *call) name() string { return c.what.Text("name") }

// grow takes a fragment. Some servers say the id, the type and a whole name
// again with each; no model has a name that is twice the same.
func (c *call) grow(o wire.Object, own []string) {
	c.rest.GrowAll(o, "index", "id", "type", "function", "custom")
	if id := o.Get("id").Str(); c.id == "" && id != "" {
		c.id = id
	}
	if kind := o.Get("type"); !kind.Absent() {
		c.rest.Set("type", kind.Bytes())
	}
	c.kind = "function"
	if !o.Get("custom").Absent() || c.rest.Text("type") == "custom" {
		c.kind, c.is = "custom", theirs
	}
	what := o.Get(c.kind).Obj()
	if name := c.name(); name != "" && what.Get("name").Str() == name && (c.is == theirs || slices.Contains(own, name)) {
		c.what.GrowAll(what, "name")
		return
	}
	c.what.GrowAll(what)
}

// tell decides whose the call is as soon as that is sure: a name that can not
// become one of ours is the client's; one that is ours is complete when its
// arguments come.
func (c *call) tell(own []string) {
	name := c.name()
	switch {
	case c.is != unknown || name == "":
	case !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name) }):
		c.is = theirs
	case c.what.Text("arguments") != "" && slices.Contains(own, name):
		c.is = ours
	}
}

// settle decides by what has come.
func (c *call) settle(own []string) {
	switch {
	case c.is != unknown:
	case slices.Contains(own, c.name()):
		c.is = ours
	default:
		c.is = theirs
	}
}

func (c *call) own() wire.Call {
	return wire.Call{ID: c.id, Name: c.name(), Args: []byte(c.what.Text("arguments"))}
}

// bytes is the whole call as it may be sent back.
func (c *call) bytes() []byte {
	var g wire.Growing
	g.Set("id", wire.Quote(c.id))
	g.Set("type", []byte(`"function"`))
	g.GrowAll(wire.ValueOf(c.rest.Bytes()).Obj())
	what := c.what.Bytes()
	if c.kind == "function" {
		o := wire.ValueOf(what).Obj()
		what = o.Set("arguments", wire.Quote(sendable(o.Get("arguments").Str())))
	}
	g.Set(c.kind, what)
	return g.Bytes()
}

// sendable are the arguments of a call as they may be sent back: the text of an
// object.
func sendable(text string) string {
	raw := []byte(text)
	if wire.Strict(raw) != nil || !wire.ValueOf(raw).Is('{') {
		return "{}"
	}
	return text
}

// elementOf is the message of what was said and called; nil if that is nothing
// that can be sent.
func elementOf(said wire.Growing, calls []*call) []byte {
	var g wire.Growing
	g.Set("role", []byte(`"assistant"`))
	g.Set("content", []byte("null"))
	o := wire.ValueOf(said.Bytes()).Obj()
	if content := o.Get("content"); said.Text("content") != "" || content.Is('[') {
		g.Set("content", content.Bytes())
	}
	g.GrowAll(o, "role", "content", "tool_calls")
	if len(calls) == 0 && bytes.Equal(wire.ValueOf(g.Bytes()).Obj().Get("content").Bytes(), []byte("null")) {
		return nil
	}
	for _, c := range calls {
		g.Add("tool_calls", c.bytes())
	}
	return wire.Sound(g.Bytes())
}
