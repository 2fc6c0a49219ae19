package session

import (
	"fmt"
	"maps"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
)

// table is the ledger of one branch in memory, as far as a planner's commit
// must fit it. It carries commits out and complains about anything a database
// would refuse or an invariant forbids.
type table struct {
	head   Head
	rows   map[int64]*Row
	elems  map[int64]*Element
	blobs  map[content.ID]*chat.Message // what the bytes decode to
	lists  map[int64][]ListItem
	fields map[int64][]FieldRef
	check  Checkpoint
	held   map[content.ID]int // blocks that hold a body
	bodies map[content.ID]fold.Body
}

func newTable() *table {
	return &table{rows: map[int64]*Row{}, elems: map[int64]*Element{}, blobs: map[content.ID]*chat.Message{},
		lists: map[int64][]ListItem{}, fields: map[int64][]FieldRef{}, held: map[content.ID]int{}, bodies: map[content.ID]fold.Body{}}
}

// complaints collects what is wrong; nil is fine.
type complaints []string

func (c *complaints) check(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Sprintf(format, args...))
	}
}

// commit carries out one plan. decode turns blob bytes into their message.
func (tb *table) commit(c *Commit, decode func([]byte) *chat.Message) (bad complaints) {
	bad.check(c.Create == (len(tb.lists) == 0), "create is %v", c.Create)
	bad.check(c.Base == tb.head.Version, "base %d, stored version %d", c.Base, tb.head.Version)
	for _, b := range c.Blobs {
		bad.check(b.ID == content.Of(b.Raw), "a blob's id is not its hash")
		if slices.Contains(c.Holds, b.ID) {
			body, err := fold.OpenBody(b.Raw, b.ID)
			bad.check(err == nil, "%v", err)
			tb.bodies[b.ID] = body
			continue
		}
		tb.blobs[b.ID] = decode(b.Raw)
	}
	for _, id := range c.Holds {
		_, there := tb.bodies[id]
		bad.check(there, "a block holds a body that is not stored")
		tb.held[id]++
	}
	tb.addElements(c, &bad)
	tb.changeStates(c, &bad)
	for _, r := range c.Reblobs {
		tb.elems[r.N].Blob = r.Blob
	}
	tb.addRows(c.Rows, &bad)
	tb.flip(c.Flips, &bad)
	if c.Turn.ID != 0 {
		tb.addList(c, &bad)
	}
	tb.seal(c, &bad)
	tb.head = c.Head
	tb.folds(&bad)
	return bad
}

// folds checks the sealed kernel state, and that each of its blocks holds its
// body.
func (tb *table) folds(bad *complaints) {
	k := tb.kernel()
	bad.check(k.Structure == tb.head.StructureVersion, "structure %d is stored as %d", k.Structure, tb.head.StructureVersion)
	bad.check(tb.head.NextBlock >= k.LastBlock+1, "block %d is the next after %d", tb.head.NextBlock, k.LastBlock)
	held := map[content.ID]int{}
	for _, b := range k.Blocks {
		held[b.Body]++
	}
	bad.check(maps.Equal(held, tb.held), "blocks name %v, held are %v", held, tb.held)
}

func (tb *table) kernel() fold.State { return kernelOf(&tb.head) }

func kernelOf(h *Head) fold.State {
	if h.Structure == nil {
		return fold.State{}
	}
	k, err := fold.OpenState(h.Structure, h.Sum)
	if err != nil {
		panic(err)
	}
	return k
}

func (tb *table) addElements(c *Commit, bad *complaints) {
	for i := range c.Elements {
		e := c.Elements[i]
		bad.check(tb.elems[e.N] == nil && e.N >= tb.head.NextElem && e.N < c.Head.NextElem, "element number %d is used again", e.N)
		bad.check(e.State == Live && e.FirstTurn == c.Turn.ID, "element %d is born %s in turn %d", e.N, e.State, e.FirstTurn)
		for _, o := range tb.elems {
			bad.check(e.Ref == 0 || e.Ref != o.Ref, "ref %d is given to %d and %d", e.Ref, o.N, e.N)
		}
		tb.elems[e.N] = &e
	}
	for _, e := range tb.elems {
		bad.check(tb.blobs[e.Blob] != nil, "element %d has no stored bytes", e.N)
	}
}

