package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
)

// The tests of the tool loop play a scripted model that calls our own tools.
// They look at what reaches the model, round by round, and at what the client
// is given.

// use is a call the scripted model makes.
type use struct{ id, tool, args string }

// said is one reply of the scripted model, or a refusal.
type said struct {
	think, text string
	calls       []use
	status      int    // 0 for 200
	refusal     string // the body of a refusal
	cut         bool   // the connection breaks before the reply has ended
	ends        string // the stop reason, when it is not the usual one
	names       int    // in how many pieces a streamed name comes, 0 for one
}

// model answers round after round from its script and keeps going with "ok".
type model struct {
	g      *rig
	stream bool
	chat   bool
	// counts reports what it really got, four bytes a token.
	counts bool
	script []said
	// while runs in the handler of a request, before the answer.
	while func(n int)
	n     int
}

func (g *rig) play(stream, chat bool, script ...said) *model {
	m := &model{g: g, stream: stream, chat: chat, script: script}
	g.setAnswer(m.serve)
	return m
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	if m.while != nil {
		m.while(m.n + 1)
	}
	s := said{text: "ok"}
	if m.n < len(m.script) {
		s = m.script[m.n]
	}
	m.n++
	if s.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		io.WriteString(w, s.refusal)
		return
	}
	switch {
	case m.chat:
		m.chatReply(w, s)
	case m.stream:
		m.anthropicStream(w, s)
	default:
		w.Header().Set("Content-Type", "application/json")
		b := mustMarshal(map[string]any{"id": fmt.Sprintf("msg_%d", m.n), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
			"content": s.blocks(), "stop_reason": s.stop(), "stop_sequence": nil,
			"usage": map[string]int{"input_tokens": m.size(), "output_tokens": 10}})
		if s.cut {
			b = b[:len(b)/2]
		}
		w.Write(b)
	}
	if s.cut {
		panic(http.ErrAbortHandler)
	}
}

// size is the prompt tokens it reports.
func (m *model) size() int {
	if m.counts {
		return int(usage.EstimateBytes(len(m.g.lastWhole())))
	}
	return 1000 + m.n
}

