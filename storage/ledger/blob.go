package ledger

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
)

// packed is a blob ready to be written: packed outside the write lock.
type packed struct {
	id    content.ID
	size  int
	data  []byte // packed, payloads cut out
	media []payload
	// plain is set in place of data while the bytes are most likely stored
	// already.
	plain []byte
}

// payload is a base64 text cut out of a blob. gap is how many bytes of the rest
// lie between it and the payload before.
type payload struct {
	gap     int
	length  int // of the text
	id      content.ID
	decoded bool
	data    []byte
}

// packBlob cuts the payloads out and packs the rest.
func (p *packer) packBlob(b *session.Blob) packed {
	out := packed{id: b.ID, size: len(b.Raw)}
	if len(b.Media) == 0 {
		out.data = p.pack(b.Raw)
		return out
	}
	rest := make([]byte, 0, len(b.Raw))
	at := 0
	for _, s := range b.Media {
		rest = append(rest, b.Raw[at:s.Start]...)
		out.media = append(out.media, cut(s.Start-at, s.Of(b.Raw)))
		at = s.End
	}
	out.data = p.pack(append(rest, b.Raw[at:]...))
	return out
}

// cut keeps a payload as binary only when encoding that gives exactly the same
// text: a client's own spelling is never normalised.
func cut(gap int, text []byte) payload {
	p := payload{gap: gap, length: len(text), id: content.Of(text), data: text}
	bin := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(bin, text)
	if err == nil && bytes.Equal(base64.StdEncoding.AppendEncode(nil, bin[:n]), text) {
		p.decoded, p.data = true, bin[:n]
	}
	return p
}

func putMedia(ms []payload) []byte {
	var out []byte
	for _, m := range ms {
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(m.gap)), uint64(m.length))
		out = append(out, m.id[:]...)
	}
	return out
}

func getMedia(b []byte) ([]payload, error) {
	var ms []payload
	r := reader{b: b}
	for r.more() {
		ms = append(ms, payload{gap: int(r.uvarint()), length: int(r.uvarint()), id: r.hash()})
	}
	return ms, r.done("a media list")
}

const (
	upsertBlob = `INSERT INTO blob (hash, refs, size, media,
		data) VALUES (?,?,?,?,?) ON CONFLICT (hash) DO UPDATE SET refs = refs + excluded.refs`
	raiseBlob = "UPDATE blob SET refs = refs + ? WHERE hash = ?"
)

// addBlob stores the bytes under n references, or adds n to those it has.
func addBlob(ctx context.Context, c *conn, p *packed, n int64) error {
	if len(p.media) > 0 {
		return addMediaBlob(ctx, c, p, n)
	}
	_, err := c.exec(ctx, upsertBlob, p.id[:], n, int64(p.size), nil, p.data)
	return err
}

// addConstant adds references to bytes that leave with nearly every request and
// are stored since the first: packing them anew each time would take longer than
// all else that a small turn is prepared with.
func (p *packer) addConstant(ctx context.Context, c *conn, b *packed, n int64) error {
	had, err := c.exec(ctx, raiseBlob, n, b.id[:])
	if err != nil || had > 0 {
		return err
	}
	_, err = c.exec(ctx, upsertBlob, b.id[:], n, int64(b.size), nil, p.pack(b.plain))
	return err
}

// addMediaBlob counts a payload once for the blob row that names it, so it has
// to know whether the row is new.
func addMediaBlob(ctx context.Context, c *conn, p *packed, n int64) error {
	had, err := c.exec(ctx, raiseBlob, n, p.id[:])
	if err != nil || had > 0 {
		return err
	}
	if _, err := c.exec(ctx, upsertBlob, p.id[:], n, int64(p.size), putMedia(p.media), p.data); err != nil {
		return err
	}
	for _, m := range p.media {
		if _, err := c.exec(ctx, `INSERT INTO message_media (hash, refs, decoded, data) VALUES (?,1,?,?)
			ON CONFLICT (hash) DO UPDATE SET refs = refs + 1`, m.id[:], bit(m.decoded), m.data); err != nil {
			return err
		}
	}
	return nil
}

