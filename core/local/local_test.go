package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/usage"
)

func words(n int, of string) string { return strings.Repeat(of+" ", n) }

func chatBody(stream bool, texts ...string) string {
	var list []map[string]string
	for i, text := range texts {
		list = append(list, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	b, _ := json.Marshal(map[string]any{"messages": list, "stream": stream})
	return string(b)
}

// Two conversations keep a slot each, and every request names its
// slot.
func TestK13_K22_K25_K47_SlotsPerConversation(t *testing.T) {
	f := newFake(t, 2)
	e := on(t, f)
	a, b := words(100, "tide"), words(100, "ebb")
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, a))
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, b))
	second := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, a, "So be it.", "And now?"))
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, b, "So be it.", "And now?"))
	if got, want := f.calls(), []string{"chat in 0", "chat in 1", "chat in 0", "chat in 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if r := second.receipt; r.Source != usage.FromSlot || r.Restored != 101 || r.Promised == 0 {
		t.Errorf("%+v", r)
	}
}

// Of a slot that holds a short common prefix and an empty one, and of
// shorter, equal and longer ones, the longest wins.
func TestKV30_LongestPrefixWins(t *testing.T) {
	f := newFake(t, 3)
	e := on(t, f)
	for _, text := range []string{words(80, "tide"), words(160, "tide"), words(100, "ebb")} {
		ask(t, e, "POST", "/v1/chat/completions", chatBody(false, text+"end"))
	}
	before := len(f.calls())
	got := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, words(160, "tide")+"and more"))
	if calls := f.calls()[before:]; len(calls) == 0 || got.receipt.Restored < 150 {
		t.Errorf("%q %+v", calls, got.receipt)
	}
}

// A slot that takes another conversation with next to nothing in common reuses
// none of it, so that what is stored of the new one is its own.
func TestK21_K24_NothingReusedOfAnotherConversation(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, words(100, "tide")))
	r := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, words(100, "ebb")))
	if got, want := f.calls(), []string{"chat in 0", "chat afresh in 0"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if r.receipt.RestReason == "" {
		t.Errorf("a cold prompt does not say why: %+v", r.receipt)
	}
}

