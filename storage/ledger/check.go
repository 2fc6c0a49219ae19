package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/core/content"
	"holdfast/core/session"
)

// CheckReport is what a check looked at and what it found.
type CheckReport struct {
	Sessions, Elements, Rows, Turns, Blobs int
	// Problems are sentences a person can act on; none when all is well.
	Problems []string
}

// checker is one run over one snapshot of the file.
type checker struct {
	d   *DB
	c   *conn
	rep CheckReport
	// refs is what the turns and elements looked at hold.
	refs map[content.ID]int64
}

// Check verifies a session: every row sum, the aggregate, every list, every
// blob by hash. With no ledger named it verifies all of them, the exact
// reference counts and the file itself.
func (d *DB) Check(ctx context.Context, ledger string) (CheckReport, error) {
	k := checker{d: d, refs: map[content.ID]int64{}}
	err := d.view(ctx, "check", func(ctx context.Context, c *conn) error {
		k.c = c
		if ledger != "" {
			if _, err := head(ctx, c, ledger); err != nil {
				return err
			}
			return errors.Join(k.session(ctx, ledger), k.blobs(ctx), k.atLeast(ctx))
		}
		return k.file(ctx)
	})
	return k.rep, err
}

func (k *checker) problem(format string, args ...any) {
	k.rep.Problems = append(k.rep.Problems, fmt.Sprintf(format, args...))
}

// found records err as a problem where it tells of damage; other errors end the
// check.
func (k *checker) found(err error) error {
	if err == nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, session.ErrUnknown) && !errors.Is(err,
		session.ErrNotKept) && resultCode(err) == 0 {
		return err
	}
	k.problem("%v", err)
	return nil
}

func (k *checker) file(ctx context.Context) error {
	if err := k.found(k.quick(ctx)); err != nil {
		return err
	}
	var ids []string
	if err := k.c.query(ctx, "SELECT ledger_id FROM session ORDER BY ledger_id", func(r *row) error {
		ids = append(ids,
			r.text(0))
		return nil
	}); err != nil {
		return k.found(err)
	}
	for _, id := range ids {
		if err := k.session(ctx, id); err != nil {
			return err
		}
	}
	return errors.Join(k.blobs(ctx), k.exact(ctx), k.media(ctx))
}

func (k *checker) quick(ctx context.Context) error {
	return k.c.query(ctx, "PRAGMA quick_check(20)", func(r *row) error {
		if s := r.text(0); s != "ok" {
			k.problem("the file: %s", s)
		}
		return nil
	})
}

func (k *checker) session(ctx context.Context, ledger string) error {
	k.rep.Sessions++
	st, err := load(ctx, k.c, ledger)
	if err != nil && !errors.Is(err, session.ErrUnknown) { // marked for deletion
		if err := k.found(err); err != nil {
			return err
		}
	}
	if err == nil {
		if strings.HasPrefix(st.Red, "check failed") || strings.HasPrefix(st.Red, "unreadable") {
			k.problem("session %s: %s", ledger, st.Red)
		}
		if err := k.found(k.rows(ctx, &st.Head)); err != nil {
			return err
		}
	}
	if err := k.found(k.folds(ctx, ledger)); err != nil {
		return err
	}
	if err := k.found(k.elements(ctx, ledger)); err != nil {
		return err
	}
	return k.found(k.turns(ctx, ledger))
}

// folds counts what the bodies of a session's blocks hold.
func (k *checker) folds(ctx context.Context, ledger string) error {
	return k.c.query(ctx, "SELECT structure FROM session WHERE ledger_id = ?", func(r *row) error {
		return k.hold(bodies(r.bytes(0)))
	}, ledger)
}

func (k *checker) hold(ids []content.ID, err error) error {
	for _, id := range ids {
		k.refs[id]++
	}
	return err
}

