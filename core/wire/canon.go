package wire

import (
	"bytes"
	"slices"
	"strconv"

	"holdfast/core/chat"
)

// Canonical is the one text of a JSON value: keys sorted, no white space,
// strings escaped one way, numbers as decimal text. Members named in drop are
// left out of the value itself, not of what lies inside it. It errs as Strict
// does; callers then compare the text as it came.
func Canonical(raw []byte, drop ...string) (string, error) {
	if err := Strict(raw); err != nil {
		return "", err
	}
	c := canon{scanner: scanner{b: raw}, dst: make([]byte, 0, len(raw))}
	c.value(drop)
	return string(c.dst), nil
}

// canon writes the canonical form of valid JSON; MaxDepth bounds its recursion.
type canon struct {
	scanner
	dst []byte
}

// piece is one written member: its key and where it stands in dst.
type piece struct {
	key string
	chat.Span
}

func (c *canon) value(drop []string) {
	switch c.peek() {
	case '{':
		c.members(drop)
	case '[':
		c.elements()
	case '"':
		start := c.i
		c.str()
		c.quoted(c.b[start:c.i])
	default:
		start := c.i
		c.skipScalar()
		c.scalar(c.b[start:c.i])
	}
}

func (c *canon) quoted(q []byte) {
	if isCanonical(q) {
		c.dst = append(c.dst, q...)
		return
	}
	s, _ := unquote(q)
	c.dst = appendQuoted(c.dst, s)
}

func (c *canon) scalar(b []byte) {
	if b[0] == '-' || '0' <= b[0] && b[0] <= '9' {
		c.dst = appendNumber(c.dst, b)
		return
	}
	c.dst = append(c.dst, b...)
}

func (c *canon) elements() {
	c.dst = append(c.dst, '[')
	head := len(c.dst)
	c.array(0, func() error {
		if len(c.dst) > head {
			c.dst = append(c.dst, ',')
		}
		c.value(nil)
		return nil
	})
	c.dst = append(c.dst, ']')
}

func (c *canon) members(drop []string) {
	c.dst = append(c.dst, '{')
	head := len(c.dst)
	var pieces []piece
	c.object(0, func(name string, _ int) error {
		mark := len(c.dst)
		if mark > head {
			c.dst = append(c.dst, ',')
		}
		start := len(c.dst)
		c.dst = append(appendQuoted(c.dst, name), ':')
		c.value(nil)
		if slices.Contains(drop, name) {
			c.dst = c.dst[:mark]
			return nil
		}
		pieces = append(pieces, piece{name, chat.Span{Start: start, End: len(c.dst)}})
		return nil
	})
	c.sort(head, pieces)
	c.dst = append(c.dst, '}')
}

// sort brings the members written since head into the order of their keys.
func (c *canon) sort(head int, pieces []piece) {
	byKey := func(a, b piece) int { return cmpString(a.key, b.key) }
	if slices.IsSortedFunc(pieces, byKey) {
		return
	}
	slices.SortFunc(pieces, byKey)
	old := slices.Clone(c.dst[head:])
	c.dst = c.dst[:head]
	for i, p := range pieces {
		if i > 0 {
			c.dst = append(c.dst, ',')
		}
		c.dst = append(c.dst, old[p.Start-head:p.End-head]...)
	}
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

const (
	// maxExponent is the largest written exponent that is reckoned with; beyond
	// it a number keeps its spelling.
	maxExponent = 400
	// maxPlain is how many digits are written without an exponent, so that a
	// short spelling cannot grow by hundreds of zeros.
	maxPlain = 24
)

// appendNumber writes a valid JSON number so that equal decimals read equal:
// 1, 1.0 and 10e-1 are all "1". Nothing is rounded.
func appendNumber(dst, num []byte) []byte {
	sign, digits, exp, ok := decimal(num)
	switch {
	case !ok:
		return append(dst, num...)
	case len(digits) == 0:
		return append(dst, '0')
	case sign:
		dst = append(dst, '-')
	}
	point := len(digits) + exp // digits before the decimal point
	switch {
	case exp >= 0 && point <= maxPlain:
		return append(append(dst, digits...), zeros[:exp]...)
	case exp < 0 && 0 < point && point <= maxPlain:
		return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
	case -maxPlain <= point && point <= 0:
		return append(append(append(dst, '0', '.'), zeros[:-point]...), digits...)
	}
	return strconv.AppendInt(append(append(dst, digits...), 'e'), int64(exp), 10)
}

const zeros = "000000000000000000000000" // maxPlain of them

// decimal splits a number into sign, digits without outer zeros, and the power
// of ten of the last digit. ok is false past maxExponent.
func decimal(num []byte) (negative bool, digits []byte, exp int, ok bool) {
	if num[0] == '-' {
		negative, num = true, num[1:]
	}
	if e := bytes.IndexAny(num, "eE"); e >= 0 {
		var err error
		exp, err = strconv.Atoi(string(num[e+1:]))
		if err != nil || exp < -maxExponent || exp > maxExponent {
			return false, nil, 0, false
		}
		num = num[:e]
	}
	whole, fraction, _ := bytes.Cut(num, []byte("."))
	digits = slices.Concat(whole, fraction)
	exp -= len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	short := bytes.TrimRight(digits, "0")
	exp += len(digits) - len(short)
	return negative, short, exp, true
}
