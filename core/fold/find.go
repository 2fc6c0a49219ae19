package fold

import (
	"fmt"
	"strings"
)

// hits of hf_search: by default, and at most.
const (
	defaultHits = 5
	maxHits     = 20
)

// search runs hf_search over the documents it was handed. Each hit says where
// it stands and which fold holds it.
func (s Session) search(f fields, t Texts) Outcome {
	query := f.text("query", "q", "text")
	if query == "" {
		return s.failed(fmt.Sprintf(badArguments, ToolSearch+s.State.Suffix, needQuery))
	}
	index := t.Index
	if index == nil {
		index = IndexOf(t.Documents)
	}
	hits := index.Search(query, min(maxHits, f.number(defaultHits, "limit")))
	if len(hits) == 0 {
		return s.said(fmt.Sprintf(searchNone, headOf(query, 60)))
	}
	holders := s.holders()
	var out strings.Builder
	for i, h := range hits {
		d := t.Documents[h.Index]
		in := ""
		if b := holders[d.ID]; b != "" {
			in = fmt.Sprintf(searchIn, b)
		}
		name := d.ID
		if name == "" {
			name = searchNoRef
		}
		fmt.Fprintf(&out, searchLine, i+1, name, d.Role, in, oneLine(h.Preview))
	}
	out.WriteString(searchHow)
	return s.said(out.String())
}

// holders maps the ref of each folded element and consumed block to the active
// block that holds it.
func (s Session) holders() map[string]string {
	p := newPicture(s.Elements, &s.State)
	out := map[string]string{}
	for i := range s.Elements {
		if b := p.covered(i); b != 0 && s.Elements[i].Ref != 0 {
			out[s.Elements[i].ref()] = blockRef(b)
		}
	}
	for i := range s.State.Blocks {
		b := &s.State.Blocks[i]
		if top := s.State.ancestor(b); top != nil && top.ID != b.ID {
			out[blockRef(b.ID)] = blockRef(top.ID)
		}
	}
	return out
}
