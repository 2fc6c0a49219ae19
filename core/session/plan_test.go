package session

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
)

const (
	enough  = 200 // programs of a run, if nothing else is asked for
	steps   = 30  // operations of a program
	maxList = 24  // elements above which a program stops to append
)

// own is one element of the oracle's list: the client's elements in order and,
// at their places, those the client removed.
type own struct {
	n       int64
	text    string
	removed bool
}

var only = flag.Uint64("program", 0, "seed of the one program to run")

// program is one client, its ledger, and an oracle that watches both.
type program struct {
	r      *rand.Rand
	tb     *table
	st     *State
	own    []own
	client [][]chat.Part   // the client's list
	saved  [][][]chat.Part // lists it may return to
	wire   string
	rowsOn bool
	turn   int64
	texts  int
	log    []string
	letter map[content.ID]byte
	graves map[grave][]int64
	met    map[string]int // what happened how often, so that the fuzz cannot go blind
	folds  bool           // the kernel acts
}

// programs is how many random programs this run plays: HOLDFAST_PROGRAMS when
// set, fewer under the race detector and many more at night.
func programs(t *testing.T) int {
	t.Helper()
	text, ok := os.LookupEnv("HOLDFAST_PROGRAMS")
	if !ok {
		return enough
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// grave is where a rewound element waits: behind which element, by which key.
type grave struct {
	prev int64
	key  content.ID
}

func TestPlanAgainstOracle(t *testing.T) {
	play(t, false, "append", "replace", "rewind", "reactivate", "archive", "old rows back", "new rows for a returning element", "put back",
		"rewound past a removed element")
}

// TestFoldsAgainstOracle plays the same programs with a kernel that folds, nests
// folds, shortens, leaves out, hides and unfolds at random.
func TestFoldsAgainstOracle(t *testing.T) {
	play(t, true, "append", "replace", "rewind", "reactivate", "archive", "fold", "unfold", "hide", "overlay", "nested fold", "fold came back",
		"covered element removed", "covered element replaced", "block died", "folds re-stamped", "fold between turns", "fold without rows", "full path equals snapshot", "inherited fold", "not all inherited")
}

// play runs random programs; what they must have met is in want.
func play(t *testing.T, folds bool, want ...string) {
	r := seeded(t)
	rows, met := map[int]int{}, map[string]int{}
	n := programs(t)
	for range n {
		seed := r.Uint64()
		if *only != 0 {
			seed = *only
		}
		p := newProgram(seed)
		p.folds = folds
		for range steps {
			row, bad := p.step()
			if len(bad) > 0 {
				t.Fatalf("program %d: after\n%s\n%s", seed, strings.Join(p.log, "\n"), strings.Join(bad, "\n"))
			}
			rows[row]++
		}
		if bad := p.copied(); folds && len(bad) > 0 {
			t.Fatalf("program %d: a copy after\n%s\n%s", seed, strings.Join(p.log, "\n"), strings.Join(bad, "\n"))
		}
		for what, times := range p.met {
			met[what] += times
		}
	}
	t.Logf("steps by row: %v; met: %v", rows, met)
	if *only != 0 || n < enough {
		return // too few to have met everything
	}
	for _, what := range want {
		if met[what] == 0 {
			t.Errorf("%s was never met", what)
		}
	}
	for _, row := range []int{RowUnknown, RowTail, RowReplace, RowRemove, RowRestamp, RowWire} {
		if rows[row] < n/3 {
			t.Errorf("row %d was met %d times only", row, rows[row])
		}
	}
}

func newProgram(seed uint64) *program {
	p := &program{r: rand.New(rand.NewPCG(seed, 0)), tb: newTable(), wire: "anthropic", rowsOn: true, letter: map[content.ID]byte{}, graves: map[grave][]int64{}, met: map[string]int{}}
	p.tb.head = Head{Ledger: "L", World: World{Signal: "s", SessRaw: "raw", Lane: MainLane}, NextRow: 1, NextElem: 1, NextRef: 1, NextBlock: 1}
	p.st = &State{Head: p.tb.head}
	return p
}

// step lets the client do one thing and checks everything about it. It returns
// the row of the alignment table, 0 for a step without a turn.
func (p *program) step() (row int, bad complaints) {
	create := len(p.tb.lists) == 0
	next, wire, what := p.move()
	p.log = append(p.log, what)
	marked := p.r.IntN(len(next)) // the marker of this turn
	msgs := make([]*chat.Message, len(next))
	for i, parts := range next {
		msgs[i] = message(wire, parts, i == marked)
	}
	al := p.align(msgs, wire, create)
	if al.Row == RowBranch {
		return 0, nil // another ledger's business
	}
	in := p.inbound(&al, msgs, wire)
	bad = p.plans(create, &al, in)
	plan := MakePlan(p.st, create, &al, in)
	if p.folds {
		bad = append(bad, p.kernel(plan)...)
	}
	bad = append(bad, p.tb.commit(&plan.Commit, decoded(wire))...)
	before := p.st
	p.count(before, &plan.Commit)
	p.st = plan.Settle()
	p.client, p.wire = next, wire
	bad = append(bad, p.follow(before, &al, msgs, create)...)
	var replaced []int64
	for _, r := range al.Replaced {
		if e := before.List[r.Stored]; !al.Restamps() || !reasoningKeys[e.Key] { // a re-stamp leaves a fold that lost reasoning alone
			replaced = append(replaced, e.N)
		}
	}
	bad = append(bad, p.blocks(replaced)...)
	bad = append(bad, p.compare()...)
	if p.folds && len(bad) == 0 {
		bad = append(bad, p.foldBetween()...)
	}
	if p.rowsOn && p.st.Red != "" && p.r.IntN(3) > 0 {
		bad = append(bad, p.restamp()...)
		bad = append(bad, p.compare()...)
	}
	if p.r.IntN(6) == 0 {
		p.log = append(p.log, "restart")
		p.st = p.tb.load()
	}
	return al.Row, bad
}

func (p *program) count(before *State, c *Commit) {
	if c.Check == nil {
		return
	}
	for _, e := range c.Check.Meta.Events {
		p.met[string(e.Kind)]++
		if e.Kind == fold.Reactivate {
			for _, r := range c.Rows {
				if slices.Contains(e.Elems, r.Elem) {
					p.met["new rows for a returning element"]++
				}
			}
		}
	}
	for _, s := range c.States {
		if s.State == Removed && before.Stands[s.N] == Folded {
			p.met["covered element removed"]++
		}
		if slices.ContainsFunc(c.Check.Meta.Events, func(e fold.Event) bool { return slices.Contains(e.Old, s.N) }) && before.Stands[s.N] == Folded {
			p.met["covered element replaced"]++
		}
	}
	for _, f := range c.Flips {
		if f.Active {
			p.met["old rows back"]++
		}
	}
	put := removedElems(before.Rows)
	for _, s := range c.States {
		if s.State == Rewound && slices.Contains(put, s.N) {
			p.met["rewound past a removed element"]++
		}
	}
	p.met["put back"] += len(put)
}

// move is the next list of the client: one operation of the fuzz.
func (p *program) move() (next [][]chat.Part, wire, what string) {
	next, wire = slices.Clone(p.client), p.wire
	n := len(next)
	if n == 0 {
		return p.extend(next, 1+p.r.IntN(90)/30*29), wire, "first sight"
	}
	i := p.r.IntN(n)
	switch op := p.r.IntN(14); {
	case op < 3 && n < maxList:
		return p.extend(next, 1+p.r.IntN(3)), wire, "append"
	case op == 3:
		return next, wire, "retry"
	case op == 4:
		next[i] = p.parts()
		return next, wire, fmt.Sprint("edit ", i)
	case op == 5 && n > 2:
		k := min(n, i+1+p.r.IntN(3))
		next = slices.Delete(next, i, k)
		return p.extend(next, p.r.IntN(2)), wire, fmt.Sprint("prune ", i, " to ", k)
	case op == 6:
		p.saved = append(p.saved, p.client)
		return p.extend(next[:i:i], p.r.IntN(2)), wire, fmt.Sprint("rewind to ", i)
	case op == 7 && len(p.saved) > 0:
		k := p.r.IntN(len(p.saved))
		return p.extend(slices.Clone(p.saved[k]), p.r.IntN(2)), wire, fmt.Sprint("return to list ", k)
	case op == 8:
		return append(next, next[i]), wire, fmt.Sprint("resend element ", i)
	case op == 9:
		next = slices.Insert(next, i, p.parts())
		return next, wire, fmt.Sprint("insert at ", i)
	case op == 10 && n > 1 && i > 0:
		next = slices.Delete(next, i-1, i)
		next[i-1] = p.parts()
		return p.extend(next, 1), wire, fmt.Sprint("merge at ", i)
	case op == 11:
		wire = map[string]string{"anthropic": "openai", "openai": "anthropic"}[wire]
		return p.extend(regroup(next, wire), 1), wire, "wire switch to " + wire
	case op == 12:
		next[i] = p.rethink(next[i])
		return next, wire, fmt.Sprint("other reasoning in ", i)
	}
	p.rowsOn = !p.rowsOn
	return next, wire, fmt.Sprint("rows ", p.rowsOn)
}

func (p *program) extend(list [][]chat.Part, n int) [][]chat.Part {
	for range n {
		list = append(list, p.parts())
	}
	if len(list) == 0 {
		list = append(list, p.parts())
	}
	return list
}

// parts makes an element: new texts mostly, some said before.
func (p *program) parts() []chat.Part {
	p.texts++
	text := fmt.Sprint("t", p.texts)
	if p.folds {
		if list := p.client; len(list) > 0 && p.r.IntN(2) == 0 { // a result to the last call
			if last := list[len(list)-1]; last[len(last)-1].Kind == chat.ToolCall {
				return []chat.Part{{Kind: chat.ToolResult, Role: chat.Tool, CallID: last[len(last)-1].CallID, Text: text + strings.Repeat(" line", 1200+p.r.IntN(4000))}}
			}
		}
		text += strings.Repeat(" word", p.r.IntN(900))
	}
	switch p.r.IntN(9) {
	case 0:
		return []chat.Part{{Kind: chat.Text, Role: chat.User, Text: "go on"}}
	case 1:
		return []chat.Part{{Kind: chat.Reasoning, Role: chat.Assistant, Text: text}}
	case 2:
		return []chat.Part{{Kind: chat.Empty, Role: chat.User}}
	case 3:
		return []chat.Part{{Kind: chat.Reasoning, Role: chat.Assistant, Text: "hm"}, {Kind: chat.Text, Role: chat.Assistant, Text: text},
			{Kind: chat.ToolCall, Role: chat.Assistant, CallID: fmt.Sprint("ct", p.texts), Tool: "read", Text: "{}"}}
	case 4:
		return []chat.Part{{Kind: chat.ToolResult, Role: chat.Tool, CallID: fmt.Sprint("ct", p.texts), Text: "ok"}, {Kind: chat.ToolResult, Role: chat.Tool, CallID: fmt.Sprint("dt", p.texts), Text: "ok"}}
	case 5:
		return []chat.Part{{Kind: chat.Text, Role: chat.System, Text: text}}
	}
	return []chat.Part{{Kind: chat.Text, Role: chat.User, Text: text}}
}

// rethink gives an element other reasoning, or none.
func (p *program) rethink(parts []chat.Part) []chat.Part {
	out := slices.DeleteFunc(slices.Clone(parts), func(pt chat.Part) bool { return pt.Kind == chat.Reasoning })
	if len(out) == 0 {
		return parts
	}
	for range p.r.IntN(3) {
		out = slices.Insert(out, 0, chat.Part{Kind: chat.Reasoning, Role: out[0].Role, Text: fmt.Sprint("hm", p.r.IntN(3))})
	}
	return out
}

// regroup puts tool results the way a wire does: an element each, or in one.
func regroup(list [][]chat.Part, wire string) (out [][]chat.Part) {
	for _, parts := range list {
		switch last := len(out) - 1; {
		case parts[0].Kind != chat.ToolResult:
			out = append(out, parts)
		case wire == "openai":
			for i := range parts {
				out = append(out, parts[i:i+1:i+1])
			}
		case last >= 0 && out[last][0].Kind == chat.ToolResult:
			out[last] = append(slices.Clone(out[last]), parts...)
		default:
			out = append(out, parts)
		}
	}
	return out
}

// message spells parts in the manner of a wire; a marker changes the bytes and
// nothing else.
func message(wire string, parts []chat.Part, marked bool) *chat.Message {
	m := &chat.Message{Role: parts[0].Role, Parts: slices.Clone(parts)}
	m.Stripped = fmt.Appendf(nil, "%s %s", wire, spell(parts))
	m.Raw = m.Stripped
	if marked {
		m.Raw = append(slices.Clone(m.Stripped), " #marker"...)
	}
	m.Seal()
	return m
}

func spell(parts []chat.Part) string {
	var words []string
	for _, p := range parts {
		words = append(words, strings.Join([]string{string(p.Role), string(p.Kind), p.CallID, p.Tool, p.Text}, "|"))
	}
	return strings.Join(words, "; ")
}

// decoded reads what message wrote.
func decoded(wire string) func([]byte) *chat.Message {
	return func(raw []byte) *chat.Message {
		text, marked := strings.CutSuffix(string(raw), " #marker")
		var parts []chat.Part
		for _, w := range strings.Split(strings.TrimPrefix(text, wire+" "), "; ") {
			f := strings.Split(w, "|")
			parts = append(parts, chat.Part{Role: chat.Role(f[0]), Kind: chat.Kind(f[1]), CallID: f[2], Tool: f[3], Text: f[4]})
		}
		return message(wire, parts, marked)
	}
}

func (p *program) align(msgs []*chat.Message, wire string, create bool) Alignment {
	keys := make([]content.ID, len(msgs))
	for j, m := range msgs {
		keys[j] = m.Key
	}
	switch {
	case create:
		a := Align(nil, keys)
		a.Row = RowUnknown
		return a
	case wire == p.wire:
		return Align(Keys(p.st.List), keys)
	}
	stored := make([][]chat.CanonID, len(p.st.List))
	for i, e := range p.st.List {
		for _, c := range p.tb.elems[e.N].Cores {
			if c.Kind != chat.Reasoning {
				stored[i] = append(stored[i], c.Canon)
			}
		}
	}
	inbound := make([][]chat.CanonID, len(msgs))
	for j, m := range msgs {
		for _, pt := range m.Parts {
			if pt.Kind != chat.Reasoning {
				inbound[j] = append(inbound[j], pt.Canon)
			}
		}
	}
	return AlignCores(stored, inbound)
}

// inbound is the request as the chain hands it to the planner: kept elements
// with known bytes are not decoded.
func (p *program) inbound(al *Alignment, msgs []*chat.Message, wire string) *Inbound {
	p.turn++
	in := &Inbound{Now: 1000 + p.turn, Turn: Turn{ID: p.turn}, Messages: slices.Clone(msgs), Returning: map[int]Returned{}, Rows: p.rowsOn,
		Model: "m", Wire: wire, Tools: true, Window: 1000, Title: "a title", Route: RouteShadow, PrevFields: p.tb.fields[p.st.Head.ListTurn]}
	for j, m := range msgs {
		in.Keys = append(in.Keys, m.Key)
		in.Raws = append(in.Raws, content.Of(m.Raw))
		if i := al.Kept[j]; i >= 0 && p.st.List[i].Raw == in.Raws[j] && al.Row != RowWire {
			in.Messages[j] = nil
		}
	}
	for _, name := range []string{"system", "tools", "instructions"} {
		if p.r.IntN(4) > 0 {
			in.Turn.AllFields = append(in.Turn.AllFields, FieldRef{Name: name, ID: content.Of([]byte{byte(p.r.IntN(2))})})
		}
	}
	if !al.Restamps() {
		p.returning(al, in)
	}
	return in
}

func (p *program) returning(al *Alignment, in *Inbound) {
	prev := int64(0)
	if al.Appended > 0 {
		if i := al.Kept[al.Appended-1]; i >= 0 {
			prev = p.st.List[i].N
		}
	}
	for j := al.Appended; j < len(in.Keys); j++ {
		r, ok := p.tb.findRewound(in.Keys[j], prev)
		if !ok {
			return
		}
		in.Returning[j] = r
		prev = r.Element.N
	}
}

// plans checks that planning leaves the state alone: twice the same plan, and
// another request planned in between changes neither.
func (p *program) plans(create bool, al *Alignment, in *Inbound) (bad complaints) {
	before := copyState(p.st)
	first := MakePlan(p.st, create, al, in)
	rows := slices.Clone(first.Next.Rows)
	if !create {
		stray := message(p.wire, []chat.Part{{Kind: chat.Text, Role: chat.User, Text: "stray"}}, false)
		other := &Inbound{Turn: Turn{ID: p.turn + 1000}, Rows: true, Wire: p.wire}
		for _, e := range p.st.List {
			other.Keys, other.Raws, other.Messages = append(other.Keys, e.Key), append(other.Raws, e.Raw), append(other.Messages, nil)
		}
		other.Keys, other.Raws, other.Messages = append(other.Keys, stray.Key), append(other.Raws, content.Of(stray.Raw)), append(other.Messages, stray)
		beside := Align(Keys(p.st.List), other.Keys)
		MakePlan(p.st, false, &beside, other)
	}
	bad.check(slices.Equal(rows, first.Next.Rows), "a second plan from the same state wrote into the first one's rows")
	bad.check(reflect.DeepEqual(before, copyState(p.st)), "planning changed the state planned from")
	bad.check(reflect.DeepEqual(first, MakePlan(p.st, create, al, in)), "the second plan differs from the first")
	return bad
}

func copyState(st *State) *State {
	c := *st
	c.List, c.Rows, c.Repeats = slices.Clone(st.List), slices.Clone(st.Rows), maps.Clone(st.Repeats)
	c.Stands, c.Meta = maps.Clone(st.Stands), maps.Clone(st.Meta)
	return &c
}

// verdict is the oracle's own view of the turn, by the reference alignment.
func (p *program) verdict(before *State, msgs []*chat.Message) refVerdict {
	word := func(n int, key func(int) content.ID) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = p.letterOf(key(i))
		}
		return string(b)
	}
	s := word(len(before.List), func(i int) content.ID { return before.List[i].Key })
	in := word(len(msgs), func(j int) content.ID { return msgs[j].Key })
	return newRefAlign(s, in).verdict()
}

