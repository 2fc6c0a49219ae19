package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/upstream"
)

// A slot that somebody took cannot be saved any more, but for what was written
// before: that is handed over once, and removed where nobody asks for it.
func TestWhatIsSetAside(t *testing.T) {
	e := on(t, newFake(t, 1))
	l, err := e.contact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sl := l.slots.borrow(0, 0)
	if sl == nil {
		t.Fatal("an idle slot cannot be taken")
	}
	s := saver{e, l, 0}
	if _, _, _, err := s.Save(t.Context(), 0); !errors.Is(err, tier.ErrSlotInUse) {
		t.Errorf("a slot that is in use: %v", err)
	}
	file := filepath.Join(t.TempDir(), "x.slot")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.slots.setAside(0, 0, slotFile{file, engine.Saved{Tokens: 12, Bytes: 345}})
	if path, tokens, size, err := s.Save(t.Context(), 0); path != file || tokens != 12 || size != 345 || err != nil {
		t.Errorf("%s %d %d %v", path, tokens, size, err)
	}
	if _, _, _, err := s.Save(t.Context(), 0); !errors.Is(err, tier.ErrSlotInUse) {
		t.Errorf("a second time: %v", err)
	}
	l.slots.setAside(0, 0, slotFile{path: file})
	saver{e, l, 1}.drop(0)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("another content's file was removed: %v", err)
	}
	s.drop(0)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nobody asked for it, and it is there: %v", err)
	}
	l.slots.change(sl, (*slot).forget)
	l.slots.give(sl)
	if l.slots.borrow(0, 0) != nil {
		t.Error("a slot that holds something else was given for the old")
	}
}

// What goes on in a conversation, or changes it, overwrites nothing that anybody
// comes back to.
func TestGoesOnFrom(t *testing.T) {
	ids := func(n int, last kv.Token) []kv.Token {
		out := make([]kv.Token, n)
		out[n-1] = last
		return out
	}
	for name, c := range map[string]struct {
		s    slot
		call upstream.Call
		ids  []kv.Token
		want bool
	}{
		"the same branch":   {slot{convo: "a", branch: "1", held: ids(9, 1)}, upstream.Call{Conversation: "a", Branch: "1"}, ids(9, 2), true},
		"another branch":    {slot{convo: "a", branch: "1", held: ids(9, 1)}, upstream.Call{Conversation: "a", Branch: "2"}, ids(9, 2), false},
		"another":           {slot{convo: "a", held: ids(9, 1)}, upstream.Call{Conversation: "b"}, ids(9, 2), false},
		"nobody's":          {slot{held: ids(9, 1)}, upstream.Call{}, ids(9, 2), false},
		"nobody's, further": {slot{held: ids(9, 0)}, upstream.Call{}, ids(12, 2), true},
	} {
		tk := &ticket{call: c.call, ids: c.ids}
		if got := tk.goesOnFrom(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A request waits for a save where computing the same again takes far longer.
func TestWorthSaving(t *testing.T) {
	s := &speeds{}
	if !s.worthSaving(1000, 300) {
		t.Error("what is not measured is tried")
	}
	s.took(1000, 10*time.Second)
	s.saved(1000, 100*time.Millisecond)
	for _, c := range []struct {
		n, fresh kv.Tokens
		want     bool
	}{{1000, 1000, true}, {1000, 100, true}, {1000, 70, false}, {100_000, 300, false}} {
		if got := s.worthSaving(c.n, c.fresh); got != c.want {
			t.Errorf("%d tokens, %d of them new: %v", c.n, c.fresh, got)
		}
	}
}

// A save stands back before its file is read while anybody else generates, and no
// longer.
func TestAllIdle(t *testing.T) {
	s := newSlots(2)
	if err := s.allIdle(t.Context()); err != nil {
		t.Errorf("nobody generates: %v", err)
	}
	other := s.borrow(1, 0)
	over, end := context.WithCancel(t.Context())
	end()
	if err := s.allIdle(over); !errors.Is(err, context.Canceled) {
		t.Errorf("the time is up and another generates: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.allIdle(t.Context()) }()
	s.give(other)
	if err := <-done; err != nil {
		t.Errorf("the other is done: %v", err)
	}
}
