package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"holdfast/core/chat"
)

// Pen writes the elements of one family for Render. It is handed only elements
// that the family's codec has read.
type Pen interface {
	// User is an element in which the user says text.
	User(text string) []byte
	// Append is a user's or a tool's element with text at its end, Prepend a
	// user's with text in front of its own, behind results it holds. Merge is
	// what two elements of the user's say as one.
	Append(elem []byte, text string) []byte
	Prepend(user []byte, text string) []byte
	Merge(first, second []byte) []byte
	// Answer are results as elements of their own, Join an element with them in
	// front of all else; ok is false where they have to stand alone.
	Answer(results []Result) [][]byte
	Join(next []byte, results []Result) (joined []byte, ok bool)
	// Shorten shortens results of an element, each once; it errs with ErrSlot.
	Shorten(elem []byte, overlays []Overlay) ([]byte, error)
	// Instruct puts the paragraph at the end of the leading system text.
	Instruct(l *Layout, paragraph string)
	// Remind puts a nudge behind an element of the user's or a tool's.
	Remind(l *Layout, last int, nudge string)
}

// Layout is a view on its way out: the list as it stands, and edits of the
// frame.
type Layout struct {
	Body  *Body
	items []Item
	edits []Edit
}

// Len is the number of elements.
func (l *Layout) Len() int { return len(l.items) }

// Raw are the bytes of the i-th element.
func (l *Layout) Raw(i int) []byte {
	if l.items[i].Raw != nil {
		return l.items[i].Raw
	}
	return l.Body.Element(l.items[i].Inbound)
}

// Role is the role of the i-th element.
func (l *Layout) Role(i int) chat.Role { return roleOf(l.Raw(i)) }

// Change gives the i-th element other bytes.
func (l *Layout) Change(i int, raw []byte) { l.items[i].Raw = raw }

// Add appends an element of our own.
func (l *Layout) Add(raw []byte) { l.items = append(l.items, Item{Inbound: -1, Raw: raw}) }

// Lead puts an element of our own in front of all others.
func (l *Layout) Lead(raw []byte) {
	l.items = append([]Item{{Inbound: -1, Raw: raw}}, l.items...)
}

// Edit changes the frame.
func (l *Layout) Edit(e Edit) { l.edits = append(l.edits, e) }

func roleOf(raw []byte) chat.Role { return chat.Role(ValueOf(raw).Obj().Get("role").Str()) }

// Render renders a view with a family's pen; see Renderer.
func Render(p Pen, b *Body, view []Slot, add Additions) (Outgoing, error) {
	c := composer{pen: p, strict: add.Strict, l: Layout{Body: b, items: make([]Item, 0, len(view)+2)}}
	for i := range view {
		if err := c.slot(&view[i]); err != nil {
			return Outgoing{}, err
		}
	}
	c.settle(nil)
	var out Outgoing
	if add.Paragraph != "" {
		p.Instruct(&c.l, add.Paragraph)
	}
	if add.Nudge != "" {
		out.Nudged = c.remind(add.Nudge)
	}
	for _, r := range add.Rounds {
		c.round(r)
		c.settle(nil)
	}
	c.l.tools(add.Tools)
	inOrder(c.l.edits)
	out.Items, out.Edits = c.l.items, c.l.edits
	return out, nil
}

// tools appends our tools to the client's.
func (l *Layout) tools(tools []json.RawMessage) {
	if len(tools) == 0 {
		return
	}
	values := make([][]byte, len(tools))
	for i := range tools {
		values[i] = tools[i]
	}
	array := l.Body.Get("tools")
	if !array.Is('[') {
		l.Edit(l.Body.Set("tools", JoinList(values)))
		return
	}
	list, _ := array.List()
	l.Edit(Insert(array, list, len(list), values...))
}

// composer lays a view out, slot by slot.
type composer struct {
	pen    Pen
	strict bool
	l      Layout
	// answers wait for the element that follows an echo; carriers, on a strict
	// route, for a neighbour to join.
	answers  []Result
	carriers []string
}