// letterOf names keys by bytes for the reference.
func (p *program) letterOf(k content.ID) byte {
	switch k {
	case tokenKey("empty:user"):
		return 'e'
	case tokenKey("think:assistant"):
		return 'E'
	}
	l, ok := p.letter[k]
	for c := byte(1); !ok; c++ {
		l, ok = c, c != 'e' && c != 'E' && !slices.Contains(slices.Collect(maps.Values(p.letter)), c)
	}
	p.letter[k] = l
	return l
}

// follow moves the oracle's list along and checks the numbers given.
func (p *program) follow(before *State, al *Alignment, msgs []*chat.Message, create bool) (bad complaints) {
	wasGreen := before.Red == "" && !create
	var v refVerdict
	if al.Row != RowWire && !create {
		v = p.verdict(before, msgs)
		bad.check(v.row == al.Row, "row %d, the oracle says %d", al.Row, v.row)
		for i, j := range v.kept {
			bad.check(p.st.List[j].N == before.List[i].N, "kept element %d has a new number", before.List[i].N)
		}
		bad = append(bad, p.numbers(v, before, msgs)...)
		p.bury(v, before, wasGreen)
	}
	green := p.st.Red == ""
	if !create && v.row >= RowTail && v.row <= RowRemove && wasGreen && green {
		p.own = p.ownAfter(v, before, msgs)
		return bad
	}
	p.own = nil
	for j, m := range msgs {
		p.own = append(p.own, own{n: p.st.List[j].N, text: spellKey(m)})
	}
	return bad
}