// status is the first status its client sees.
func (m *model) status() int {
	if len(m.script) > 0 && m.script[0].status != 0 {
		return m.script[0].status
	}
	return http.StatusOK
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (s said) stop() string {
	if s.ends != "" {
		return s.ends
	}
	if len(s.calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (s said) blocks() (out []map[string]any) {
	if s.think != "" {
		out = append(out, map[string]any{"type": "thinking", "thinking": s.think, "signature": "c2ln" + s.think})
	}
	if s.text != "" {
		out = append(out, map[string]any{"type": "text", "text": s.text})
	}
	for _, c := range s.calls {
		out = append(out, map[string]any{"type": "tool_use", "id": c.id, "name": c.tool, "input": json.RawMessage(c.args)})
	}
	return out
}

func (m *model) anthropicStream(w http.ResponseWriter, s said) {
	event := func(name string, v map[string]any) {
		v["type"] = name
		writeEvents(w, fmt.Sprintf("event: %s\ndata: %s\n\n", name, mustMarshal(v)))
	}
	event("message_start", map[string]any{"message": map[string]any{"id": fmt.Sprintf("msg_%d", m.n), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
		"content": []any{}, "stop_reason": nil, "usage": map[string]int{"input_tokens": 1000 + m.n, "output_tokens": 1}}})
	for i, b := range s.blocks() {
		start := map[string]any{}
		for k, v := range b {
			start[k] = v
		}
		var deltas []map[string]any
		switch b["type"] {
		case "text":
			start["text"] = ""
			deltas = append(deltas, map[string]any{"type": "text_delta", "text": b["text"]})
		case "thinking":
			start["thinking"], start["signature"] = "", ""
			deltas = append(deltas, map[string]any{"type": "thinking_delta", "thinking": b["thinking"]}, map[string]any{"type": "signature_delta", "signature": b["signature"]})
		case "tool_use":
			args := string(b["input"].(json.RawMessage))
			start["input"] = map[string]any{}
			half := len(args) / 2
			deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": args[:half]}, map[string]any{"type": "input_json_delta", "partial_json": args[half:]})
		}
		event("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, d := range deltas {
			event("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		if s.cut {
			return
		}
		event("content_block_stop", map[string]any{"index": i})
	}
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": s.stop(), "stop_sequence": nil}, "usage": map[string]int{"output_tokens": 10}})
	event("message_stop", map[string]any{})
}

func (m *model) chatReply(w http.ResponseWriter, s said) {
	var calls []map[string]any
	for i, c := range s.calls {
		calls = append(calls, map[string]any{"index": i, "id": c.id, "type": "function", "function": map[string]any{"name": c.tool, "arguments": c.args}})
	}
	finish := "stop"
	if len(calls) > 0 {
		finish = "tool_calls"
	}
	if s.ends != "" {
		finish = s.ends
	}
	usage := map[string]int{"prompt_tokens": m.size(), "completion_tokens": 10, "total_tokens": 10 + m.size()}
	id := fmt.Sprintf("chatcmpl-%d", m.n)
	if !m.stream {
		w.Header().Set("Content-Type", "application/json")
		msg := map[string]any{"role": "assistant", "content": s.text}
		if s.think != "" {
			msg["reasoning_content"] = "c2ln" + s.think
		}
		if calls != nil {
			for _, c := range calls {
				delete(c, "index")
			}
			msg["tool_calls"] = calls
		}
		b := mustMarshal(map[string]any{"id": id, "object": "chat.completion", "model": "gpt-5.2", "choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": finish}}, "usage": usage})
		if s.cut {
			b = b[:len(b)/2]
		}
		w.Write(b)
		return
	}
	chunk := func(delta map[string]any, finish any) {
		writeEvents(w, fmt.Sprintf("data: %s\n\n", mustMarshal(map[string]any{"id": id, "object": "chat.completion.chunk", "model": "gpt-5.2",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})))
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	if s.think != "" {
		chunk(map[string]any{"reasoning_content": "c2ln" + s.think}, nil)
	}
	if s.text != "" {
		chunk(map[string]any{"content": s.text}, nil)
	}
	for i := range calls {
		for _, piece := range s.calls[i].pieces(i, max(1, s.names)) {
			chunk(map[string]any{"tool_calls": []any{piece}}, nil)
		}
	}
	if s.cut {
		return
	}
	chunk(map[string]any{}, finish)
	writeEvents(w, fmt.Sprintf("data: %s\n\n", mustMarshal(map[string]any{"id": id, "object": "chat.completion.chunk", "model": "gpt-5.2", "choices": []any{}, "usage": usage})), "data: [DONE]\n\n")
}

// pieces are the chunks of a streamed call of which the name comes in n pieces.
func (u use) pieces(index, n int) (out []map[string]any) {
	for i := range n {
		fn := map[string]any{"name": u.tool[i*len(u.tool)/n : (i+1)*len(u.tool)/n]}
		c := map[string]any{"index": index, "function": fn}
		if i == 0 {
			c["id"], c["type"] = u.id, "function"
		}
		if i == n-1 {
			fn["arguments"] = u.args
		}
		out = append(out, c)
	}
	return out
}

// talker is a client of one conversation on one wire.
type talker struct {
	g    *rig
	id   string
	chat bool
	strm bool
	msgs []string
	// replied is the last reply as the client read it.
	replied string
	status  int
}

func (k *talker) body() []byte {
	if k.chat {
		stream := ""
		if k.strm {
			stream = `"stream":true,"stream_options":{"include_usage":true},`
		}
		return []byte(`{"model":"gpt-5.2",` + stream + `"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"Be brief."},` + strings.Join(k.msgs, ",") + `]}`)
	}
	b := anthropicBody(k.msgs...)
	if k.strm {
		b = bytes.Replace(b, []byte(`{"model"`), []byte(`{"stream":true,"model"`), 1)
	}
	return b
}

func (k *talker) path() string {
	if k.chat {
		return chatPath
	}
	return anthropicPath
}

// ask sends the conversation and returns all bodies the model got for it.
func (k *talker) ask() (rounds [][]byte) {
	k.g.t.Helper()
	k.g.mu.Lock()
	before := len(k.g.whole)
	k.g.mu.Unlock()
	resp, got, err := k.g.do(k.g.request(context.Background(), "POST", k.path(), k.body(), sessionHeader, k.id))
	if err != nil {
		k.g.t.Fatalf("the reply broke off: %v\n%s", err, got)
	}
	k.replied, k.status = string(got), resp.StatusCode
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	return k.g.whole[before:]
}

// takes appends the reply as the client understands it, and returns it.
func (k *talker) takes() string {
	k.g.t.Helper()
	var loop wire.Loop
	if k.chat {
		loop = openai.Codec{}.Loop(k.strm, wire.LoopOptions{})
	} else {
		loop = anthropic.Codec{}.Loop(k.strm, wire.LoopOptions{})
	}
	loop.Feed([]byte(k.replied))
	_, round := loop.Close()
	if round.Element == nil {
		k.g.t.Fatalf("no message in the reply %s", k.replied)
	}
	k.msgs = append(k.msgs, string(round.Element))
	return string(round.Element)
}

// long is a text of about n tokens.
func long(what string, n int) string {
	return strings.Repeat(what+" was looked at and found to be in order. ", n/10)
}

// grown is a conversation with enough in it to fold.
func (g *rig) grown(id string, chat, stream bool) *talker {
	g.t.Helper()
	g.play(stream, chat)
	k := &talker{g: g, id: id, chat: chat, strm: stream}
	for i := range 8 {
		k.msgs = append(k.msgs, user(fmt.Sprintf("task %d: %s", i, long("the file", 2500))))
		k.ask()
		k.takes()
	}
	k.msgs = append(k.msgs, user("now the last task"))
	return k
}

const summary = "The files of tasks one to four were read and are in order; nothing is left to do in them, and no question is open about them."

func compress(id, from, to string) use {
	return use{id, "hf_compress", fmt.Sprintf(`{"content":[{"startId":%q,"endId":%q,"summary":%q}]}`, from, to, summary)}
}

func (k *talker) mode() string {
	return map[bool]string{true: "chat", false: "anthropic"}[k.chat] + map[bool]string{true: " stream", false: ""}[k.strm]
}

// onEach runs a test on both wires, streaming and not.
func onEach(t *testing.T, do func(t *testing.T, g *rig, chat, stream bool)) {
	for _, chat := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run((&talker{chat: chat, strm: stream}).mode(), func(t *testing.T) {
				g := newRig(t, config.On)
				g.close()
				g.options = func(o *chain.Options) {
					o.Pause = func(context.Context, time.Duration) error { return nil }
				}
				g.open()
				do(t, g, chat, stream)
			})
		}
	}
}

// TestFold: the model folds in the middle of a turn. The fold is in the very
// next round, the client sees nothing of it, the next turns carry it, also
// after a restart, and the prefix up to the fold is as before.
func TestFold(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("fold", chat, stream)
		g.play(stream, chat, said{think: "tidy", text: "First I tidy up. ", calls: []use{compress("own_1", "m00002", "m00009")}}, said{think: "go", text: "All done."})
		rounds := k.ask()
		if len(rounds) != 2 {
			t.Fatalf("%d rounds, want 2; the client got %s", len(rounds), k.replied)
		}
		if strings.Contains(k.replied, "hf_") || strings.Contains(k.replied, "own_1") {
			t.Errorf("the client sees our call: %s", k.replied)
		}
		first, second := string(rounds[0]), string(rounds[1])
		if !strings.Contains(second, "[fold b1") || strings.Contains(second, "task 2") || !strings.Contains(second, "own_1") {
			t.Errorf("the second round is\n%s", clipped(second))
		}
		if n := commonPrefix(first, second); !strings.Contains(second[:n], "task 0") {
			t.Errorf("the prefix before the fold changed: %s", clipped(second[max(0, n-100):]))
		}
		k.takes()
		if turn := g.lastTurn(); turn.Rounds != 2 || turn.Gate != "" {
			t.Errorf("turn %+v", turn)
		}
		k.msgs = append(k.msgs, user("and one more"))
		third := string(k.ask()[0])
		if n := commonPrefix(second, third); n < len(second)-400 {
			t.Errorf("the next turn leaves the second round's body at %d of %d: %s", n, len(second), clipped(third[n:]))
		}
		if !chat && !strings.Contains(third, "c2lntidy") {
			t.Error("the reasoning of the private round is gone")
		}
		g.replaysWhole(third)
		if n := g.chain.Status().Folded; n == 0 {
			t.Error("no call is counted as folded")
		}
		g.restart()
		if again := string(k.ask()[0]); again != third {
			n := commonPrefix(again, third)
			t.Errorf("after a restart the body differs at %d:\n%s\n%s", n, clipped(again[n:]), clipped(third[n:]))
		}
		g.expect("after the restart", g.lastTurn(), session.PathSnapshot, session.NoGate)
		g.setMode(config.Off)
		if off := string(k.ask()[0]); off != third {
			n := commonPrefix(off, third)
			t.Errorf("the full path differs at %d:\n%s\n%s", n, clipped(off[n:]), clipped(third[n:]))
		}
		g.verifyAll()
	})
}

