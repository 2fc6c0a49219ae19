package chain_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
)

// reads counts how often all elements of a ledger are read.
type reads struct {
	session.Ledger
	n *atomic.Int64
}

func (r reads) Stored(ctx context.Context, ledger string) ([]session.Element, error) {
	r.n.Add(1)
	return r.Ledger.Stored(ctx, ledger)
}

// TestSearchesAreKept: a second search of a conversation reads nothing again, and
// what was said in between is found all the same.
func TestSearchesAreKept(t *testing.T) {
	g := newRig(t, config.On)
	var n atomic.Int64
	g.options = func(o *chain.Options) { o.Ledger = reads{o.Ledger, &n} }
	g.restart()
	g.folding(true)
	k := g.grown("search", false, true)
	look := func(id, query string) use { return use{id, "hf_search", fmt.Sprintf(`{"query":%q}`, query)} }
	g.play(true, false, said{calls: []use{look("own_1", "task 3")}}, said{calls: []use{look("own_2", "task 5")}}, said{text: "Done."})
	rounds := k.ask()
	if len(rounds) != 3 || n.Load() != 1 || !strings.Contains(string(rounds[2]), "task 5:") {
		t.Errorf("%d rounds, the ledger was read %d times", len(rounds), n.Load())
	}
	k.takes()
	k.msgs = append(k.msgs, user("the word is xylophone"))
	g.play(true, false, said{calls: []use{look("own_3", "xylophone")}}, said{text: "Done."})
	rounds = k.ask()
	if found := string(rounds[1][strings.LastIndex(string(rounds[1]), "own_3"):]); n.Load() != 2 || !strings.Contains(found, "the word is xylophone") {
		t.Errorf("read %d times, found %s", n.Load(), found)
	}
}