// numbers checks who is behind the last kept element: those that return under
// their old numbers, from there on new ones.
func (p *program) numbers(v refVerdict, before *State, msgs []*chat.Message) (bad complaints) {
	returning := v.row <= RowRemove
	for j := v.from; j < len(msgs); j++ {
		at := grave{key: msgs[j].Key}
		if j > 0 {
			at.prev = p.st.List[j-1].N
		}
		got, waiting := p.st.List[j].N, p.graves[at]
		if returning = returning && len(waiting) > 0; !returning {
			bad.check(got >= before.Head.NextElem, "element %d comes back behind %d, where nobody waited", got, at.prev)
			continue
		}
		want := slices.Max(waiting)
		bad.check(got == want, "element %d stands where %d should have come back", got, want)
		p.graves[at] = slices.DeleteFunc(waiting, func(n int64) bool { return n == want })
	}
	return bad
}

// bury remembers what was rewound, and behind which element it stood: of the
// client's own in its list, of those put back in the view.
func (p *program) bury(v refVerdict, before *State, viewed bool) {
	if v.row > RowRemove {
		return
	}
	for _, i := range v.rewound {
		at := grave{before.List[i-1].N, before.List[i].Key}
		p.graves[at] = append(p.graves[at], before.List[i].N)
	}
	if !viewed || len(v.rewound) == 0 {
		return
	}
	last := before.List[v.rewound[0]-1].N
	behind := false
	for i, o := range p.own {
		if behind && o.removed {
			at := grave{p.own[i-1].n, p.tb.elems[o.n].Key}
			p.graves[at] = append(p.graves[at], o.n)
		}
		behind = behind || o.n == last
	}
}

