package chain_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/chain"
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
		k.goesOn("own_0", "own_9")
	})
}

// goesOn has the next turn, and wants what the model did privately in it and
// nothing degraded.
func (k *talker) goesOn(private ...string) {
	k.g.t.Helper()
	k.g.play(k.strm, k.chat)
	k.msgs = append(k.msgs, user("go on"))
	next := string(k.ask()[0])
	for _, id := range private {
		if strings.Count(next, id) != 2 {
			k.g.t.Errorf("%s is not in the next turn: %s", id, clipped(next[max(0, len(next)-3000):]))
		}
	}
	if c := k.g.takeCauses(); len(c) > 0 {
		k.g.t.Errorf("degraded %v", c)
	}
	k.g.expect("the next turn", k.g.lastTurn(), session.PathSnapshot, session.NoGate)
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
		k.goesOn("own_0", "own_2")
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

// TestOnlyOwnCalls: a reply of nothing but calls of ours is answered round by
// round until the model has something to say.
func TestOnlyOwnCalls(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("own", chat, stream)
		g.play(stream, chat, said{calls: []use{status("own_1"), {"own_2", "hf_search", `{"query":"task 3"}`}}}, said{think: "more", calls: []use{status("own_3")}}, said{text: "Done."})
		if rounds := k.ask(); len(rounds) != 3 {
			t.Errorf("%d rounds, want 3", len(rounds))
		}
		if strings.Contains(k.replied, "own_") || strings.Contains(k.replied, "hf_") || !strings.Contains(k.replied, "Done.") {
			t.Errorf("the client got %s", k.replied)
		}
		k.takes()
		k.goesOn("own_1", "own_2", "own_3")
	})
}

// TestSplitNames: a name that comes in pieces is told apart before anything of
// it is passed on, ours and the client's.
func TestSplitNames(t *testing.T) {
	for pieces := range 9 {
		g := newRig(t, "on")
		k := g.grown("split", true, true)
		mine := use{"own_1", "hf_status", "{}"}
		g.play(true, true, said{names: pieces + 1, calls: []use{mine}}, said{names: pieces + 1, text: "Look. ", calls: []use{{"own_2", "hf_status", "{}"}, {"theirs_1", "bash", `{"cmd":"ls"}`}}})
		if rounds := k.ask(); len(rounds) != 2 {
			t.Errorf("in %d pieces: %d rounds, want 2", pieces+1, len(rounds))
		}
		if strings.Contains(k.replied, "own_") || strings.Contains(k.replied, `"hf`) || !strings.Contains(k.replied, "theirs_1") {
			t.Errorf("in %d pieces the client got %s", pieces+1, k.replied)
		}
		if got := k.takes(); strings.Count(got, `"bash"`) != 1 {
			t.Errorf("in %d pieces the client understands %s", pieces+1, got)
		}
	}
}

// TestSignatureRefused: a provider that refuses the model's own reasoning gets
// the rounds once more without it.
func TestSignatureRefused(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("signed", chat, stream)
		g.play(stream, chat, said{think: "secret", calls: []use{status("own_1")}},
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

// TestTooLongIsNoSignature: a request refused for its length is not sent again
// without its reasoning.
func TestTooLongIsNoSignature(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("length", chat, stream)
		g.play(stream, chat, said{think: "secret", calls: []use{status("own_1")}}, said{text: "Done."})
		k.ask()
		k.takes()
		k.msgs = append(k.msgs, user("more"))
		g.play(stream, chat, said{status: 400, refusal: `{"error":{"message":"This model's maximum context length is 1000 tokens","code":"context_length_exceeded"}}`})
		if rounds := k.ask(); len(rounds) != 1 || k.status != 400 || !strings.Contains(k.replied, "maximum context length") {
			t.Errorf("%d rounds, the client got %d %s", len(rounds), k.status, k.replied)
		}
		if c := g.takeCauses(); len(c) > 0 {
			t.Errorf("degraded %v", c)
		}
	})
}

// TestForcedChoice: our tools stay in the list, a call of ours is answered once,
// then the turn goes on.
func TestForcedChoice(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		forms := []string{`{"type":"any"}`, `{"type":"tool","name":"bash"}`, `{"type":"any","disable_parallel_tool_use":true}`}
		if chat {
			forms = []string{`"required"`, `{"type":"function","function":{"name":"bash"}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"bash"}}]}}`}
		}
		for i, form := range forms {
			k := g.grown(fmt.Sprint("forced", i), chat, stream)
			g.play(stream, chat, said{calls: []use{status("own_1")}}, said{calls: []use{status("own_2")}}, said{calls: []use{status("own_3")}})
			body := strings.Replace(string(k.body()), `{`, `{"tool_choice":`+form+`,`, 1)
			before := len(g.whole)
			if _, got, err := g.do(g.request(t.Context(), "POST", k.path(), []byte(body), sessionHeader, k.id)); err != nil || strings.Contains(string(got), "own_") {
				t.Errorf("%s: the client got %s, %v", form, got, err)
			}
			if n := len(g.whole) - before; n != 2 || !strings.Contains(string(g.whole[before]), `"name":"hf_status"`) || strings.Contains(string(g.whole[before]), reminder) {
				t.Errorf("%s: %d rounds, want 2", form, n)
			}
		}
	})
}

// TestCutAtMaxTokens: a call of ours that the model could not finish ends the
// reply as one that reached its length; the next turn has it as it was.
func TestCutAtMaxTokens(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("maxtokens", chat, stream)
		args, reason := `{"content":[{"startId":"m00002","endId":"m0`, map[bool]string{true: "length", false: "max_tokens"}[chat]
		if !chat && !stream { // there it is an object in any case
			args = `{}`
		}
		g.play(stream, chat, said{text: "I fold. ", ends: reason, calls: []use{{"own_1", "hf_compress", args}}}, said{text: "never"})
		if rounds := k.ask(); len(rounds) != 1 || strings.Contains(k.replied, "never") || strings.Contains(k.replied, "own_1") || !strings.Contains(k.replied, `"`+reason+`"`) {
			t.Errorf("%d rounds, the client got %s", len(rounds), k.replied)
		}
		k.takes()
		k.goesOn("own_1")
	})
}

// TestKeepAlive: a client whose reply is held hears something meanwhile.
func TestKeepAlive(t *testing.T) {
	for _, chat := range []bool{false, true} {
		t.Run(fmt.Sprint("chat ", chat), func(t *testing.T) {
			g := newRig(t, "on")
			g.close()
			g.options = func(o *chain.Options) { o.KeepAlive = time.Millisecond }
			g.open()
			k := g.grown("awake", chat, true)
			heard := make(chan struct{})
			m := g.play(true, chat, said{calls: []use{status("own_1")}}, said{text: "Done."})
			m.while = func(n int) {
				if n == 2 { // not before the client has heard of us
					eventually(t, "a ping", heard)
				}
			}
			resp, err := faultClient(t).Do(g.request(t.Context(), "POST", k.path(), k.body(), sessionHeader, k.id))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			ping := map[bool]string{true: ": waiting", false: "event: ping"}[chat]
			var got strings.Builder
			for buf, told := make([]byte, 4096), false; ; {
				n, err := resp.Body.Read(buf)
				got.Write(buf[:n])
				if !told && strings.Contains(got.String(), ping) {
					close(heard)
					told = true
				}
				if err != nil {
					break
				}
			}
			if k.replied = got.String(); !strings.Contains(k.replied, "Done.") || k.takes() == "" {
				t.Errorf("the client got %s", k.replied)
			}
			g.settle()
		})
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
