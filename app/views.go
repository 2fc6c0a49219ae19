package main

import (
	"context"
	"errors"
	"net/http"

	"holdfast/core/chain"
	"holdfast/core/guard"
	"holdfast/core/session"
	"holdfast/storage/ledger"
	"holdfast/web/api"
)

// views is the ledger as the API reads it: views as they are stored, and bytes
// rebuilt by the chain's replay. Busy names sessions that must not be deleted
// now; mode is the rollout in force; prompts tells where a session's last prompt
// is.
type views struct {
	*ledger.DB
	busy    func(ledger string) bool
	mode    func() session.Rollout
	prompts prompts
}

// prompts is what local engines know of the last prompts of sessions.
type prompts interface {
	// prompt tells where one is; ok is false where no engine knows.
	prompt(ledger string) (p session.KVPrompt, ok bool)
	// recalls reports whether the engine of a route can be asked about turns.
	recalls(route string) bool
	// recall has it find out from the bytes of a session's last turn, behind the
	// caller.
	recall(s *session.SessionView, t *session.TurnView, body []byte)
}

// degradeLimit is how many degrade rows one answer carries.
const degradeLimit = 1000

func (v views) Sessions(ctx context.Context, q string, page, size int) ([]session.SessionView, int, error) {
	list, total, err := v.DB.Sessions(ctx, ledger.SessionQuery{Q: q, Page: page, Size: size})
	for i := range list {
		v.route(&list[i])
	}
	return list, total, err
}

// FindSessions is Sessions with filters and an order.
func (v views) FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error) {
	list, total, err := v.DB.FindSessions(ctx, q)
	for i := range list {
		v.route(&list[i])
	}
	return list, total, err
}

// Session is one session with the route it is on now.
func (v views) Session(ctx context.Context, id string) (session.SessionView, error) {
	s, err := v.DB.Session(ctx, id)
	v.route(&s)
	return s, err
}

func (v views) route(s *session.SessionView) {
	s.Route = session.RouteFull
	if s.Mode != session.Unsigned {
		s.Route = session.RouteOf(v.mode(), s.Member)
	}
}

// Coverage is one picture with the KV tier's inventory: which positions of the
// present prefix are in a local engine, on disk or nowhere.
func (v views) Coverage(ctx context.Context, id string) (session.CoverageView, error) {
	c, err := v.DB.Coverage(ctx, id)
	if err != nil {
		return c, err
	}
	p, ok := v.prompts.prompt(id)
	if !ok {
		return c, v.recall(ctx, id)
	}
	rows, err := v.RowViews(ctx, id)
	c.KV = session.KVRuns(rows, c.PosHi, p)
	return c, err
}

// recall finds out about a prompt that was sent before the program's start. Its
// bytes may be gone; then nothing is known until the next one.
func (v views) recall(ctx context.Context, id string) error {
	turns, _, err := v.DB.Turns(ctx, id, 1, 1)
	if err != nil || len(turns) == 0 || !v.prompts.recalls(turns[0].Route) {
		return err
	}
	s, err := v.DB.Session(ctx, id)
	if err != nil {
		return err
	}
	body, err := chain.Replay(ctx, v.DB, turns[0].ID, chain.Outbound)
	if errors.Is(err, session.ErrNotKept) {
		return nil
	}
	if err == nil {
		v.prompts.recall(&s, &turns[0], body)
	}
	return err
}

// Turns of a session there is not are an error, not an empty page.
func (v views) Turns(ctx context.Context, id string, page, size int) ([]session.TurnView, int, error) {
	turns, total, err := v.DB.Turns(ctx, id, page, size)
	if err == nil && total == 0 {
		_, err = v.DB.Session(ctx, id)
	}
	return turns, total, err
}

func (v views) Degrades(ctx context.Context, since int64) ([]session.DegradeView, error) {
	return v.DB.Degrades(ctx, since, degradeLimit)
}

// Delete leaves a session alone while a request of it is under way: its turn
// would come back without its beginning.
func (v views) Delete(ctx context.Context, id string) error {
	if v.busy(id) {
		return &guard.Problem{Status: http.StatusConflict, Code: "busy", Title: "A request of this session is under way.",
			Hint: "Delete it when the reply has ended."}
	}
	return v.DB.Delete(ctx, id)
}

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
	ids, err := e.views().turnIDs(ctx, id)
	if err != nil {
		return api.Verification{}, err
	}
	sums, err := e.ledger.Check(ctx, id)
	if err != nil {
		return api.Verification{}, err
	}
	r, err := chain.Verify(ctx, e.ledger, id, ids)
	if err != nil {
		return api.Verification{}, err
	}
	v := api.Verification{Session: id, Elements: r.Elements, Rows: r.Rows, Turns: r.Turns, NotKept: r.NotKept, Faults: append(r.Problems, sums.Problems...)}
	v.Sound = len(v.Faults) == 0
	if r.Red != "" {
		v.Served = "full path: " + r.Red
	}
	return v, nil
}
