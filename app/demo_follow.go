package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/core/chain"
	"holdfast/core/demo"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
)

// foldReport is one fold as the model and the ledger saw it. Prompts are what
// the model reported for the request that asked for the fold and for the next.
type foldReport struct {
	Turn     int      `json:"turn"`
	Block    string   `json:"block"`
	Tier     int      `json:"tier"`
	Topic    string   `json:"topic"`
	Elements int64    `json:"elements"` // covered by it, in folds it took in as well
	Children []string `json:"children"`
	// PromptBefore and PromptAfter are in tokens, CachedAfter what of the latter
	// was read from the provider's cache.
	PromptBefore usage.Tokens `json:"prompt_before"`
	PromptAfter  usage.Tokens `json:"prompt_after"`
	CachedAfter  usage.Tokens `json:"cached_after"`
	// PrefixBytes stand before the first folded message, the same in both.
	PrefixBytes int    `json:"prefix_bytes"`
	PrefixFault string `json:"prefix_fault,omitempty"`
}

// follower watches what the model gets while the session is played through the
// chain. After each turn it looks at the exchanges of that turn; where there
// were private rounds, it asks the ledger what was folded.
type follower struct {
	scene
	*stage
	ctx context.Context

	seen    int // exchanges looked at
	ledger  string
	covered session.CoverageView
	folds   []foldReport
	faults  []error
	// firsts are the bodies of the last turns' first exchanges, newest last.
	firsts [][]byte
}

// firstsKept is how many turns are replayed against what the model got.
const firstsKept = 20

func (w *follower) turn(t demo.TurnResult) {
	recs := w.player.Recordings(w.through())
	now := recs[w.seen:]
	w.seen = len(recs)
	if len(now) > 0 {
		w.firsts = append(w.firsts, now[0].Body)
		w.firsts = w.firsts[max(0, len(w.firsts)-firstsKept):]
	}
	if len(now) < 2 {
		return
	}
	if err := w.rounds(t, now); err != nil {
		w.faults = append(w.faults, fmt.Errorf("turn %d: %w", t.Turn, err))
	}
}

// rounds looks at the exchanges of a turn that had private ones.
func (w *follower) rounds(t demo.TurnResult, recs []demo.Recording) error {
	if w.ledger == "" {
		s, err := w.session()
		if err != nil {
			return err
		}
		w.ledger = s.ID
	}
	before := w.covered
	var err error
	if w.covered, err = w.view.Coverage(w.ctx, w.ledger); err != nil {
		return err
	}
	for _, block := range blocksOf(w.covered) {
		if !slices.Contains(blocksOf(before), block) {
			w.folds = append(w.folds, w.fold(t, recs, before, block))
		}
	}
	return nil
}

// session is the scene's session in the ledger.
func (w *follower) session() (session.SessionView, error) {
	list, _, err := w.view.Sessions(w.ctx, "", 1, len(scenes()))
	if err != nil {
		return session.SessionView{}, err
	}
	for _, s := range list {
		if s.Wire == string(w.family) {
			return s, nil
		}
	}
	return session.SessionView{}, errors.New("the session is not in the ledger")
}

func blocksOf(v session.CoverageView) (names []string) {
	for _, s := range v.Spans {
		if !slices.Contains(names, s.Block) {
			names = append(names, s.Block)
		}
	}
	return names
}

// blockAt is the block that covers the place before a place counted from 0.
func blockAt(v session.CoverageView, place int64) string {
	for _, s := range v.Spans {
		if s.From <= place && place < s.To {
			return s.Block
		}
	}
	return ""
}

