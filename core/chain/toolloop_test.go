package chain_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast/core/session"
)

func status(id string) use { return use{id, "hf_status", "{}"} }

func bash(id string) use { return use{id, "bash", `{"cmd":"ls"}`} }

// result is the client's answer to a call, on its wire.
func (k *talker) result(id, text string) string {
	if k.chat {
		return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
	}
	return fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`, id, text)
}

// TestMixedCalls: ours is run and theirs is forwarded, and next turn the model
// finds both results in place.
func TestMixedCalls(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("mixed", chat, stream)
		g.play(stream, chat, said{think: "both", text: "Two things. ", calls: []use{status("own_1"), bash("theirs_1")}})
		if rounds := k.ask(); len(rounds) != 1 {
			t.Fatalf("%d rounds, want 1", len(rounds))
		}
		if !strings.Contains(k.replied, "theirs_1") || strings.Contains(k.replied, "own_1") {
			t.Errorf("the client got %s", k.replied)
		}
		if got := k.takes(); strings.Count(got, `"bash"`) != 1 {
			t.Errorf("the client understands %s", got)
		}
		k.msgs = append(k.msgs, k.result("theirs_1", "a file"))
		next := string(k.ask()[0])
		own, theirs := strings.LastIndex(next, `own_1`), strings.LastIndex(next, `theirs_1`)
		if strings.Count(next, "own_1") != 2 || strings.Count(next, "theirs_1") != 2 || own > theirs {
			t.Errorf("next turn the model reads %s", next[strings.Index(next, "now the last task"):])
		}
		g.replaysWhole(next)
		k.takes()
		k.msgs = append(k.msgs, user("go on"))
		after := string(k.ask()[0])
		if n := commonPrefix(next, after); n < len(next)-200 {
			t.Errorf("the prefix broke at %d of %d: %s", n, len(next), clipped(after[n:]))
		}
		if c := g.takeCauses(); len(c) > 0 {
			t.Errorf("degraded %v", c)
		}
	})
}

// TestTenRounds: a model that only calls our tools is let go after ten rounds,
// and the client still gets a message.
func TestTenRounds(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("ten", chat, stream)
		var script []said
		for i := range 12 {
			script = append(script, said{calls: []use{{fmt.Sprint("own_", i), "hf_search", fmt.Sprintf(`{"query":"task %d"}`, i)}}})
		}
		g.play(stream, chat, script...)
		if rounds := k.ask(); len(rounds) != 10 {
			t.Errorf("%d rounds, want 10", len(rounds))
		}
		if k.takes(); strings.Contains(k.replied, "own_") {
			t.Errorf("the client got %s", k.replied)
		}
		if turn := g.lastTurn(); turn.Rounds != 10 || turn.Error != "" {
			t.Errorf("%+v", turn)
		}
	})
}

// TestFailingTwice: the second time the model is told not to repeat itself, the
// third time the turn ends.
func TestFailingTwice(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("stuck", chat, stream)
		var script []said
		for i := range 6 {
			script = append(script, said{calls: []use{{fmt.Sprint("own_", i), "hf_compress", `{"content":[{"startId":"m09999","endId":"m09999","summary":"nothing at all of interest happened here, as far as can be told"}]}`}}})
		}
		g.play(stream, chat, script...)
		rounds := k.ask()
		if len(rounds) != 3 || !strings.Contains(string(rounds[1]), "FAILED") || !strings.Contains(string(rounds[2]), "FAILED again") {
			t.Errorf("%d rounds, want 3; the last is %s", len(rounds), clipped(string(rounds[len(rounds)-1])))
		}
		k.takes()
	})
}

// TestBusyInRoundTwo: the client cannot retry what it does not know of, so we
// do; when that does not help it gets an error in its own form.
func TestBusyInRoundTwo(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("busy", chat, stream)
		g.play(stream, chat, said{calls: []use{status("own_1")}}, said{status: 429, refusal: "{}"}, said{status: 503, refusal: "{}"}, said{text: "Done."})
		if rounds := k.ask(); len(rounds) != 4 || !strings.Contains(k.replied, "Done.") {
			t.Errorf("%d rounds, the client got %s", len(rounds), k.replied)
		}
		k.takes()
		k.msgs = append(k.msgs, user("again"))
		busy := said{status: 529, refusal: "{}"}
		g.play(stream, chat, said{text: "Wait. ", calls: []use{status("own_2")}}, busy, busy, busy, busy, busy)
		if rounds := k.ask(); len(rounds) != 5 || !strings.Contains(k.replied, "overloaded_error") {
			t.Errorf("%d rounds, the client got %s", len(rounds), k.replied)
		}
		if turn := g.lastTurn(); turn.Error != "later_round_failed" {
			t.Errorf("%+v", turn)
		}
		g.play(stream, chat)
		k.ask()
		g.expect("the retry", g.lastTurn(), session.PathSnapshot, session.NoGate)
	})
}

// TestCutInRoundTwo ends the reply with an error the client understands, and
// the fold of round one stays.
func TestCutInRoundTwo(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("cut", chat, stream)
		g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00009")}}, said{text: "I was about to", cut: true})
		if rounds := k.ask(); len(rounds) != 2 || !strings.Contains(k.replied, "error") {
			t.Errorf("%d rounds, the client got %s", len(rounds), k.replied)
		}
		g.play(stream, chat)
		retry := k.ask()
		if len(retry) != 1 || !strings.Contains(string(retry[0]), "[fold b1") {
			t.Errorf("the retry is %s", clipped(string(retry[0])))
		}
		g.verifyAll()
	})
}

// TestGoneInRoundTwo: the client's departure ends the round, and the fold stays.
func TestGoneInRoundTwo(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("gone", chat, stream)
		ctx, leave := context.WithCancel(context.Background())
		gone := make(chan struct{})
		m := g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00009")}}, said{text: "nobody listens"})
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			if m.n == 1 {
				leave()
				<-r.Context().Done() // the departure reaches the upstream
				close(gone)
			}
			m.serve(w, r)
		})
		resp, err := faultClient(t).Do(g.request(ctx, "POST", k.path(), k.body(), sessionHeader, k.id))
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		eventually(t, "round two is cancelled", gone)
		g.settle()
		g.play(stream, chat)
		if retry := string(k.ask()[0]); !strings.Contains(retry, "[fold b1") {
			t.Errorf("the retry is %s", clipped(retry))
		}
		g.verifyAll()
	})
}

// TestSignatureRefused: a provider that refuses the model's own reasoning gets
// the rounds once more without it.
func TestSignatureRefused(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			g := foldRig(t, "on")
			k := g.grown("signed", false, stream)
			g.play(stream, false, said{think: "secret", calls: []use{status("own_1")}},
				said{status: 400, refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"Invalid signature in thinking block"}}`}, said{text: "Done."})
			rounds := k.ask()
			if len(rounds) != 3 || !strings.Contains(string(rounds[1]), "c2lnsecret") || strings.Contains(string(rounds[2]), "c2lnsecret") || !strings.Contains(k.replied, "Done.") {
				t.Errorf("%d rounds, the client got %s", len(rounds), k.replied)
			}
			if c := g.takeCauses(); !slices.Equal(c, []string{string(session.CauseSignature)}) {
				t.Errorf("degraded %v", c)
			}
		})
	}
}

