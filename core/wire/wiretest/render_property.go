package wiretest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// RenderProperties checks what must hold of every view on a wire: what is kept
// leaves as it came, the prefix stays from turn to turn and up to the first
// change, and a strict provider takes what comes out.
func RenderProperties(t *testing.T, codec wire.Codec, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		s := newStage(t, codec, r)
		s.plain()
		s.nextTurn()
		s.firstChange()
		s.taken()
		if t.Failed() {
			return
		}
	}
}

// beside renders an element with all we can put around it: what leaves is still
// what the codec takes.
func beside(t *testing.T, codec wire.Codec, raw []byte) {
	t.Helper()
	in, err := wire.Cut(slices.Concat([]byte(`{"messages":[`), raw, []byte(`,`), raw, []byte(`]}`)), codec.List())
	if err != nil {
		return // too deep by the brackets around it
	}
	element := wire.Item{Inbound: 0}
	for _, strict := range []bool{false, true} {
		add := wire.Additions{Paragraph: "p", Tools: Own(), Nudge: "n", Strict: strict}
		out, err := codec.Render(in, []wire.Slot{{Item: element}, {Carrier: "c"}, {Item: element},
			{Echo: []wire.Private{{Assistant: raw, Results: []wire.Result{{CallID: "x", Text: "r"}}}}}, {Item: element}}, add)
		if err != nil {
			t.Fatalf("%v: %q", err, raw)
		}
		body, err := wire.Cut(out.Bytes(in), codec.List())
		if err == nil {
			err = body.StrictFrame(nil)
		}
		for i := 0; err == nil && i < len(body.Elements); i++ {
			_, err = codec.Element(body.Element(i))
		}
		if err != nil {
			t.Fatalf("%v: %q became %q", err, raw, out.Bytes(in))
		}
	}
}

// stage is one made-up session.
type stage struct {
	t     *testing.T
	codec wire.Codec
	talk  *Talk
	seed  uint64
	// elements are the client's list, groups what they came from, starts where in
	// the list each begins.
	elements []string
	groups   []Group
	starts   []int
	view     []wire.Slot
	add      wire.Additions
}

func newStage(t *testing.T, codec wire.Codec, r *rand.Rand) *stage {
	s := &stage{t: t, codec: codec, seed: r.Uint64(), talk: &Talk{R: r, Family: codec.Family()}}
	s.elements = s.talk.Lead()
	s.grow(s.talk.Groups(4 + r.IntN(12)))
	s.add = wire.Additions{Paragraph: "About folds.", Tools: Own(), Strict: r.IntN(2) == 0}
	s.view = s.fold(s.keepUpTo(s.starts[0]), 0, len(s.groups)-2)
	return s
}

// grow is what the client adds.
func (s *stage) grow(groups []Group) {
	for _, g := range groups {
		s.starts = append(s.starts, len(s.elements))
		s.elements = append(s.elements, g.Elements...)
	}
	s.groups = append(s.groups, groups...)
}

// fold extends a view by the groups from a given one. Of those before another
// some are folded, hidden, shortened, told as they really were, or have an
// element in front that the client dropped.
func (s *stage) fold(view []wire.Slot, from, to int) []wire.Slot {
	view = slices.Clip(view)
	for i := from; i < to; i++ {
		if i == 0 {
			view = append(view, s.keep(i)...)
			continue
		}
		switch s.talk.R.IntN(7) {
		case 0:
			view = append(view, wire.Slot{Carrier: `fold "b1"`})
			i = min(to, i+1+s.talk.R.IntN(4)) - 1
		case 1:
			view = append(view, s.shortened(i)...)
		case 2:
			view = append(view, s.asItWas(i)...)
		case 3:
			for _, raw := range s.talk.Work().Elements {
				view = append(view, wire.Slot{Item: wire.Item{Inbound: -1, Raw: []byte(raw)}})
			}
			view = append(view, s.keep(i)...)
		case 4: // hidden
		default:
			view = append(view, s.keep(i)...)
		}
	}
	for i := max(from, to); i < len(s.groups); i++ {
		view = append(view, s.keep(i)...)
	}
	return view
}

