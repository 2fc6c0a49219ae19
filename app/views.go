package main

import (
	"context"
	"errors"

	"holdfast/core/chain"
	"holdfast/core/session"
	"holdfast/storage/ledger"
	"holdfast/web/api"
)

// views is the ledger as the API reads it: views as they are stored, and bytes
// rebuilt by the chain's replay.
type views struct{ *ledger.DB }

var errNoViews = errors.New("this build shows no sessions")

func (views) Sessions(context.Context, string, int, int) ([]session.SessionView, int, error) {
	return nil, 0, errNoViews
}
func (views) Session(context.Context, string) (session.SessionView, error) {
	return session.SessionView{}, errNoViews
}
func (views) RowViews(context.Context, string) ([]session.RowView, error) { return nil, errNoViews }
func (views) Coverage(context.Context, string) (session.CoverageView, error) {
	return session.CoverageView{}, errNoViews
}
func (views) Delete(context.Context, string) error { return errNoViews }
func (views) Turns(context.Context, string, int, int) ([]session.TurnView, int, error) {
	return nil, 0, errNoViews
}
func (views) TurnView(context.Context, int64) (session.TurnView, error) {
	return session.TurnView{}, errNoViews
}
func (v views) Degrades(ctx context.Context, since int64) ([]session.DegradeView, error) {
	return v.DB.Degrades(ctx, since, 500)
}
func (views) Stats(context.Context) (api.LedgerStatus, error) { return api.LedgerStatus{}, nil }

// Body rebuilds one side of a turn. A reply keeps the encoding it was relayed
// in; request bodies are kept decoded.
func (v views) Body(ctx context.Context, turn int64, part string) (api.Body, error) {
	raw, err := chain.Replay(ctx, v.DB, turn, chain.Part(part))
	if err != nil || part != string(chain.Response) {
		return api.Body{Bytes: raw, Type: "application/json"}, err
	}
	rec, err := v.DB.Turn(ctx, turn)
	if err != nil {
		return api.Body{}, err
	}
	return api.Body{Bytes: raw, Type: rec.Done.ResponseType, Encoding: rec.Done.ResponseEncoding}, nil
}

// turnIDs lists every turn of a session.
func (v views) turnIDs(ctx context.Context, id string) (ids []int64, err error) {
	for page := 1; ; page++ {
		turns, total, err := v.Turns(ctx, id, page, 500)
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			ids = append(ids, t.ID)
		}
		if len(turns) == 0 || len(ids) >= total {
			return ids, nil
		}
	}
}

// verify renders one ledger again and checks every sum and every turn.
func (e *engine) verify(ctx context.Context, id string) (api.Verification, error) {
	ids, err := views{e.ledger}.turnIDs(ctx, id)
	if err != nil {
		return api.Verification{}, err
	}
	r, err := chain.Verify(ctx, e.ledger, id, ids)
	if err != nil {
		return api.Verification{}, err
	}
	v := api.Verification{Session: id, Sound: r.OK(), Elements: r.Elements, Rows: r.Rows, Turns: r.Turns, NotKept: r.NotKept, Faults: r.Problems}
	if r.Red != "" {
		v.Served = "full path: " + r.Red
	}
	return v, nil
}
