package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/core/demo"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// demoReport is everything the demo found, and what --json prints.
type demoReport struct {
	Version string        `json:"version"`
	Turns   int           `json:"turns"`
	Scenes  []sceneReport `json:"scenes"`
}

// sceneReport is one wire's session, direct and through.
type sceneReport struct {
	Wire    string       `json:"wire"`
	Name    string       `json:"name"`
	Model   string       `json:"model"`
	Session string       `json:"session"`
	Direct  billReport   `json:"direct"`
	Through billReport   `json:"through"`
	Folds   []foldReport `json:"folds"`
	// Messages are the client's at the end, Stored the elements in the ledger,
	// Left how many of them stand in view.
	Messages int   `json:"messages"`
	Stored   int64 `json:"stored"`
	Left     int64 `json:"left"`
	// Reckoned is what the ledger itself says of cost, direct an estimate.
	Reckoned session.CostView `json:"reckoned"`
	// PrefixSame are the bytes sent that were the same as on the turn before, at
	// the same place, First the bytes of all turns' first requests.
	PrefixSame int64            `json:"prefix_same"`
	First      int64            `json:"first_bytes"`
	Paths      map[string]int64 `json:"paths"`
	Gates      map[string]int64 `json:"gates"`
	Ledger     int64            `json:"ledger_bytes"` // all scenes so far
	// Added is what a turn waited longer for its first byte than directly, Own
	// the chain's part of it, in milliseconds.
	Added  quantile `json:"added_ms"`
	Own    quantile `json:"own_ms"`
	Checks []check  `json:"checks"`
}

// quantile is the middle and the bad end of a distribution.
type quantile struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func (q quantile) String() string { return fmt.Sprintf("%.2f ms median, %.2f ms p99", q.P50, q.P99) }

// check is one thing the demo makes sure of. Failed is empty when it holds.
type check struct {
	Says   string `json:"says"`
	Failed string `json:"failed,omitempty"`
}

func (c check) said() string { return c.Says + ": " + c.Failed }

func (r *demoReport) failed() (bad []check) {
	for _, s := range r.Scenes {
		for _, c := range s.Checks {
			if c.Failed != "" {
				bad = append(bad, c)
			}
		}
	}
	return bad
}

// report gathers what a scene came to, from the model, the clients and the
// ledger.
func (w *follower) report(direct, through playing) (*sceneReport, error) {
	s, err := w.session()
	if err != nil {
		return nil, err
	}
	turns, err := w.turns(s.ID, through.summary.Turns)
	if err != nil {
		return nil, err
	}
	status, err := w.app.engine.status(w.ctx)
	if err != nil {
		return nil, err
	}
	r := &sceneReport{Wire: string(w.family), Name: w.name, Model: w.model, Session: s.ID,
		Direct: w.bill(w.direct(), w.model), Through: w.bill(w.through(), w.model), Folds: append([]foldReport{}, w.folds...),
		Messages: through.summary.Elements, Stored: s.Elements, Left: s.Live, Reckoned: s.Cost,
		Paths: map[string]int64{}, Gates: map[string]int64{}, Ledger: status.Ledger.Bytes, Added: added(direct, through)}
	var own []time.Duration
	for _, t := range turns {
		r.Paths[string(t.Path)]++
		if t.Gate != "" {
			r.Gates[t.Gate]++
		}
		r.PrefixSame, r.First = r.PrefixSame+t.Bytes.PrefixSame, r.First+t.Bytes.Out
		ms := t.Ms.Identify + t.Ms.Decode + t.Ms.Rewrite + t.Ms.Apply + t.Ms.Encode
		own = append(own, time.Duration(ms*float64(time.Millisecond)))
	}
	r.Own = quantilesOf(own)
	r.Checks = w.checks(r, &s, turns, direct, through)
	return r, nil
}

// turns are the session's, oldest first.
func (w *follower) turns(id string, n int) ([]session.TurnView, error) {
	turns, _, err := w.view.Turns(w.ctx, id, 1, n+1)
	slices.SortFunc(turns, func(a, b session.TurnView) int { return int(a.ID - b.ID) })
	return turns, err
}

func added(direct, through playing) quantile {
	var d []time.Duration
	for i := range min(len(direct.first), len(through.first)) {
		d = append(d, through.first[i]-direct.first[i])
	}
	return quantilesOf(d)
}

