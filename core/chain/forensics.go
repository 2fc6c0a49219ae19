package chain

import (
	"context"
	"encoding/binary"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// report finds the first changed byte of the outbound body against the
// previous turn's, and what caused it. It runs behind the reply, in the order
// of the replies, and compares by hash; bytes are read for the one pair that
// differs.
func (c *Chain) report(x *Exchange) {
	if !x.committed {
		return
	}
	if err := x.sent.fill(x); err != nil {
		c.log.Error("bookkeeping failed", "what", "form", "turn", x.id, "err", err)
		return
	}
	if x.before.id == 0 || !x.before.form.ready(context.Background(), c.ledger) {
		return
	}
	old, now := newListing(x.before.form, nil), newListing(x.sent, x.sent.body)
	old.fields, old.client, now.inbound = x.before.fields, x.before.skeleton, x.body
	x.sent.body, x.before.form.body = nil, nil // the form outlives the turn, its bytes need not
	d, same, found := session.FirstChanged(old.pieces, now.pieces)
	x.done.PrefixSame = same
	if !found {
		x.done.Change = session.Lapsed(x.start.UnixMilli() - x.before.at)
		return
	}
	x.done.Change = c.explain(x, old, now, d)
}

// sentForm is a body as it left, by hash. It is filled behind the reply, or
// from the ledger when the turn was before a restart.
type sentForm struct {
	skeleton wire.Skeleton
	items    []session.ListItem
	// changed has, for each element that we changed, the client's own bytes.
	changed map[content.ID]content.ID
	body    *wire.Body

	filled bool
	rec    *session.TurnRecord
}

// ready reports whether the form is there, reading it where it must.
func (f *sentForm) ready(ctx context.Context, l session.Ledger) bool {
	if f.filled || f.rec == nil {
		return f.filled
	}
	raw, err := rebuild(ctx, l, f.rec)
	if err != nil {
		return false
	}
	body, err := wire.Cut(raw, codecs()[wire.Family(f.rec.WireIn)].List())
	if err != nil {
		return false
	}
	items, kept := inboundItems(len(body.Elements)), map[content.ID]int64{}
	out := &wire.Outgoing{Items: items}
	if f.rec.View != nil {
		if out, body, err = renderAgain(ctx, l, f.rec, raw); err != nil {
			return false
		}
	}
	for _, r := range f.rec.View {
		if r.N != 0 && r.Add == "" {
			kept[r.Blob] = r.N
		}
	}
	return f.of(out, out.Bytes(body), body, f.rec.Items, kept) == nil
}

// fill makes the form of what an exchange sent.
func (f *sentForm) fill(x *Exchange) error {
	kept := map[content.ID]int64{}
	for _, r := range x.plan.Commit.Turn.View {
		if r.N != 0 && r.Add == "" {
			kept[r.Blob] = r.N
		}
	}
	out, left := x.outgoing, x.outgoingBytes
	if out == nil || sameBytes(x.out, x.raw) {
		out, left = &wire.Outgoing{Items: inboundItems(len(x.keys))}, x.raw
	}
	return f.of(out, left, x.body, x.plan.Commit.Turn.List.Whole, kept)
}

func inboundItems(n int) []wire.Item {
	items := make([]wire.Item, n)
	for j := range items {
		items[j].Inbound = j
	}
	return items
}

// of takes apart what left: out, which made the bytes left. kept names the
// elements put back by the hash of their bytes; what is neither the client's nor
// put back is ours, and has a number below zero that its bytes give it.
func (f *sentForm) of(out *wire.Outgoing, left []byte, in *wire.Body, list []session.ListItem, kept map[content.ID]int64) error {
	b, err := wire.Cut(left, f.listName(in))
	if err != nil {
		return err
	}
	sk, _ := wire.SkeletonOf(b)
	text, err := sk.MarshalBinary() // a copy, so that the body is let go
	if err == nil {
		err = f.skeleton.UnmarshalBinary(text)
	}
	if err != nil {
		return err
	}
	f.body, f.filled = b, true
	f.items, f.changed = make([]session.ListItem, len(out.Items)), map[content.ID]content.ID{}
	for i, it := range out.Items {
		if it.Raw == nil {
			f.items[i] = list[it.Inbound]
			continue
		}
		id := content.Of(it.Raw)
		f.items[i] = session.ListItem{N: kept[id], Raw: id}
		switch {
		case it.Inbound >= 0:
			f.items[i].N, f.changed[id] = list[it.Inbound].N, list[it.Inbound].Raw
		case kept[id] == 0:
			f.items[i].N = -int64(binary.BigEndian.Uint32(id[:]))
		}
	}
	return nil
}

// listName is the member that holds a body's elements.
func (f *sentForm) listName(b *wire.Body) string {
	for _, m := range b.Fields {
		if m.Value == b.List {
			return m.Name
		}
	}
	return "messages"
}

// bytes is what a form takes in memory.
func (f *sentForm) bytes() int64 { return int64(len(f.items)) * 2 * itemBytes }

// theirs names the client's bytes of a piece; zero for what is ours alone.
func (l *listing) theirs(i int) content.ID {
	p := l.pieces[i]
	if id, ok := l.changed[p.ID]; ok && p.Elem {
		return id
	}
	if p.Elem && p.N < 0 {
		return content.ID{}
	}
	return p.ID
}

// ours reports whether a difference is our doing and not the client's: the
// element is one of ours, or the client's bytes of both are the same.
func ours(old, now *listing, d session.Divergence) bool {
	o, n := content.ID{}, content.ID{}
	if d.OldOf >= 0 {
		o = old.theirs(d.OldOf)
	}
	if d.NewOf >= 0 {
		n = now.theirs(d.NewOf)
	}
	switch {
	case d.OldOf < 0:
		return n.IsZero()
	case d.NewOf < 0:
		return o.IsZero()
	}
	return o.IsZero() || n.IsZero() || o == n && old.pieces[d.OldOf].ID != now.pieces[d.NewOf].ID
}

// listing is a form as pieces, with what is needed to read one of them.
type listing struct {
	*sentForm
	pieces []session.Piece
	// between are the bytes of the pieces that are neither field nor element.
	between map[content.ID][]byte
	// body is the new body and inbound what it was made of; nil for an old one,
	// which is read from the ledger. Fields are read as the client sent them: what
	// we add to them never changes.
	body, inbound *wire.Body
	fields        []session.FieldRef
	client        []byte // skeleton of what the client sent
}

func newListing(f *sentForm, body *wire.Body) *listing {
	l := &listing{sentForm: f, body: body}
	l.skeleton.Walk(l)
	return l
}

// Between, Field and Element make the pieces; see wire.Walker.
func (l *listing) Between(b []byte) {
	if len(b) == 0 {
		return
	}
	id := betweenID(b)
	if l.between == nil {
		l.between = map[content.ID][]byte{}
	}
	l.between[id] = b
	l.pieces = append(l.pieces, session.Piece{ID: id, Len: int64(len(b))})
}

// commaID spares hashing the separator of nearly every element.
var commaID = content.Of([]byte(","))

func betweenID(b []byte) content.ID {
	if len(b) == 1 && b[0] == ',' {
		return commaID
	}
	return content.Of(b)
}

func (l *listing) Field(name string, id content.ID) {
	p := session.Piece{Name: name, ID: id}
	if l.body != nil {
		p.Len = int64(len(l.body.Field(name)))
	}
	l.pieces = append(l.pieces, p)
}

func (l *listing) Element(i int) {
	p := session.Piece{Name: "messages", Elem: true, N: l.items[i].N, ID: l.items[i].Raw}
	if l.body != nil {
		p.Len = int64(l.body.Elements[i].Len())
	}
	l.pieces = append(l.pieces, p)
}

// explain reads the two sides of a divergence and names its cause.
func (c *Chain) explain(x *Exchange, old, now *listing, d session.Divergence) *session.FirstChange {
	if ours(old, now, d) {
		cause := session.ChangeFold
		if x.prior.Kernel.Structure == x.next.Kernel.Structure {
			cause = session.ChangeNudge
		}
		return session.OurChange(d.Offset, x.codec.List(), d.Index, cause)
	}
	ch := session.Change{Offset: d.Offset, Index: d.Index, ModelOld: x.before.model, ModelNew: x.frame.Model,
		WireSwitch: x.before.wire != string(x.codec.Family())}
	if d.OldOf >= 0 {
		ch.Old = c.segment(x, old, old.pieces[d.OldOf])
	}
	if d.NewOf >= 0 {
		ch.New = c.segment(x, now, now.pieces[d.NewOf])
	}
	if d.Between() { // the bytes differ in front of the segment they are about
		ch.OldAt, ch.NewAt = c.bytesAt(old, d.Old), c.bytesAt(now, d.New)
	}
	return ch.Explain()
}

// bytesAt is the piece at an index, whatever it is; nil behind the end.
func (c *Chain) bytesAt(l *listing, i int) []byte {
	if i < 0 {
		return nil
	}
	if b, ok := l.between[l.pieces[i].ID]; ok {
		return b
	}
	return c.pieceBytes(l, l.pieces[i])
}

// segment reads a piece: from the body at hand, the skeleton, or the ledger.
// A side that was purged stays empty; the cause is then told from the other.
func (c *Chain) segment(x *Exchange, l *listing, p session.Piece) session.Segment {
	raw := c.pieceBytes(l, p)
	if !p.Elem {
		stripped := wire.StripField(raw)
		rest, found := x.codec.BillingLine(stripped)
		if !found {
			rest = nil
		}
		return session.FieldSegment(p.Name, raw, stripped, rest)
	}
	m, err := x.codec.Element(raw)
	if err != nil {
		return session.Segment{Name: x.codec.List(), Elem: true, N: p.N, Raw: raw, Stripped: raw}
	}
	return session.ElemSegment(x.codec.List(), p.N, &m)
}

func (c *Chain) pieceBytes(l *listing, p session.Piece) []byte {
	if !p.Elem {
		return c.fieldBytes(l, p)
	}
	if id, ok := l.changed[p.ID]; ok {
		return c.kept(id)
	}
	if p.N < 0 { // ours alone, and kept nowhere by its bytes
		return nil
	}
	if l.body != nil {
		for i := range l.items {
			if l.items[i].N == p.N {
				return l.body.Element(i)
			}
		}
	}
	return c.kept(p.ID)
}

func (c *Chain) fieldBytes(l *listing, p session.Piece) []byte {
	if l.inbound != nil {
		return l.inbound.Field(p.Name)
	}
	var sk wire.Skeleton // of what the client sent
	if sk.UnmarshalBinary(l.client) == nil {
		if v, ok := sk.Inline(p.Name); ok {
			return v
		}
	}
	for _, f := range l.fields {
		if f.Name == p.Name {
			return c.kept(f.ID)
		}
	}
	return nil
}

// kept are bytes of the ledger; a side that was purged stays empty.
func (c *Chain) kept(id content.ID) []byte {
	raw, err := c.ledger.Blob(context.Background(), id)
	if err != nil {
		c.log.Warn("the change report lacks one side", "err", err)
	}
	return raw
}
