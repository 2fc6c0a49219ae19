package chain_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/session"
)

func anthropicBody(msgs ...string) []byte {
	return []byte(`{"model":"claude-sonnet-4-5","max_tokens":1000,"system":"You are a careful agent that helps with a code base. Answer briefly.","tools":[{"name":"bash","input_schema":{"type":"object"}}],"messages":[` + strings.Join(msgs, ",") + `],"metadata":{}}`)
}

func user(s string) string      { return fmt.Sprintf(`{"role":"user","content":%q}`, s) }
func assistant(s string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, s) }

const sessionHeader = "X-Claude-Code-Session-Id"

func TestWalk(t *testing.T) {
	for _, mode := range []config.RolloutMode{config.Off, config.Shadow, config.On} {
		t.Run(string(mode), func(t *testing.T) {
			g := newRig(t, mode)
			var msgs []string
			for i := range 6 {
				msgs = append(msgs, user(fmt.Sprintf("question %d", i)))
				body := anthropicBody(msgs...)
				sent, resp := g.send(anthropicPath, body, sessionHeader, "s1")
				if resp.StatusCode != 200 || !bytes.Equal(sent, body) {
					t.Fatalf("turn %d: status %d, sent %s", i, resp.StatusCode, sent)
				}
				turn := g.lastTurn()
				t.Logf("turn %d: home %s path %s gate %q compared %q ms %+v", turn.ID, turn.Home, turn.Path, turn.Gate, turn.Compared, turn.Ms)
				want := map[config.RolloutMode]session.Path{config.Off: session.PathFull, config.Shadow: session.PathFull, config.On: session.PathSnapshot}[mode]
				if turn.Path != want || turn.Gate != "" {
					t.Errorf("turn %d went %s (gate %q), want %s", i, turn.Path, turn.Gate, want)
				}
				if mode != config.Off && turn.Compared != session.ByteEqual {
					t.Errorf("turn %d compared %q", i, turn.Compared)
				}
				msgs = append(msgs, assistant(fmt.Sprintf("answer %d", i)))
			}
			if len(g.degraded) > 0 {
				t.Errorf("degraded: %+v", g.degraded)
			}
		})
	}
}