func (c *composer) slot(s *Slot) error {
	if s.Carrier != "" {
		c.carrier(s.Carrier)
		return nil
	}
	if len(s.Echo) > 0 {
		for _, r := range s.Echo {
			c.settle(nil)
			c.round(r)
		}
		return nil
	}
	it := s.Item
	if err := c.shorten(&it, s.Overlays); err != nil {
		return err
	}
	c.place(it)
	return nil
}

func (c *composer) shorten(it *Item, overlays []Overlay) error {
	if len(overlays) == 0 {
		return nil
	}
	for i, o := range overlays {
		if slices.ContainsFunc(overlays[:i], func(p Overlay) bool { return p.Core == o.Core }) {
			return ErrSlot
		}
	}
	raw := c.bytes(it)
	short, err := c.pen.Shorten(raw, overlays)
	if err == nil && !bytes.Equal(short, raw) {
		it.Raw = short
	}
	return err
}

// place adds an element of the conversation. On a strict route it joins a user
// element that folding made its neighbour.
func (c *composer) place(it Item) {
	c.settle(&it)
	if n := c.l.Len() - 1; c.strict && n >= 0 && !follows(c.l.items[n], it) &&
		c.l.Role(n) == chat.User && roleOf(c.bytes(&it)) == chat.User {
		it.Raw = c.pen.Merge(c.l.Raw(n), c.bytes(&it))
		c.l.items[n] = it
		return
	}
	c.l.items = append(c.l.items, it)
}

// follows says whether the client itself wrote next behind it.
func follows(it, next Item) bool { return it.Inbound >= 0 && next.Inbound == it.Inbound+1 }

func (c *composer) round(r Private) {
	if r.Assistant != nil {
		c.l.Add(r.Assistant)
		c.answers = r.Results
	}
}

// carrier places a carrier: on its own, or on a strict route where it makes no
// neighbour of its own role. A tool's result is such a place as well: strict
// templates count turns without calls and results.
func (c *composer) carrier(text string) {
	if !c.strict {
		c.settle(nil)
		c.l.Add(c.pen.User(text))
		return
	}
	c.answer(nil)
	if n := c.l.Len() - 1; c.listens(n) {
		c.l.Change(n, c.pen.Append(c.l.Raw(n), text))
		return
	}
	c.carriers = append(c.carriers, text)
}

// listens says whether there is an n-th element that Listens.
func (c *composer) listens(n int) bool { return n >= 0 && Listens(c.l.Raw(n)) }

// Listens says whether the model reads an element as input of its turn: the
// user's or a tool's. A nudge has a place only behind such a one.
func Listens(elem []byte) bool {
	role := roleOf(elem)
	return role == chat.User || role == chat.Tool || role == oldTool
}

// oldTool is the role of a result in the oldest form of calling.
const oldTool chat.Role = "function"

// remind places the nudge at the end. The model's own words and the system's
// have no place for one after them.
func (c *composer) remind(nudge string) bool {
	n := c.l.Len() - 1
	switch {
	case !c.listens(n):
		return false
	case c.strict:
		c.l.Change(n, c.pen.Append(c.l.Raw(n), nudge))
	default:
		c.pen.Remind(&c.l, n, nudge)
	}
	return true
}

// settle places what waits, in next if it is an element that takes it.
func (c *composer) settle(next *Item) {
	c.answer(next)
	if len(c.carriers) == 0 {
		return
	}
	text := strings.Join(c.carriers, paragraphs)
	c.carriers = nil
	if next != nil && roleOf(c.bytes(next)) == chat.User {
		next.Raw = c.pen.Prepend(c.bytes(next), text)
		return
	}
	c.l.Add(c.pen.User(text))
}

func (c *composer) bytes(it *Item) []byte {
	if it.Raw != nil {
		return it.Raw
	}
	return c.l.Body.Element(it.Inbound)
}

// answer places the answers of an echo.
func (c *composer) answer(next *Item) {
	if len(c.answers) == 0 {
		return
	}
	results := c.answers
	c.answers = nil
	if next != nil {
		if raw, ok := c.pen.Join(c.bytes(next), results); ok {
			next.Raw = raw
			return
		}
	}
	for _, raw := range c.pen.Answer(results) {
		c.l.Add(raw)
	}
}
