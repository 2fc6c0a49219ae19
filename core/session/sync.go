package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/fold"
)

// stand is what the mutable columns of a row say. A row that is neither live
// nor covered nor hidden is gone from the view for good.
type stand struct {
	live    bool
	block   int64
	hidden  bool
	overlay string
	cause   string
}

// set brings a row to a stand: in the commit, whether the row is born by it or
// flipped, and in its index.
func (p *planner) set(ix *RowIndex, s stand) {
	if !p.rows {
		return
	}
	ix.Block, ix.Hidden, ix.Overlay = s.block, s.hidden, s.overlay
	f := Flip{Row: ix.Row, Active: s.live, CoveredBy: BlockName(s.block), Cause: s.cause, ChangedCk: p.ck}
	if s.overlay != "" {
		f.Overlay = []byte(s.overlay)
	}
	f.StateSum = stateSum(ix.RowSum, f.Overlay, f.Active, f.CoveredBy, f.Cause)
	ix.StateSum = f.StateSum
	c := &p.plan.Commit
	if k, born := p.born[ix.Row]; born {
		r := &c.Rows[k]
		r.Active, r.CoveredBy, r.Cause, r.Overlay, r.StateSum = f.Active, f.CoveredBy, f.Cause, f.Overlay, f.StateSum
		return
	}
	k, told := p.flipped[ix.Row]
	if !told {
		k = len(c.Flips)
		p.flipped[ix.Row] = k
		c.Flips = append(c.Flips, f)
	}
	c.Flips[k] = f
	if told && (s.live || s.block != 0 || s.hidden) {
		p.unflip(ix)
	}
}

// unflip takes back the flip of a row that ends as it was.
func (p *planner) unflip(ix *RowIndex) {
	i := slices.IndexFunc(p.st.Rows, func(r RowIndex) bool { return r.Row == ix.Row })
	if i < 0 || !p.st.Rows[i].stands(ix) {
		return
	}
	ix.StateSum = p.st.Rows[i].StateSum
	c, k := &p.plan.Commit, p.flipped[ix.Row]
	c.Flips = slices.Delete(c.Flips, k, k+1)
	delete(p.flipped, ix.Row)
	for ; k < len(c.Flips); k++ {
		p.flipped[c.Flips[k].Row] = k
	}
}

// stands reports whether two indexes of one row say the same of the view.
func (r *RowIndex) stands(o *RowIndex) bool {
	return r.Block == o.Block && r.Hidden == o.Hidden && r.Overlay == o.Overlay
}

// drop takes a row out of the view for good.
func (p *planner) drop(ix RowIndex, cause string) { p.set(&ix, stand{cause: cause}) }

// target is where the kernel's state wants every element.
type target struct {
	covers   []fold.Cover
	by       map[int64]int64
	hidden   map[int64]bool
	overlays map[coreAt]string
}

type coreAt struct {
	elem int64
	core int
}

func targetOf(elems []fold.Element, k *fold.State) *target {
	t := &target{covers: fold.Coverage(elems, *k), by: map[int64]int64{}, hidden: map[int64]bool{}, overlays: map[coreAt]string{}}
	for _, c := range t.covers {
		for _, n := range c.Elems {
			t.by[n] = c.Block
		}
	}
	for _, n := range k.Hidden {
		t.hidden[n] = t.by[n] == 0
	}
	for _, o := range k.Overlays {
		text, err := json.Marshal(o)
		if err != nil {
			panic("session: internal error: an overlay does not marshal: " + err.Error())
		}
		t.overlays[coreAt{o.Elem, o.Core}] = string(text)
	}
	return t
}

// of is the stand of a row.
func (t *target) of(ix *RowIndex) stand {
	s := stand{block: t.by[ix.Elem], hidden: t.hidden[ix.Elem], overlay: t.overlays[coreAt{ix.Elem, int(ix.Sub)}]}
	s.live = s.block == 0 && !s.hidden
	switch {
	case s.block != 0:
		s.cause = string(fold.Folded)
	case s.hidden:
		s.cause = string(fold.Hide)
	case s.overlay != "":
		s.cause = string(fold.Overlay)
	default:
		s.cause = string(fold.Unfold)
	}
	return s
}

// state is the state of an element.
func (t *target) state(e *fold.Element) ElemState {
	switch {
	case e.Removed:
		return Removed
	case t.by[e.N] != 0:
		return Folded
	case t.hidden[e.N]:
		return Hidden
	}
	for k := range e.Cores {
		if t.overlays[coreAt{e.N, k}] != "" {
			return Overlaid
		}
	}
	return Live
}

// sync makes rows and element states what the kernel's state says. Only
// elements in named may change, nil for all: what no event names is never
// touched, and then nothing is.
func (p *planner) sync(elems []fold.Element, k *fold.State, named map[int64]bool) error {
	t := targetOf(elems, k)
	rows := p.plan.Next.Rows
	for i := range rows {
		if ix := &rows[i]; p.rows && ix.Carrier == 0 && differs(ix, t) && named != nil && !named[ix.Elem] {
			return fmt.Errorf("%w: row %d changes with no event for element %d", ErrAddress, ix.Row, ix.Elem)
		}
	}
	for i := range elems {
		if s, was := t.state(&elems[i]), cmp.Or(p.plan.Next.Stands[elems[i].N], Live); s != was {
			p.move(elems[i].N, s, -1)
		}
	}
	if p.rows {
		p.syncRows(t, k)
	}
	return nil
}

