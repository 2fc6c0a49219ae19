package fold

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// program is one random life of a conversation. flat is a planner's memory: it
// knows the folds by their events alone.
type program struct {
	*talk
	rng   *rand.Rand
	flat  flat
	last  int64 // highest block ever given
	steps []string
}

// flat keeps what events say: which element lies under which block, and where
// each carrier stands.
type flat struct {
	under    map[int64]int64
	carriers map[int64]int64
	hidden   map[int64]bool
}

func (f *flat) apply(events []Event) {
	for _, e := range events {
		switch e.Kind {
		case Folded, Inherit:
			for _, n := range e.Elems {
				f.under[n] = e.Block
			}
			for _, c := range e.Children {
				delete(f.carriers, c)
			}
			f.carriers[e.Block] = e.Anchor
		case Unfold:
			for _, n := range e.Elems {
				delete(f.under, n)
				if e.Block == 0 {
					delete(f.hidden, n)
				}
			}
			delete(f.carriers, e.Block)
		case Hide:
			for _, n := range e.Elems {
				f.hidden[n] = true
			}
		}
	}
}

// view renders a list from what the events said.
func (f *flat) view(elements []Element) (out []Item) {
	for i := range elements {
		n := elements[i].N
		if b := f.under[n]; b != 0 {
			if f.carriers[b] == n {
				out = append(out, Item{Block: b})
			}
			continue
		}
		if !f.hidden[n] {
			out = append(out, Item{N: n})
		}
	}
	return out
}

func newProgram(t *testing.T, rng *rand.Rand) *program {
	p := &program{talk: newTalk(t).system("You are helpful.").user("Please fix the bug."), rng: rng,
		flat: flat{map[int64]int64{}, map[int64]int64{}, map[int64]bool{}}}
	p.lim = Limits{Window: 60_000, Terms: priced(20)}
	return p
}

func (p *program) step() {
	p.grow()
	p.align("grow", Change{})
	switch p.rng.IntN(12) {
	case 0:
		p.rewind()
	case 1:
		p.replace()
	case 2:
		p.prune()
	case 3:
		p.hide()
	case 4:
		p.unfoldOne()
	case 5, 6, 7, 8, 9:
		p.compress()
	}
	p.survive()
}

func (p *program) grow() {
	for range p.rng.IntN(8) {
		switch p.rng.IntN(8) {
		case 0:
			p.user(words("next", p.rng.IntN(400)))
		case 1:
			p.says(words("well", p.rng.IntN(3_000)))
		case 2:
			p.thinks("hm").call("bash", "{}").result(words("ok", p.rng.IntN(20_000)))
		case 3:
			p.parallel()
		default:
			p.call("read", "{}").result(words("file", p.rng.IntN(6_000)))
		}
	}
}

// parallel adds one element of three calls and one of three results, as the
// anthropic wire has them.
func (p *program) parallel() {
	var calls, results []chat.Part
	for range 3 {
		p.calls++
		id := fmt.Sprintf("c%d", p.calls)
		calls = append(calls, chat.Part{Kind: chat.ToolCall, Tool: "grep", CallID: id, Text: "{}"})
		results = append(results, chat.Part{Kind: chat.ToolResult, CallID: id, Text: words("hit", p.rng.IntN(3_000))})
	}
	p.add(message(chat.Assistant, calls...)).add(message(chat.User, results...))
}

func (p *program) anyRef() string {
	if n := len(p.st.Blocks); n > 0 && p.rng.IntN(3) == 0 {
		return blockRef(int64(1 + p.rng.IntN(n+1)))
	}
	return Ref{Number: 1 + p.rng.Int64N(p.nextRef+2)}.String()
}

// compress asks for up to three ranges, good or bad, and holds the outcome to
// what every fold must keep.
func (p *program) compress() {
	var refs []string
	for range 1 + p.rng.IntN(3) {
		refs = append(refs, p.anyRef(), p.anyRef())
	}
	before, state := View(p.elems, p.st), p.st
	sealed, _ := state.Seal()
	out := p.run(ToolCompress, ranges(refs...))
	p.said("compress %v", refs)
	if again, _ := state.Seal(); string(again) != string(sealed) {
		p.fail("the state it was given was changed")
	}
	p.flat.apply(out.Events)
	if out.Failed != (len(out.Events) == 0) || out.Failed != reflect.DeepEqual(out.State, state) {
		p.fail("failed is %v with %d events", out.Failed, len(out.Events))
	}
	p.prefix(before, View(p.elems, p.st), out.Events)
}