// rows verifies the dead rows as well; load saw the live ones.
func (k *checker) rows(ctx context.Context, h *session.Head) error {
	if has, err := hasTable(ctx, k.c, "snap_rows"); err != nil || !has {
		return err
	}
	return k.c.query(ctx, "SELECT "+rowCols+" FROM snap_rows WHERE ledger_id = ? AND epoch <= ?", func(r *row) error {
		k.rep.Rows++
		rw := readRow(r)
		if r.err != nil || !rw.Intact(h.Ledger) {
			k.problem("session %s: row %d does not match its sum", h.Ledger, rw.ID)
			r.err = nil
		}
		return nil
	}, h.Ledger, h.Epoch)
}

func (k *checker) elements(ctx context.Context, ledger string) error {
	return k.c.query(ctx, "SELECT "+elemCols+" FROM element WHERE ledger_id = ?", func(r *row) error {
		k.rep.Elements++
		e, err := readElement(r)
		if !e.Blob.IsZero() {
			k.refs[e.Blob]++
		}
		return err
	}, ledger)
}

// turns verifies that each kept list can be told, without telling it: a list
// continues no more of another than that has.
func (k *checker) turns(ctx context.Context, ledger string) error {
	lens := map[int64]int{0: 0}
	return k.c.query(ctx,
		"SELECT id, kept, list_prev, list_common, list_own, list, fields, view FROM turn WHERE ledger_id = ? ORDER BY id",
		func(r *row) error {
			k.rep.Turns++
			id := r.num(0)
			if !r.flag(1) {
				return nil
			}
			items, err := getItems(r.bytes(5))
			if err != nil {
				return fmt.Errorf("turn %d: %w", id, err)
			}
			before, ok := lens[r.num(2)]
			if common := int(r.num(3)); !ok || common > before {
				k.problem("turn %d continues %d elements of turn %d, which has %d", id, common, r.num(2), before)
			}
			lens[id] = int(r.num(3)) + len(items)
			for _, it := range items[min(int(r.num(4)), len(items)):] {
				k.refs[it.Raw]++
			}
			fs, err := getFields(r.bytes(6))
			for _, f := range fs {
				if f.own {
					k.refs[f.id]++
				}
			}
			if err != nil {
				return err
			}
			return k.hold(additions(r.bytes(7)))
		}, ledger)
}

// blobs verifies by hash everything that was referred to.
func (k *checker) blobs(ctx context.Context) error {
	for _, id := range slices.SortedFunc(maps.Keys(k.refs), func(a,
		b content.ID) int {
		return strings.Compare(string(a[:]), string(b[:]))
	}) {
		k.rep.Blobs++
		if _, err := k.d.zip.readBlob(ctx, k.c, id); err != nil {
			if err := k.found(err); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// atLeast checks the counts from one session's side: others may hold more.
func (k *checker) atLeast(ctx context.Context) error {
	for id, want := range k.refs {
		got, err := k.c.number(ctx, "SELECT refs FROM blob WHERE hash = ?", id[:])
		if err != nil {
			return err
		}
		if got < want {
			k.problem("blob %v has %d references, this session alone holds %d", id, got, want)
		}
	}
	return nil
}

func (k *checker) exact(ctx context.Context) error {
	return k.found(k.c.query(ctx, "SELECT hash, refs FROM blob", func(r *row) error {
		if id := r.hash(0); k.refs[id] != r.num(1) {
			k.problem("blob %v has %d references, %d are held", id, r.num(1), k.refs[id])
		}
		return nil
	}))
}

func (k *checker) media(ctx context.Context) error {
	held := map[content.ID]int64{}
	err := k.c.query(ctx, "SELECT media FROM blob WHERE media IS NOT NULL", func(r *row) error {
		ms, err := getMedia(r.bytes(0))
		for _, m := range ms {
			held[m.id]++
		}
		return err
	})
	if err != nil {
		return k.found(err)
	}
	return k.found(k.c.query(ctx, "SELECT hash, refs FROM message_media", func(r *row) error {
		if id := r.hash(0); held[id] != r.num(1) {
			k.problem("payload %v has %d references, %d are held", id, r.num(1), held[id])
		}
		return nil
	}))
}
