package session

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/usage"
)

// Inbound is one request as the planner needs it. Messages are the decoded
// elements by inbound index; kept elements whose bytes did not change are nil.
type Inbound struct {
	Now      int64 // unix ms
	Turn     Turn  // all but Ledger, List, Fields and View filled in
	Keys     []content.ID
	Raws     []content.ID
	Messages []*chat.Message
	// PrevFields are the large top-level fields of the turn the list follows.
	PrevFields []FieldRef
	// Returning are rewound elements that come back, by inbound index.
	Returning map[int]Returned
	// Rows says whether snapshot rows are written this turn.
	Rows bool
	// FrameSig is the hash of the first three keys and the system field.
	FrameSig []byte
	Model    string
	Wire     string
	Tools    bool
	Window   usage.Tokens
	// Title is used when the session is created.
	Title string
	// Route goes to l1_world when Rows is set.
	Route Route
}

// Returned is a rewound element with its inactive rows of this epoch.
type Returned struct {
	Element Element
	Rows    []Row
}

// bornAs reports whether the stored bytes are known to be those of a wire: rows
// of this epoch say so, as long as the element was not given other bytes since.
func (r *Returned) bornAs(wire string) bool {
	return len(r.Rows) > 0 && r.Rows[0].Wire == wire && r.Rows[0].Raw == r.Element.Blob
}

// Plan is a commit and what memory holds once it is durable.
type Plan struct {
	Commit Commit
	Next   *State
	// counted are the canonical ids first stored by this plan, described what the
	// kernel learned of elements.
	counted   []chat.CanonID
	described map[int64]fold.Element
	planner   *planner
}

// Settle returns the state after the commit; call it once, after success.
// Until then the state planned from is untouched.
func (p *Plan) Settle() *State {
	for _, c := range p.counted {
		p.Next.Repeats[c]++
	}
	maps.Copy(p.Next.Meta, p.described)
	return p.Next
}

// FirstSightRows is the largest number of new elements whose rows are written
// with the turn; a longer first sight is re-stamped in chunks after it.
const FirstSightRows = 64

// planner carries one plan in the making. st is never changed.
type planner struct {
	st    *State
	in    *Inbound
	al    *Alignment
	plan  *Plan
	items []ListItem
	// fresh counts canonical ids new in this plan, on top of st.Repeats.
	fresh  map[chat.CanonID]int32
	events []fold.Event
	rows   bool
	create bool
	ck     int64 // seq of the checkpoint in the making
	// born, flipped and moved find what the commit says of a row or an element,
	// so that each is told once.
	born, flipped, moved map[int64]int
	// shared says that Next.Stands is still the map of st.
	shared bool
	// change is what the kernel is told of the alignment.
	change fold.Change
}

// MakePlan plans the commit of one turn on an existing or a new branch. st is
// the branch as it is (Head alone filled for a new one, create true); al says
// how the inbound list follows from it. The kernel's alignment is part of the
// plan; what the kernel makes of the turn is added by Plan.Fold. While anything
// is folded, st must have nothing Undescribed.
func MakePlan(st *State, create bool, al *Alignment, in *Inbound) *Plan {
	p := newPlanner(st, in)
	p.al, p.create = al, create
	p.rows = in.Rows && st.Red == "" && !al.Restamps()
	if create && len(in.Keys) > FirstSightRows {
		p.rows = false
	}
	p.plan.Commit = Commit{Create: create, Base: st.Head.Version, Turn: in.Turn}
	p.plan.Next.List = make([]Elem, len(in.Keys))
	p.items = make([]ListItem, len(in.Keys))
	p.touch(create)
	p.leave()
	p.enter()
	p.turnList(create)
	p.alignKernel()
	p.seal()
	return p.plan
}

// newPlanner starts from a copy of st that shares its slices and maps.
func newPlanner(st *State, in *Inbound) *planner {
	next := *st
	// clipped, so that appending never writes behind the rows of st
	next.Rows = st.Rows[:len(st.Rows):len(st.Rows)]
	if next.Repeats == nil {
		next.Repeats = map[chat.CanonID]int32{}
	}
	if next.Meta == nil {
		next.Meta = map[int64]fold.Element{}
	}
	p := &planner{st: st, in: in, ck: st.Head.HeadSeq + 1, shared: true, fresh: map[chat.CanonID]int32{},
		born: map[int64]int{}, flipped: map[int64]int{}, moved: map[int64]int{}}
	p.plan = &Plan{Next: &next, planner: p, described: map[int64]fold.Element{}}
	return p
}

