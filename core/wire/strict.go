package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Strict checks that value is one JSON value by the grammar of encoding/json,
// white space around it allowed, and that no object in it has a key twice. The
// bytes of strings need not be valid UTF-8. It keeps its own stack, so deep
// nesting costs memory, never the goroutine's stack.
func Strict(value []byte) error {
	c := checker{scanner: scanner{b: value}}
	for {
		opened, err := c.value()
		if err != nil {
			return err
		}
		if !opened {
			more, err := c.after()
			if err != nil || !more {
				return err
			}
		}
	}
}

// level is one open bracket.
type level struct {
	object bool
	// keys is where the object's keys start in checker.keys.
	keys int
	// set holds all keys of an object with many of them.
	set map[string]struct{}
}

type checker struct {
	scanner
	stack []level
	// keys are the keys so far of all open objects, innermost last.
	keys [][]byte
}

// value reads one scalar or empty container, or opens a container and stops
// where its first value starts.
func (c *checker) value() (opened bool, err error) {
	switch c.peek() {
	case '{':
		return c.open(true, '}')
	case '[':
		return c.open(false, ']')
	case '"':
		return false, valid(c.str())
	case 't':
		return false, valid(c.word("true"))
	case 'f':
		return false, valid(c.word("false"))
	case 'n':
		return false, valid(c.word("null"))
	}
	return false, valid(c.number())
}

func valid(ok bool) error {
	if !ok {
		return ErrNotJSON
	}
	return nil
}

func (c *checker) open(object bool, end byte) (bool, error) {
	c.i++
	if len(c.stack) == MaxDepth {
		return false, ErrTooDeep
	}
	if c.take(end) {
		return false, nil
	}
	c.stack = append(c.stack, level{object: object, keys: len(c.keys)})
	if object {
		return true, c.name()
	}
	return true, nil
}

// after follows a complete value: it closes brackets until another value is
// due, or the text ends.
func (c *checker) after() (more bool, err error) {
	for len(c.stack) > 0 {
		top := &c.stack[len(c.stack)-1]
		if c.take(',') {
			if top.object {
				return true, c.name()
			}
			return true, nil
		}
		end := byte(']')
		if top.object {
			end = '}'
		}
		if !c.take(end) {
			return false, ErrNotJSON
		}
		c.keys = c.keys[:top.keys]
		c.stack = c.stack[:len(c.stack)-1]
	}
	return false, valid(c.atEnd())
}

// name reads a key and its colon.
func (c *checker) name() error {
	if c.peek() != '"' {
		return ErrNotJSON
	}
	start := c.i
	if !c.str() {
		return ErrNotJSON
	}
	quoted := c.b[start:c.i]
	if !c.take(':') {
		return ErrNotJSON
	}
	return c.unseen(keyBytes(quoted))
}

func (c *checker) unseen(name []byte) error {
	top := &c.stack[len(c.stack)-1]
	if top.set != nil {
		if _, again := top.set[string(name)]; again {
			return ErrDuplicateKey
		}
		top.set[string(name)] = struct{}{}
		return nil
	}
	own := c.keys[top.keys:]
	for _, k := range own {
		if bytes.Equal(k, name) {
			return ErrDuplicateKey
		}
	}
	c.keys = append(c.keys, name)
	if len(own) >= manyKeys {
		top.set = make(map[string]struct{}, 4*manyKeys)
		for _, k := range c.keys[top.keys:] {
			top.set[string(k)] = struct{}{}
		}
	}
	return nil
}

// keyBytes is the form in which keys are compared; quoted is a valid string.
func keyBytes(quoted []byte) []byte {
	plain := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return plain
	}
	name, _ := unquote(quoted)
	return []byte(foldKey(name))
}

// foldKey makes keys equal that any reader may take for the same: several
// replace what is not UTF-8.
func foldKey(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func sameKey(a, b string) bool { return foldKey(a) == foldKey(b) }

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// str reads a string from its opening quote and checks its escapes.
func (s *scanner) str() bool {
	for s.i++; ; {
		s.i = plainEnd(s.b, s.i)
		if s.i >= len(s.b) {
			return false
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return true
		case '\\':
			if !s.escape() {
				return false
			}
		default: // a control character
			return false
		}
	}
}

func (s *scanner) escape() bool {
	if s.i+1 >= len(s.b) {
		return false
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return true
	case 'u':
		_, ok := hex4(s.b[s.i+2:])
		s.i += 6
		return ok
	}
	return false
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (s *scanner) number() bool {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	switch {
	case s.i < len(s.b) && s.b[s.i] == '0':
		s.i++
	case !s.digits():
		return false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

// digits reads at least one digit.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// plainEnd is the offset from i of the first quote, backslash or control
// character, or len(b). It reads eight bytes at a time: in each, the high bit
// of a lane of mask is set where the byte is one of the three (lanes above the
// first hit may lie, which is why only the lowest is used).
func plainEnd(b []byte, i int) int {
	const (
		ones = 0x0101010101010101
		high = 0x8080808080808080
	)
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		mask := (w - ones*0x20) | (quote - ones) | (slash - ones)
		// a byte of 0x80 and more is never one of the three
		if mask &= ^w & high; mask != 0 {
			return i + bits.TrailingZeros64(mask)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}
