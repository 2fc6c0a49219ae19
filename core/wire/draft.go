package wire

import (
	"bytes"
	"slices"
	"strings"

	"holdfast/core/chat"
)

// CacheMarker is the member that asks a provider to cache up to its block. It
// moves from turn to turn, so no equality and no stored form contains it.
const CacheMarker = "cache_control"

// Draft collects what a codec reads of one element until Message seals it.
type Draft struct {
	// Object is the element itself.
	Object
	raw         []byte
	parts       []chat.Part
	cuts, media []chat.Span
}

// NewDraft checks raw strictly and reads its members; an element that is no
// object is ErrShape.
func NewDraft(raw []byte) (*Draft, error) {
	if err := Strict(raw); err != nil {
		return nil, err
	}
	v := ValueOf(raw)
	if !v.Is('{') {
		return nil, ErrShape
	}
	o, err := v.Object()
	return &Draft{Object: o, raw: raw}, err
}

// Add appends one core.
func (d *Draft) Add(p chat.Part) { d.parts = append(d.parts, p) }

// AddBlock appends a core whose text is the canonical JSON of the whole block.
func (d *Draft) AddBlock(role chat.Role, kind chat.Kind, v Value) {
	d.Add(chat.Part{Kind: kind, Role: role, Text: v.canonical(CacheMarker)})
}

// AddRest appends one opaque core of the element's members other than those
// named; null members count as absent. Without any it adds nothing.
func (d *Draft) AddRest(role chat.Role, known ...string) {
	drop := slices.Clone(known)
	rest := 0
	for _, m := range d.Members {
		switch {
		case slices.Contains(known, m.Name):
		case Value{d.raw, m.Value}.Absent():
			drop = append(drop, m.Name)
		default:
			rest++
		}
	}
	if rest > 0 {
		text := Value{d.raw, d.span}.canonical(drop...)
		d.Add(chat.Part{Kind: chat.Opaque, Role: role, Text: text})
	}
}

// canonical is Canonical on a value that is known to be valid.
func (v Value) canonical(drop ...string) string {
	text, err := Canonical(v.Bytes(), drop...)
	if err != nil {
		return string(v.Bytes())
	}
	return text
}

// Arguments is the text of a call's arguments given as a JSON value.
func (v Value) Arguments() string { return v.canonical() }

// ArgumentText is the text of a call's arguments given as a string: canonical
// when it is JSON, else as it came.
func ArgumentText(s string) string {
	if text, err := Canonical([]byte(s)); err == nil {
		return text
	}
	return s
}

// errorMark heads the text of a failed result, so that it differs from the same
// text as a success; no tool writes unit separators around a word.
const errorMark = "\x1ferror\x1f"

// ResultText is the text of a tool result on every wire: its parts, a line
// break between them.
func ResultText(failed bool, parts []string) string {
	text := strings.Join(parts, "\n")
	if failed {
		return errorMark + text
	}
	return text
}

// BlockText is the canonical JSON of a block inside a result.
func (v Value) BlockText() string { return v.canonical(CacheMarker) }

// Unmark has the cache marker of o left out of the stored form.
func (d *Draft) Unmark(o Object) {
	if cut, ok := cutMember(o, CacheMarker); ok {
		d.cuts = append(d.cuts, cut)
	}
}

// Payload notes the base64 text of a string value, with or without a data URI
// in front, if it is long enough to be stored apart and free of escapes.
func (d *Draft) Payload(v Value) {
	if !v.Is('"') {
		return
	}
	in := chat.Span{Start: v.Start + 1, End: v.End - 1}
	text := in.Of(d.raw)
	if bytes.HasPrefix(text, []byte("data:")) {
		head := text[:min(len(text), 256)]
		at := bytes.Index(head, []byte(";base64,"))
		if at < 0 {
			return
		}
		in.Start += at + len(";base64,")
	}
	if in.Len() >= chat.MediaMin && bytes.IndexByte(text, '\\') < 0 {
		d.media = append(d.media, in)
	}
}

// Message seals the element.
func (d *Draft) Message(role chat.Role, typ string) chat.Message {
	d.cuts = outermost(d.cuts)
	sortSpans(d.media)
	m := chat.Message{
		Raw:      d.raw,
		Stripped: without(d.raw, d.cuts),
		Role:     role,
		Type:     typ,
		Parts:    settle(d.parts, role),
		Media:    shift(d.media, d.cuts),
		RawMedia: d.media,
	}
	m.Seal()
	return m
}

// settle drops empty texts beside other cores and gives an element without
// parts its empty core.
func settle(parts []chat.Part, role chat.Role) []chat.Part {
	if len(parts) == 0 {
		return []chat.Part{{Kind: chat.Empty, Role: role}}
	}
	kept := make([]chat.Part, 0, len(parts))
	for _, p := range parts {
		if p.Kind != chat.Text || p.Text != "" {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return parts[:1]
	}
	return kept
}
