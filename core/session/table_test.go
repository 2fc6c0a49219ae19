package session

import (
	"fmt"
	"maps"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
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
}

func newTable() *table {
	return &table{rows: map[int64]*Row{}, elems: map[int64]*Element{}, blobs: map[content.ID]*chat.Message{},
		lists: map[int64][]ListItem{}, fields: map[int64][]FieldRef{}}
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
		tb.blobs[b.ID] = decode(b.Raw)
	}
	tb.addElements(c, &bad)
	tb.changeStates(c, &bad)
	for _, r := range c.Reblobs {
		tb.elems[r.N].Blob = r.Blob
	}
	tb.addRows(c.Rows, &bad)
	tb.flip(c.Flips, &bad)
	tb.addList(c, &bad)
	tb.seal(c, &bad)
	tb.head = c.Head
	return bad
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

// moves are the state changes an alignment may make.
func moves() map[ElemState][]ElemState {
	return map[ElemState][]ElemState{
		Live:    {Removed, Rewound, Archived},
		Removed: {Rewound, Archived},
		Rewound: {Live},
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
		bad.check(tb.blobs[r.Raw] != nil, "row %d has no bytes", r.ID)
		tb.rows[r.ID] = &r
	}
}

func (tb *table) flip(flips []Flip, bad *complaints) {
	seen := map[int64]bool{}
	for _, f := range flips {
		r := tb.rows[f.Row]
		bad.check(!seen[f.Row] && r.Active != f.Active, "row %d is flipped to what it is", f.Row)
		seen[f.Row] = true
		r.Active, r.CoveredBy, r.Cause, r.ChangedCk, r.StateSum = f.Active, f.CoveredBy, f.Cause, f.ChangedCk, f.StateSum
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
	rows := tb.live()
	bad.check(ck.Seq == tb.head.HeadSeq+1 && ck.Seq == h.HeadSeq, "checkpoint %d follows %d", ck.Seq, tb.head.HeadSeq)
	bad.check(ck.Meta.Version == h.Version && ck.Epoch == h.Epoch, "checkpoint %d seals version %d epoch %d", ck.Seq, ck.Meta.Version, ck.Epoch)
	bad.check(ck.Meta.S4 == AggregateOf(rows), "checkpoint %d has another aggregate than the rows", ck.Seq)
	bad.check(ck.RowHi == h.NextRow-1, "checkpoint %d: row_hi %d", ck.Seq, ck.RowHi)
	bad.check(len(rows) == 0 || ck.PosHi == rows[len(rows)-1].Pos+1, "checkpoint %d: pos_hi %d", ck.Seq, ck.PosHi)
	bad.check(ck.Reason != "", "checkpoint %d has no reason", ck.Seq)
	tb.check = ck
}

// restamp writes the new rows inactive, then flips: what was removed by the
// client is archived, because the new rows are made of its list alone.
func (tb *table) restamp(p *RestampPlan) (bad complaints) {
	bad.check(p.Head.Version == tb.head.Version && p.Head.Epoch == tb.head.Epoch+1, "re-stamp to version %d epoch %d", p.Head.Version, p.Head.Epoch)
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
	bad.check(p.World.Epoch == p.Head.Epoch && p.World.Ledger == p.Head.Ledger, "the world row is %+v", p.World)
	tb.sealed(p.Check, p.Head, &bad)
	tb.head = p.Head
	return bad
}

// live are the active rows of the epoch in order, as an index made from them.
func (tb *table) live() []RowIndex {
	var rows []*Row
	for _, r := range tb.rows {
		if r.Active {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int {
		return int((a.Pos-b.Pos)<<16) + int(a.Sub-b.Sub)
	})
	out := make([]RowIndex, len(rows))
	for i, r := range rows {
		out[i] = RowIndex{Row: r.ID, Elem: r.Elem, Pos: r.Pos, Sub: r.Sub, Removed: tb.elems[r.Elem].State == Removed,
			Kind: chat.Kind(r.Kind), Call: r.CallID, RowSum: r.RowSum, StateSum: r.StateSum}
		if r.Sub == 0 {
			out[i].Tokens = tb.elems[r.Elem].Tokens
		}
	}
	return out
}

// load is the state a restarted program would plan from.
func (tb *table) load() *State {
	st := &State{Head: tb.head, Repeats: map[chat.CanonID]int32{}}
	for _, it := range tb.lists[tb.head.ListTurn] {
		st.List = append(st.List, Elem{N: it.N, Key: tb.elems[it.N].Key, Raw: it.Raw})
	}
	for _, e := range tb.elems {
		for _, c := range e.Cores {
			st.Repeats[c.Canon]++
		}
	}
	switch {
	case tb.check.Meta.Version != tb.head.Version || tb.head.NeedsRestamp != "":
		st.Red = "not current"
	default:
		st.Rows = tb.live()
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
		if row := tb.rows[id]; row.Elem == found.N && row.Epoch == tb.head.Epoch {
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
		bad.check(numbered(r, tb.elems[r.Elem]), "row %d calls its core %s, the element has %v", r.ID, r.CanonID, tb.elems[r.Elem].Cores)
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