func (p *planner) head() *Head { return &p.plan.Next.Head }

// leave takes out what the client no longer has: rewound, removed, archived.
func (p *planner) leave() {
	if p.al.Restamps() {
		p.archiveVanished()
		return
	}
	if len(p.al.Rewound) > 0 {
		p.rewind()
	}
	if len(p.al.Removed) > 0 {
		p.remove()
	}
}

// archiveVanished: after a re-stamp the live list is the inbound; elements the
// client dropped now or earlier are archived, still searchable.
func (p *planner) archiveVanished() {
	kept := make(map[int]bool, len(p.al.Kept))
	for _, i := range p.al.Kept {
		kept[i] = true
	}
	for i := range p.st.List {
		if !kept[i] {
			p.move(p.st.List[i].N, Archived, -1)
		}
	}
	for _, n := range removedElems(p.st.Rows) {
		p.move(n, Archived, -1)
	}
	p.event(fold.Event{Kind: fold.Restamp})
}

// rewind deactivates everything behind the last kept element, also what the
// client had removed there before: it went back to before that.
func (p *planner) rewind() {
	first := p.al.Rewound[0]
	after := int64(0)
	if first > 0 {
		after = p.st.List[first-1].N
	}
	ev := fold.Event{Kind: fold.Rewind, After: after}
	prev := after
	for _, i := range p.al.Rewound {
		e := p.st.List[i]
		p.move(e.N, Rewound, prev)
		p.head().Rewound++
		ev.Elems = append(ev.Elems, e.N)
		prev = e.N
	}
	if p.st.Red == "" {
		p.cutRows(after, &ev)
	}
	p.change.Rewound = ev.Elems
	p.event(ev)
}

// cutRows drops the rows behind element after; removed elements among
// them become rewound too.
func (p *planner) cutRows(after int64, ev *fold.Event) {
	rows := p.plan.Next.Rows
	cut := 0
	for i := range rows {
		if rows[i].Elem == after && rows[i].Carrier == 0 {
			cut = i + 1
		}
	}
	prev := after
	for i := cut; i < len(rows); i++ {
		p.drop(rows[i], string(fold.Rewind))
		if rows[i].Carrier != 0 {
			continue
		}
		if rows[i].Removed && rows[i].Elem != prev {
			p.move(rows[i].Elem, Rewound, prev)
			p.head().Rewound++
			ev.Elems = append(ev.Elems, rows[i].Elem)
		}
		prev = rows[i].Elem
	}
	p.plan.Next.Rows = rows[:cut:cut]
}

// remove keeps the dropped elements in the snapshot view. One of reasoning
// alone is never put back, and without rows there is no view to keep one in:
// those are archived.
func (p *planner) remove() {
	gone := make(map[int64]bool, len(p.al.Removed))
	archived := fold.Event{Kind: fold.Archive}
	for _, i := range p.al.Removed {
		e := p.st.List[i]
		if p.rows && !reasoningKeys[e.Key] {
			gone[e.N] = true
			p.move(e.N, Removed, -1)
			continue
		}
		p.move(e.N, Archived, -1)
		p.dropRows(e.N, string(fold.Archive))
		archived.Elems = append(archived.Elems, e.N)
		archived.Keys = append(archived.Keys, e.Key.String())
	}
	if len(archived.Elems) > 0 {
		p.event(archived)
	}
	rows := slices.Clone(p.plan.Next.Rows)
	for k := range rows {
		rows[k].Removed = rows[k].Removed || gone[rows[k].Elem] && rows[k].Carrier == 0
	}
	p.plan.Next.Rows = rows
}

// enter numbers the inbound elements: kept, replaced, returning or new.
func (p *planner) enter() {
	replaced := make(map[int]int, len(p.al.Replaced))
	if !p.al.Restamps() { // there the vanished are archived already
		for _, pr := range p.al.Replaced {
			replaced[pr.Inbound] = pr.Stored
		}
	}
	appended := fold.Event{Kind: fold.Append}
	for j := range p.in.Keys {
		switch i, isReplaced := replaced[j]; {
		case p.al.Kept[j] >= 0:
			p.keep(j, p.al.Kept[j])
		case isReplaced:
			p.replace(j, p.st.List[i])
		default:
			if r, ok := p.in.Returning[j]; ok {
				p.reactivate(j, r)
				continue
			}
			if len(appended.Elems) == 0 {
				appended.After = p.before(j)
			}
			n := p.add(j, p.nextPos())
			appended.Elems = append(appended.Elems, n)
		}
	}
	if len(appended.Elems) > 0 {
		p.event(appended)
	}
}