func (s *stage) keepUpTo(n int) (view []wire.Slot) {
	for j := range n {
		view = append(view, wire.Slot{Item: wire.Item{Inbound: j}})
	}
	return view
}

func (s *stage) keep(i int) (view []wire.Slot) {
	for j := range s.groups[i].Elements {
		view = append(view, wire.Slot{Item: wire.Item{Inbound: s.starts[i] + j}})
	}
	return view
}

// shortened shortens the first result of a group.
func (s *stage) shortened(i int) []wire.Slot {
	view := s.keep(i)
	if len(s.groups[i].Calls) > 0 {
		view[1].Overlays = []wire.Overlay{{Core: 0, Shorten: shorten}}
	}
	return view
}

// asItWas tells the rounds behind a model's element: one of our calls alone,
// then, where the client has calls to answer, one beside these.
func (s *stage) asItWas(i int) []wire.Slot {
	view := s.keep(i)
	if s.groups[i].User {
		return view
	}
	own := func(id string) []wire.Result { return []wire.Result{{CallID: id, Text: "ours", Failed: id == "own_2"}} }
	view[0].Echo = []wire.Private{{Assistant: []byte(s.talk.Call("own_1")), Results: own("own_1")}}
	if calls := s.groups[i].Calls; len(calls) > 0 {
		mixed := s.talk.Call(append([]string{"own_2"}, calls...)...)
		view[0].Echo = append(view[0].Echo, wire.Private{Assistant: []byte(mixed), Results: own("own_2")})
	} else {
		view[0].Echo = append(view[0].Echo, wire.Private{Assistant: []byte(s.groups[i].Elements[0])})
	}
	return view
}

func (s *stage) render(view []wire.Slot, add wire.Additions) (*wire.Body, []byte) {
	s.t.Helper()
	in, err := wire.Cut(s.talk.Body(s.seed, s.elements), s.codec.List())
	if err != nil {
		s.t.Fatalf("%v: %s", err, s.talk.Body(s.seed, s.elements))
	}
	before := bytes.Clone(in.Raw)
	out, err := s.codec.Render(in, view, add)
	if err != nil {
		s.t.Fatal(err)
	}
	raw := out.Bytes(in)
	if again, _ := s.codec.Render(in, view, add); !bytes.Equal(again.Bytes(in), raw) || !bytes.Equal(in.Raw, before) {
		s.t.Fatalf("not pure:\n%s\n%s", again.Bytes(in), raw)
	}
	body, err := wire.Cut(raw, s.codec.List())
	if err != nil {
		s.t.Fatalf("%v: %s", err, raw)
	}
	return body, raw
}

// plain: a list that nothing happened to leaves as the very bytes that came,
// outside what we add.
func (s *stage) plain() {
	s.t.Helper()
	all := s.keepUpTo(len(s.elements))
	if _, raw := s.render(all, wire.Additions{}); !bytes.Equal(raw, s.talk.Body(s.seed, s.elements)) {
		s.t.Errorf("changed without a reason: %s", raw)
	}
	add := s.add
	add.Nudge = "Fold now."
	if _, raw := s.render(all, add); !Added(s.talk.Body(s.seed, s.elements), raw, add) {
		s.t.Errorf("changed outside what we add:\n%s\n%s", s.talk.Body(s.seed, s.elements), raw)
	}
}

// nextTurn: the next request starts with the bytes of this one, whatever was
// folded, and whether a nudge was given or not; the frame is the same.
func (s *stage) nextTurn() {
	s.t.Helper()
	now, raw := s.render(s.view, s.add)
	n := len(s.groups)
	s.grow([]Group{s.talk.Work(), s.talk.Say(), s.talk.Ask()})
	later := slices.Clone(s.view)
	for i := n; i < len(s.groups); i++ {
		later = append(later, s.keep(i)...)
	}
	s.view = later
	nudged := s.add
	nudged.Nudge = "Fold now."
	next, rawNext := s.render(later, nudged)
	s.prefix(now, next, len(now.Elements))
	if !bytes.Equal(raw[:now.List.Start], rawNext[:next.List.Start]) || !bytes.Equal(raw[now.List.End:], rawNext[next.List.End:]) {
		s.t.Errorf("the frame moved:\n%s\n%s", raw, rawNext)
	}
}