// TestForcedChoice: our tools stay in the list, a call of ours is answered once,
// then the turn goes on.
func TestForcedChoice(t *testing.T) {
	g := foldRig(t, "on")
	k := g.grown("forced", false, false)
	g.play(false, false, said{calls: []use{status("own_1")}}, said{calls: []use{status("own_2")}}, said{calls: []use{status("own_3")}})
	body := strings.Replace(string(k.body()), `{"model"`, `{"tool_choice":{"type":"any"},"model"`, 1)
	before := len(g.whole)
	if _, got, err := g.do(g.request(t.Context(), "POST", k.path(), []byte(body), sessionHeader, k.id)); err != nil || strings.Contains(string(got), "own_") {
		t.Errorf("the client got %s, %v", got, err)
	}
	if n := len(g.whole) - before; n != 2 || !strings.Contains(string(g.whole[before]), "hf_status") {
		t.Errorf("%d rounds, want 2", n)
	}
}

// TestNameClash: a client's tool with one of our names keeps it; ours get a
// suffix, and a call of the client's goes to the client.
func TestNameClash(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		m := g.play(stream, chat, said{calls: []use{{"theirs_1", "hf_search", `{"query":"x"}`}}})
		k := &talker{g: g, id: "clash", chat: chat, strm: stream, msgs: []string{user("search for it")}}
		body := strings.Replace(string(k.body()), `"name":"bash"`, `"name":"hf_search"`, 1)
		ask := func() (string, string) {
			_, got, err := g.do(g.request(t.Context(), "POST", k.path(), []byte(body), sessionHeader, k.id))
			if err != nil {
				t.Fatal(err)
			}
			return string(g.whole[len(g.whole)-1]), string(got)
		}
		sent, got := ask()
		if strings.Count(sent, `"name":"hf_search"`) != 1 || !strings.Contains(sent, `"name":"hf_search_`) {
			t.Errorf("sent %s", sent)
		}
		if m.n != 1 || !strings.Contains(got, "theirs_1") {
			t.Errorf("%d rounds; the client got %s", m.n, got)
		}
	})
}

// TestNested: a fold of folds, opened and searched by the model, and the answer
// names what is in it.
func TestNested(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("nested", chat, stream)
		g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00005"), compress("own_2", "m00006", "m00009")}},
			said{calls: []use{compress("own_3", "b1", "b2")}},
			said{calls: []use{{"own_4", "hf_decompress", `{"blockId":"b3","full":true}`}, {"own_5", "hf_search", `{"query":"task 2 file"}`}}}, said{text: "Done."})
		rounds := k.ask()
		if len(rounds) != 4 {
			t.Fatalf("%d rounds, the client got %s", len(rounds), k.replied)
		}
		if third := string(rounds[2]); !strings.Contains(third, "[fold b3") || strings.Contains(third, "[fold b1 ·") {
			t.Errorf("the third round is %s", clipped(third))
		}
		if last := string(rounds[3]); !strings.Contains(last, "task 2: the file") || !strings.Contains(last, "in fold b3") {
			t.Errorf("the last round does not show the originals: %s", clipped(last[strings.Index(last, "own_4"):]))
		}
		k.takes()
		k.msgs = append(k.msgs, user("go on"))
		k.ask()
		g.expect("next", g.lastTurn(), session.PathSnapshot, session.NoGate)
		g.verifyAll()
	})
}
