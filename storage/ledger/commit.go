package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdfast/core/content"
	"holdfast/core/session"
)

// ready is a commit with everything computed that needs no lock: packed bytes,
// reference counts, the sealed JSON.
type ready struct {
	*session.Commit
	blobs []packed // of Commit.Blobs that something names, with refs
	held  []hold   // named, and not among Blobs: they must be there
	refs  map[content.ID]int64
	meta  []byte
	bytes int64 // what it may add to the file
}

type hold struct {
	id content.ID
	n  int64
}

// Commit is the commit point of a turn: one transaction that appends (turn,
// elements, blobs), applies (states, flips, rows) and seals (checkpoint, session
// row).
//
// The argument. The session row moves first, by compare-and-set: of two plans
// made from one version one finds its row gone on and changes nothing (ErrStale).
// Everything after it is in the same transaction, so until the engine's COMMIT
// has written its last WAL frame a crash, an error or a full disk leaves the file
// exactly as it was, and the caller may plan again; a reader never sees a part.
// From that frame on, a crash leaves all of it: the WAL is read back at the next
// open, and the rows, the checkpoint and the version that names them agree. There
// is no instant between. Nothing has left for the upstream by then: only when
// Commit returns nil, after the rows just written were read back and their sums
// recomputed, does the caller send. A crash after the commit and before sending
// costs nothing: the client's retry finds its own list stored and is a plain
// retry. With synchronous=NORMAL a power cut may take the last transactions
// whole, never a part of one; Full syncs the WAL before Commit returns.
func (d *DB) Commit(ctx context.Context, sc *session.Commit) error {
	c, err := d.prepare(sc)
	if err != nil {
		return d.fail("commit", err)
	}
	lined := time.Now()
	return d.writeThen(ctx, "commit", sc.Full, func(ctx context.Context, w *conn) error {
		sc.Waited = time.Since(lined)
		if err := known(ctx, w, c); err != nil {
			return err
		}
		if err := d.roomFor(ctx, w, c.bytes, false); err != nil {
			return err
		}
		if err := move(ctx, w, c); err != nil {
			return err
		}
		if err := d.append(ctx, w, c); err != nil {
			return err
		}
		if err := apply(ctx, w, c); err != nil {
			return err
		}
		return seal(ctx, w, c)
	}, func(ctx context.Context, w *conn) error {
		d.room.grew(c.bytes)
		return readBack(ctx, w, c)
	})
}

// prepare counts references and packs what may be new. The counts: one for each
// element that names a blob, one for each item of the list's tail, one for each
// field that changed, one for each addition of ours, one for each new block.
func (d *DB) prepare(sc *session.Commit) (*ready, error) {
	c := &ready{Commit: sc, refs: map[content.ID]int64{}, bytes: turnBytes}
	for i := range sc.Elements {
		c.count(sc.Elements[i].Blob)
	}
	for _, r := range sc.Reblobs {
		c.count(r.Blob)
	}
	for _, it := range sc.Turn.List.Tail {
		c.count(it.Raw)
	}
	for _, f := range sc.Turn.Fields {
		c.count(f.ID)
	}
	constant := map[content.ID]bool{}
	for _, v := range sc.Turn.View {
		if v.Add != "" {
			c.count(v.Blob)
			constant[v.Blob] = true
		}
	}
	for _, id := range sc.Holds {
		c.count(id)
	}
	have := make(map[content.ID]bool, len(sc.Blobs))
	for i := range sc.Blobs {
		b := &sc.Blobs[i]
		if have[b.ID] || c.refs[b.ID] == 0 {
			continue
		}
		have[b.ID] = true
		if err := validMedia(b); err != nil {
			return nil, err
		}
		if constant[b.ID] && len(b.Media) == 0 {
			c.blobs = append(c.blobs, packed{id: b.ID, size: len(b.Raw), plain: b.Raw})
			continue
		}
		c.blobs = append(c.blobs, d.zip.packBlob(b))
	}
	for id, n := range c.refs {
		if !have[id] {
			c.held = append(c.held, hold{id, n})
		}
	}
	slices.SortFunc(c.held, func(a, b hold) int { return bytes.Compare(a.id[:], b.id[:]) })
	return c, c.encode()
}

func (c *ready) count(id content.ID) {
	if !id.IsZero() {
		c.refs[id]++
	}
}

// encode makes the sealed JSON and estimates what the commit adds.
func (c *ready) encode() (err error) {
	if c.Check != nil {
		if c.meta, err = json.Marshal(c.Check.Meta); err != nil {
			return err
		}
	}
	c.bytes += int64(len(c.Turn.Skeleton)+len(c.meta)+len(c.Rows)*rowBytes+len(c.Elements)*elemBytes) + int64(len(c.Turn.List.Tail)*itemBytes)
	for i := range c.blobs {
		c.bytes += int64(len(c.blobs[i].data)+len(c.blobs[i].plain)) + blobBytes
		for _, m := range c.blobs[i].media {
			c.bytes += int64(len(m.data)) + blobBytes
		}
	}
	c.bytes += int64(len(c.Outcome))
	for i := range c.Echoes {
		c.bytes += int64(len(c.Echoes[i].Rounds))
	}
	return nil
}

