package ledger

import (
	"context"
	"slices"
	"strings"
	"sync"

	"holdfast/core/session"
)

// What the tally counts, beside the verdicts of a comparison.
const (
	countTurn  = "turn"
	countFault = "fault"
)

// count is one thing that happened in a group.
type count struct {
	signal, wire string
	what, cause  string
}

// tally is the rollout evidence in memory; the table of the same name is what
// it is made of at open.
type tally struct {
	mu sync.Mutex // guards n
	n  map[count]int64
}

func (t *tally) recall(ctx context.Context, c *conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n = map[count]int64{}
	return c.query(ctx, "SELECT signal, wire, what, cause, n FROM tally", func(r *row) error {
		t.n[count{r.text(0), r.text(1), r.text(2), r.text(3)}] = r.num(4)
		return nil
	})
}

// add is called after the transaction that stored the same counts.
func (t *tally) add(cs []count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cs {
		t.n[c]++
	}
}

func putCounts(ctx context.Context, c *conn, cs []count) error {
	for _, k := range cs {
		if _, err := c.exec(ctx, `INSERT INTO tally (signal, wire, what, cause, n) VALUES (?,?,?,?,1)
			ON CONFLICT DO UPDATE SET n = n + 1`, k.signal, k.wire, k.what, k.cause); err != nil {
			return err
		}
	}
	return nil
}

// countsOf is what a finished turn adds: itself, and its comparison.
func countsOf(signal, wire string, t *session.TurnDone) []count {
	cs := []count{{signal, wire, countTurn, ""}}
	switch t.Verdict {
	case session.ByteEqual, session.Different:
		cs = append(cs, count{signal, wire, string(t.Verdict), ""})
	case session.Drift:
		cs = append(cs, count{signal, wire, string(t.Verdict), t.VerdictWhy})
	}
	return cs
}

// Evidence is the rollout evidence over everything this file has seen; turns
// purged since are still counted.
func (d *DB) Evidence(context.Context) (session.Evidence, error) {
	d.tally.mu.Lock()
	defer d.tally.mu.Unlock()
	ev := session.Evidence{Drift: map[string]int64{}}
	groups := map[[2]string]*session.GroupEvidence{}
	for k, n := range d.tally.n {
		g := groups[[2]string{k.signal, k.wire}]
		if g == nil {
			g = &session.GroupEvidence{Signal: k.signal, Wire: k.wire, State: "ok"}
			groups[[2]string{k.signal, k.wire}] = g
		}
		switch k.what {
		case countTurn:
			g.Turns += n
		case countFault:
			g.Faults += n
			ev.Faults += n
		case string(session.ByteEqual):
			ev.Turns, ev.ByteEqual = ev.Turns+n, ev.ByteEqual+n
		case string(session.Drift):
			ev.Turns, ev.Drift[k.cause] = ev.Turns+n, ev.Drift[k.cause]+n
		case string(session.Different):
			ev.Turns, ev.Differences = ev.Turns+n, ev.Differences+n
		}
	}
	ev.ByGroup = sortedGroups(groups)
	return ev, nil
}

func sortedGroups(groups map[[2]string]*session.GroupEvidence) []session.GroupEvidence {
	out := make([]session.GroupEvidence, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b session.GroupEvidence) int {
		if c := strings.Compare(a.Signal, b.Signal); c != 0 {
			return c
		}
		return strings.Compare(a.Wire, b.Wire)
	})
	return out
}