// rest is the number of elements from a group on.
func (s *stage) rest(group int) int { return len(s.elements) - s.starts[group] }

func (s *stage) prefix(a, b *wire.Body, n int) {
	s.t.Helper()
	for i := range n {
		if i >= len(a.Elements) || i >= len(b.Elements) || !bytes.Equal(a.Element(i), b.Element(i)) {
			s.t.Errorf("element %d of the first %d differs:\n%s\n%s", i, n, a.Raw, b.Raw)
			return
		}
	}
}

// firstChange: two views that are equal up to a place are rendered equally up
// to there. On a strict route the element before it may be lengthened.
func (s *stage) firstChange() {
	s.t.Helper()
	to := len(s.groups) - 2
	at := 1 + s.talk.R.IntN(to-1)
	shared := s.fold(s.keepUpTo(s.starts[0]), 0, at)
	shared = shared[:len(shared)-s.rest(at)]
	alone, _ := s.render(shared, s.add)
	a, _ := s.render(s.fold(shared, at, to), s.add)
	b, _ := s.render(s.fold(shared, at, to), s.add)
	n := len(alone.Elements)
	if s.add.Strict {
		n--
	}
	s.prefix(a, b, n)
}

// taken: a strict provider takes it; no marker was added; and what is kept has
// the key it came with.
func (s *stage) taken() {
	s.t.Helper()
	_, raw := s.render(s.view, s.add)
	if err := Accept(s.codec, raw, false); err != nil {
		s.t.Errorf("%v: %s", err, raw)
	}
	if s.add.Strict {
		s.alternates(raw)
	}
	in := bytes.Count(s.talk.Body(s.seed, s.elements), []byte(wire.CacheMarker))
	for _, slot := range s.view {
		in += bytes.Count(slot.Raw, []byte(wire.CacheMarker))
		for _, r := range slot.Echo {
			in += bytes.Count(r.Assistant, []byte(wire.CacheMarker))
		}
	}
	if out := bytes.Count(raw, []byte(wire.CacheMarker)); out > in {
		s.t.Errorf("%d markers, %d came: %s", out, in, raw)
	}
	s.keepsKeys(raw)
}

// alternates: nothing we did made two users neighbours.
func (s *stage) alternates(raw []byte) {
	s.t.Helper()
	body, _ := wire.Cut(raw, s.codec.List())
	last := chat.Role("")
	for i := range body.Elements {
		m, err := s.codec.Element(body.Element(i))
		if err != nil {
			s.t.Fatal(err)
		}
		if m.Role == chat.User && last == chat.User {
			s.t.Errorf("element %d is the second of the user's: %s", i, raw)
		}
		last = m.Role
	}
}

// keepsKeys: the elements that a route with room leaves alone come out with the
// keys they came with, in their order.
func (s *stage) keepsKeys(raw []byte) {
	s.t.Helper()
	add := s.add
	add.Strict = false
	body, _ := s.render(s.view, add)
	i := 0
	for k, slot := range s.view {
		touched := slot.Carrier != "" || len(slot.Echo)+len(slot.Overlays) > 0 || k > 0 && len(s.view[k-1].Echo) > 0 || k == 0
		if touched {
			continue
		}
		want := slot.Raw
		if want == nil {
			want = []byte(s.elements[slot.Inbound])
		}
		for i < len(body.Elements) && !bytes.Equal(body.Element(i), want) {
			i++
		}
		if i == len(body.Elements) {
			s.t.Errorf("slot %d did not leave as it came: %s\n%s", k, want, body.Raw)
			return
		}
		i++
	}
}
