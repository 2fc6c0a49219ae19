package fold

import (
	"fmt"
	"strconv"
	"strings"
)

// A Ref names an element (m00012) or a block (b3) to the model. The zero Ref
// names nothing.
type Ref struct {
	// Number is the ref number of an element, or a block's.
	Number int64
	Block  bool
}

// MaxRef is the last ref of an element. Past it new elements stay without one:
// they are served, and never folded.
const MaxRef = 99_999

// ParseRef reads a ref in any case and with any zero padding.
func ParseRef(s string) (Ref, bool) {
	s = strings.ToLower(strings.Trim(strings.TrimSpace(s), "[]()<>`\"'"))
	if len(s) < 2 || s[0] != 'm' && s[0] != 'b' {
		return Ref{}, false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return Ref{}, false
		}
	}
	n, err := strconv.ParseInt(s[1:], 10, 64)
	if err != nil || n == 0 {
		return Ref{}, false
	}
	return Ref{Number: n, Block: s[0] == 'b'}, true
}

// String writes a ref the way it is shown.
func (r Ref) String() string {
	if r.Block {
		return fmt.Sprintf("b%d", r.Number)
	}
	return fmt.Sprintf("m%05d", r.Number)
}

func blockRef(id int64) string { return Ref{Number: id, Block: true}.String() }

// span writes one ref or two ends.
func span(from, to string) string {
	if from == to {
		return from
	}
	return from + "–" + to
}

func blockRefs(ids []int64) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = blockRef(id)
	}
	return strings.Join(names, ", ")
}
