package ledger

import (
	"context"
	"encoding/binary"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/session"
)

// stored is a list as a turn row holds it: the first common items of turn prev,
// then items. Items before own hold no blob reference: an earlier turn does.
type stored struct {
	prev        int64
	common, own int
	items       []session.ListItem
}

// difference stores a list as it was planned.
func difference(l *session.TurnList) stored {
	return stored{prev: l.Prev, common: l.Common, items: l.Tail}
}

// keyFrame stores it whole. The references stay those of the tail, so a key
// frame costs its numbers and hashes alone.
func keyFrame(l *session.TurnList) stored {
	if l.Prev == 0 {
		return difference(l)
	}
	return stored{own: l.Common, items: l.Whole}
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
		if len(chain) > maxChain {
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

// maxChain bounds how many differences are followed: turns that overlap can
// jump a key frame or two, never this many.
const maxChain = 16 * session.KeyFrameEvery

func putView(view []session.ViewRun) []byte {
	var out []byte
	for _, v := range view {
		out = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(out, uint64(v.N)), uint64(v.From)), uint64(v.To))
		if v.N != 0 {
			out = append(out, v.Blob[:]...)
		}
	}
	return out
}

func getView(b []byte) ([]session.ViewRun, error) {
	var view []session.ViewRun
	r := reader{b: b}
	for r.more() {
		v := session.ViewRun{N: int64(r.uvarint()), From: int(r.uvarint()), To: int(r.uvarint())}
		if v.N != 0 {
			v.Blob = r.hash()
		}
		view = append(view, v)
	}
	return view, r.done("an outbound list")
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
