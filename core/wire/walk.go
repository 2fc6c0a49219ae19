package wire

import (
	"holdfast/core/chat"
	"holdfast/core/content"
)

// Walker is told the stretches of a body in order: what stands between, the
// top-level values by name and hash, and the places of the elements.
type Walker interface {
	Between(b []byte)
	Field(name string, id content.ID)
	Element(i int)
}

// Walk visits the whole body that s is the skeleton of.
func (s Skeleton) Walk(w Walker) {
	for _, bn := range s.fields {
		w.Between(bn.lead)
		switch bn.kind {
		case boneInline:
			w.Field(bn.name(), content.Of(bn.value))
		case boneHashed:
			w.Field(bn.name(), bn.id)
		case boneList:
			s.walkList(w)
		}
	}
	w.Between(s.tail)
}

// walkList visits the list, brackets and separators included.
func (s Skeleton) walkList(w Walker) {
	w.Between(openBracket)
	w.Between(s.head)
	i := 0
	visit := func() {
		w.Element(i)
		i++
	}
	if s.elements > 0 {
		visit()
	}
	for _, r := range s.separators {
		for range r.n {
			w.Between(r.sep)
			visit()
		}
	}
	w.Between(s.foot)
	w.Between(closeBracket)
}

var openBracket, closeBracket = []byte("["), []byte("]")

// Inline returns the value of a top-level field short enough to be part of the
// skeleton.
func (s Skeleton) Inline(name string) ([]byte, bool) {
	for _, bn := range s.fields {
		if bn.kind == boneInline && bn.name() == name {
			return bn.value, true
		}
	}
	return nil, false
}

// StripField is a top-level value without the cache markers of the blocks in
// it (system blocks, tools); the value itself when it has none.
func StripField(raw []byte) []byte {
	list, err := ValueOf(raw).List()
	if err != nil {
		return raw
	}
	out := raw
	for i := len(list) - 1; i >= 0; i-- { // from the end, so that spans stay true
		if !list[i].Is('{') {
			continue
		}
		stripped, err := StripMembers(list[i].Bytes(), []chat.Span{{Start: 0, End: list[i].Len()}}, CacheMarker)
		if err != nil || len(stripped) == list[i].Len() {
			continue
		}
		out = append(append(append([]byte(nil), out[:list[i].Start]...), stripped...), out[list[i].End:]...)
	}
	return out
}