func (p *planner) keep(j, i int) {
	e := p.st.List[i]
	p.place(j, e.N)
	m := p.in.Messages[j]
	if m == nil {
		return
	}
	stored := e.Raw
	if p.al.Row == RowWire {
		stored = p.reblob(e.N, m)
	}
	if d, known := p.plan.Next.Meta[e.N]; known && p.al.Row == RowWire {
		p.describe(&Element{N: e.N, Ref: d.Ref}, m)
	}
	p.variants(j, stored)
}

// reblob gives a stored element the bytes of this turn: it may be stored as
// another wire spells it.
func (p *planner) reblob(n int64, m *chat.Message) content.ID {
	id := content.Of(m.Stripped)
	p.plan.Commit.Reblobs = append(p.plan.Commit.Reblobs, Reblob{n, id})
	p.blob(Blob{ID: id, Raw: m.Stripped, Media: m.Media})
	return id
}

// place records that element n stands at inbound index j.
func (p *planner) place(j int, n int64) {
	p.plan.Next.List[j] = Elem{N: n, Key: p.in.Keys[j], Raw: p.in.Raws[j]}
	p.items[j] = ListItem{N: n, Raw: p.in.Raws[j]}
}

// before is the element in front of inbound index j, 0 for the first.
func (p *planner) before(j int) int64 {
	if j == 0 {
		return 0
	}
	return p.plan.Next.List[j-1].N
}

func (p *planner) replace(j int, old Elem) {
	p.move(old.N, Archived, -1)
	pos := p.dropRows(old.N, string(fold.Replace))
	n := p.add(j, pos)
	if p.change.Replaced == nil {
		p.change.Replaced = map[int64]int64{}
	}
	p.change.Replaced[old.N] = n
	p.event(fold.Event{Kind: fold.Replace, Elems: []int64{n}, Old: []int64{old.N}, Keys: []string{old.Key.String()}})
}

// reactivate brings a rewound element back under its number and ref; its rows
// of this epoch come back at their old place, else new ones are written.
func (p *planner) reactivate(j int, r Returned) {
	e := r.Element
	after := p.before(j)
	p.place(j, e.N)
	p.move(e.N, Live, after)
	p.head().Rewound--
	if !r.bornAs(p.in.Wire) {
		e.Blob = p.reblob(e.N, p.in.Messages[j])
	}
	p.variants(j, e.Blob)
	if _, known := p.plan.Next.Meta[e.N]; !known {
		p.describe(&e, p.in.Messages[j])
	}
	p.event(fold.Event{Kind: fold.Reactivate, Elems: []int64{e.N}, After: after, Keys: []string{e.Key.String()}})
	if !p.rows {
		return
	}
	if len(r.Rows) > 0 && r.Rows[0].Pos >= p.nextPos() {
		for i := range r.Rows {
			p.revive(r.Rows[i], e, i == 0)
		}
		return
	}
	p.writeRows(e.N, p.in.Messages[j], e.Cores, e.Blob, e.Tokens, p.nextPos())
}

func (p *planner) revive(row Row, e Element, first bool) {
	ix := RowIndex{Row: row.ID, Elem: e.N, Pos: row.Pos, Sub: row.Sub, Kind: chat.Kind(row.Kind), Call: row.CallID, RowSum: row.RowSum}
	if first {
		ix.Tokens = e.Tokens
	}
	p.set(&ix, stand{live: true, cause: string(fold.Reactivate)})
	p.plan.Next.Rows = append(p.plan.Next.Rows, ix)
}

// add stores a new element at inbound index j and its rows at pos.
func (p *planner) add(j int, pos int64) int64 {
	m := p.in.Messages[j]
	h := p.head()
	e := Element{N: h.NextElem, Key: m.Key, Role: m.Role, Kind: m.Parts[0].Kind, State: Live,
		Prev: p.before(j), FirstTurn: p.in.Turn.ID, Tokens: tokensOf(m), Cores: p.cores(m)}
	h.NextElem++
	if p.refs(j, m) {
		e.Ref = h.NextRef
		h.NextRef++
	}
	e.Blob = p.in.Raws[j]
	if len(m.Stripped) != len(m.Raw) {
		e.Blob = content.Of(m.Stripped)
	}
	p.blob(Blob{ID: e.Blob, Raw: m.Stripped, Media: m.Media})
	p.variants(j, e.Blob)
	p.plan.Commit.Elements = append(p.plan.Commit.Elements, e)
	p.place(j, e.N)
	p.describe(&e, m)
	if p.rows {
		p.writeRows(e.N, m, e.Cores, e.Blob, e.Tokens, pos)
	}
	return e.N
}