// replaysWhole wants the last turn's outbound body back from the ledger.
func (g *rig) replaysWhole(want string) {
	g.t.Helper()
	got, err := chain.Replay(g.t.Context(), g.db, g.lastTurn().ID, chain.Outbound)
	if err != nil || string(got) != want {
		g.t.Errorf("replay: %v, %d bytes, want %d", err, len(got), len(want))
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func clipped(s string) string { return s[:min(len(s), 3000)] }

// TestAdditions: a request that offers tools gets our four and one paragraph,
// the same on every turn; one that offers none leaves as it came.
func TestAdditions(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := &talker{g: g, id: "additions", chat: chat, strm: stream}
		g.play(stream, chat)
		for i := range 3 {
			k.msgs = append(k.msgs, user(fmt.Sprint("question ", i)))
			sent := k.ask()[0]
			if bytes.Count(sent, []byte("# Folded history")) != 1 || bytes.Count(sent, []byte(`"name":"hf_`)) != 4 {
				t.Errorf("turn %d sent %s", i, sent)
			}
			if got := stripped(sent); !bytes.Equal(got, k.body()) {
				t.Errorf("turn %d is not the client's otherwise: %s", i, got)
			}
			g.replaysWhole(string(sent))
			k.takes()
		}
	})
	g := newRig(t, config.On)
	body := toolless(anthropicBody(user("no tools")))
	if g.send(anthropicPath, body, sessionHeader, "plain"); !bytes.Equal(g.lastWhole(), body) {
		t.Errorf("sent %s", g.lastWhole())
	}
}

