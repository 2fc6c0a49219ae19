package chain

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/core/fold"
	"holdfast/core/session"
)

// A model that looks for something asks more than once. Reading and indexing
// 10,000 elements takes a second, so what was made ready for the last search is
// kept for the next one of the same conversation: one conversation at a time,
// and only for searchKept, because no conversation is to stay in memory.

const searchKept = time.Minute

// searches holds what the last search was answered from.
type searches struct {
	mu    sync.Mutex
	key   string
	docs  []fold.Doc
	index *fold.Index
	drop  *time.Timer
}

// searchKey names everything a search reads: elements are never changed, so
// their counts say which there are.
func searchKey(heads []session.Head, structure int64) string {
	var s strings.Builder
	for i := range heads {
		s.WriteString(heads[i].Ledger + " " + strconv.FormatInt(heads[i].NextElem, 10) + "\n")
	}
	return s.String() + strconv.FormatInt(structure, 10)
}

// branches are the heads of all that was said in a conversation.
func (c *Chain) branches(ctx context.Context, st *session.State) ([]session.Head, error) {
	if !st.Head.World.Signed() {
		return []session.Head{st.Head}, nil
	}
	return c.ledger.Heads(ctx, st.Head.World)
}

// searchable are the documents of a conversation, ready to be searched.
func (c *Chain) searchable(ctx context.Context, st *session.State) ([]fold.Doc, *fold.Index, error) {
	heads, err := c.branches(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	key, kept := searchKey(heads, st.Kernel.Structure), &c.searches
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.index == nil || kept.key != key {
		docs, err := c.documents(ctx, st, heads)
		if err != nil {
			return nil, nil, err
		}
		kept.key, kept.docs, kept.index = key, docs, fold.IndexOf(docs)
	}
	kept.keep()
	return kept.docs, kept.index, nil
}

// keep puts off the end of what is held.
func (s *searches) keep() {
	if s.drop != nil {
		s.drop.Stop()
	}
	s.drop = time.AfterFunc(searchKept, s.forget)
}

func (s *searches) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop != nil {
		s.drop.Stop()
	}
	s.key, s.docs, s.index = "", nil, nil
}
