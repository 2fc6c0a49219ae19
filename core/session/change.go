package session

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The closed list of causes of a first changed byte, and whose doing it was.
// The fold causes (our fold, our overlay) come with the folding kernel.
const (
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
	ChangeText       = 160 // bytes of old and new text shown around the change
	CacheLifetimeMs  = 5 * 60 * 1000
	changeTextBefore = 40
)

// Segment is one stretch of an outbound body: a top-level field (Elem false) or
// an element of the list. Old and new bodies are compared segment by segment.
type Segment struct {
	Name string // field name; empty for an element
	Elem bool
	N    int64 // element number
	// Raw is the segment's bytes. Same is set instead when the caller knows by
	// hash that both sides are equal.
	Raw []byte
	// Stripped is Raw without cache markers and Bare without reasoning either;
	// only needed where the segment changed.
	Stripped, Bare []byte
	// Rest is a system field without its billing line.
	Rest []byte
}

// Change describes the first changed segment. Index is the element's place in
// the new list, Gone says the old element is not in the new list at all.
type Change struct {
	Offset     int64 // in the new body, where the segment starts
	Index      int
	Old, New   Segment
	Gone       bool
	ModelOld   string
	ModelNew   string
	WireSwitch bool
}

// Explain turns a change into its report: the exact offset, the JSON path, the
// texts around it and the cause from the closed list.
func (c Change) Explain() *FirstChange {
	at := firstDiff(c.Old.Raw, c.New.Raw)
	cause, by := c.cause()
	return &FirstChange{Offset: c.Offset + int64(at), JSONPath: c.path(), Old: around(c.Old.Raw, at), New: around(c.New.Raw, at), Cause: cause, By: by}
}

// Lapsed is the report for a turn whose bytes are a plain extension but that
// came after the provider's cache lifetime.
func Lapsed(idleMs int64) *FirstChange {
	if idleMs <= CacheLifetimeMs {
		return nil
	}
	return &FirstChange{Cause: ChangeLifetime, By: byTime, Old: "", New: fmt.Sprintf("%d s since the last request", idleMs/1000)}
}

func (c Change) path() string {
	if c.New.Elem || c.Old.Elem {
		return fmt.Sprintf("$.%s[%d]", listName(c.New, c.Old), c.Index)
	}
	name := c.New.Name
	if name == "" {
		name = c.Old.Name
	}
	return "$." + name
}

func listName(a, b Segment) string {
	if a.Name != "" {
		return a.Name
	}
	return b.Name
}

func (c Change) cause() (cause, by string) {
	switch {
	case c.WireSwitch:
		return ChangeWire, byClient
	case c.ModelOld != c.ModelNew:
		return ChangeModel, byClient
	case c.New.Elem || c.Old.Elem:
		return c.elementCause(), byClient
	}
	return c.fieldCause(), byClient
}

func (c Change) fieldCause() string {
	switch c.New.Name {
	case "tools":
		return ChangeTools
	case "system", "instructions":
		if bytes.Equal(c.Old.Stripped, c.New.Stripped) {
			return ChangeMarker
		}
		if c.Old.Rest != nil && bytes.Equal(c.Old.Rest, c.New.Rest) {
			return ChangeBilling
		}
		if clockOnly(c.Old.Raw, c.New.Raw) {
			return ChangeClock
		}
		return ChangeSystem
	}
	if clockOnly(c.Old.Raw, c.New.Raw) {
		return ChangeClock
	}
	return ChangeUnknown
}

func (c Change) elementCause() string {
	switch {
	case c.Gone:
		return ChangeRemoval
	case bytes.Equal(c.Old.Stripped, c.New.Stripped):
		return ChangeMarker
	case c.Old.Bare != nil && bytes.Equal(c.Old.Bare, c.New.Bare):
		return ChangeReasoning
	case clockOnly(c.Old.Raw, c.New.Raw):
		return ChangeClock
	}
	return ChangeEdit
}

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
