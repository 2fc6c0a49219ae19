package ledger

import (
	"context"
	"encoding/binary"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// stored is a list as a turn row holds it: the first common items of turn prev,
// then items. Items before own hold no blob reference: an earlier turn does.
type stored struct {
	prev               int64
	common, own, depth int
	items              []session.ListItem
}

// store decides how a list is written: as the difference it was planned as, or
// whole when that would be one too many in a row. A key frame leaves the
// references with the tail, so it costs its numbers and hashes alone. A list
// whose predecessor is gone was planned too long ago.
func store(ctx context.Context, c *conn, l *session.TurnList) (stored, error) {
	s := stored{prev: l.Prev, common: l.Common, items: l.Tail}
	if l.Prev == 0 {
		return s, nil
	}
	found, err := c.one(ctx, "SELECT kept, list_depth FROM turn WHERE id = ?", func(r *row) error {
		if !r.flag(0) {
			return session.ErrStale
		}
		s.depth = int(r.num(1)) + 1
		return nil
	}, l.Prev)
	if err == nil && !found {
		err = session.ErrStale
	}
	if s.depth >= session.KeyFrameEvery {
		s = stored{own: l.Common, items: l.Whole}
	}
	return s, err
}

const selectList = "SELECT list_prev, list_common, list_own, list, kept, why FROM turn WHERE id = ?"

func storedList(ctx context.Context, c *conn, turn int64) (s stored, err error) {
	found, err := c.one(ctx, selectList, func(r *row) (err error) {
		if !r.flag(4) {
			return fmt.Errorf("turn %d: %w: %s", turn, session.ErrNotKept, r.text(5))
		}
		s = stored{prev: r.num(0), common: int(r.num(1)), own: int(r.num(2))}
		s.items, err = getItems(r.bytes(3))
		return err
	}, turn)
	if err == nil && !found {
		err = fmt.Errorf("turn %d: %w", turn, session.ErrUnknown)
	}
	return s, err
}

// resolve tells the list of a turn in full. Differences are followed back to
// the nearest key frame, then applied on the way forward.
func resolve(ctx context.Context, c *conn, turn int64) ([]session.ListItem, error) {
	var chain []stored
	for at := turn; at != 0; {
		s, err := storedList(ctx, c, at)
		if err != nil {
			return nil, err
		}
		if len(chain) > session.KeyFrameEvery {
			return nil, fmt.Errorf("%w: the list of turn %d follows itself", ErrCorrupt, turn)
		}
		chain = append(chain, s)
		at = s.prev
	}
	var items []session.ListItem
	for i := len(chain) - 1; i >= 0; i-- {
		s := chain[i]
		if s.common > len(items) {
			return nil, fmt.Errorf("%w: the list of turn %d continues %d items of %d", ErrCorrupt, turn, s.common, len(items))
		}
		items = append(items[:s.common:s.common], s.items...)
	}
	return items, nil
}

// What a run of a view is. A run of two plain numbers is one of inbound
// elements, and those of a stored element have a number in front; the others
// are told by a pair no such run can have: (kind, 0).
const (
	runCarrier  = 1 + iota // block, hash of its body
	runOverlaid            // a run, then the overlays of its element
	runAdded               // name, hash of its bytes
)

func putView(view []session.ViewRun) []byte {
	var out []byte
	num := func(ns ...int) {
		for _, n := range ns {
			out = binary.AppendUvarint(out, uint64(n))
		}
	}
	for _, v := range view {
		if len(v.Overlays) > 0 {
			num(0, runOverlaid, 0, len(v.Overlays))
			for _, o := range v.Overlays {
				num(int(o.Elem), o.Core, o.Head, o.Tail, int(o.Saved))
			}
		}
		switch {
		case v.Block != 0:
			num(0, runCarrier, 0, int(v.Block))
			out = append(out, v.Blob[:]...)
		case v.Add != "":
			num(0, runAdded, 0, len(v.Add))
			out = append(out, v.Add...)
			num(int(v.N), v.From)
			out = append(out, v.Blob[:]...)
		case v.N != 0:
			num(int(v.N), v.From, v.To)
			out = append(out, v.Blob[:]...)
		default:
			num(0, v.From, v.To)
		}
	}
	return out
}

func getView(b []byte) ([]session.ViewRun, error) {
	var view []session.ViewRun
	r := reader{b: b}
	for r.more() {
		view = append(view, r.run())
	}
	return view, r.done("an outbound list")
}

func (r *reader) run() session.ViewRun {
	n, from, to := int64(r.uvarint()), int(r.uvarint()), int(r.uvarint())
	switch {
	case n != 0:
		return session.ViewRun{N: n, From: from, To: to, Blob: r.hash()}
	case to == 0 && from == runCarrier:
		return session.ViewRun{Block: int64(r.uvarint()), Blob: r.hash()}
	case to == 0 && from == runAdded:
		return session.ViewRun{Add: string(r.take(r.uvarint())), N: int64(r.uvarint()), From: int(r.uvarint()), Blob: r.hash()}
	case to == 0 && from == runOverlaid:
		overlays := r.overlays()
		v := r.run()
		v.Overlays = overlays
		return v
	}
	return session.ViewRun{From: from, To: to}
}

func (r *reader) overlays() (out []fold.Shortened) {
	for n := r.uvarint(); n > 0 && r.more(); n-- {
		out = append(out, fold.Shortened{Elem: int64(r.uvarint()), Core: int(r.uvarint()), Head: int(r.uvarint()),
			Tail: int(r.uvarint()), Saved: usage.Tokens(r.uvarint())})
	}
	return out
}

// fieldsOf tells which of the current fields the turn brought itself.
func fieldsOf(t *session.Turn) []field {
	own := map[content.ID]bool{}
	for _, f := range t.Fields {
		own[f.ID] = true
	}
	out := make([]field, len(t.AllFields))
	for i, f := range t.AllFields {
		out[i] = field{f.Name, f.ID, own[f.ID]}
	}
	return out
}

func fieldRefs(fs []field) (all, own []session.FieldRef) {
	for _, f := range fs {
		ref := session.FieldRef{Name: f.name, ID: f.id, Hash: f.id.String()}
		all = append(all, ref)
		if f.own {
			own = append(own, ref)
		}
	}
	return all, own
}
