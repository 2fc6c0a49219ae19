package chain_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/core/config"
	"holdfast/core/usage"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/wiretest"
)

// smallWindow is the window of the route "small".
const smallWindow usage.Tokens = 24_000

// small gives the rig a route with a small window.
func (g *rig) small(mode config.RolloutMode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cfg := *g.cfg
	cfg.Rollout.Mode = mode
	cfg.Routes = map[string]config.Route{"small": {URL: g.up.URL, Window: smallWindow}}
	g.cfg = &cfg
}

// countsWell answers and reports what it really got, four bytes a token.
func (g *rig) countsWell(w http.ResponseWriter, r *http.Request) {
	n := usage.EstimateBytes(len(g.lastWhole()))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":2}}`, n)
}

func (g *rig) lastWhole() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.whole[len(g.whole)-1]
}

// TestSurvives: a session whose raw history becomes five times the window
// completes although its model never folds; every request fits, on either
// path, is one a strict provider takes, and is what replay gives back.
func TestSurvives(t *testing.T) {
	for _, mode := range []config.RolloutMode{config.On, config.Off} {
		t.Run(string(mode), func(t *testing.T) {
			g := newRig(t, mode)
			g.small(mode)
			g.setAnswer(g.countsWell)
			var msgs []string
			for i := 0; i < 200; i++ {
				msgs = append(msgs, user(fmt.Sprintf("task %d", i)), fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"call_%d","name":"bash","input":{"n":%d}}]}`, i, i),
					fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_%d","content":%q}]}`, i, long(fmt.Sprint("file ", i), 600+i%7*300)))
				body := anthropicBody(msgs...)
				req := g.request(t.Context(), "POST", "", body, sessionHeader, "survives")
				req.URL.Path = "/r/small" + anthropicPath
				resp, _, err := g.do(req)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("turn %d: %v", i, err)
				}
				sent := g.whole[len(g.whole)-1]
				if n := usage.EstimateBytes(len(sent)); n > smallWindow {
					t.Fatalf("turn %d: %d tokens left for a window of %d", i, n, smallWindow)
				}
				if err := wiretest.Accept(anthropic.Codec{}, sent, false); err != nil {
					t.Fatalf("turn %d is refused: %v", i, err)
				}
				g.replaysWhole(string(sent))
				if turn := g.lastTurn(); turn.Gate != "" && turn.Gate != "R3" {
					t.Errorf("turn %d: %+v", i, turn)
				}
				msgs = append(msgs, assistant(fmt.Sprintf("answer %d", i)))
				if len(body) > 5*4*int(smallWindow) {
					break
				}
				if i == 60 {
					g.restart()
				}
			}
			long, err := g.db.Long(t.Context(), time.Now().Add(-time.Hour))
			if err != nil || len(long) != 1 || long[0].Window != smallWindow || long[0].Raw < 4*smallWindow {
				t.Errorf("a bypass would be asked about %+v, %v", long, err)
			}
			if n := len(strings.Join(msgs, ",")); n < 5*4*int(smallWindow) {
				t.Errorf("the history has only %d bytes", n)
			}
			g.verifyAll()
		})
	}
}

// TestOverflow: a refusal for length arms one emergency fold.
func TestOverflow(t *testing.T) {
	g := newRig(t, config.On)
	k := g.grown("overflow", false, false)
	before := len(k.ask()[0])
	g.play(false, false, said{status: 400, refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`})
	k.ask()
	if k.status != 400 {
		t.Errorf("the client got %d", k.status)
	}
	g.play(false, false)
	if after := len(k.ask()[0]); after >= before*9/10 {
		t.Errorf("the retry has %d bytes, before %d", after, before)
	}
	g.verifyAll()
}

// TestSignatureRefusedLater: reasoning of private rounds that the provider does
// not take back is left out of the retry.
func TestSignatureRefusedLater(t *testing.T) {
	g := newRig(t, config.On)
	k := g.grown("later", false, true)
	g.play(true, false, said{think: "secret", calls: []use{status("own_1")}}, said{text: "Done."})
	k.ask()
	k.takes()
	k.msgs = append(k.msgs, user("more"))
	g.play(true, false, said{status: 400, refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"Invalid signature"}}`}, said{text: "Fine."})
	rounds := k.ask()
	if len(rounds) != 2 || !strings.Contains(string(rounds[0]), "c2lnsecret") || strings.Contains(string(rounds[1]), "c2lnsecret") || k.status != 200 {
		t.Errorf("%d rounds, status %d", len(rounds), k.status)
	}
}
