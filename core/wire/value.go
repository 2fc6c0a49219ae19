package wire

import (
	"bytes"
	"strconv"

	"holdfast/core/chat"
)

// Value is one JSON value inside a buffer. The zero Value is an absent one.
// Its readers take absent and null for the same, err with ErrShape on another
// type, and are safe on bytes that were never checked.
type Value struct {
	buf []byte
	// Span is where the value stands in its buffer.
	chat.Span
}

// Member is one member of an object; offsets are into the buffer.
type Member struct {
	Name string
	// Key is where the quoted key starts.
	Key   int
	Value chat.Span
}

// Object is an object's members in their order.
type Object struct {
	buf     []byte
	span    chat.Span
	Members []Member
}

// ValueOf is the value that raw holds.
func ValueOf(raw []byte) Value {
	s := scanner{b: raw}
	s.peek()
	return Value{raw, chat.Span{Start: s.i, End: s.i + len(bytes.TrimRight(raw[s.i:], " \n\r\t"))}}
}

// Bytes are the value's own bytes.
func (v Value) Bytes() []byte { return v.Of(v.buf) }

// Absent says that there is no value, or null.
func (v Value) Absent() bool { return v.Len() == 0 || string(v.Bytes()) == "null" }

// Is says whether the value starts as a JSON type does: '{', '[' or '"'.
func (v Value) Is(first byte) bool { return v.Len() > 0 && v.buf[v.Start] == first }

// Text reads a string.
func (v Value) Text() (string, error) {
	if v.Absent() {
		return "", nil
	}
	s, ok := unquote(v.Bytes())
	if !ok {
		return "", ErrShape
	}
	return s, nil
}

// Bool reads true or false.
func (v Value) Bool() (bool, error) {
	switch string(v.Bytes()) {
	case "true":
		return true, nil
	case "false", "null", "":
		return false, nil
	}
	return false, ErrShape
}

// Int reads a whole number in any spelling, 0 when absent.
func (v Value) Int() (int64, error) {
	if v.Absent() {
		return 0, nil
	}
	s := scanner{b: v.Bytes()}
	if !s.number() || s.i != len(s.b) {
		return 0, ErrShape
	}
	n, err := strconv.ParseInt(string(appendNumber(nil, s.b)), 10, 64)
	if err != nil {
		return 0, ErrShape
	}
	return n, nil
}

// List reads an array.
func (v Value) List() ([]Value, error) {
	if v.Absent() {
		return nil, nil
	}
	var out []Value
	s := scanner{b: v.buf[:v.End], i: v.Start}
	err := s.array(1, func() error {
		start := s.i
		err := s.skip(1)
		out = append(out, Value{v.buf, chat.Span{Start: start, End: s.i}})
		return err
	})
	if err != nil || s.i != v.End {
		return nil, ErrShape
	}
	return out, nil
}

// Object reads an object.
func (v Value) Object() (Object, error) {
	o := Object{buf: v.buf, span: v.Span}
	if v.Absent() {
		return o, nil
	}
	s := scanner{b: v.buf[:v.End], i: v.Start}
	err := s.object(1, func(name string, key int) error {
		m := Member{Name: name, Key: key, Value: chat.Span{Start: s.i}}
		err := s.skip(1)
		m.Value.End = s.i
		o.Members = append(o.Members, m)
		return err
	})
	if err != nil || s.i != v.End {
		return Object{}, ErrShape
	}
	return o, nil
}

// Get returns the member called name, absent if there is none.
func (o Object) Get(name string) Value {
	for _, m := range o.Members {
		if m.Name == name {
			return Value{o.buf, m.Value}
		}
	}
	return Value{}
}

// Bytes are the object's own bytes.
func (o Object) Bytes() []byte { return o.span.Of(o.buf) }

// Get returns a top-level member as a value, absent if there is none.
func (b *Body) Get(name string) Value {
	for _, f := range b.Fields {
		if f.Name == name {
			return Value{b.Raw, f.Value}
		}
	}
	return Value{}
}

// Str is the string, or empty: replies are never refused, so their readers take
// a field of another type for absent, as Num and Obj do.
func (v Value) Str() string {
	s, _ := v.Text()
	return s
}

// Num is the whole number, or 0.
func (v Value) Num() int64 {
	n, _ := v.Int()
	return n
}

// maxCount is more tokens than any call has; the counts of a session of greater
// ones could not be added up.
const maxCount = 1e12

// Count is a number of tokens; what cannot be one is 0.
func (v Value) Count() int64 {
	if n := v.Num(); n > 0 && n <= maxCount {
		return n
	}
	return 0
}

// Obj is the object, or one without members.
func (v Value) Obj() Object {
	o, _ := v.Object()
	return o
}
