package wire

import (
	"slices"

	"holdfast/core/chat"
)

// StripMembers cuts the member called name out of each of the given objects of
// raw, with exactly one comma, and leaves every other byte alone. The objects
// may lie inside one another. Without any such member the result is raw.
func StripMembers(raw []byte, objects []chat.Span, name string) ([]byte, error) {
	d := Draft{raw: raw}
	for _, span := range objects {
		o, err := Value{raw, span}.Object()
		if err != nil {
			return nil, err
		}
		if cut, ok := cutMember(o, name); ok {
			d.cuts = append(d.cuts, cut)
		}
	}
	return without(raw, outermost(d.cuts)), nil
}

// cutMember is the range to leave out so that o loses the member: it goes with
// the comma before it, the first one with the comma after it. White space
// behind a later member stays, so a pretty-printed object stays one.
func cutMember(o Object, name string) (chat.Span, bool) {
	for i, m := range o.Members {
		switch {
		case m.Name != name:
		case i > 0:
			return chat.Span{Start: o.Members[i-1].Value.End, End: m.Value.End}, true
		case len(o.Members) > 1:
			return chat.Span{Start: m.Key, End: o.Members[1].Key}, true
		default:
			return chat.Span{Start: m.Key, End: m.Value.End}, true
		}
	}
	return chat.Span{}, false
}

// without is raw less the cuts, which are in order and do not overlap; raw
// itself when there are none.
func without(raw []byte, cuts []chat.Span) []byte {
	if len(cuts) == 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	from := 0
	for _, c := range cuts {
		out = append(out, raw[from:c.Start]...)
		from = c.End
	}
	return append(out, raw[from:]...)
}

// shift moves spans of the whole to where they stand without the cuts.
func shift(spans, cuts []chat.Span) []chat.Span {
	if len(cuts) == 0 {
		return spans
	}
	out := make([]chat.Span, len(spans))
	gone, next := 0, 0
	for i, s := range spans {
		for next < len(cuts) && cuts[next].End <= s.Start {
			gone += cuts[next].Len()
			next++
		}
		out[i] = chat.Span{Start: s.Start - gone, End: s.End - gone}
	}
	return out
}

// outermost puts cuts in order and leaves out those inside another.
func outermost(cuts []chat.Span) []chat.Span {
	sortSpans(cuts)
	end := 0
	return slices.DeleteFunc(cuts, func(c chat.Span) bool {
		if c.End <= end {
			return true
		}
		end = c.End
		return false
	})
}

func sortSpans(spans []chat.Span) {
	slices.SortFunc(spans, func(a, b chat.Span) int { return a.Start - b.Start })
}
