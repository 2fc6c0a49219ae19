package wire

import (
	"bytes"
	"slices"
	"strings"

	"holdfast/core/chat"
)

// Quote is s as a JSON string. What is not UTF-8 in it, as half a character
// that a stream was cut in, gives way to U+FFFD: a provider may refuse the whole
// request for it.
func Quote(s string) []byte {
	return appendQuoted(make([]byte, 0, len(s)+2), strings.ToValidUTF8(s, "\uFFFD"))
}

func appendMember(dst []byte, name string, value []byte) []byte {
	return append(append(append(dst, Quote(name)...), ':'), value...)
}

// With is the edit that gives a member of the object a value, in place or as the
// last one.
func (o Object) With(name string, value []byte) Edit {
	if v := o.Get(name); v.Len() > 0 {
		return Edit{v.Span, value}
	}
	at, added := o.span.Start+1, appendMember(nil, name, value)
	if n := len(o.Members); n > 0 {
		at, added = o.Members[n-1].Value.End, slices.Concat(comma, added)
	}
	return Edit{chat.Span{Start: at, End: at}, added}
}

// Set is the object with one member's value put in place of its own, or added
// at the end. Every other byte stays.
func (o Object) Set(name string, value []byte) []byte {
	whole, e := o.Bytes(), o.With(name, value)
	return slices.Concat(whole[:e.Start-o.span.Start], e.New, whole[e.End-o.span.Start:])
}

// Without is the object without one of its members.
func (o Object) Without(name string) []byte {
	cut, ok := cutMember(o, name)
	if !ok {
		return o.Bytes()
	}
	return slices.Concat(o.buf[o.span.Start:cut.Start], o.buf[cut.End:o.span.End])
}

// Rewrite is the object with other members: change gives each its value, nil to
// leave it out. Members keep their order and the spelling of their names.
func (o Object) Rewrite(change func(name string, v Value) []byte) []byte {
	var members [][]byte
	for _, m := range o.Members {
		if value := change(m.Name, Value{o.buf, m.Value}); value != nil {
			members = append(members, slices.Concat(o.buf[m.Key:m.Value.Start], value))
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(members, comma), []byte("}"))
}

// JoinList is a JSON array of the given values.
func JoinList(values [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(values, comma), []byte("]"))
}

// Sound is raw if it is JSON that a provider takes, else nil.
func Sound(raw []byte) []byte {
	if Strict(raw) != nil {
		return nil
	}
	return raw
}

// Growing is a JSON object that a stream sends in pieces. The zero Growing has
// no members yet.
type Growing struct{ members []growth }

// growth is a member: the decoded text of a string, the elements of an array,
// or the bytes of any other value.
type growth struct {
	name  string
	first byte
	data  []byte
}

// Grow takes a piece: strings are appended to, lists are extended, any other
// value takes the place of the one before. Absent ones say nothing.
func (g *Growing) Grow(name string, v Value) {
	if v.Absent() {
		return
	}
	m := g.member(name)
	if first := v.Bytes()[0]; m.first != first {
		m.first, m.data = first, nil
	}
	switch m.first {
	case '"':
		m.data = append(m.data, v.Str()...)
	case '[':
		list, _ := v.List()
		for _, e := range list {
			m.extend(e.Bytes())
		}
	default:
		m.data = bytes.Clone(v.Bytes())
	}
}

// GrowAll takes every member of a piece but those named.
func (g *Growing) GrowAll(o Object, but ...string) {
	for _, m := range o.Members {
		if !slices.Contains(but, m.Name) {
			g.Grow(m.Name, Value{o.buf, m.Value})
		}
	}
}

// Add puts one more element at the end of a list.
func (g *Growing) Add(name string, element []byte) {
	m := g.member(name)
	if m.first != '[' {
		m.first, m.data = '[', nil
	}
	m.extend(element)
}

// Set gives a member a value that no piece extends.
func (g *Growing) Set(name string, value []byte) {
	m := g.member(name)
	m.first, m.data = 0, bytes.Clone(value)
}

// Text is the text of a string so far.
func (g *Growing) Text(name string) string {
	for _, m := range g.members {
		switch {
		case m.name != name:
		case m.first == '"':
			return string(m.data)
		case m.first == 0:
			return ValueOf(m.data).Str()
		}
	}
	return ""
}

// Has says whether there is such a member.
func (g *Growing) Has(name string) bool {
	return slices.ContainsFunc(g.members, func(m growth) bool { return m.name == name })
}

// Bytes is the object so far, its members in the order they first came in.
func (g *Growing) Bytes() []byte {
	members := make([][]byte, len(g.members))
	for i, m := range g.members {
		members[i] = appendMember(nil, m.name, m.value())
	}
	return slices.Concat([]byte("{"), bytes.Join(members, comma), []byte("}"))
}

func (g *Growing) member(name string) *growth {
	for i := range g.members {
		if g.members[i].name == name {
			return &g.members[i]
		}
	}
	g.members = append(g.members, growth{name: name})
	return &g.members[len(g.members)-1]
}

func (m *growth) extend(element []byte) {
	if len(m.data) > 0 {
		m.data = append(m.data, ',')
	}
	m.data = append(m.data, element...)
}

func (m growth) value() []byte {
	switch m.first {
	case '"':
		return Quote(string(m.data))
	case '[':
		return slices.Concat([]byte("["), m.data, []byte("]"))
	}
	return m.data
}