// prefix checks that everything before the first touched element is as before.
func (p *program) prefix(before, after []Item, events []Event) {
	touched := map[int64]bool{}
	for _, e := range events {
		for _, n := range e.Elems {
			touched[n] = true
		}
		for _, c := range e.Children {
			touched[-c] = true
		}
	}
	for i, v := range before {
		if touched[v.N] || v.Block != 0 && touched[-v.Block] {
			return
		}
		if i >= len(after) || !reflect.DeepEqual(after[i], v) {
			p.fail("place %d was %+v before the first touched element", i, v)
		}
	}
}

// align carries a change of the list through the kernel and the ledger.
func (p *program) align(what string, ch Change) {
	st, events := Align(p.elems, ch, p.st)
	p.said("%s", what)
	p.st = st
	p.flat.apply(events)
}

// rewind goes back over the end of the list, and sometimes comes back at once.
func (p *program) rewind() {
	if len(p.elems) < 6 {
		return
	}
	cut := len(p.elems) - 1 - p.rng.IntN(len(p.elems)/2)
	gone := slices.Clone(p.elems[cut:])
	p.elems = slices.Clone(p.elems[:cut])
	var ns []int64
	for _, e := range gone {
		ns = append(ns, e.N)
	}
	p.align(fmt.Sprintf("rewind %d", len(ns)), Change{Rewound: ns})
	if p.rng.IntN(2) == 0 {
		p.check()
		p.elems = append(p.elems, gone...)
		p.align("come back", Change{})
	}
}

// replace gives one text element another number, as an edit does.
func (p *program) replace() {
	i := p.rng.IntN(len(p.elems))
	if len(p.elems[i].Cores) != 1 || p.elems[i].Cores[0].Kind != chat.Text || p.elems[i].Ref == 0 {
		return
	}
	old := p.elems[i].N
	e := p.element(message(p.elems[i].Role, part(chat.Text, words("edited", 300))))
	p.elems = slices.Clone(p.elems)
	p.elems[i] = e
	if b := p.flat.under[old]; b != 0 {
		p.flat.under[e.N] = b
		delete(p.flat.under, old)
		if p.flat.carriers[b] == old {
			p.flat.carriers[b] = e.N
		}
	}
	if p.flat.hidden[old] {
		p.flat.hidden[e.N] = true
	}
	p.align(fmt.Sprintf("replace %d by %d", old, e.N), Change{Replaced: map[int64]int64{old: e.N}})
}

// prune drops whole exchanges and re-stamps.
func (p *program) prune() {
	drop := map[int64]bool{}
	pic := newPicture(p.elems, &p.st)
	g := pic.groups()
	for range p.rng.IntN(3) {
		for _, k := range g.of(p.rng.IntN(len(p.elems))) {
			if !p.elems[k].system() {
				drop[p.elems[k].N] = true
			}
		}
	}
	p.elems = slices.DeleteFunc(slices.Clone(p.elems), func(e Element) bool { return drop[e.N] })
	p.align(fmt.Sprintf("prune %d", len(drop)), Change{Restamp: true})
	p.restamp()
}

// restamp writes the ledger's rows anew, as the planner does then.
func (p *program) restamp() {
	p.flat.under, p.flat.carriers = map[int64]int64{}, map[int64]int64{}
	for _, c := range Coverage(p.elems, p.st) {
		p.flat.apply([]Event{{Kind: Folded, Block: c.Block, Elems: c.Elems, Anchor: c.Anchor, Children: c.Children}})
	}
}

func (p *program) hide() {
	st, events := HideElements(p.elems, p.st, []int64{p.elems[p.rng.IntN(len(p.elems))].N})
	p.said("hide")
	p.st = st
	p.flat.apply(events)
}

func (p *program) unfoldOne() {
	if p.st.LastBlock == 0 {
		return
	}
	st, events := Undo(p.elems, p.st, 1+p.rng.Int64N(p.st.LastBlock))
	p.said("undo")
	p.st = st
	p.flat.apply(events)
}

func (p *program) survive() {
	view, events, _ := p.turn(exact(truthful(p.talk)))
	p.said("turn, %d events", len(events))
	p.flat.apply(events)
	if !reflect.DeepEqual(view, View(p.elems, p.st)) {
		p.fail("the view of the turn is not the view of its state")
	}
	p.check()
}

// truthful is what a truthful upstream would report.
func truthful(k *talk) usage.Tokens { return max(200, newPicture(k.elems, &k.st).size()) }

func (p *program) said(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

func (p *program) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter %q", fmt.Sprintf(format, args...), p.steps)
}