// A request that only goes on is sent at once: nothing is rendered or
// looked up for it.
func TestK42_KV29_GoingOnRendersNothing(t *testing.T) {
	before := chatBody(false, "one")
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"goes on":          {chatBody(false, "one", "two", "three"), true},
		"the same":         {before, true},
		"edited":           {chatBody(false, "ones", "two", "three"), false},
		"other frame":      {chatBody(true, "one", "two", "three"), false},
		"shorter":          {`{"messages":[]}`, false},
		"no messages":      {`{"input":[]}`, false},
		"not JSON":         {`messages`, false},
		"longer last text": {strings.Replace(before, "one", "one more", 1), false},
	} {
		if got := extends([]byte(before), []byte(c.body)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Without the tier a route's bytes pass both ways as they are.
func TestOffPassesEverything(t *testing.T) {
	f := newFake(t, 2)
	e := New(Options{Host: standing{engine.NewClient(f.url, "")}, Log: on(t, f).log})
	defer e.Close()
	for _, path := range []string{"/v1/messages", "/v1/embeddings?x=1"} {
		if a := ask(t, e, "POST", path, `{ "odd" : 1 }`); a.body != "as it is" {
			t.Errorf("%+v", a)
		}
	}
	if got, want := f.calls(), []string{`POST /v1/messages { "odd" : 1 }`, `POST /v1/embeddings?x=1 { "odd" : 1 }`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What a client did not ask for does not reach it; what it asked for does.
func TestProgressIsOurs(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	quiet := ask(t, e, "POST", "/v1/chat/completions", chatBody(true, "one"))
	if strings.Contains(quiet.body, "prompt_progress") || !strings.HasSuffix(quiet.body, "data: [DONE]\n\n") {
		t.Errorf("%s", quiet.body)
	}
	asked := ask(t, e, "POST", "/v1/chat/completions", strings.Replace(chatBody(true, "one"), "{", `{"return_progress":true,`, 1))
	if !strings.Contains(asked.body, "prompt_progress") {
		t.Errorf("%s", asked.body)
	}
}

// Our fields win over a client's own of the same name.
func TestFields(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`:             `{"a":1,"id_slot":3,"cache_prompt":true}`,
		`{"id_slot":9,"a":1}`: `{"id_slot":9,"a":1,"id_slot":3,"cache_prompt":true}`,
		`{}`:                  `{"id_slot":3,"cache_prompt":true}`,
	} {
		if got := string(fields([]byte(body), 3, true, false)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", body, got)
		}
	}
}

// A client that leaves in the middle gives its slot back, and of the slot only
// the common part is believed.
func TestClientLeaves(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	ask(t, e, "POST", "/v1/chat/completions", chatBody(true, words(100, "tide")))
	f.hold, f.held = make(chan struct{}), make(chan struct{}, 9)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", "http://local/v1/chat/completions", strings.NewReader(chatBody(true, words(100, "ebb"))))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error)
	go func() {
		_, err := e.RoundTrip(req)
		left <- err
	}()
	<-f.held // it is in the middle
	leave()
	if err := <-left; err == nil {
		t.Error("a reply for a client that left")
	}
	close(f.hold)
	if a := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, words(100, "ebb"))); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

// A stream that breaks off is passed on as one: nothing makes it look whole.
func TestBrokenStream(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	f.reply = "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"delta\":{\"content\":\"So\"}}]}\n\n"
	a := ask(t, e, "POST", "/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if !strings.Contains(a.body, `"text":"So"`) || strings.Contains(a.body, "message_stop") {
		t.Errorf("%s", a.body)
	}
}

func TestErrorsInTheClientsWords(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	for name, c := range map[string]struct {
		path, body, want string
		status           int
	}{
		"K17 an image": {"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, "images cannot be sent", 400},
		"image in a result": {"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}]}]}`,
			"messages.0: tool_result: images cannot be sent", 400},
		"server tool":   {"/v1/messages", `{"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[]}`, "runs on Anthropic's servers", 400},
		"not JSON":      {"/v1/messages", `{`, "not a Messages request", 400},
		"not an object": {"/v1/chat/completions", `[]`, "not a JSON object", 400},
	} {
		a := ask(t, e, "POST", c.path, c.body)
		var in struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(a.body), &in); err != nil || a.status != c.status || !strings.Contains(in.Error.Message, c.want) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if c.path == "/v1/messages" && (in.Type != "error" || in.Error.Type != "invalid_request_error") {
			t.Errorf("%s: not the shape Anthropic's clients read: %s", name, a.body)
		}
	}
	if got := errorText([]byte(`{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`)); got != "prompt is too long: 9000 tokens > 4096 maximum" {
		t.Errorf("clients compact by themselves when they read it the usual way, got %q", got)
	}
}

func TestCountTokens(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	a := ask(t, e, "POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"one two three"}]}`)
	if a.body != `{"input_tokens":4}` {
		t.Errorf("%s", a.body)
	}
}

// An engine that goes away under a request is asked again in its next
// life.
func TestK41_AnEngineGoesAway(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	lives := 0
	e.o.Host = hostFunc(func(context.Context) (engine.Running, error) {
		lives++
		at := f.url
		if lives == 1 {
			at = "http://127.0.0.1:1"
		}
		return engine.Running{Client: engine.NewClient(at, ""), Life: lives}, nil
	})
	e.life.Store(nil)
	if _, err := e.contact(t.Context()); err == nil {
		t.Fatal("nobody answers there")
	}
	a := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, "one"))
	if a.status != 200 || lives < 2 {
		t.Errorf("%+v after %d lives", a, lives)
	}
}

// Its host may learn of the end later than who talks to it: the request waits for
// that, and is not sent to the dead once more.
func TestK41_TheEndIsNoticedLate(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	h := &lateHost{at: f.url}
	e.o.Host = h
	e.life.Store(nil)
	a := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, "one"))
	if a.status != 200 || h.asked != 1 {
		t.Errorf("%+v, asked %d times", a, h.asked)
	}
}

// lateHost gives an engine that has ended until somebody asks for its end.
type lateHost struct {
	at    string
	asked int
}

func (h *lateHost) Running(context.Context) (engine.Running, error) {
	if h.asked == 0 {
		return engine.Running{Client: engine.NewClient("http://127.0.0.1:1", ""), Life: 1}, nil
	}
	return engine.Running{Client: engine.NewClient(h.at, ""), Life: 2}, nil
}

func (h *lateHost) Ended(_ context.Context, life int) error {
	if life == 1 {
		h.asked++
	}
	return nil
}

type hostFunc func(context.Context) (engine.Running, error)

func (h hostFunc) Running(ctx context.Context) (engine.Running, error) { return h(ctx) }

// The reply's bytes may come in any pieces.
func TestStreamInPieces(t *testing.T) {
	text := "data: {\"id\":\"chatcmpl-1\",\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n" +
		"data: {\"choices\":[{\"finish_reason\":\"tool_calls\",\"delta\":{}}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
	whole := ""
	for n := 1; n < 40; n += 3 {
		tk := &ticket{e: New(Options{Log: on(t, newFake(t, 1)).log}), settled: true}
		s := &stream{from: io.NopCloser(&pieces{text, n}), ticket: tk, turn: &messageStream{}}
		s.split = splitter(s.turn, tk.hear, &s.out)
		got, err := io.ReadAll(s)
		tk.e.Close()
		if err != nil {
			t.Fatal(err)
		}
		if whole == "" {
			whole = string(got)
		}
		if string(got) != whole {
			t.Fatalf("in pieces of %d: %s", n, got)
		}
	}
	for _, want := range []string{`"stop_reason":"tool_use"`, `"name":"f"`, `"partial_json":"{"`, fmt.Sprintf("%q", "message_stop")} {
		if !strings.Contains(whole, want) {
			t.Errorf("no %s in %s", want, whole)
		}
	}
}