// ownAfter applies a verdict to the oracle's list. An element of reasoning
// alone is never put back; what is removed behind the last kept element goes
// with what is rewound.
func (p *program) ownAfter(v refVerdict, before *State, msgs []*chat.Message) (out []own) {
	fate := map[int64]int{} // by element number: inbound index, or -1 for removed
	lastKept := int64(0)
	for i, e := range before.List {
		if j, ok := v.kept[i]; ok {
			fate[e.N], lastKept = j, e.N
		}
		if j, ok := v.replaced[i]; ok {
			fate[e.N] = j
		}
	}
	for _, i := range v.removed {
		if before.List[i].Key != tokenKey("think:assistant") {
			fate[before.List[i].N] = -1
		}
	}
	for _, o := range p.own {
		j, ok := fate[o.n]
		switch {
		case o.removed, ok && j < 0:
			out = append(out, own{o.n, o.text, true})
		case ok:
			out = append(out, own{n: p.st.List[j].N, text: spellKey(msgs[j])})
		}
		if o.n == lastKept {
			break
		}
	}
	for j := v.from; j < len(msgs); j++ {
		out = append(out, own{n: p.st.List[j].N, text: spellKey(msgs[j])})
	}
	return out
}

// spellKey is what of a message its key is made of: reasoning left out, doubled
// results told once.
func spellKey(m *chat.Message) string {
	var parts []chat.Part
	for _, pt := range m.Parts {
		if pt.Kind == chat.Reasoning || pt.Kind == chat.ToolResult && slices.Contains(parts, pt) {
			continue
		}
		parts = append(parts, pt)
	}
	return spell(parts)
}

