package fold

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/core/content"
)

// pageChars is the most one answer of hf_decompress holds.
const pageChars = 10_000

// decompress runs hf_decompress: it reads, and changes nothing. A fold that
// never was, one that is undone and one whose originals are gone are answered
// apart.
func (s Session) decompress(f fields, t Texts) Outcome {
	ref, said := f.target()
	if ref == (Ref{}) {
		return s.failed(fmt.Sprintf(badArguments, ToolDecompress+s.State.Suffix, cmpOr(said, needBlock)))
	}
	if why := s.closed(ref); why != "" {
		return s.failed(why)
	}
	text := s.open(ref, f.flag("full"), t)
	return s.page(ref.String(), []rune(text), f.number(1, "page"))
}

// cmpOr words what is wrong with a blockId.
func cmpOr(said, missing string) string {
	if said == "" {
		return missing
	}
	return fmt.Sprintf("%q is no fold; %s", headOf(said, 40), missing)
}

// closed says why there is nothing to open behind a ref; "" when there is.
func (s Session) closed(r Ref) string {
	if !r.Block {
		i := slices.IndexFunc(s.Elements, func(e Element) bool { return e.Ref == r.Number })
		switch {
		case i < 0:
			return fmt.Sprintf(refUnknown, r)
		case newPicture(s.Elements, &s.State).covered(i) == 0 && !s.shortened(s.Elements[i].N):
			return fmt.Sprintf(refNotCut, r)
		}
		return ""
	}
	switch b := s.State.Block(r.Number); {
	case b == nil:
		return fmt.Sprintf(blockNever, r)
	case b.Gone:
		return fmt.Sprintf(blockGone, r)
	case b.Status == Dead || b.Status == Away:
		return fmt.Sprintf(blockDead, r)
	}
	return ""
}

func (s Session) shortened(n int64) bool {
	return slices.ContainsFunc(s.State.Overlays, func(o Shortened) bool { return o.Elem == n })
}

// open writes what stands behind a ref, in list order. A fold's children are
// shown by their summaries, unless all of it is asked for.
func (s Session) open(r Ref, full bool, t Texts) string {
	at := places(s.Elements)
	var out strings.Builder
	if !r.Block {
		i := slices.IndexFunc(s.Elements, func(e Element) bool { return e.Ref == r.Number })
		return t.transcript(&s.Elements[i])
	}
	b := s.State.Block(r.Number)
	pieces := map[int]string{}
	ns := b.Elems
	if full {
		ns = s.State.Effective(b.ID)
	}
	for _, n := range ns {
		if i, there := at[n]; there {
			pieces[i] = t.transcript(&s.Elements[i])
		}
	}
	for _, id := range b.Children {
		if i := s.start(id, at); !full && i >= 0 {
			child := s.State.Block(id)
			pieces[i] = CarrierText(child, t.Bodies[child.Body]) + "\n"
		}
	}
	for i := range s.Elements {
		out.WriteString(pieces[i])
	}
	return out.String()
}

// start is the place of a block's first element, -1 when none is there.
func (s Session) start(id int64, at map[int64]int) int {
	first := -1
	for _, n := range s.State.Effective(id) {
		if i, there := at[n]; there && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// page cuts one page out of a text and says where it stands.
func (s Session) page(name string, text []rune, page int) Outcome {
	pages := max(1, (len(text)+pageChars-1)/pageChars)
	if page > pages {
		return s.failed(fmt.Sprintf(pageNone, name, counted(pages, "page"), page))
	}
	from := (page - 1) * pageChars
	out := fmt.Sprintf(pageHead, name, page, pages) + string(text[from:min(len(text), from+pageChars)])
	if page < pages {
		out += fmt.Sprintf(pageNext, page, pages, page+1)
	}
	return s.said(out)
}

// needsToOpen are the texts behind a fold.
func (s Session) needsToOpen(f fields) (n Need) {
	ref, _ := f.target()
	if ref == (Ref{}) || s.closed(ref) != "" {
		return n
	}
	if !ref.Block {
		i := slices.IndexFunc(s.Elements, func(e Element) bool { return e.Ref == ref.Number })
		return Need{Elements: []int64{s.Elements[i].N}}
	}
	b := s.State.Block(ref.Number)
	if f.flag("full") {
		return Need{Elements: s.State.Effective(b.ID)}
	}
	n.Elements = b.Elems
	for _, id := range b.Children {
		n.Bodies = append(n.Bodies, s.State.Block(id).Body)
	}
	n.Bodies = slices.DeleteFunc(n.Bodies, func(id content.ID) bool { return id.IsZero() })
	return n
}