// refs reports whether the element gets a ref: system, developer and the first
// user element can never fold.
func (p *planner) refs(j int, m *chat.Message) bool {
	if m.Role == chat.System || m.Role == chat.Developer || p.head().NextRef > fold.MaxRef {
		return false
	}
	return m.Role != chat.User || p.hasUser(j)
}

// hasUser reports whether a user element stands before inbound index j. The
// first one is looked for among the new elements only when the branch is new.
func (p *planner) hasUser(j int) bool {
	if len(p.st.List) > 0 {
		return j > 0
	}
	for k := range j {
		if m := p.in.Messages[k]; m != nil && m.Role == chat.User {
			return true
		}
	}
	return false
}

func (p *planner) cores(m *chat.Message) []CoreRef {
	out := make([]CoreRef, len(m.Parts))
	for i := range m.Parts {
		c := m.Parts[i].Canon
		p.fresh[c]++
		p.plan.counted = append(p.plan.counted, c)
		out[i] = CoreRef{Kind: m.Parts[i].Kind, Canon: c, Repeat: p.st.Repeats[c] + p.fresh[c]}
	}
	return out
}

// variants keeps the client's spelling where it is not the stored bytes.
func (p *planner) variants(j int, stored content.ID) {
	if m := p.in.Messages[j]; m != nil && p.in.Raws[j] != stored {
		p.blob(Blob{ID: p.in.Raws[j], Raw: m.Raw, Media: m.RawMedia})
	}
}

func (p *planner) blob(b Blob) { p.plan.Commit.Blobs = append(p.plan.Commit.Blobs, b) }

// move brings element n to another state, once a commit; prev is the witness of
// a return, -1 for none.
func (p *planner) move(n int64, s ElemState, prev int64) {
	c := &p.plan.Commit
	k, told := p.moved[n]
	if !told {
		k = len(c.States)
		p.moved[n] = k
		c.States = append(c.States, StateChange{N: n, Prev: -1})
	}
	c.States[k].State = s
	if prev >= 0 {
		c.States[k].Prev = prev
	}
	if told && c.States[k].Prev < 0 && s == cmp.Or(p.st.Stands[n], Live) { // back where it was
		c.States = slices.Delete(c.States, k, k+1)
		delete(p.moved, n)
		for ; k < len(c.States); k++ {
			p.moved[c.States[k].N] = k
		}
	}
	p.stands(n, s)
}

// stands notes an element's state in memory, where it is one that counts there.
func (p *planner) stands(n int64, s ElemState) {
	next := p.plan.Next
	if p.shared {
		next.Stands, p.shared = maps.Clone(next.Stands), false
		if next.Stands == nil {
			next.Stands = map[int64]ElemState{}
		}
	}
	switch s {
	case Live, Rewound, Archived:
		delete(next.Stands, n)
	default:
		next.Stands[n] = s
	}
}

func (p *planner) event(e fold.Event) { p.events = append(p.events, e) }

// nextPos is the place behind the last row.
func (p *planner) nextPos() int64 {
	rows := p.plan.Next.Rows
	if len(rows) == 0 {
		return 1
	}
	return rows[len(rows)-1].Pos + 1
}

func (p *planner) writeRows(n int64, m *chat.Message, cores []CoreRef, blob content.ID, tok usage.Tokens, pos int64) {
	rows, ixs := RowsOf(p.head(), n, m, cores, blob, tok, pos, p.ck, p.in.Now)
	p.bear(rows, ixs)
}

// bear adds new rows to the commit and to memory.
func (p *planner) bear(rows []Row, ixs []RowIndex) {
	c := &p.plan.Commit
	for i := range rows {
		p.born[rows[i].ID] = len(c.Rows) + i
	}
	c.Rows = append(c.Rows, rows...)
	p.plan.Next.Rows = insertRows(p.plan.Next.Rows, ixs)
}

// insertRows puts rows at their place; the common case is the end.
func insertRows(rows, add []RowIndex) []RowIndex {
	at := len(rows)
	for at > 0 && (rows[at-1].Pos > add[0].Pos || rows[at-1].Pos == add[0].Pos && rows[at-1].Sub > add[0].Sub) {
		at--
	}
	if at == len(rows) {
		return append(rows, add...)
	}
	out := make([]RowIndex, 0, len(rows)+len(add))
	out = append(append(out, rows[:at]...), add...)
	return append(out, rows[at:]...)
}