// holdBlob adds references to bytes that must be there already.
func holdBlob(ctx context.Context, c *conn, id content.ID, n int64) error {
	had, err := c.exec(ctx, raiseBlob, n, id[:])
	if err == nil && had == 0 {
		err = fmt.Errorf("blob %v: %w", id, session.ErrUnknown)
	}
	return err
}

// dropBlob takes n references away; at none the bytes and their payloads go.
// Bytes that are gone already are no error: what named them is going as well.
func dropBlob(ctx context.Context, c *conn, id content.ID, n int64) error {
	var left int64
	var media []byte
	found, err := c.one(ctx, "UPDATE blob SET refs = refs - ? WHERE hash = ? RETURNING refs, media", func(r *row) error {
		left, media = r.num(0), r.bytes(1)
		return nil
	}, n, id[:])
	if err != nil || !found || left > 0 {
		return err
	}
	if _, err := c.exec(ctx, "DELETE FROM blob WHERE hash = ?", id[:]); err != nil {
		return err
	}
	ms, err := getMedia(media)
	if err != nil {
		return err
	}
	for _, m := range ms {
		if _, err := c.exec(ctx, "UPDATE message_media SET refs = refs - 1 WHERE hash = ?", m.id[:]); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "DELETE FROM message_media WHERE hash = ? AND refs <= 0", m.id[:]); err != nil {
			return err
		}
	}
	return nil
}

// Blob returns kept bytes, media restored, verified by hash.
func (d *DB) Blob(ctx context.Context, id content.ID) (b []byte, err error) {
	err = d.view(ctx, "blob", func(ctx context.Context, c *conn) error {
		b, err = d.zip.readBlob(ctx, c, id)
		return err
	})
	return b, err
}

func (p *packer) readBlob(ctx context.Context, c *conn, id content.ID) (b []byte, err error) {
	var media, data []byte
	found, err := c.one(ctx, "SELECT media, data FROM blob WHERE hash = ?", func(r *row) error {
		media, data = r.bytes(0), r.bytes(1)
		return nil
	}, id[:])
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("blob %v: %w", id, session.ErrUnknown)
	}
	if b, err = p.unpack(data); err == nil && len(media) > 0 {
		b, err = restore(ctx, c, b, media)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %v: %w", id, err)
	}
	if content.Of(b) != id {
		return nil, fmt.Errorf("%w: blob %v holds other bytes", ErrCorrupt, id)
	}
	return b, nil
}

// restore puts the payloads back where they were cut out.
func restore(ctx context.Context, c *conn, rest, media []byte) ([]byte, error) {
	ms, err := getMedia(media)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, m := range ms {
		if m.gap < 0 || m.gap > len(rest) {
			return nil, fmt.Errorf("%w: a media list points outside its blob", ErrCorrupt)
		}
		out, rest = append(out, rest[:m.gap]...), rest[m.gap:]
		if out, err = appendPayload(ctx, c, out, m.id); err != nil {
			return nil, err
		}
	}
	return append(out, rest...), nil
}

func appendPayload(ctx context.Context, c *conn, out []byte, id content.ID) ([]byte, error) {
	found, err := c.one(ctx, "SELECT decoded, data FROM message_media WHERE hash = ?", func(r *row) error {
		if r.flag(0) {
			out = base64.StdEncoding.AppendEncode(out, r.bytes(1))
		} else {
			out = append(out, r.bytes(1)...)
		}
		return nil
	}, id[:])
	if err == nil && !found {
		err = fmt.Errorf("%w: payload %v is missing", ErrCorrupt, id)
	}
	return out, err
}

// validMedia reports spans that overlap or leave the blob: a broken plan.
func validMedia(b *session.Blob) error {
	at := 0
	for _, s := range b.Media {
		if s.Start < at || s.End < s.Start || s.End > len(b.Raw) {
			return errors.Join(fmt.Errorf("blob %v: media span %v of %d bytes", b.ID, chat.Span(s), len(b.Raw)))
		}
		at = s.End
	}
	return nil
}