// moves are the state changes an alignment and the kernel may make.
func moves() map[ElemState][]ElemState {
	return map[ElemState][]ElemState{
		Live:     {Removed, Rewound, Archived, Folded, Hidden, Overlaid},
		Folded:   {Live, Removed, Rewound, Archived, Hidden, Overlaid},
		Hidden:   {Live, Removed, Rewound, Archived, Folded, Overlaid},
		Overlaid: {Live, Removed, Rewound, Archived, Folded, Hidden},
		Removed:  {Rewound, Archived},
		Rewound:  {Live, Folded, Overlaid, Hidden},
	}
}

func (tb *table) changeStates(c *Commit, bad *complaints) {
	seen := map[int64]bool{}
	for _, s := range c.States {
		e := tb.elems[s.N]
		bad.check(!seen[s.N], "element %d changes twice in one commit", s.N)
		bad.check(slices.Contains(moves()[e.State], s.State), "element %d goes from %s to %s", s.N, e.State, s.State)
		seen[s.N] = true
		e.State = s.State
		if s.Prev >= 0 {
			e.Prev = s.Prev
		}
	}
}

func (tb *table) addRows(rows []Row, bad *complaints) {
	for i := range rows {
		r := rows[i]
		bad.check(tb.rows[r.ID] == nil && r.ID >= tb.head.NextRow, "row id %d is used again", r.ID)
		bad.check(r.Intact(tb.head.Ledger), "row %d is born with wrong sums", r.ID)
		bad.check(tb.elems[r.Elem] != nil, "row %d belongs to nothing", r.ID)
		_, body := tb.bodies[r.Raw]
		bad.check(tb.blobs[r.Raw] != nil && r.Kind != string(KindCarrier) || body && r.Kind == string(KindCarrier), "row %d has no bytes", r.ID)
		tb.rows[r.ID] = &r
	}
}

func (tb *table) flip(flips []Flip, bad *complaints) {
	seen := map[int64]bool{}
	for _, f := range flips {
		r := tb.rows[f.Row]
		same := r.Active == f.Active && r.CoveredBy == f.CoveredBy && r.Cause == f.Cause && string(r.Overlay) == string(f.Overlay)
		bad.check(!seen[f.Row] && !same, "row %d is flipped to what it is", f.Row)
		seen[f.Row] = true
		r.Active, r.CoveredBy, r.Cause, r.Overlay, r.ChangedCk, r.StateSum = f.Active, f.CoveredBy, f.Cause, f.Overlay, f.ChangedCk, f.StateSum
		bad.check(r.Intact(tb.head.Ledger), "row %d has wrong sums after its flip", r.ID)
	}
}

// addList resolves the turn's list and fields from the turn before.
func (tb *table) addList(c *Commit, bad *complaints) {
	t := &c.Turn
	prev, known := tb.lists[t.List.Prev]
	bad.check(known == (t.List.Prev != 0), "turn %d follows unknown turn %d", t.ID, t.List.Prev)
	bad.check(t.List.Common <= len(prev), "turn %d has more in common than there is", t.ID)
	list := slices.Concat(prev[:min(t.List.Common, len(prev))], t.List.Tail)
	bad.check(slices.Equal(list, t.List.Whole), "the list of turn %d does not resolve", t.ID)
	for _, it := range list {
		bad.check(tb.elems[it.N] != nil && tb.blobs[it.Raw] != nil, "turn %d: element %d or its bytes are not stored", t.ID, it.N)
	}
	fields := slices.Clone(t.Fields)
	for _, f := range tb.fields[t.List.Prev] {
		if slices.Contains(t.AllFields, f) {
			fields = append(fields, f)
		}
	}
	for _, f := range t.AllFields {
		bad.check(slices.Contains(fields, f), "turn %d: field %s does not resolve", t.ID, f.Name)
	}
	tb.lists[t.ID], tb.fields[t.ID] = list, t.AllFields
}

func (tb *table) seal(c *Commit, bad *complaints) {
	bad.check(c.Head.Version == tb.head.Version || c.Head.Version == tb.head.Version+1, "version goes from %d to %d", tb.head.Version, c.Head.Version)
	changed := len(c.Elements)+len(c.States)+len(c.Rows)+len(c.Flips) > 0
	bad.check(!changed || c.Head.Version > tb.head.Version, "something changed under version %d", c.Head.Version)
	if c.Check == nil {
		bad.check(c.Head.HeadSeq == tb.head.HeadSeq && len(c.Rows)+len(c.Flips) == 0, "rows changed without a checkpoint")
		return
	}
	tb.sealed(*c.Check, c.Head, bad)
}