// dropRows deactivates the rows of one element and returns their place.
func (p *planner) dropRows(n int64, cause string) int64 {
	rows := p.plan.Next.Rows
	out := make([]RowIndex, 0, len(rows))
	pos := p.nextPos()
	for i := range rows {
		if rows[i].Elem != n || rows[i].Carrier != 0 {
			out = append(out, rows[i])
			continue
		}
		pos = rows[i].Pos
		p.drop(rows[i], cause)
	}
	p.plan.Next.Rows = out
	return pos
}

// RowsOf makes the rows of one element, one per core, and takes their ids from
// the head.
func RowsOf(h *Head, n int64, m *chat.Message, cores []CoreRef, blob content.ID, tok usage.Tokens, pos, ck, now int64) ([]Row, []RowIndex) {
	rows := make([]Row, len(m.Parts))
	repeats := repeatsOf(m.Parts, cores)
	ixs := make([]RowIndex, len(m.Parts))
	for i := range m.Parts {
		pt := &m.Parts[i]
		r := Row{ID: h.NextRow, Epoch: h.Epoch, Pos: pos, Sub: int32(i), Elem: n, SessRaw: h.SessRaw,
			CanonID: canonID(pt.Canon, repeats[i]), Kind: string(pt.Kind), Role: string(pt.Role), CType: ctype(m),
			Tool: pt.Tool, CallID: pt.CallID, Wire: h.Wire, Raw: blob, BornCk: ck, CreatedAt: now, Active: true, ChangedCk: ck}
		h.NextRow++
		r.Seal(h.Ledger)
		rows[i] = r
		ixs[i] = RowIndex{Row: r.ID, Elem: n, Pos: pos, Sub: r.Sub, Kind: pt.Kind, Call: pt.CallID, RowSum: r.RowSum, StateSum: r.StateSum}
	}
	ixs[0].Tokens = tok
	return rows, ixs
}

// repeatsOf returns the repeat of each part as it was counted when the element
// was first stored. After a wire switch the bytes may hold other reasoning than
// the element was stored with; what was never counted has no suffix.
func repeatsOf(parts []chat.Part, cores []CoreRef) []int32 {
	out := make([]int32, len(parts))
	from := 0 // in the common case the next part is the next core
	for i := range parts {
		for k := from; k < len(cores); k++ {
			if cores[k].Canon == parts[i].Canon {
				out[i], from = cores[k].Repeat, k+1
				break
			}
		}
	}
	return out
}

// canonID is the id with its repeat suffix; the first of its kind has none.
func canonID(c chat.CanonID, repeat int32) string {
	if repeat <= 1 {
		return c.String()
	}
	return c.String() + "_" + strconv.Itoa(int(repeat))
}

func ctype(m *chat.Message) string {
	if m.Type == "" {
		return "message"
	}
	return m.Type
}

// tokensOf estimates an element's tokens; base64 payloads are not text and are
// left out.
func tokensOf(m *chat.Message) usage.Tokens {
	n := len(m.Stripped)
	for _, s := range m.Media {
		n -= s.Len()
	}
	return usage.EstimateBytes(n)
}

func removedElems(rows []RowIndex) (ns []int64) {
	for i := range rows {
		if rows[i].Removed && (len(ns) == 0 || ns[len(ns)-1] != rows[i].Elem) {
			ns = append(ns, rows[i].Elem)
		}
	}
	return ns
}

// reasoningKeys are the keys of elements of reasoning alone.
var reasoningKeys = keysOf(chat.Reasoning)

// seal fills in the session row and the checkpoint. It may be done again after
// more was planned.
func (p *planner) seal() {
	h, in, c := p.head(), p.in, &p.plan.Commit
	changed := p.changed()
	if changed {
		h.Version = p.st.Head.Version + 1
	}
	if p.rows && changed {
		h.HeadSeq = p.ck
		c.Check = p.checkpoint()
	}
	if p.create && !p.rows && in.Rows {
		h.NeedsRestamp = "first sight"
	}
	if p.al != nil && p.al.Restamps() {
		h.NeedsRestamp = restampWhy(p.al)
	}
	if !p.rows && changed {
		p.giveUpRows()
		p.plan.Next.Red = cmp.Or(h.NeedsRestamp, p.st.Red, "not current")
	}
	if p.rows {
		c.World = worldRow(h, in.Route, changed && p.st.Route != in.Route)
		if c.World != nil {
			p.plan.Next.Route = in.Route
		}
	}
	c.Head = *h
}