// TestSecondCompaction: a host's own compaction whose result is as long as what
// it replaced is no edit behind a fold: what it says is what the model reads. An
// old result that is cleared in place stays behind its fold.
func TestSecondCompaction(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("compacted", chat, stream)
		g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00009")}}, said{text: "Done."})
		k.ask()
		k.takes()
		k.msgs = append(k.msgs, user("go on"))
		g.play(stream, chat)
		k.ask()
		k.msgs[4] = user("cleared in place")
		if sent := string(k.ask()[0]); strings.Contains(sent, "cleared in place") || !strings.Contains(sent, "[fold b1") {
			t.Errorf("an edit behind a fold gave %s", clipped(sent))
		}
		g.expect("the edit", g.lastTurn(), session.PathSnapshot, session.NoGate)
		k.msgs[0], k.msgs[1], k.msgs[2] = user("the session so far, once more"), assistant("understood"), user("the second summary")
		sent := string(k.ask()[0])
		if !strings.Contains(sent, "the second summary") || !strings.Contains(sent, "once more") || strings.Contains(sent, "[fold b1 ·") {
			t.Errorf("a compaction gave %s", clipped(sent))
		}
		g.expect("the compaction", g.lastTurn(), session.PathFull, session.NoGate)
		if again := string(k.ask()[0]); again != sent {
			t.Errorf("the next turn differs: %s", clipped(again))
		}
		g.expect("the next turn", g.lastTurn(), session.PathSnapshot, session.NoGate)
		g.verifyAll()
	})
}