func (tb *table) sealed(ck Checkpoint, h Head, bad *complaints) {
	rows := tb.standing(h.Epoch)
	bad.check(ck.Seq == tb.head.HeadSeq+1 && ck.Seq == h.HeadSeq, "checkpoint %d follows %d", ck.Seq, tb.head.HeadSeq)
	bad.check(ck.Meta.Version == h.Version && ck.Epoch == h.Epoch, "checkpoint %d seals version %d epoch %d", ck.Seq, ck.Meta.Version, ck.Epoch)
	bad.check(ck.Meta.S4 == AggregateOf(rows), "checkpoint %d has another aggregate than the rows", ck.Seq)
	bad.check(ck.RowHi == h.NextRow-1, "checkpoint %d: row_hi %d", ck.Seq, ck.RowHi)
	bad.check(len(rows) == 0 || ck.PosHi == rows[len(rows)-1].Pos+1, "checkpoint %d: pos_hi %d", ck.Seq, ck.PosHi)
	bad.check(slices.EqualFunc(ck.Meta.Coverage, coveredBy(rows, kernelOf(&h)), Cover.Equal), "checkpoint %d covers %+v, the rows say %+v", ck.Seq, ck.Meta.Coverage, coveredBy(rows, kernelOf(&h)))
	bad.check(ck.Reason != "", "checkpoint %d has no reason", ck.Seq)
	tb.check = ck
}

// restamp writes the new rows inactive, then flips: what was removed by the
// client is archived, because the new rows are made of its list alone.
func (tb *table) restamp(p *RestampPlan) (bad complaints) {
	ends := p.Head.StructureVersion - tb.head.StructureVersion // 1 when folds end with it
	bad.check(p.Base == tb.head.Version && p.Head.Version == p.Base+ends && p.Head.Epoch == tb.head.Epoch+1, "re-stamp to version %d epoch %d", p.Head.Version, p.Head.Epoch)
	for _, r := range tb.rows {
		if r.Active {
			r.Active, r.Cause = false, "restamp"
			r.StateSum = r.CurrentSum()
		}
	}
	tb.addRows(p.Rows, &bad)
	for _, e := range tb.elems {
		if e.State == Removed {
			e.State = Archived
		}
	}
	for _, s := range p.States {
		tb.elems[s.N].State = s.State
	}
	bad.check(p.World.Epoch == p.Head.Epoch && p.World.Ledger == p.Head.Ledger, "the world row is %+v", p.World)
	tb.sealed(p.Check, p.Head, &bad)
	tb.head = p.Head
	tb.folds(&bad)
	return bad
}

