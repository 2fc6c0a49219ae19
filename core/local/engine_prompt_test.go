//go:build engine

package local

import (
	"testing"
	"time"

	"holdfast/core/upstream"
)

// TestEnginePromptAcrossARestart: with a real engine, a prompt is in its slot
// after the turn, on disk and in no slot after a restart, and in a slot again
// after the next turn.
func TestEnginePromptAcrossARestart(t *testing.T) {
	first, second := turns(300)
	at := home{t.TempDir()}
	s := settings(t, "tiny")
	x := open(t, at, s)
	x.chat(1, first...)
	x.settled()
	before, ok := x.driver.Prompt("c1")
	if !ok || before.Total < 300 || before.Resident != before.Total {
		t.Errorf("after a turn: %+v", before)
	}
	x.close()

	y := open(t, at, s)
	if p, ok := y.driver.Prompt("c1"); ok {
		t.Errorf("known before anybody asked: %+v", p)
	}
	y.driver.Recall(upstream.Call{Conversation: "c1"}, time.UnixMilli(1), "/v1/chat/completions", mustBody(t, first))
	until(t, "the prompt is rendered again", func() bool { _, ok := y.driver.Prompt("c1"); return ok })
	if p, _ := y.driver.Prompt("c1"); p.Total != before.Total || p.Resident >= 64 || p.Disk < before.Total*9/10 || p.Disk > p.Total {
		t.Errorf("after a restart %+v, before %+v", p, before)
	}
	y.chat(1, second...)
	y.settled()
	if p, ok := y.driver.Prompt("c1"); !ok || p.Total <= before.Total || p.Resident != p.Total {
		t.Errorf("after the next turn: %+v", p)
	}
}
