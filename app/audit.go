package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"holdfast/storage/ledger"
)

// auditEvery gives up to twenty audits a day.
const auditEvery = 24 * time.Hour / 20

// audit re-renders one random session while nothing is in flight.
func (e *engine) audit(ctx context.Context, log *slog.Logger) {
	if e.chain.Status().InFlight > 0 {
		return
	}
	_, total, err := e.ledger.Sessions(ctx, oneSession(1))
	if err != nil || total == 0 {
		return
	}
	list, _, err := e.ledger.Sessions(ctx, oneSession(1+rand.IntN(total)))
	if err != nil || len(list) == 0 {
		return
	}
	r, err := e.chain.Audit(ctx, list[0].ID)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("a session could not be audited", "session", list[0].ID, "error", err)
	case r != nil && !r.OK():
		log.Error("a session failed its audit", "session", list[0].ID, "problems", len(r.Problems))
	}
}

func oneSession(page int) ledger.SessionQuery { return ledger.SessionQuery{Page: page, Size: 1} }
