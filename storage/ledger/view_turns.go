package ledger

import (
	"context"
	"fmt"

	"holdfast/core/session"
	"holdfast/core/usage"
)

// Turns returns one page of a ledger's turns, newest first, and how many there
// are; with no ledger named, of all turns.
func (d *DB) Turns(ctx context.Context, ledger string, page, size int) (out []session.TurnView, total int, err error) {
	where := "WHERE t.ledger_id = ?1"
	if ledger == "" {
		where = "WHERE ?1 = ''"
	}
	err = d.view(ctx, "turns", func(ctx context.Context, c *conn) error {
		n, err := c.number(ctx, "SELECT count(*) FROM turn t "+where, ledger)
		if err != nil {
			return err
		}
		total = int(n)
		return c.query(ctx, "SELECT "+turnCols+fromTurn+where+" ORDER BY t.id DESC LIMIT ?2 OFFSET ?3", func(r *row) error {
			v, err := turnView(r)
			out = append(out, v)
			return err
		}, ledger, int64(size), offset(page, size))
	})
	return out, total, err
}

// TurnView returns one turn as pages show it.
func (d *DB) TurnView(ctx context.Context, id int64) (v session.TurnView, err error) {
	err = d.view(ctx, "turn", func(ctx context.Context, c *conn) error {
		found, err := c.one(ctx, "SELECT "+turnCols+fromTurn+"WHERE t.id = ?", func(r *row) (err error) {
			v, err = turnView(r)
			return err
		}, id)
		if err == nil && !found {
			err = fmt.Errorf("turn %d: %w", id, session.ErrUnknown)
		}
		return err
	})
	return v, err
}

func turnView(r *row) (session.TurnView, error) {
	t, _, err := readTurn(r)
	if err != nil {
		return session.TurnView{}, err
	}
	v := session.TurnView{ID: t.ID, Session: t.Ledger, At: t.At, Model: t.Model, Route: t.Route, Home: t.Home,
		Path: t.Path, Gate: t.Gate,
		WireIn: t.WireIn, WireOut: t.WireOut, Bytes: session.TurnBytes{In: t.BytesIn, Out: t.BytesOut}, Kept: t.Kept,
		Usage: usage.Usage{Source: usage.Estimate}, Fold: []string{}}
	if done := t.Done; done != nil {
		v.Status, v.Truncated, v.Error, v.Change, v.Ms, v.Receipt, v.Usage, v.Rounds, v.Compared =
			done.Status, done.Truncated, done.Error, done.Change, done.Ms, done.Receipt, done.Usage, done.Rounds, done.Verdict
		v.Bytes.PrefixSame = done.PrefixSame
		if done.Model != "" {
			v.Model = done.Model
		}
	}
	return v, nil
}