func quantilesOf(d []time.Duration) quantile {
	if len(d) == 0 {
		return quantile{}
	}
	slices.Sort(d)
	at := func(q int) float64 { return float64(d[min(len(d)-1, len(d)*q/100)].Microseconds()) / 1000 }
	return quantile{at(50), at(99)}
}

// checks are what the demo makes sure of.
func (w *follower) checks(r *sceneReport, s *session.SessionView, turns []session.TurnView, direct, through playing) []check {
	return []check{
		{fmt.Sprintf("all %d replies are word for word those the agent got directly", len(through.said)), sameWork(direct, through)},
		{fmt.Sprintf("%d requests passed a strict model: signatures, calls and results, order of roles", r.Through.Requests), refusals(r)},
		w.prefixCheck(r),
		w.memoryCheck(through),
		w.replayCheck(turns),
		w.soundCheck(s.ID),
		{"the ledger's token counts are the model's own", counted(s, r.Through.Usage)},
		comparedCheck(turns),
	}
}

func sameWork(direct, through playing) string {
	for i := range through.said {
		if i >= len(direct.said) || direct.said[i] != through.said[i] {
			return fmt.Sprintf("turn %d differs", i+1)
		}
	}
	return ""
}

func refusals(r *sceneReport) string {
	for _, b := range []billReport{r.Direct, r.Through} {
		if b.Refused > 0 {
			return fmt.Sprintf("%d refused, the first because %s", b.Refused, b.Why)
		}
	}
	return ""
}

// prefixCheck: what stands before a fold is, byte for byte, what stood there.
func (w *follower) prefixCheck(r *sceneReport) check {
	c := check{Says: fmt.Sprintf("before each of %d folds the request stayed as it was, byte for byte", len(r.Folds))}
	if len(r.Folds) == 0 {
		c.Says = "nothing was folded in so short a session"
	}
	for _, f := range r.Folds {
		if f.PrefixFault != "" {
			c.Failed = f.Block + ": " + f.PrefixFault
			break
		}
	}
	if c.Failed == "" && len(w.faults) > 0 {
		c.Failed = w.faults[0].Error()
	}
	return c
}

// memoryCheck: what was settled is still told to the model with the last turn.
func (w *follower) memoryCheck(through playing) check {
	beats := demo.Session(max(1, through.summary.Turns-1))
	settled := 0
	for _, b := range beats {
		if b.Turn.Fact != "" {
			settled++
		}
	}
	c := check{Says: fmt.Sprintf("what was settled in %d finished tasks still stands in the last request", settled)}
	if lost := demo.Forgotten(w.firsts[len(w.firsts)-1], beats); len(lost) > 0 {
		c.Failed = fmt.Sprintf("%d are gone, the first: %s", len(lost), lost[0])
	}
	return c
}

// replayCheck: the ledger gives back the very bytes the model got.
func (w *follower) replayCheck(turns []session.TurnView) check {
	same, fault := w.replayed(turns)
	return check{fmt.Sprintf("the last %d requests rebuilt from the ledger are the bytes the model got", same), fault}
}

// soundCheck renders the whole ledger again.
func (w *follower) soundCheck(id string) check {
	v, err := w.app.engine.verify(w.ctx, id)
	c := check{Says: fmt.Sprintf("the ledger verified, every sum and turn: %s messages, %s rows, %s turns",
		count(int64(v.Elements)), count(int64(v.Rows)), count(int64(v.Turns)))}
	switch {
	case err != nil:
		c.Failed = err.Error()
	case !v.Sound:
		c.Failed = strings.Join(v.Faults, "; ")
	}
	return c
}

func counted(s *session.SessionView, u usage.Usage) string {
	got := usage.Usage{Input: s.Tokens.Outbound - s.Tokens.Cached - s.Tokens.CacheWrite, Cached: s.Tokens.Cached,
		CacheWrite: s.Tokens.CacheWrite, Output: s.Tokens.Output, Source: usage.Exact}
	if got != u {
		return fmt.Sprintf("%+v, not %+v", got, u)
	}
	return ""
}

// comparedCheck: what left was compared with the full path. A busy machine may
// leave some out, because the comparison has 50 ms, and a turn that a gate sent
// down the full path has nothing to compare; none may differ.
func comparedCheck(turns []session.TurnView) check {
	n := map[string]int64{}
	for _, t := range turns {
		n[cmp.Or(string(t.Compared), "not compared")]++
	}
	c := check{Says: "the view from rows compared with that from the whole history: " + countsText(n)}
	if k := n[string(session.Different)]; k > 0 {
		c.Failed = fmt.Sprintf("%d turns differed", k)
	}
	return c
}
