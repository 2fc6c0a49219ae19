package wire

import (
	"bytes"

	"holdfast/core/chat"
)

// scanner walks JSON text it does not trust: it never reads past the end and
// never panics. What it skips it only brackets; Strict is the full check.
type scanner struct {
	b []byte
	i int
}

// Cut finds the top-level members of raw and the elements of the array named
// list, in one pass and without a tree. It checks what it needs to be sure of
// the spans: white space, keys, commas and brackets. Literals and numbers
// inside a value are Strict's business; raw is valid JSON exactly when Cut
// succeeds and every span passes Strict.
func Cut(raw []byte, list string) (*Body, error) {
	c := cutter{scanner: scanner{b: raw}, list: list}
	c.body = &Body{Raw: raw, Fields: make([]Field, 0, 16), Elements: make([]chat.Span, 0, 256)}
	if c.peek() != '{' {
		return nil, notAnObject(raw)
	}
	if err := c.object(1, c.field); err != nil {
		return nil, err
	}
	if !c.atEnd() {
		return nil, ErrNotJSON
	}
	if duplicate(c.body.Fields) {
		return nil, ErrDuplicateKey
	}
	if c.body.List.Len() == 0 {
		return nil, ErrShape
	}
	return c.body, nil
}

func notAnObject(raw []byte) error {
	if err := Strict(raw); err != nil {
		return err
	}
	return ErrShape
}

// StrictFrame runs Strict over every top-level value but the list. skip may be
// nil; it leaves out values the caller has checked before.
func (b *Body) StrictFrame(skip func(name string, value []byte) bool) error {
	for _, f := range b.Fields {
		value := f.Value.Of(b.Raw)
		if f.Value == b.List || skip != nil && skip(f.Name, value) {
			continue
		}
		if err := Strict(value); err != nil {
			return err
		}
	}
	return nil
}

// manyKeys is the object size from which a map finds a repeated key sooner
// than looking through the list.
const manyKeys = 16

func duplicate(fields []Field) bool {
	if len(fields) <= manyKeys {
		for i, f := range fields {
			for _, g := range fields[:i] {
				if sameKey(f.Name, g.Name) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(fields))
	for _, f := range fields {
		seen[foldKey(f.Name)] = struct{}{}
	}
	return len(seen) < len(fields)
}

type cutter struct {
	scanner
	list string
	body *Body
}

func (c *cutter) field(name string, _ int) error {
	if len(c.body.Fields) == MaxFields {
		return ErrShape
	}
	start := c.i
	var err error
	if isList := name == c.list && c.peek() == '['; isList {
		err = c.array(2, c.element)
		c.body.List = chat.Span{Start: start, End: c.i}
	} else {
		err = c.skip(1)
	}
	c.body.Fields = append(c.body.Fields, Field{Name: name, Value: chat.Span{Start: start, End: c.i}})
	return err
}

func (c *cutter) element() error {
	if len(c.body.Elements) == MaxElements {
		return ErrShape
	}
	start := c.i
	err := c.skip(2)
	c.body.Elements = append(c.body.Elements, chat.Span{Start: start, End: c.i})
	return err
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take consumes c, and white space before it, if it comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

func (s *scanner) atEnd() bool {
	s.peek()
	return s.i == len(s.b)
}

// object reads an object. each gets a member's decoded name and the offset of
// its key, stands on the first byte of the value and must consume it. depth is
// the number of brackets open once this object is.
func (s *scanner) object(depth int, each func(name string, key int) error) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	if !s.take('{') {
		return ErrNotJSON
	}
	if s.take('}') {
		return nil
	}
	for {
		name, key, err := s.key()
		if err != nil {
			return err
		}
		if err := each(name, key); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return ErrNotJSON
		}
	}
}

// key reads a member up to the first byte of its value.
func (s *scanner) key() (name string, at int, err error) {
	if s.peek() != '"' {
		return "", 0, ErrNotJSON
	}
	at = s.i
	if !s.str() {
		return "", 0, ErrNotJSON
	}
	name, ok := unquote(s.b[at:s.i])
	if !ok || !s.take(':') {
		return "", 0, ErrNotJSON
	}
	s.peek()
	return name, at, nil
}

// array reads an array. each stands on the first byte of a value and must
// consume it.
func (s *scanner) array(depth int, each func() error) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	if !s.take('[') {
		return ErrNotJSON
	}
	if s.take(']') {
		return nil
	}
	for {
		s.peek()
		if err := each(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return ErrNotJSON
		}
	}
}

// skip passes one value by its brackets and quotes; depth brackets are open
// around it.
func (s *scanner) skip(depth int) error {
	if s.i >= len(s.b) {
		return ErrNotJSON
	}
	switch s.b[s.i] {
	case '{', '[':
		return s.skipNested(depth)
	case '"':
		if !s.skipString() {
			return ErrNotJSON
		}
		return nil
	}
	return s.skipScalar()
}

func (s *scanner) skipNested(base int) error {
	for depth := base; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			if !s.skipString() {
				return ErrNotJSON
			}
			s.i--
		case '{', '[':
			if depth++; depth > MaxDepth {
				return ErrTooDeep
			}
		case '}', ']':
			if depth--; depth == base {
				s.i++
				return nil
			}
		}
	}
	return ErrNotJSON
}

// skipString passes a string from its opening quote: it looks for quotes and
// counts the backslashes before each.
func (s *scanner) skipString() bool {
	for j := s.i + 1; ; j++ {
		n := bytes.IndexByte(s.b[j:], '"')
		if n < 0 {
			return false
		}
		j += n
		k := j
		for s.b[k-1] == '\\' { // the opening quote ends this
			k--
		}
		if (j-k)%2 == 0 {
			s.i = j + 1
			return true
		}
	}
}

func (s *scanner) skipScalar() error {
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ' ', '\n', '\r', '\t', ',', ':', '"', '{', '}', '[', ']':
			return s.some(start)
		}
	}
	return s.some(start)
}

// some errs when nothing was read since start.
func (s *scanner) some(start int) error {
	if s.i == start {
		return ErrNotJSON
	}
	return nil
}
