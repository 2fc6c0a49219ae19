package session

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"holdfast/core/chat"
	"holdfast/core/content"
)

// The closed list of causes of a first changed byte, and whose doing it was.
const (
	ChangeFold       = "our fold"
	ChangeNudge      = "our reminder"
	ChangeMarker     = "cache marker moved"
	ChangeBilling    = "billing line"
	ChangeClock      = "clock or date"
	ChangeTools      = "tools reordered or changed"
	ChangeSystem     = "system changed"
	ChangeReasoning  = "reasoning dropped"
	ChangeEdit       = "client edit"
	ChangeRemoval    = "client removal"
	ChangeModel      = "model switch"
	ChangeWire       = "wire switch"
	ChangeLifetime   = "lifetime lapsed"
	ChangeUnknown    = "unknown"
	byClient         = "client"
	byTime           = "time"
	byHoldfast       = "holdfast"
	ChangeText       = 160 // bytes of old and new text shown around the change
	CacheLifetimeMs  = 5 * 60 * 1000
	changeTextBefore = 40
)

// Segment is one changed stretch of an outbound body with its bytes: a
// top-level field or an element of the list. The zero Segment is one that a
// side does not have.
type Segment struct {
	Name string // of the field; of the list, for an element
	Elem bool
	N    int64 // element number
	// Raw is the segment's bytes, Stripped the same without cache markers.
	Raw, Stripped []byte
	// Rest is Stripped of a system field without its billing line.
	Rest []byte
	// Role and Key are an element's; Reasoning names its reasoning cores, in
	// order, the zero ID when there are none.
	Role      chat.Role
	Key       content.ID
	Reasoning content.ID
}

// FieldSegment is a top-level field. rest is nil where there is no billing line.
func FieldSegment(name string, raw, stripped, rest []byte) Segment {
	if rest == nil {
		rest = stripped
	}
	return Segment{Name: name, Raw: raw, Stripped: stripped, Rest: rest}
}

// ElemSegment is element n of the list called list.
func ElemSegment(list string, n int64, m *chat.Message) Segment {
	return Segment{Name: list, Elem: true, N: n, Raw: m.Raw, Stripped: m.Stripped, Role: m.Role, Key: m.Key, Reasoning: reasoningOf(m.Parts)}
}

func reasoningOf(parts []chat.Part) content.ID {
	var buf []byte
	for i := range parts {
		if parts[i].Kind == chat.Reasoning {
			buf = append(buf, parts[i].Canon[:]...)
		}
	}
	if len(buf) == 0 {
		return content.ID{}
	}
	return content.Of(buf)
}

// has reports whether the side has the segment at all.
func (s *Segment) has() bool { return s.Elem || s.Name != "" }

func (s *Segment) marked() bool { return len(s.Raw) != len(s.Stripped) }

// Change describes the first changed segment, as FirstChanged found it.
type Change struct {
	// Offset is where the differing pieces start in the new body.
	Offset int64
	// Index is the place in the new list that the change is about.
	Index    int
	Old, New Segment
	// OldAt and NewAt are the differing pieces where those are not the segments
	// themselves but what stands between them.
	OldAt, NewAt       []byte
	ModelOld, ModelNew string
	WireSwitch         bool
}

// Explain turns a change into its report: the exact offset, the JSON path, the
// texts around it and the cause from the closed list.
func (c Change) Explain() *FirstChange {
	at := firstDiff(c.Old.Raw, c.New.Raw)
	off := c.Offset + int64(at)
	if c.OldAt != nil || c.NewAt != nil {
		off = c.Offset + int64(firstDiff(c.OldAt, c.NewAt))
	}
	return &FirstChange{Offset: off, JSONPath: c.path(), Old: around(c.Old.Raw, at), New: around(c.New.Raw, at), Cause: c.cause(), By: byClient}
}

// OurChange is the report of a change that was our doing.
func OurChange(offset int64, list string, index int, cause string) *FirstChange {
	return &FirstChange{Offset: offset, JSONPath: fmt.Sprintf("$.%s[%d]", list, index), Cause: cause, By: byHoldfast}
}