// fold finds the two exchanges of a turn between which a block was made.
func (w *follower) fold(t demo.TurnResult, recs []demo.Recording, before session.CoverageView, block string) foldReport {
	f := foldReport{Turn: t.Turn, Block: block, Children: []string{}}
	place := int64(-1)
	for _, s := range w.covered.Spans {
		if s.Block != block {
			continue
		}
		f.Tier, f.Topic = s.Tier, s.Topic
		if len(s.Children) > 0 {
			f.Children = s.Children
		}
		f.Elements += s.To - s.From
		if place < 0 || s.From-1 < place {
			place = s.From - 1 // places of the ledger count from 1
		}
	}
	head := []byte("[fold " + block + " ")
	k := slices.IndexFunc(recs, func(r demo.Recording) bool { return bytes.Contains(r.Body, head) })
	if k < 1 {
		f.PrefixFault = "no request with it followed one without"
		return f
	}
	f.PromptBefore, f.PromptAfter = usageOf(&recs[k-1]).Total(), usageOf(&recs[k]).Total()
	f.CachedAfter = usageOf(&recs[k]).Cached
	cut := demo.Cut{Place: int(place), Taken: blockAt(before, place+1) != "", Behind: blockAt(before, place), Strict: w.strict}
	n, err := cut.Kept(recs[k-1].Body, recs[k].Body, t.Body)
	f.PrefixBytes = n
	if err != nil {
		f.PrefixFault = err.Error()
	}
	return f
}

func usageOf(r *demo.Recording) usage.Usage {
	c := r.Counts
	return usage.Usage{Input: usage.Tokens(c.Input), Cached: usage.Tokens(c.Cached), CacheWrite: usage.Tokens(c.CacheWrite),
		Output: usage.Tokens(c.Output), Source: usage.Exact}
}

// billReport is what one playing of the session took, as the model reported it.
type billReport struct {
	Requests int         `json:"requests"`
	Usage    usage.Usage `json:"usage"`
	// Read is all input classes together, Last the size of the last prompt.
	Read usage.Tokens `json:"read"`
	Last usage.Tokens `json:"last_prompt"`
	// Cost is in Currency at list prices; 0 with Priced false.
	Cost   float64 `json:"cost"`
	Priced bool    `json:"priced"`
	Bytes  int64   `json:"bytes"`
	// Refused counts requests the strict model would not take, Why is the first.
	Refused int    `json:"refused"`
	Why     string `json:"why,omitempty"`
	// Own counts calls of folding tools.
	Own map[string]int `json:"own_calls"`
}

// bill adds up the exchanges of a label, each at its own price.
func (st *stage) bill(label, model string) billReport {
	b := billReport{Usage: usage.Usage{Source: usage.Exact}, Priced: true, Own: map[string]int{}}
	var micros int64
	for _, r := range st.player.Recordings(label) {
		u := usageOf(&r)
		m, ok := usage.Cost(model, u)
		micros += m
		b.Priced = b.Priced && ok
		b.Requests++
		b.Usage = b.Usage.Add(u)
		b.Bytes += r.Size
		if len(r.Own) == 0 {
			b.Last = u.Total()
		}
		for _, name := range r.Own {
			b.Own[name]++
		}
		if r.Refused != "" {
			b.Refused++
			b.Why = cmp.Or(b.Why, r.Refused)
		}
	}
	b.Read, b.Cost = b.Usage.Total(), float64(micros)/1e6
	return b
}

// replayed compares the last turns rebuilt from the ledger with what the model
// got; turns are oldest first.
func (w *follower) replayed(turns []session.TurnView) (same int, fault string) {
	n := min(len(turns), len(w.firsts))
	for i := range n {
		id := turns[len(turns)-n+i].ID
		got, err := chain.Replay(w.ctx, w.app.engine.ledger, id, chain.Outbound)
		switch {
		case err != nil:
			fault = cmp.Or(fault, fmt.Sprintf("turn %d: %v", id, err))
		case !bytes.Equal(got, w.firsts[len(w.firsts)-n+i]):
			fault = cmp.Or(fault, fmt.Sprintf("turn %d is not what the model got", id))
		default:
			same++
		}
	}
	return same, fault
}

// ownCalls says what the model did for itself.
func (b billReport) ownCalls() string {
	var parts []string
	for _, t := range [...]struct{ tool, one, many string }{
		{fold.ToolCompress, "fold", "folds"}, {fold.ToolSearch, "search", "searches"},
		{fold.ToolDecompress, "fold opened", "folds opened"}, {fold.ToolStatus, "look", "looks"},
	} {
		switch n := b.Own[t.tool]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+t.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, t.many))
		}
	}
	if parts == nil {
		return "no calls of folding tools"
	}
	return strings.Join(parts, ", ")
}