// known answers a cause that was carried out before with its outcome.
func known(ctx context.Context, w *conn, c *ready) error {
	if c.Cause == "" {
		return nil
	}
	out, found, err := outcome(ctx, w, c.Head.Ledger, c.Cause)
	if err == nil && found {
		err = &session.KnownCause{Cause: c.Cause, Outcome: out}
	}
	return err
}

func move(ctx context.Context, w *conn, c *ready) error {
	if c.Create {
		return createHead(ctx, w, &c.Head)
	}
	return moveHead(ctx, w, c.Base, &c.Head)
}

// append is step 1: the turn's inbound part, elements, bytes.
func (d *DB) append(ctx context.Context, w *conn, c *ready) error {
	if c.Turn.ID != 0 {
		list, err := store(ctx, w, &c.Turn.List)
		if err == nil {
			err = d.putTurn(ctx, w, &c.Turn, list)
		}
		if err != nil {
			return err
		}
	}
	for i := range c.Elements {
		if err := putElement(ctx, w, c.Head.Ledger, &c.Elements[i]); err != nil {
			return err
		}
	}
	for i := range c.blobs {
		b, add := &c.blobs[i], addBlob
		if b.plain != nil {
			add = d.zip.addConstant
		}
		if err := add(ctx, w, b, c.refs[b.id]); err != nil {
			return err
		}
	}
	for _, h := range c.held {
		if err := holdBlob(ctx, w, h.id, h.n); err != nil {
			return err
		}
	}
	return nil
}

// apply is step 2. Rows leave their places before others take them: a replaced
// element's rows and their successors share one.
func apply(ctx context.Context, w *conn, c *ready) error {
	for _, s := range c.States {
		if err := changeState(ctx, w, c.Head.Ledger, s); err != nil {
			return err
		}
	}
	for _, b := range c.Reblobs {
		old, err := reblob(ctx, w, c.Head.Ledger, b)
		if err == nil && !old.IsZero() {
			err = dropBlob(ctx, w, old, 1)
		}
		if err != nil {
			return err
		}
	}
	for _, active := range [...]bool{false, true} {
		for i := range c.Flips {
			if c.Flips[i].Active != active {
				continue
			}
			if err := flip(ctx, w, c.Head.Ledger, &c.Flips[i]); err != nil {
				return err
			}
		}
	}
	for i := range c.Rows {
		if err := putRow(ctx, w, c.Head.Ledger, &c.Rows[i], c.Rows[i].Active); err != nil {
			return err
		}
	}
	return nil
}

// seal is step 3. The session row is sealed already: it moved first.
func seal(ctx context.Context, w *conn, c *ready) error {
	if c.World != nil {
		if err := putWorld(ctx, w, c.World); err != nil {
			return err
		}
	}
	for _, e := range c.Echoes {
		if err := putEcho(ctx, w, c.Head.Ledger, e); err != nil {
			return err
		}
	}
	if c.Check != nil {
		if err := putCheckpoint(ctx, w, c.Head.Ledger, c.Check, c.meta); err != nil {
			return err
		}
	}
	if c.Outcome == nil || c.Cause == "" {
		return nil
	}
	_, err := w.exec(ctx, "INSERT INTO outcome (ledger_id, cause_id, result, at) VALUES (?,?,?,?)", c.Head.Ledger,
		c.Cause, c.Outcome, c.Head.LastSeen)
	return err
}

// readBack reads the rows the commit touched and its checkpoint, and compares.
func readBack(ctx context.Context, w *conn, c *ready) error {
	want := make(map[int64]session.Sum, len(c.Rows)+len(c.Flips))
	ids := make([]int64, 0, len(c.Rows)+len(c.Flips))
	for i := range c.Flips {
		ids, want[c.Flips[i].Row] = append(ids, c.Flips[i].Row), c.Flips[i].StateSum
	}
	for i := range c.Rows {
		ids, want[c.Rows[i].ID] = append(ids, c.Rows[i].ID), c.Rows[i].StateSum
	}
	rows, err := rowsByID(ctx, w, c.Head.Ledger, ids)
	if err != nil {
		return joined{session.ErrReadBack, err}
	}
	for i := range rows {
		if rows[i].StateSum != want[rows[i].ID] {
			return fmt.Errorf("row %d: %w", rows[i].ID, session.ErrReadBack)
		}
	}
	if c.Check == nil {
		return nil
	}
	var meta string
	if _, err := w.one(ctx, "SELECT meta_json FROM ckpt WHERE ledger_id = ? AND seq = ?",
		func(r *row) error { meta = r.text(0); return nil },
		c.Head.Ledger, c.Check.Seq); err != nil {
		return joined{session.ErrReadBack, err}
	}
	if meta != string(c.meta) {
		return fmt.Errorf("checkpoint %d: %w", c.Check.Seq, session.ErrReadBack)
	}
	return nil
}

// Outcome returns what a cause led to before, if it was carried out.
func (d *DB) Outcome(ctx context.Context, ledger, cause string) (out []byte, found bool, err error) {
	err = d.view(ctx, "outcome", func(ctx context.Context, c *conn) error {
		out, found, err = outcome(ctx, c, ledger, cause)
		return err
	})
	return out, found, err
}

func outcome(ctx context.Context, c *conn, ledger, cause string) (out []byte, found bool, err error) {
	found, err = c.one(ctx, "SELECT result FROM outcome WHERE ledger_id = ? AND cause_id = ?", func(r *row) error {
		out = r.bytes(0)
		return nil
	}, ledger, cause)
	return out, found, err
}
