package wire

import "holdfast/core/chat"

// Field is one top-level member of a body; spans are offsets into Body.Raw.
type Field struct {
	// Name is the decoded key.
	Name string
	// Value covers the member's value without surrounding white space.
	Value chat.Span
}

// Body is one request body cut into frame and elements. It owns nothing: all
// slices point into Raw, which must not change.
type Body struct {
	Raw    []byte
	Fields []Field
	// List is the span of the array of elements, brackets included.
	List chat.Span
	// Elements are the spans of the array's values, without separators.
	Elements []chat.Span
}

// Element returns the bytes of the i-th element.
func (b *Body) Element(i int) []byte { return b.Elements[i].Of(b.Raw) }

// Head returns the bytes of the first n elements with what stands between them.
func (b *Body) Head(n int) []byte {
	if n == 0 {
		return nil
	}
	return b.Raw[b.Elements[0].Start:b.Elements[n-1].End]
}

// Field returns the raw value of a top-level member, nil when absent.
func (b *Body) Field(name string) []byte {
	for _, f := range b.Fields {
		if f.Name == name {
			return f.Value.Of(b.Raw)
		}
	}
	return nil
}

// Item is one element of a view.
type Item struct {
	// Inbound is the index of the client's own element of this turn, or -1.
	Inbound int
	// Raw are the bytes to send. It may be nil where Inbound is not -1: the
	// element then leaves as it came.
	Raw []byte
}

// Splice puts the view into the body: everything outside the list stays as it
// came, kept neighbours keep the separator the client wrote between them, an
// element put back gets a plain comma. It is total. When the view is the
// inbound list itself the result is b.Raw, not a copy.
func Splice(b *Body, view []Item) []byte { return Patch(b, view, nil) }

// Patch is Splice with edits of the frame, which must be in order, apart from
// each other and outside the list.
func Patch(b *Body, view []Item, edits []Edit) []byte {
	if len(edits) == 0 && unchanged(b, view) {
		return b.Raw
	}
	out := make([]byte, 0, len(b.Raw)+extra(view, edits))
	start, end := b.around()
	out, edits = edited(out, b.Raw, chat.Span{Start: 0, End: start}, edits)
	for i, it := range view {
		if i > 0 {
			out = append(out, b.separator(view[i-1].Inbound, it.Inbound)...)
		}
		if it.Raw != nil {
			out = append(out, it.Raw...)
			continue
		}
		out = append(out, b.Element(it.Inbound)...)
	}
	out, _ = edited(out, b.Raw, chat.Span{Start: end, End: len(b.Raw)}, edits)
	return out
}

func unchanged(b *Body, view []Item) bool {
	if len(view) != len(b.Elements) {
		return false
	}
	for i, it := range view {
		if it.Inbound != i || it.Raw != nil {
			return false
		}
	}
	return true
}

func extra(view []Item, edits []Edit) (n int) {
	for _, it := range view {
		n += len(it.Raw) + 1
	}
	for _, e := range edits {
		n += len(e.New)
	}
	return n
}

// around are the places between which the elements stand, those included.
func (b *Body) around() (start, end int) {
	if len(b.Elements) == 0 {
		return b.List.Start + 1, b.List.Start + 1
	}
	return b.Elements[0].Start, b.Elements[len(b.Elements)-1].End
}

var comma = []byte(",")

func (b *Body) separator(prev, next int) []byte {
	if prev < 0 || next != prev+1 {
		return comma
	}
	return b.Raw[b.Elements[prev].End:b.Elements[next].Start]
}
