package wire

import (
	"bytes"
	"slices"
	"strings"

	"holdfast/core/chat"
)

// Edit puts New in place of a span of the bytes it was made for.
type Edit struct {
	chat.Span
	New []byte
}

// Apply carries out edits of raw that do not overlap; raw itself when there are
// none. Those at one place come out in the order given.
func Apply(raw []byte, edits ...Edit) []byte {
	if len(edits) == 0 {
		return raw
	}
	inOrder(edits)
	n := len(raw)
	for _, e := range edits {
		n += len(e.New)
	}
	out, _ := edited(make([]byte, 0, n), raw, chat.Span{Start: 0, End: len(raw)}, edits)
	return out
}

func inOrder(edits []Edit) {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
}

// edited appends a stretch of raw with the edits that lie in it, and returns
// the others.
func edited(out, raw []byte, in chat.Span, edits []Edit) ([]byte, []Edit) {
	from := in.Start
	for len(edits) > 0 && edits[0].End <= in.End {
		out = append(append(out, raw[from:edits[0].Start]...), edits[0].New...)
		from, edits = edits[0].End, edits[1:]
	}
	return append(out, raw[from:in.End]...), edits
}

// inner is text as it stands between quotes.
func inner(text string) []byte {
	q := Quote(text)
	return q[1 : len(q)-1]
}

// paragraphs stand between a text of the client's and one of ours.
const paragraphs = "\n\n"

// Lengthen adds text at the end of v, a string, as a paragraph of its own.
func Lengthen(v Value, text string) Edit {
	if v.Len() > len(`""`) {
		text = paragraphs + text
	}
	return Edit{chat.Span{Start: v.End - 1, End: v.End - 1}, inner(text)}
}

// Preface adds text at the head of v, a string, as a paragraph of its own.
func Preface(v Value, text string) Edit {
	if v.Len() > len(`""`) {
		text += paragraphs
	}
	return Edit{chat.Span{Start: v.Start + 1, End: v.Start + 1}, inner(text)}
}

// Insert puts values into an array, in front of its i-th.
func Insert(array Value, list []Value, i int, values ...[]byte) Edit {
	joined := bytes.Join(values, comma)
	switch {
	case i < len(list):
		return Edit{chat.Span{Start: list[i].Start, End: list[i].Start}, append(joined, ',')}
	case len(list) > 0:
		joined = append([]byte{','}, joined...)
		i = list[len(list)-1].End
	default:
		i = array.Start + 1
	}
	return Edit{chat.Span{Start: i, End: i}, joined}
}

// Set gives a top-level member a value, in place or as the last one.
func (b *Body) Set(name string, value []byte) Edit {
	for _, f := range b.Fields {
		if f.Name == name {
			return Edit{f.Value, value}
		}
	}
	at := b.Fields[len(b.Fields)-1].Value.End // there is one, the list
	return Edit{chat.Span{Start: at, End: at}, appendMember([]byte{','}, name, value)}
}

// ShortenResult shortens what a result says: its string, or its blocks of text
// taken together, which then stand where the last of them stood. Blocks of any
// other kind stay.
func ShortenResult(content Value, shorten func(string) string) []Edit {
	if content.Is('"') {
		return reworded(content, content.Str(), shorten)
	}
	list, _ := content.List()
	var said []string
	var places []int
	for i, v := range list {
		if o := v.Obj(); o.Get("type").Str() == "text" && o.Get("text").Is('"') {
			said, places = append(said, o.Get("text").Str()), append(places, i)
		}
	}
	if len(places) == 0 {
		return nil
	}
	last := len(places) - 1
	edits := reworded(list[places[last]].Obj().Get("text"), strings.Join(said, "\n"), shorten)
	if len(edits) == 0 {
		return nil
	}
	for _, i := range places[:last] {
		edits = append(edits, Edit{Span: chat.Span{Start: list[i].Start, End: list[i+1].Start}})
	}
	return edits
}

// reworded gives a string other text, unless that is what it said.
func reworded(v Value, old string, shorten func(string) string) []Edit {
	text := shorten(old)
	if text == old {
		return nil
	}
	return []Edit{{v.Span, Quote(text)}}
}
