package chain_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/core/config"
	"holdfast/core/session"
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
	t.Parallel()
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

// TestNeverPastTheWindow: a session that outgrew its window is folded on every
// step down; where its folds cannot be read, nothing is sent rather than what
// can only be refused. One that fits is sent whatever fails.
func TestNeverPastTheWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		harm func(g *rig, f *faulty)
		sent bool // although it is past the window
	}{
		{"the commit fails", func(_ *rig, f *faulty) { f.failing(session.ErrFull) }, true},
		{"the commit panics", func(_ *rig, f *faulty) { f.explode("Commit") }, true},
		{"the commit is late", func(_ *rig, f *faulty) {
			f.spoil(func(c *session.Commit, real func() error) error {
				err := real()
				c.Waited = -time.Hour
				return err
			})
		}, true},
		{"another turn came first, twice", func(_ *rig, f *faulty) { f.failing(session.ErrStale, session.ErrStale) }, true},
		{"the ledger cannot be read", func(g *rig, f *faulty) { g.restart(); f.explode("Load") }, false},
	} {
		for _, fits := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", fits ", fits), func(t *testing.T) {
				g, f := faultyRig(t, config.On)
				g.small(config.On)
				g.setAnswer(g.countsWell)
				k := g.convo("past")
				for len(strings.Join(k.msgs, ",")) < map[bool]int{true: 2, false: 8}[fits]*int(smallWindow) {
					k.msgs = append(k.msgs, user(fmt.Sprint("task ", len(k.msgs), long("x", 1500))), assistant("done"))
					k.msgs = append(k.msgs, user("next"))
					g.sendSmall(k)
					k.msgs = append(k.msgs, assistant("ok"))
				}
				k.msgs = append(k.msgs, user("the last"))
				c.harm(g, f)
				before := len(g.whole)
				status := g.sendSmall(k)
				for _, b := range g.whole[before:] {
					if n := usage.EstimateBytes(len(b)); n > smallWindow {
						t.Errorf("%d tokens left for a window of %d", n, smallWindow)
					}
				}
				if sent := len(g.whole) > before; sent != (fits || c.sent) || sent != (status == 200) {
					t.Errorf("sent %v, status %d", sent, status)
				}
				f.spoil(nil)
				if status := g.sendSmall(k); status != 200 {
					t.Errorf("the client's next try got %d", status)
				}
				g.verifyAll()
			})
		}
	}
}

// TestNoUsage: an upstream that reports no usage, as chat streams do unless they
// are asked, is counted by estimate, said to be so, and survived all the same.
func TestNoUsage(t *testing.T) {
	t.Parallel()
	g := newRig(t, config.On)
	g.small(config.On)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		writeEvents(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":null}]}`+"\n\n",
			`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n", "data: [DONE]\n\n")
	})
	k := &talker{g: g, id: "uncounted", chat: true, strm: true}
	for i := 0; len(strings.Join(k.msgs, ",")) < 4*4*int(smallWindow); i++ {
		k.msgs = append(k.msgs, user(fmt.Sprint("task ", i, long(" x", 1200))))
		body := strings.Replace(string(k.body()), `"stream_options":{"include_usage":true},`, "", 1)
		req := g.request(t.Context(), "POST", "", []byte(body), sessionHeader, k.id)
		req.URL.Path = "/r/small" + chatPath
		resp, _, err := g.do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("turn %d: %v", i, err)
		}
		if n := usage.EstimateBytes(len(g.lastWhole())); n > smallWindow {
			t.Fatalf("turn %d: %d tokens left for a window of %d", i, n, smallWindow)
		}
		if u := g.lastTurn().Usage; u.Source != usage.Estimate || u.Input == 0 {
			t.Fatalf("turn %d used %+v", i, u)
		}
		k.msgs = append(k.msgs, `{"role":"assistant","content":"ok"}`)
	}
	if !strings.Contains(string(g.lastWhole()), "[fold b") {
		t.Error("nothing was left out")
	}
	g.verifyAll()
}

// sendSmall sends a conversation over the route with the small window.
func (g *rig) sendSmall(k *convo) int {
	g.t.Helper()
	req := g.request(g.t.Context(), "POST", "", anthropicBody(k.msgs...), sessionHeader, k.id)
	req.URL.Path = "/r/small" + anthropicPath
	resp, _, err := g.do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode
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
