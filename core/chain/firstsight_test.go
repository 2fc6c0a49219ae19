package chain_test

import (
	"fmt"
	"testing"

	"holdfast/core/config"
	"holdfast/core/session"
)

// TestLongFirstSight: a conversation that is already long when it is first seen
// is served in full while its rows are written behind the reply, and its next
// turn knows what it changed.
func TestLongFirstSight(t *testing.T) {
	g := newRig(t, config.On)
	var msgs []string
	for i := range session.FirstSightRows {
		msgs = append(msgs, user(fmt.Sprintf("question %d", i)), assistant(fmt.Sprintf("answer %d", i)))
	}
	g.send(anthropicPath, anthropicBody(append(msgs, user("now"))...), sessionHeader, "s1")
	if turn := g.lastTurn(); turn.Path != session.PathFull {
		t.Errorf("first seen on path %s, want %s", turn.Path, session.PathFull)
	}
	msgs[0] = user("another question")
	g.send(anthropicPath, anthropicBody(append(msgs, user("now"))...), sessionHeader, "s1")
	turn := g.lastTurn()
	if turn.Path != session.PathSnapshot {
		t.Errorf("then served on path %s, want %s", turn.Path, session.PathSnapshot)
	}
	compared(t, turn)
	if c := turn.Change; c == nil || c.Cause != session.ChangeEdit || c.JSONPath != "$.messages[0]" {
		t.Errorf("the first change is %+v, want a client edit of the first message", c)
	}
}