// TestFoldsWhatIsShown: where the full path serves, what the client took away is
// neither shown nor offered for folding; on the snapshot path it is both.
func TestFoldsWhatIsShown(t *testing.T) {
	for _, mode := range []config.RolloutMode{config.On, config.Shadow, config.Off} {
		g := newRig(t, config.On)
		k := g.grown("shown", false, false)
		k.ask()
		g.setMode(mode)
		k.msgs = slices.Delete(k.msgs, 2, 4)
		g.play(false, false, said{calls: []use{{"own_1", "hf_status", `{"view":"messages","limit":100}`}}}, said{text: "Done."})
		rounds := k.ask()
		if n := strings.Count(string(rounds[1]), "task 1: "); (n > 0) != (mode == config.On) || mode == config.On && n != 2 {
			t.Errorf("mode %s: what was taken away is there %d times", mode, n)
		}
	}
}

// TestKillSwitch: with folding off, requests leave as they came, from the next
// turn on; a session with folds keeps them, and what opens them.
func TestKillSwitch(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		plain, folded := g.grown("plain", chat, stream), g.grown("folded", chat, stream)
		g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00009")}}, said{text: "Done."})
		folded.ask()
		folded.takes()
		folded.msgs = append(folded.msgs, user("go on"))
		g.play(stream, chat)
		with := folded.ask()[0]
		g.folding(false)
		if sent := plain.ask()[0]; !bytes.Equal(sent, plain.body()) {
			t.Errorf("with folding off the client's body leaves as %s", clipped(string(sent)))
		}
		g.expect("without folding", g.lastTurn(), session.PathSnapshot, session.NoGate)
		if sent := folded.ask()[0]; !bytes.Equal(sent, with) {
			t.Errorf("a session with folds leaves as %s", clipped(string(sent)))
		}
		g.folding(true)
		if sent := plain.ask()[0]; !bytes.Equal(stripped(sent), plain.body()) || bytes.Equal(sent, plain.body()) {
			t.Errorf("with folding on again it leaves as %s", clipped(string(sent)))
		}
	})
}

// TestCopyInherits: a copy of a folded conversation under another id has the
// folds from its first turn on.
func TestCopyInherits(t *testing.T) {
	onEach(t, func(t *testing.T, g *rig, chat, stream bool) {
		k := g.grown("original", chat, stream)
		g.play(stream, chat, said{calls: []use{compress("own_1", "m00002", "m00009")}}, said{text: "Done."})
		k.ask()
		k.takes()
		k.msgs = append(k.msgs, user("go on"))
		k.ask()
		k.id = "copy"
		for i := range 2 {
			if sent := string(k.ask()[0]); strings.Count(sent, "\nThe files of tasks one to four") != 0 || !strings.Contains(sent, "[fold b1 ·") || strings.Contains(sent, "task 2:") {
				t.Errorf("turn %d of the copy sent %s", i, clipped(sent))
			}
			g.restart()
		}
		g.verifyAll()
	})
}

const reminder = "[reminder from the system"

// TestNudge: a conversation that has grown is asked to fold at its end, in that
// request only, and the turn replays with it.
func TestNudge(t *testing.T) {
	g := newRig(t, config.On)
	g.setAnswer(g.countsWell)
	var msgs []string
	var before []byte
	nudged := 0
	for i := 0; i < 60 && nudged < 2; i++ {
		msgs = append(msgs, user(fmt.Sprintf("task %d: %s", i, long("the file", 2500))))
		g.send(anthropicPath, anthropicBody(msgs...), sessionHeader, "nudge")
		sent := g.lastWhole()
		g.replaysWhole(string(sent))
		at := bytes.Index(sent, []byte(reminder))
		if at >= 0 {
			nudged++
			if tail := len(sent) - at; bytes.Count(sent, []byte(reminder)) != 1 || tail > 8000 {
				t.Errorf("turn %d: the reminder stands %d bytes before the end", i, tail)
			}
		}
		// the element that had it is spelled as a list of blocks, no other one is
		asked := bytes.LastIndex(before, []byte(`{"role":"user","content":`))
		if n := commonPrefix(string(before), string(sent)); len(before) > 0 && at < 0 && n < asked {
			t.Errorf("turn %d: the prefix broke at %d, before the element with the reminder at %d", i, n, asked)
		}
		before = sent
		msgs = append(msgs, assistant(fmt.Sprintf("answer %d", i)))
	}
	if nudged < 2 {
		t.Errorf("asked %d times", nudged)
	}
	if c := g.takeCauses(); len(c) > 0 {
		t.Errorf("degraded %v", c)
	}
}