// changed reports whether anything but the turn row and the rhythm is new.
func (p *planner) changed() bool {
	return p.create || len(p.events) > 0 || len(p.plan.Commit.States) > 0 ||
		p.head().StructureVersion != p.st.Head.StructureVersion
}

// giveUpRows: the rows no longer follow the list. What the client had removed
// is archived with them, because new rows will be made of the list alone.
func (p *planner) giveUpRows() {
	if p.al == nil || !p.al.Restamps() {
		for _, n := range removedElems(p.plan.Next.Rows) {
			p.move(n, Archived, -1)
		}
	}
	p.plan.Next.Rows = nil
}

func restampWhy(al *Alignment) string {
	switch {
	case al.Row == RowWire:
		return "wire switch"
	case al.AnchorsOut:
		return "elements reordered"
	}
	return "list rewritten by the client"
}

func (p *planner) touch(create bool) {
	h, in := p.head(), p.in
	h.Model, h.Wire, h.Tools, h.Window, h.LastSeen = in.Model, in.Wire, in.Tools, in.Window, in.Now
	h.ListTurn = in.Turn.ID
	h.ListLen = len(in.Keys)
	h.ListSum = ChainSum(in.Keys)
	if create {
		h.CreatedAt = in.Now
		h.Title = clip(in.Title, 80)
	}
}

// turnList tells the list as a difference to the previous turn's.
func (p *planner) turnList(create bool) {
	t := &p.plan.Commit.Turn
	t.Ledger = p.head().Ledger
	t.World = p.head().World
	t.Kept = true
	t.List.Whole = p.items
	if create || p.st.Head.ListTurn == 0 {
		t.List.Tail, t.Fields = p.items, t.AllFields
		return
	}
	t.List.Prev = p.st.Head.ListTurn
	n := 0
	for n < len(p.items) && n < len(p.st.List) && p.items[n] == (ListItem{p.st.List[n].N, p.st.List[n].Raw}) {
		n++
	}
	t.List.Common, t.List.Tail = n, p.items[n:]
	t.Fields = fieldsNotIn(t.AllFields, p.in.PrevFields)
}

func fieldsNotIn(fields, prev []FieldRef) (out []FieldRef) {
	for _, f := range fields {
		same := func(o FieldRef) bool { return o.Name == f.Name && o.ID == f.ID }
		if !slices.ContainsFunc(prev, same) {
			out = append(out, f)
		}
	}
	return out
}

func (p *planner) checkpoint() *Checkpoint {
	h, rows := p.head(), p.plan.Next.Rows
	ck := Checkpoint{Seq: p.ck, Epoch: h.Epoch, RowHi: h.NextRow - 1, Reason: p.reason(), Cause: p.plan.Commit.Cause,
		FrameSig: p.in.FrameSig, CreatedAt: p.in.Now}
	if len(rows) > 0 {
		ck.PosHi = rows[len(rows)-1].Pos + 1
	}
	ck.Meta = Meta{V: 1, Version: h.Version, Kernel: KernelSeal{h.StructureVersion, h.Sum.String()},
		Coverage: CoverageOf(rows, &p.plan.Next.Kernel), S4: AggregateOf(rows), Events: p.events}
	return &ck
}

// reason is the most telling event of the turn.
func (p *planner) reason() string {
	for _, k := range [...]fold.EventKind{fold.Folded, fold.Inherit, fold.Unfold, fold.Hide, fold.Overlay, fold.Replace, fold.Archive, fold.Rewind, fold.Reactivate, fold.Append} {
		for _, e := range p.events {
			if e.Kind == k {
				return string(k)
			}
		}
	}
	return "remove"
}

func worldRow(h *Head, route Route, write bool) *WorldRow {
	if !write || !h.Signed() {
		return nil
	}
	return &WorldRow{World: h.World, Branch: h.Branch, Ledger: h.Ledger, Mode: h.Mode, Route: route, Bucket: h.Bucket,
		Epoch: h.Epoch, Parent: h.Parent, ForkElem: h.ForkElem, CreatedAt: h.CreatedAt, LastSeen: h.LastSeen}
}

// clip shortens s to at most n runes, between words where one ends in the second
// half.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	cut := string([]rune(s)[:n-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ") + "…"
}