// differs reports whether a row has to change.
func differs(ix *RowIndex, t *target) bool {
	s := t.of(ix)
	return !ix.stands(&RowIndex{Block: s.block, Hidden: s.hidden, Overlay: s.overlay})
}

func (p *planner) syncRows(t *target, k *fold.State) {
	at := map[int64]int64{} // place of each element
	for i := range p.plan.Next.Rows {
		if ix := &p.plan.Next.Rows[i]; ix.Carrier == 0 {
			at[ix.Elem] = ix.Pos
		}
	}
	missing := map[int64]fold.Cover{} // by block: carriers to be written
	for _, c := range t.covers {
		missing[c.Block] = c
	}
	rows := make([]RowIndex, 0, len(p.plan.Next.Rows)+len(missing))
	for _, ix := range p.plan.Next.Rows {
		switch c, covers := missing[ix.Carrier]; {
		case ix.Carrier == 0 && differs(&ix, t):
			p.set(&ix, t.of(&ix))
		case ix.Carrier != 0 && covers && at[c.Anchor] == ix.Pos:
			delete(missing, ix.Carrier)
		case ix.Carrier != 0:
			p.set(&ix, gone(k, ix.Carrier))
			continue
		}
		rows = append(rows, ix)
	}
	p.plan.Next.Rows = rows
	for _, c := range t.covers {
		if _, to := missing[c.Block]; to {
			p.carry(k.Block(c.Block), c.Anchor, at[c.Anchor])
		}
	}
}

// gone is the stand of a carrier that leaves the view: a consumed one goes with
// its block.
func gone(k *fold.State, block int64) stand {
	s := stand{cause: string(fold.Unfold)}
	if b := k.Block(block); b != nil && b.Status == fold.Consumed {
		s.block, s.cause = b.Parent, string(fold.Folded)
	}
	return s
}

// carry writes the row of a carrier.
func (p *planner) carry(b *fold.Block, anchor, pos int64) {
	h := p.head()
	r := Row{ID: h.NextRow, Epoch: h.Epoch, Pos: pos, Sub: CarrierSub, Elem: anchor, SessRaw: h.SessRaw, CanonID: BlockName(b.ID),
		Kind: string(KindCarrier), Role: string(chat.User), CType: "message", Wire: h.Wire, Raw: b.Body, BornCk: p.ck,
		CreatedAt: p.in.Now, Active: true, ChangedCk: p.ck}
	h.NextRow++
	r.Seal(h.Ledger)
	p.bear([]Row{r}, []RowIndex{IndexOf(&r)})
}

// BlockName is the name of a block in rows and coverage, "" for none.
func BlockName(id int64) string {
	if id == 0 {
		return ""
	}
	return "b" + strconv.FormatInt(id, 10)
}

// blockNumber reads a BlockName; 0 for anything else.
func blockNumber(name string) int64 {
	digits, named := strings.CutPrefix(name, "b")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !named || err != nil {
		return 0
	}
	return n
}

// IndexOf is what memory keeps of a row that is live or stands by. Removed and
// Tokens are the element's to tell.
func IndexOf(r *Row) RowIndex {
	ix := RowIndex{Row: r.ID, Elem: r.Elem, Pos: r.Pos, Sub: r.Sub, Kind: chat.Kind(r.Kind), Call: r.CallID, RowSum: r.RowSum,
		StateSum: r.StateSum, Overlay: string(r.Overlay)}
	if ix.Kind == KindCarrier {
		ix.Carrier = blockNumber(r.CanonID)
	}
	if !r.Active {
		ix.Block, ix.Hidden = blockNumber(r.CoveredBy), r.Cause == string(fold.Hide)
	}
	return ix
}

// CoverageOf tells which places each block in the view covers, in the order of
// the carriers. Intervals are half-open.
func CoverageOf(rows []RowIndex, k *fold.State) (out []Cover) {
	at := map[int64]int{}
	last := int64(0) // block of the row before
	for i := range rows {
		ix := &rows[i]
		if ix.Carrier != 0 {
			at[ix.Carrier] = len(out)
			out = append(out, Cover{Block: BlockName(ix.Carrier), Anchor: ix.Elem, Children: childNames(k, ix.Carrier)})
			continue
		}
		if c, carried := at[ix.Block]; ix.Block != 0 && carried {
			out[c].cover(ix.Pos, last == ix.Block)
		}
		last = ix.Block
	}
	return out
}

// Equal reports whether two blocks cover the same places.
func (c Cover) Equal(o Cover) bool {
	return c.Block == o.Block && c.Anchor == o.Anchor && slices.Equal(c.Intervals, o.Intervals) && slices.Equal(c.Children, o.Children)
}

// cover adds a place; on says that it goes on from the one before.
func (c *Cover) cover(pos int64, on bool) {
	if k := len(c.Intervals) - 1; k >= 0 && on {
		c.Intervals[k][1] = pos + 1
		return
	}
	c.Intervals = append(c.Intervals, [2]int64{pos, pos + 1})
}

func childNames(k *fold.State, id int64) (names []string) {
	if b := k.Block(id); b != nil {
		for _, c := range b.Children {
			names = append(names, BlockName(c))
		}
	}
	return slices.Clip(names)
}
