package chain

import (
	"context"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// report finds the first changed byte of the outbound body against the
// previous turn's, and what caused it. It runs behind the reply and compares
// by hash; bytes are read for the one pair that differs.
func (c *Chain) report(x *Exchange) {
	if !x.committed || x.before.id == 0 {
		return
	}
	now, ok := outboundOf(x)
	old, okOld := newListing(x.before.skeleton, x.before.items)
	if !ok || !okOld {
		return
	}
	d, same, found := session.FirstChanged(old.pieces, now.pieces)
	x.done.PrefixSame = same
	if !found {
		x.done.Change = session.Lapsed(x.start.UnixMilli() - x.before.at)
		return
	}
	x.done.Change = c.explain(x, old, now, d)
}

// listing is a body as pieces, with what is needed to read one of them.
type listing struct {
	skeleton wire.Skeleton
	items    []session.ListItem
	pieces   []session.Piece
	// between are the bytes of the pieces that are neither field nor element.
	between map[content.ID][]byte
	// body is the new body; nil for an old one, which is read from the ledger.
	body *wire.Body
}

func newListing(skeleton []byte, items []session.ListItem) (*listing, bool) {
	l := &listing{items: items}
	if l.skeleton.UnmarshalBinary(skeleton) != nil || l.skeleton.Elements() != len(items) {
		return nil, false
	}
	l.skeleton.Walk(l)
	return l, true
}

// outboundOf lists the body that left.
func outboundOf(x *Exchange) (*listing, bool) {
	l := &listing{items: x.sent(), body: x.body}
	if len(l.items) != len(x.keys) {
		b, err := wire.Cut(x.out, x.codec.List())
		if err != nil {
			return nil, false
		}
		l.body = b
	}
	l.skeleton, _ = wire.SkeletonOf(l.body)
	if l.skeleton.Elements() != len(l.items) {
		return nil, false
	}
	l.skeleton.Walk(l)
	return l, true
}

// sent is the outbound list: the inbound one, with what was put back.
func (x *Exchange) sent() []session.ListItem {
	whole := x.plan.Commit.Turn.List.Whole
	if x.path != session.PathSnapshot || len(x.view) == len(whole) {
		return whole
	}
	back := map[int64]content.ID{}
	for _, r := range x.plan.Commit.Turn.View {
		if r.N != 0 {
			back[r.N] = r.Blob
		}
	}
	out := make([]session.ListItem, len(x.view))
	for i, v := range x.view {
		if v.Inbound >= 0 {
			out[i] = whole[v.Inbound]
			continue
		}
		out[i] = session.ListItem{N: v.Elem, Raw: back[v.Elem]}
	}
	return out
}

// sentSkeleton is the skeleton of the outbound body.
func (x *Exchange) sentSkeleton() []byte {
	if x.path != session.PathSnapshot || len(x.view) == len(x.keys) {
		return x.skeleton
	}
	b, err := wire.Cut(x.out, x.codec.List())
	if err != nil {
		return nil
	}
	sk, _ := wire.SkeletonOf(b)
	stored, err := sk.MarshalBinary()
	if err != nil {
		return nil
	}
	return stored
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
	if l.body != nil {
		if !p.Elem {
			return l.body.Field(p.Name)
		}
		for i := range l.items {
			if l.items[i].N == p.N {
				return l.body.Element(i)
			}
		}
	}
	if v, ok := l.skeleton.Inline(p.Name); ok && !p.Elem {
		return v
	}
	raw, err := c.ledger.Blob(context.Background(), p.ID)
	if err != nil {
		c.log.Warn("the change report lacks one side", "err", err)
	}
	return raw
}