// standing are the live rows and those that wait under a block or hidden, in
// order, as an index made from them.
func (tb *table) standing(epoch int64) []RowIndex {
	var rows []*Row
	for _, r := range tb.rows {
		waits := r.Epoch == epoch && r.Kind != "carrier" && (r.Cause == "fold" || r.Cause == "hide")
		if r.Active || waits {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int {
		return int((a.Pos-b.Pos)<<16) + int(a.Sub-b.Sub)
	})
	out := make([]RowIndex, len(rows))
	for i, r := range rows {
		out[i] = RowIndex{Row: r.ID, Elem: r.Elem, Pos: r.Pos, Sub: r.Sub, Removed: tb.elems[r.Elem].State == Removed,
			Kind: chat.Kind(r.Kind), Call: r.CallID, RowSum: r.RowSum, StateSum: r.StateSum, Overlay: string(r.Overlay)}
		if !r.Active {
			fmt.Sscanf(r.CoveredBy, "b%d", &out[i].Block)
			out[i].Hidden = r.Cause == "hide"
		}
		if r.Sub < 0 {
			fmt.Sscanf(r.CanonID, "b%d", &out[i].Carrier)
			out[i].Removed = false
		}
		if r.Sub == 0 {
			out[i].Tokens = tb.elems[r.Elem].Tokens
		}
	}
	return out
}

// coveredBy tells places by block the slow way: one place at a time.
func coveredBy(rows []RowIndex, k fold.State) (out []Cover) {
	for _, c := range rows {
		if c.Carrier == 0 {
			continue
		}
		cv := Cover{Block: fmt.Sprint("b", c.Carrier), Anchor: c.Elem}
		on := false
		for _, r := range rows {
			switch mine := r.Block == c.Carrier; {
			case r.Carrier != 0:
			case !mine:
				on = false
			case on:
				cv.Intervals[len(cv.Intervals)-1][1] = r.Pos + 1
			default:
				cv.Intervals, on = append(cv.Intervals, [2]int64{r.Pos, r.Pos + 1}), true
			}
		}
		if b := k.Block(c.Carrier); b != nil {
			for _, id := range b.Children {
				cv.Children = append(cv.Children, fmt.Sprint("b", id))
			}
		}
		out = append(out, cv)
	}
	return out
}

// load is the state a restarted program would plan from.
func (tb *table) load() *State {
	st := &State{Head: tb.head, Kernel: tb.kernel(), Repeats: map[chat.CanonID]int32{}, Stands: map[int64]ElemState{}}
	for _, it := range tb.lists[tb.head.ListTurn] {
		st.List = append(st.List, Elem{N: it.N, Key: tb.elems[it.N].Key, Raw: it.Raw})
	}
	for _, e := range tb.elems {
		for _, c := range e.Cores {
			st.Repeats[c.Canon]++
		}
		switch e.State {
		case Folded, Hidden, Overlaid, Removed:
			st.Stands[e.N] = e.State
		}
	}
	switch {
	case tb.check.Meta.Version != tb.head.Version || tb.head.NeedsRestamp != "" || tb.check.Meta.Kernel.Structure != tb.head.StructureVersion:
		st.Red = "not current"
	default:
		st.Rows = tb.standing(tb.head.Epoch)
	}
	st.Meta = map[int64]fold.Element{}
	for _, n := range st.Undescribed() {
		e := tb.elems[n]
		st.Meta[n] = Describe(e, tb.blobs[e.Blob])
	}
	return st
}

// findRewound is the newest rewound element with this key behind prev.
func (tb *table) findRewound(key content.ID, prev int64) (Returned, bool) {
	var found *Element
	for _, e := range tb.elems {
		if e.State == Rewound && e.Key == key && e.Prev == prev && (found == nil || e.N > found.N) {
			found = e
		}
	}
	if found == nil {
		return Returned{}, false
	}
	r := Returned{Element: *found}
	for _, id := range slices.Sorted(maps.Keys(tb.rows)) {
		if row := tb.rows[id]; row.Elem == found.N && row.Epoch == tb.head.Epoch && row.Sub >= 0 {
			r.Rows = append(r.Rows, *row)
		}
	}
	return r, true
}

// audit checks what must hold between commits.
func (tb *table) audit() (bad complaints) {
	places := map[[2]int64]bool{}
	for _, r := range tb.rows {
		bad.check(r.Intact(tb.head.Ledger), "row %d is not intact", r.ID)
		if !r.Active {
			continue
		}
		at := [2]int64{r.Pos, int64(r.Sub)}
		bad.check(!places[at], "two live rows at %v", at)
		places[at] = true
		bad.check(r.Sub < 0 || numbered(r, tb.elems[r.Elem]), "row %d calls its core %s, the element has %v", r.ID, r.CanonID, tb.elems[r.Elem].Cores)
	}
	rewound := 0
	next := map[chat.CanonID]int32{}
	for _, n := range slices.Sorted(maps.Keys(tb.elems)) {
		e := tb.elems[n]
		if e.State == Rewound {
			rewound++
		}
		for _, c := range e.Cores {
			next[c.Canon]++
			bad.check(c.Repeat == next[c.Canon], "element %d: repeat %d of a core, want %d", n, c.Repeat, next[c.Canon])
		}
	}
	bad.check(rewound == tb.head.Rewound, "%d elements are rewound, the head says %d", rewound, tb.head.Rewound)
	return bad
}

// numbered reports whether a row's id carries the repeat that its core was
// counted with; reasoning that came later was never counted.
func numbered(r *Row, e *Element) bool {
	var want []string
	for _, c := range e.Cores {
		id := c.Canon.String()
		if c.Repeat > 1 {
			id += fmt.Sprint("_", c.Repeat)
		}
		want = append(want, id)
	}
	return slices.Contains(want, r.CanonID) || r.Kind == string(chat.Reasoning)
}