// pieces is a reader of at most n bytes at a time.
type pieces struct {
	text string
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.text)
	p.text = p.text[n:]
	return n, nil
}

// A client's billing line changes with every request; with it in the prompt no
// prefix would ever be reused.
func TestK43_BillingLine(t *testing.T) {
	body := func(line string) []byte {
		return []byte(`{"max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=` + line + `;"},{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"x"}]}`)
	}
	a, _, err := toChat(body("11111"))
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := toChat(body("22222"))
	if err != nil || string(a) != string(b) || !strings.Contains(string(a), "Be brief.") {
		t.Errorf("%v\n%s\n%s", err, a, b)
	}
}

// What a client takes away or changes late in its history costs what stands
// behind it, and no more.
func TestK45_K48_LateChangeKeepsThePrefix(t *testing.T) {
	f := newFake(t, 2)
	e := on(t, f)
	long := words(200, "tide")
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, long, "So be it.", "reminder: the clock is slow"))
	r := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, long, "So be it.", "what now"))
	if r.receipt.Restored < 200 || r.receipt.Promised < 200 {
		t.Errorf("%+v", r.receipt)
	}
}

// An engine that serves many models behind one address names none: the tier
// stays out, says why, and the route goes on.
func TestK6_RouterMode(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	l, err := e.contact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.weights(l); err == nil || !strings.Contains(err.Error(), "router mode") {
		t.Errorf("%v", err)
	}
	l.set(func() { l.closed = kv.MissNoWeights })
	a := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, "one"))
	if a.status != 200 || a.receipt.RestReason != string(kv.MissNoWeights) || !slices.Contains(f.calls(), "chat anywhere") {
		t.Errorf("%+v %q", a, f.calls())
	}
}

// What was found out about an engine holds for one build, model and set of
// flags: after an upgrade it is tried out again.
func TestK40_FindingsAreOfOneBuild(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engines.json")
	if err := OpenFindings(file).put("b1 model flags", Ability{Verdict: Proven, Streams: 2}); err != nil {
		t.Fatal(err)
	}
	again := OpenFindings(file)
	if a, ok := again.get("b1 model flags"); !ok || a.Verdict != Proven || a.Streams != 2 {
		t.Errorf("%+v", a)
	}
	if _, ok := again.get("b2 model flags"); ok {
		t.Error("another build is taken for proven")
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := OpenFindings(file).get("b1 model flags"); ok {
		t.Error("a damaged file proves something")
	}
}

// After a fold the changed prompt is computed while nobody waits for it; the
// next request finds it in its slot.
func TestWarmAfterFold(t *testing.T) {
	f := newFake(t, 2)
	e := on(t, f)
	long := words(100, "tide")
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, long, "long reply", "long question"))
	folded := chatBody(false, long, "summary", "then")
	if err := e.warm(chatWire{}, []byte(folded), unreported, &sent{}); err != nil {
		t.Fatal(err)
	}
	r := ask(t, e, "POST", "/v1/chat/completions", chatBody(false, long, "summary", "then", "So be it.", "next"))
	if got, want := f.calls(), []string{"chat in 0", "prompt in 0", "chat in 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if r.receipt.Restored < 105 {
		t.Errorf("%+v", r.receipt)
	}
	if err := e.warm(chatWire{}, []byte(chatBody(false, words(100, "ebb"))), unreported, &sent{}); err != nil {
		t.Fatal(err)
	}
	if n := len(f.calls()); n != 3 {
		t.Errorf("another conversation was computed ahead: %q", f.calls())
	}
}

// A prompt that a slot holds whole is reused but for the token that is always
// computed: that is all that can be promised, and nothing was taken.
func TestReceiptOfAWholePrompt(t *testing.T) {
	tk := &ticket{e: New(Options{Log: on(t, newFake(t, 1)).log}), promised: 10, source: usage.FromSlot}
	for _, c := range []struct {
		in   engine.Timings
		want kv.Tokens
		rest string
	}{
		{engine.Timings{Cached: 9, Prompt: 1}, 9, ""},
		{engine.Timings{Cached: 10, Prompt: 4}, 10, ""},
		{engine.Timings{Cached: 3, Prompt: 7}, 9, string(kv.MissSlotTaken)},
	} {
		tk.timings = &c.in
		if r := tk.receipt(); r.Promised != c.want || r.Restored != c.in.Cached || r.RestReason != c.rest {
			t.Errorf("%+v gives %+v", c.in, r)
		}
	}
}