// compare holds memory, table and oracle against each other.
func (p *program) compare() (bad complaints) {
	bad = p.tb.audit()
	for j, e := range p.st.List {
		stored := p.tb.elems[e.N]
		bad.check(stored.State == p.stateOf(e.N), "element %d at %d is %s, the kernel says %s", e.N, j, stored.State, p.stateOf(e.N))
		bad.check(strings.HasPrefix(string(p.tb.blobs[stored.Blob].Raw), p.wire), "element %d is stored as another wire spells it", e.N)
	}
	loaded := p.tb.load()
	bad.check((loaded.Red == "") == (p.st.Red == ""), "memory is %q, a restart is %q", p.st.Red, loaded.Red)
	bad.check(slices.Equal(loaded.List, p.st.List), "the list loads differently")
	bad.check(slices.Equal(loaded.Rows, p.st.Rows), "rows load as\n%+v\nmemory has\n%+v", loaded.Rows, p.st.Rows)
	bad.check(maps.Equal(loaded.Stands, p.st.Stands), "states load as %v, memory has %v", loaded.Stands, p.st.Stands)
	stored, _ := loaded.Kernel.Seal()
	kept, _ := p.st.Kernel.Seal()
	bad.check(bytes.Equal(stored, kept), "the kernel loads as\n%s\nmemory has\n%s", stored, kept)
	bad.check(len(p.st.Undescribed()) == 0, "the kernel knows nothing of elements %v", p.st.Undescribed())
	bad.check(slices.EqualFunc(loaded.Elements(), p.st.Elements(), sameFacts), "the kernel's list loads differently")
	bad.check(maps.Equal(loaded.Repeats, p.st.Repeats), "repeats load as %v, memory has %v", loaded.Repeats, p.st.Repeats)
	bad.check(reflect.DeepEqual(loaded.Head, p.st.Head), "the head loads differently")
	if p.st.Red != "" {
		bad.check(len(p.st.Rows) == 0, "%q and %d rows in memory", p.st.Red, len(p.st.Rows))
		for _, e := range p.tb.elems {
			bad.check(e.State != Removed, "element %d is to be put back and there is no view", e.N)
		}
		return bad
	}
	bad = append(bad, p.views()...)
	list := p.st.Elements()
	bad.check(len(list) == len(p.own), "the kernel's list has %d elements, the oracle %d: %+v", len(list), len(p.own), p.own)
	for i := range min(len(list), len(p.own)) {
		o, e := p.own[i], p.tb.elems[list[i].N]
		bad.check(list[i].N == o.n && list[i].Removed == o.removed, "place %d of the list is %d, the oracle has %+v", i, list[i].N, o)
		bad.check((e.State == Removed) == o.removed, "element %d is %s, the oracle has %+v", e.N, e.State, o)
		bad.check(spellKey(p.tb.blobs[e.Blob]) == o.text, "element %d has the bytes of %q, the oracle has %q", e.N, spellKey(p.tb.blobs[e.Blob]), o.text)
	}
	return bad
}

func (p *program) restamp() (bad complaints) {
	p.log = append(p.log, "re-stamp: "+p.st.Head.NeedsRestamp)
	var elems []Element
	var msgs []*chat.Message
	for _, e := range p.st.List {
		elems = append(elems, *p.tb.elems[e.N])
		msgs = append(msgs, p.tb.blobs[p.tb.elems[e.N].Blob])
	}
	before := copyState(p.st)
	plan, next := MakeRestamp(p.st, msgs, elems, RouteShadow, p.turn)
	bad.check(reflect.DeepEqual(before, copyState(p.st)), "planning a re-stamp changed the state planned from")
	if len(plan.Check.Meta.Coverage) > 0 {
		p.met["folds re-stamped"]++
	}
	bad = append(bad, p.tb.restamp(plan)...)
	p.st = next
	p.own = slices.DeleteFunc(p.own, func(o own) bool { return o.removed })
	return bad
}
