package fold

// Item is one place of the view: an element as it is, an element with shortened
// results, or the carrier of a block.
type Item struct {
	// N is the element, 0 for a carrier.
	N int64
	// Block is the block whose carrier stands here, 0 for an element.
	Block    int64
	Overlays []Shortened
}

// View is what the model sees: the list with each active block's elements
// replaced by one carrier at the place of the first of them.
func View(elements []Element, st State) []Item {
	return newPicture(elements, &st).view()
}

func (p *picture) view() []Item {
	overlays := make(map[int64][]Shortened, len(p.st.Overlays))
	for _, o := range p.st.Overlays {
		overlays[o.Elem] = append(overlays[o.Elem], o)
	}
	view := make([]Item, 0, len(p.elems))
	for i := range p.elems {
		if b := p.carrier(i); b != 0 {
			view = append(view, Item{Block: b})
			continue
		}
		if n := p.elems[i].N; p.shown(i) {
			view = append(view, Item{N: n, Overlays: overlays[n]})
		}
	}
	return view
}

// Plain reports whether the view is the list itself.
func Plain(view []Item, elements []Element) bool {
	if len(view) != len(elements) {
		return false
	}
	for i := range view {
		if view[i].Block != 0 || len(view[i].Overlays) > 0 {
			return false
		}
	}
	return true
}

// Cover is what one active block covers, for the ledger's coverage map and for
// rows that are written anew.
type Cover struct {
	Block int64
	// Anchor is the element at whose place the carrier stands.
	Anchor int64
	// Elems are the covered elements that are in the list, in its order.
	Elems    []int64
	Children []int64
}

// Coverage are the active blocks in the order of their carriers.
func Coverage(elements []Element, st State) (out []Cover) {
	p := newPicture(elements, &st)
	at := map[int64]int{}
	for i := range elements {
		id := p.covered(i)
		if id == 0 {
			continue
		}
		k, seen := at[id]
		if !seen {
			k = len(out)
			at[id] = k
			out = append(out, Cover{Block: id, Anchor: elements[i].N, Children: st.Block(id).Children})
		}
		out[k].Elems = append(out[k].Elems, elements[i].N)
	}
	return out
}