// check holds the state to every invariant of the kernel.
func (p *program) check() {
	view := View(p.elems, p.st)
	p.checkClosed(view)
	p.checkCarriers(view)
	p.checkBlocks()
	text, sum := p.st.Seal()
	if back, err := OpenState(text, sum); err != nil || !reflect.DeepEqual(View(p.elems, back), view) {
		p.fail("the state does not survive its JSON: %v", err)
	}
	var rh Rhythm
	if json.Unmarshal(p.rh.Text(), &rh) != nil || !reflect.DeepEqual(rh.Text(), p.rh.Text()) {
		p.fail("the rhythm does not survive its JSON")
	}
}

// checkClosed: every call has its result wherever the client's list has both,
// and what can never fold is there.
func (p *program) checkClosed(view []Item) {
	shown := shownNumbers(view)
	whole := p.open(p.numbers())
	for id := range p.open(shown) {
		if !whole[id] {
			p.fail("call %s is torn apart", id)
		}
	}
	first := firstUser(p.elems)
	for i := range p.elems {
		if (p.elems[i].system() || i == first) && !has(shown, p.elems[i].N) {
			p.fail("element %d must never fold", p.elems[i].N)
		}
		if p.elems[i].thought() && i+1 < len(p.elems) && has(shown, p.elems[i].N) != has(shown, p.elems[i+1].N) {
			p.fail("reasoning %d is parted from its companion", p.elems[i].N)
		}
	}
}

// checkCarriers: one carrier for each active block, and the events tell the
// same view as the state.
func (p *program) checkCarriers(view []Item) {
	seen := map[int64]int{}
	for _, id := range carriers(view) {
		seen[id]++
	}
	for i := range p.st.Blocks {
		b := &p.st.Blocks[i]
		if want := b.Status == Active; seen[b.ID] > 1 || want != (seen[b.ID] == 1) {
			p.fail("b%d is %q and has %d carriers", b.ID, b.Status, seen[b.ID])
		}
		body, stored := p.bodies[b.Body]
		if !stored || EstimateText(CarrierText(b, body)) != b.Carrier {
			p.fail("b%d says its carrier takes %d tokens, its body is stored: %v", b.ID, b.Carrier, stored)
		}
	}
	plain := slices.Clone(view)
	for i := range plain {
		plain[i].Overlays = nil
	}
	if told := p.flat.view(p.elems); !reflect.DeepEqual(told, plain) {
		p.fail("events tell\n%+v\nthe state says\n%+v", told, plain)
	}
}

// checkBlocks: numbers rise and are never given twice, and no element is held
// by two blocks that stand.
func (p *program) checkBlocks() {
	held := map[int64]int64{}
	last := int64(0)
	for i := range p.st.Blocks {
		b := &p.st.Blocks[i]
		if b.ID <= last {
			p.fail("b%d after b%d", b.ID, last)
		}
		last = b.ID
		if b.Status != Active {
			continue
		}
		for _, n := range p.st.Effective(b.ID) {
			if other := held[n]; other != 0 {
				p.fail("element %d is in b%d and b%d", n, other, b.ID)
			}
			held[n] = b.ID
		}
	}
	if p.st.LastBlock < p.last || last > p.st.LastBlock {
		p.fail("the last block went from b%d to b%d", p.last, p.st.LastBlock)
	}
	p.last = p.st.LastBlock
}

// TestInvariants runs random conversations through everything that changes a
// fold.
func TestInvariants(t *testing.T) {
	programs := uint64(40)
	if raced {
		programs = 8
	}
	for seed := range programs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newProgram(t, seeded(t, seed))
			for range 40 {
				p.step()
			}
		})
	}
}

// TestProgramsDoFold: the random programs reach what they are there for.
func TestProgramsDoFold(t *testing.T) {
	var folds, tiers, elided, overlays, away int
	for seed := range uint64(20) {
		p := newProgram(t, seeded(t, seed))
		for range 40 {
			p.step()
			overlays += len(p.st.Overlays)
			for i := range p.st.Blocks {
				if p.st.Blocks[i].Status == Away {
					away++
				}
			}
		}
		for i := range p.st.Blocks {
			b := &p.st.Blocks[i]
			folds++
			if b.Tier > 1 {
				tiers++
			}
			if b.Elided {
				elided++
			}
		}
	}
	if folds < 60 || tiers < 10 || elided < 5 || overlays < 20 || away < 5 {
		t.Errorf("%d folds, %d of a higher tier, %d elisions, %d overlays, %d away", folds, tiers, elided, overlays, away)
	}
}