// Lapsed is the report for a turn whose bytes are a plain extension but that
// came after the provider's cache lifetime; nil within it.
func Lapsed(idleMs int64) *FirstChange {
	if idleMs <= CacheLifetimeMs {
		return nil
	}
	return &FirstChange{Cause: ChangeLifetime, By: byTime, New: fmt.Sprintf("%d s since the last request", idleMs/1000)}
}

// subject is the segment that names the change: the new one unless it is gone.
func (c *Change) subject() *Segment {
	if c.New.has() {
		return &c.New
	}
	return &c.Old
}

func (c *Change) path() string {
	s := c.subject()
	if s.Elem {
		return fmt.Sprintf("$.%s[%d]", s.Name, c.Index)
	}
	return "$." + s.Name
}

func (c *Change) cause() string {
	switch {
	case c.WireSwitch:
		return ChangeWire
	case c.ModelOld != c.ModelNew:
		return ChangeModel
	case c.subject().Elem:
		return c.elementCause()
	}
	return c.fieldCause()
}

func (c *Change) fieldCause() string {
	both := c.Old.has() && c.New.has()
	name := c.subject().Name
	system := name == "system" || name == "instructions" || name == "systemInstruction"
	switch {
	case both && bytes.Equal(c.Old.Raw, c.New.Raw): // other white space before it
		return ChangeUnknown
	case both && bytes.Equal(c.Old.Stripped, c.New.Stripped):
		return ChangeMarker
	case both && system && bytes.Equal(c.Old.Rest, c.New.Rest):
		return ChangeBilling
	case name == "tools":
		return ChangeTools
	case both && clockOnly(c.Old.Stripped, c.New.Stripped):
		return ChangeClock
	case system:
		return ChangeSystem
	}
	return ChangeUnknown
}

// elementCause: with equal keys only spelling, markers or reasoning can differ.
// A client that moves its marker may respell the element along with it.
func (c *Change) elementCause() string {
	o, n := &c.Old, &c.New
	switch {
	case !n.has():
		return ChangeRemoval
	case !o.has(), bytes.Equal(o.Raw, n.Raw): // the latter: other white space before it
		return ChangeEdit
	case bytes.Equal(o.Stripped, n.Stripped):
		return ChangeMarker
	case o.Key == n.Key && o.Reasoning != n.Reasoning:
		return ChangeReasoning
	case o.Key == n.Key && o.marked() != n.marked():
		return ChangeMarker
	case clockOnly(o.Stripped, n.Stripped):
		return ChangeClock
	case o.system() && n.system():
		return ChangeSystem
	}
	return ChangeEdit
}

func (s *Segment) system() bool { return s.Role == chat.System || s.Role == chat.Developer }

// clock matches what clocks and dates look like in prompts.
var clock = regexp.MustCompile(`\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?|(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|\d{1,2}/\d{1,2}/\d{2,4}|(January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2}(, \d{4})?|\b1[0-9]{9}([0-9]{3})?\b`)

// clockOnly reports whether two texts are equal once everything that looks
// like a clock or a date is blanked.
func clockOnly(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return false
	}
	return bytes.Equal(clock.ReplaceAll(a, []byte("#")), clock.ReplaceAll(b, []byte("#")))
}

func firstDiff(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// around is a readable cut of b around offset at.
func around(b []byte, at int) string {
	from := max(0, at-changeTextBefore)
	to := min(len(b), from+ChangeText)
	if from >= to {
		return ""
	}
	return strings.ToValidUTF8(string(trimRunes(b[from:to])), "\uFFFD")
}

// trimRunes drops halves of runes at both ends of a cut.
func trimRunes(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	for i := 0; i < utf8.UTFMax && len(b) > 0; i++ {
		r, size := utf8.DecodeLastRune(b)
		if r != utf8.RuneError || size > 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return b
}
