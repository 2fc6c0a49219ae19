package ledger

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// SessionQuery asks for one page of sessions, the one seen last first. Q is
// looked for, in any case, in title, model, host id and ledger id.
type SessionQuery struct {
	Q          string
	Page, Size int // Page counts from 1
}

// Currency is what the totals of this file are in.
const Currency = "USD"

// sessionFilter matches ?1 literally: it is no pattern.
const sessionFilter = ` FROM session WHERE deleting IS NULL AND (?1 = '' OR
	instr(lower(title || char(10) || model || char(10) || sess_raw || char(10) || ledger_id), lower(?1)) > 0)`

// Sessions returns one page of sessions and how many there are in all.
func (d *DB) Sessions(ctx context.Context, q SessionQuery) (out []session.SessionView, total int, err error) {
	err = d.view(ctx, "sessions", func(ctx context.Context, c *conn) error {
		n, err := c.number(ctx, "SELECT count(*)"+sessionFilter, q.Q)
		if err != nil {
			return err
		}
		total = int(n)
		heads, err := headsOf(ctx, c,
			"SELECT "+headCols+sessionFilter+" ORDER BY last_seen DESC, ledger_id LIMIT ?2 OFFSET ?3",
			q.Q, int64(q.Size), offset(q.Page, q.Size))
		if err != nil {
			return err
		}
		for i := range heads {
			v, err := sessionView(ctx, c, &heads[i])
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	return out, total, err
}

func offset(page, size int) int64 { return int64(max(page-1, 0)) * int64(size) }

func headsOf(ctx context.Context, c *conn, q string, args ...driver.Value) (heads []session.Head, err error) {
	err = c.query(ctx, q, func(r *row) error {
		h, err := readHead(r)
		heads = append(heads, h)
		return err
	}, args...)
	return heads, err
}

// Session returns one session by its ledger id.
func (d *DB) Session(ctx context.Context, ledger string) (v session.SessionView, err error) {
	err = d.view(ctx, "session", func(ctx context.Context, c *conn) error {
		h, err := head(ctx, c, ledger)
		if err != nil {
			return err
		}
		v, err = sessionView(ctx, c, &h)
		return err
	})
	return v, err
}

// Titles is what sessions are called; one that is gone has no title.
func (d *DB) Titles(ctx context.Context, ids []string) (titles map[string]string, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	titles = map[string]string{}
	err = d.view(ctx, "titles", func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT ledger_id, title FROM session WHERE deleting IS NULL AND ledger_id IN (SELECT value FROM json_each(?))", func(r *row) error {
			titles[r.text(0)] = r.text(1)
			return nil
		}, string(list))
	})
	return titles, err
}

// Long lists the sessions seen since a time that are longer than their window
// without their folds, the one seen last first.
func (d *DB) Long(ctx context.Context, since time.Time) (long []session.LongView, err error) {
	err = d.view(ctx, "long", func(ctx context.Context, c *conn) error {
		var heads []session.Head
		err := c.query(ctx, "SELECT "+headCols+" FROM session WHERE deleting IS NULL AND structure_version > 0 AND last_seen >= ? ORDER BY last_seen DESC",
			func(r *row) error {
				h, err := readHead(r)
				heads = append(heads, h)
				return err
			}, since.UnixMilli())
		if err != nil {
			return err
		}
		for i := range heads {
			h := &heads[i]
			k, err := kernelOf(h)
			if err != nil {
				continue // it is served without folds as it is
			}
			if raw := session.Raw(&k, fold.OpenRhythm(h.Rhythm)); raw > h.Window && h.Window > 0 {
				long = append(long, session.LongView{ID: h.Ledger, Title: h.Title, Raw: raw, Window: h.Window})
			}
		}
		return nil
	})
	return long, err
}

func sessionView(ctx context.Context, c *conn, h *session.Head) (session.SessionView, error) {
	t := h.Totals
	read := t.Input + t.Cached + t.CacheWrite
	v := session.SessionView{ID: h.Ledger, Title: h.Title, Signal: h.Signal, SessRaw: h.SessRaw, Lane: h.Lane,
		Parent: h.Parent, Mode: h.Mode, Member: h.Member,
		Epoch: h.Epoch, Wire: h.Wire, Model: h.Model, Window: int64(h.Window), CreatedAt: h.CreatedAt,
		LastSeen: h.LastSeen, Turns: t.Turns,
		Tokens: session.TokenView{Inbound: read, Outbound: read, Cached: t.Cached, CacheWrite: t.CacheWrite,
			Output: t.Output},
		Cost: session.CostView{Direct: money(t.CostMicros), Sent: money(t.CostMicros), Currency: Currency,
			Estimate: t.Estimated > 0 || t.Unpriced > 0},
		LastGate: h.LastGate, Breaker: h.Breaker}
	v.Breaker.State = cmp.Or(v.Breaker.State, session.BreakerClosed)
	if read > 0 {
		v.CacheHit = float64(t.Cached) / float64(read)
	}
	k, err := kernelOf(h)
	if err != nil {
		return v, err
	}
	v.AddFolds(&k, fold.OpenRhythm(h.Rhythm))
	err = c.query(ctx, "SELECT state, count(*) FROM element WHERE ledger_id = ? GROUP BY state", func(r *row) error {
		v.Elements += r.num(1)
		switch session.ElemState(r.text(0)) {
		case session.Live, session.Overlaid:
			v.Live += r.num(1)
		case session.Folded:
			v.Folded += r.num(1)
		}
		return nil
	}, h.Ledger)
	return v, err
}

func money(micros int64) float64 { return float64(micros) / 1e6 }

// ErrAmbiguous: a prefix that several sessions share.
var ErrAmbiguous = errors.New("ledger: the prefix fits several sessions")

// FindLedger returns the only ledger id that starts with prefix.
func (d *DB) FindLedger(ctx context.Context, prefix string) (id string, err error) {
	var ids []string
	err = d.view(ctx, "find", func(ctx context.Context, c *conn) error {
		return c.query(ctx, `SELECT ledger_id FROM session WHERE deleting IS NULL AND substr(ledger_id, 1, length(?1)) = ?1
			ORDER BY ledger_id = ?1 DESC, ledger_id LIMIT 4`, func(r *row) error {
			ids = append(ids,
				r.text(0))
			return nil
		}, prefix)
	})
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0 || prefix == "":
		return "", fmt.Errorf("ledger: session %q: %w", prefix, session.ErrUnknown)
	case len(ids) == 1 || ids[0] == prefix:
		return ids[0], nil
	}
	return "", fmt.Errorf("%w: %s", ErrAmbiguous, strings.Join(ids, ", "))
}

// Stats is what the file holds and takes.
type Stats struct {
	Bytes    usage.Bytes // of file and WAL, as the disk sees them
	Budget   usage.Bytes
	Sessions int64
	Blobs    int64
}

// Stats measures.
func (d *DB) Stats(ctx context.Context) (s Stats, err error) {
	s.Budget = usage.Bytes(d.budget.Load())
	for _, suffix := range [...]string{"", "-wal"} {
		if info, err := os.Stat(d.path + suffix); err == nil { // no WAL is no error
			s.Bytes += usage.Bytes(info.Size())
		}
	}
	err = d.view(ctx, "stats", func(ctx context.Context, c *conn) error {
		if s.Sessions, err = c.number(ctx, "SELECT count(*) FROM session WHERE deleting IS NULL"); err != nil {
			return err
		}
		s.Blobs, err = c.number(ctx, "SELECT count(*) FROM blob")
		return err
	})
	return s, err
}
