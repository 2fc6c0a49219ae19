package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/storage/segment"
)

// unreported is a call of nobody.
var unreported = upstream.Call{Report: func(usage.Receipt) {}}

// tells asks for a conversation and reads the reply to its end.
func tells(t *testing.T, e *Engine, c upstream.Call, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(upstream.WithCall(t.Context(), c), "POST", "http://local/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := e.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

// shown is a conversation's prompt in one form, "unknown" for none.
func shown(e *Engine, conversation string) string {
	p, ok := e.Prompt(conversation)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%d of %d", p.Resident, p.Total)
}

// TestPromptOfConversations: of each conversation its last prompt counts, and of
// it what a slot still begins with, whoever is in the slot.
func TestPromptOfConversations(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	tide, ebb := upstream.Call{Conversation: "tide"}, upstream.Call{Conversation: "ebb"}
	if got := shown(e, "tide"); got != "unknown" {
		t.Errorf("before the first request: %s", got)
	}
	tells(t, e, tide, chatBody(false, words(200, "tide")))
	if got := shown(e, "tide"); got != "201 of 201" {
		t.Errorf("after its own request: %s", got)
	}
	tells(t, e, ebb, chatBody(false, words(100, "tide")+"ebb"))
	if a, b := shown(e, "tide"), shown(e, "ebb"); a != "101 of 201" || b != "102 of 102" {
		t.Errorf("after another took the slot from the middle on: %s and %s", a, b)
	}
	tells(t, e, upstream.Call{}, chatBody(false, words(100, "surf")))
	if a, b := shown(e, "tide"), shown(e, "ebb"); a != "1 of 201" || b != "1 of 102" {
		t.Errorf("after a stranger took the slot: %s and %s", a, b)
	}
	e.lost(e.life.Load())
	if got := shown(e, "tide"); got != "0 of 201" {
		t.Errorf("without an engine: %s", got)
	}
}

// TestPromptThatGoesOn: while a request that only goes on is under way, what is
// new in it counts as not there; the reply's end and the reckoning behind it put
// that right.
func TestPromptThatGoesOn(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	call := upstream.Call{Conversation: "tide"}
	tells(t, e, call, chatBody(true, words(100, "tide")))
	tk := &ticket{e: e, life: e.life.Load(), call: call, req: request{body: []byte(chatBody(true, words(100, "tide"), "So be it.", words(100, "ebb")))}}
	if tk.slot = e.going(tk.life, tk.req); tk.slot == nil {
		t.Fatal("it goes on where the slot stopped")
	}
	tk.arrive()
	if got := shown(e, "tide"); got != "unknown" {
		t.Errorf("before it has a slot: %s", got)
	}
	tk.goOn()
	p, ok := e.Prompt("tide")
	if !ok || p.Resident != 101 || p.Total <= 150 {
		t.Errorf("under way: %+v", p)
	}
	tk.hear([]byte(`{"prompt_progress":{"total":207,"cache":101,"processed":150}}`))
	if got := shown(e, "tide"); got != "101 of 207" {
		t.Errorf("when the engine has said how long it is: %s", got)
	}
	tk.ended = true
	tk.finish()
	wait(t, e, "tide", "206 of 206")
}

// wait waits for what is reckoned behind a reply.
func wait(t *testing.T, e *Engine, conversation, want string) {
	t.Helper()
	for shown(e, conversation) != want {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s", shown(e, conversation))
		case <-time.After(time.Millisecond):
		}
	}
}

// TestPromptAfterAFold: from the fold on, the prompt that will be sent is the one
// that is computed ahead.
func TestPromptAfterAFold(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	call := upstream.Call{Conversation: "tide"}
	tells(t, e, call, chatBody(false, words(100, "tide"), words(50, "long"), "question"))
	f.hold = make(chan struct{})
	e.Warm(call, "/v1/chat/completions", []byte(chatBody(false, words(100, "tide"), "summary", "question")))
	// Rendered and not computed: the part before the fold is there.
	wait(t, e, "tide", "102 of 105")
	close(f.hold)
	wait(t, e, "tide", "105 of 105")
}

// TestPromptIsRecalled: a prompt of before the program's start is rendered again
// from what was sent, once, and only by an engine that is in use.
func TestPromptIsRecalled(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	call, at := upstream.Call{Conversation: "tide"}, time.UnixMilli(1)
	body := chatBody(false, words(100, "tide"))
	tells(t, e, upstream.Call{}, body)
	e.Recall(call, at, "/v1/chat/completions", []byte(body))
	wait(t, e, "tide", "101 of 101")
	e.Recall(call, at, "/v1/chat/completions", []byte(chatBody(false, "one")))
	e.Recall(upstream.Call{Conversation: "odd"}, at, "/v1/messages", []byte("odd"))
	e.Recall(upstream.Call{Conversation: "ebb"}, at, "/v1/messages", []byte(`{"messages":[{"role":"user","content":"tide tide"}]}`))
	wait(t, e, "ebb", "3 of 3")
	if a, b := shown(e, "tide"), shown(e, "odd"); a != "101 of 101" || b != "unknown" {
		t.Errorf("%s and %s", a, b)
	}
	e.lost(e.life.Load())
	e.Recall(upstream.Call{Conversation: "surf"}, at, "/v1/chat/completions", []byte(body))
	e.prompts.mu.Lock() // the odd one may only now be forgotten
	asked := e.prompts.last["surf"] != nil
	e.prompts.mu.Unlock()
	if asked {
		t.Error("without an engine in use, one is asked")
	}
	if got := f.calls(); len(got) != 1 {
		t.Errorf("something was computed: %q", got)
	}
}

// TestPromptAsksNobody: whoever holds the lock of a first contact, with an engine
// that does not answer, does not hold up the picture.
func TestPromptAsksNobody(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	tells(t, e, upstream.Call{Conversation: "tide"}, chatBody(false, words(100, "tide")))
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := shown(e, "tide"); got != "101 of 101" {
		t.Errorf("%s", got)
	}
	if _, ok := e.Condition(); !ok {
		t.Error("the condition is not told")
	}
}

// TestPromptOfAnEngineLeftAlone: where the tier stays out, the engine chooses the
// slot, and nothing is said of what it holds.
func TestPromptOfAnEngineLeftAlone(t *testing.T) {
	e := on(t, newFake(t, 1))
	e.life.Load().set(func() { e.life.Load().closed = kv.MissNoWeights })
	tells(t, e, upstream.Call{Conversation: "tide"}, chatBody(false, "one"))
	if got := shown(e, "tide"); got != "unknown" {
		t.Errorf("%s", got)
	}
}

// TestPromptsAreBounded: the oldest go first, the newest stays whatever its
// length, and a length that comes late for an old one is not taken.
func TestPromptsAreBounded(t *testing.T) {
	p := newPrompts()
	first := &sent{conversation: "c0", ids: make([]kv.Token, keptTokens/4), total: 1, life: &life{}}
	p.put(first)
	for i := range 5 {
		p.put(&sent{conversation: fmt.Sprint("c", i+1), ids: make([]kv.Token, keptTokens/4), total: 1, life: &life{}})
	}
	p.learn(first, []kv.Token{1}, 9)
	if _, ok := p.of("c0"); ok || len(p.order) != 4 || len(p.last) != 4 || p.tokens != keptTokens {
		t.Errorf("%d in order, %d by name, %d tokens", len(p.order), len(p.last), p.tokens)
	}
	for i := range 2 * keptPrompts {
		p.put(&sent{conversation: fmt.Sprint("d", i)})
	}
	if len(p.order) != keptPrompts || len(p.last) != keptPrompts {
		t.Errorf("%d in order, %d by name", len(p.order), len(p.last))
	}
	p.put(&sent{conversation: "c9", ids: make([]kv.Token, keptTokens+1), total: 1, life: &life{}})
	if _, ok := p.of("c9"); !ok || len(p.order) != 1 || p.tokens != keptTokens+1 {
		t.Errorf("%d in order, %d tokens", len(p.order), p.tokens)
	}
}

// TestPinnedDate: where the engine's template writes a date, a conversation keeps
// the one it began on, so that midnight breaks no prefix; what a client set
// itself, and engines without such a template, are left alone.
func TestPinnedDate(t *testing.T) {
	since := time.Date(2026, 3, 9, 23, 59, 0, 0, time.Local)
	call := upstream.Call{Conversation: "tide", Since: since}
	for body, want := range map[string]string{
		`{"messages":[]}`: `{"messages":[],"chat_template_kwargs":{"date_string":"09 Mar 2026"}}`,
		`{"chat_template_kwargs":null,"messages":[]}`:                             `{"chat_template_kwargs":{"date_string":"09 Mar 2026"},"messages":[]}`,
		`{"chat_template_kwargs":{"enable_thinking":false},"messages":[]}`:        `{"chat_template_kwargs":{"enable_thinking":false,"date_string":"09 Mar 2026"},"messages":[]}`,
		`{"chat_template_kwargs":{ "date_string" : "1 Apr 2020" },"messages":[]}`: `{"chat_template_kwargs":{ "date_string" : "1 Apr 2020" },"messages":[]}`,
		`{"chat_template_kwargs":"odd","messages":[]}`:                            `{"chat_template_kwargs":"odd","messages":[]}`,
	} {
		if got := string(pin([]byte(body), call)); got != want {
			t.Errorf("%s\nbecame %s", body, got)
		}
		if got := string(pin([]byte(body), upstream.Call{})); got != body {
			t.Errorf("of no conversation, %s\nbecame %s", body, got)
		}
	}
	for template, want := range map[string]string{
		"{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}": `"date_string":"09 Mar 2026"`,
		"{{ messages }}": "",
	} {
		f := newFake(t, 1)
		f.template = template
		e := on(t, f)
		for _, text := range []string{"one", "two"} { // the second is a day later, of the same conversation
			tells(t, e, call, chatBody(false, words(100, text)))
		}
		if got := f.bodies(); len(got) != 2 || slices.ContainsFunc(got, func(b string) bool {
			return strings.Contains(b, "date_string") != (want != "") || !strings.Contains(b, want)
		}) {
			t.Errorf("template %s: %q", template, got)
		}
	}
}

// TestPinnedDateAhead: a prompt computed ahead has the date of the request that
// it is for.
func TestPinnedDateAhead(t *testing.T) {
	f := newFake(t, 1)
	f.template = "date_string"
	e := on(t, f)
	call := upstream.Call{Conversation: "tide", Since: time.Date(2026, 3, 9, 12, 0, 0, 0, time.Local)}
	tells(t, e, call, chatBody(false, words(100, "tide")))
	e.Warm(call, "/v1/chat/completions", []byte(chatBody(false, words(100, "tide"), "summary", "question")))
	wait(t, e, "tide", "105 of 105")
	for _, b := range f.bodies() {
		if !strings.Contains(b, `"date_string":"09 Mar 2026"`) {
			t.Errorf("%s", b)
		}
	}
}

// TestPromptOnDisk: what the store could restore counts as on disk, with the
// engine or without one; a store that cannot be used holds nothing.
func TestPromptOnDisk(t *testing.T) {
	e := on(t, newFake(t, 1))
	store, id := stocked(t)
	e.o.Tier = store
	e.life.Load().set(func() { e.life.Load().identity = &id })
	tells(t, e, upstream.Call{Conversation: "tide"}, chatBody(false, words(200, "tide")))
	ids := e.life.Load().slots.contents()[0]
	if p, _ := e.Prompt("tide"); p.Disk != 0 {
		t.Errorf("before anything is stored: %+v", p)
	}
	done := make(chan error, 1)
	must(t, store.Spill(tier.Request{Model: weights(), State: id, Slots: written{t.TempDir(), id, ids[:128]}, Tokens: ids[:128],
		Session: "tide", Done: func(_ tier.Spilled, err error) { done <- err }}))
	must(t, <-done)
	if p, ok := e.Prompt("tide"); !ok || p.Total != 201 || p.Resident != 201 || p.Disk != 128 {
		t.Errorf("stored: %+v", p)
	}
	e.lost(e.life.Load())
	if p, ok := e.Prompt("tide"); !ok || p.Total != 201 || p.Resident != 0 || p.Disk != 128 {
		t.Errorf("without an engine: %+v", p)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// weights stand for those that the fake engine has.
func weights() kv.ModelIdentity { return kv.ModelIdentity{1} }

// stocked is an open store, and the identity its states are of.
func stocked(t *testing.T) (*tier.Manager, kv.StateIdentity) {
	t.Helper()
	dir := t.TempDir()
	m, err := tier.Open(t.Context(), tier.Options{Limits: tier.Limits{Budget: 1 << 30, Reserve: 1, MinTokens: 64},
		Store: func(context.Context) (tier.Segments, tier.Manifests, error) {
			st, err := segment.Open(dir, segment.Options{})
			return st, st, err
		}})
	must(t, err)
	<-m.Ready()
	t.Cleanup(func() { must(t, m.Close(context.Background())) })
	return m, kv.State{Model: weights(), Engine: "llama-server", Build: "b1", Version: 4, CacheK: "f16", CacheV: "f16", Context: 4096, ByteOrder: "little"}.Identity()
}

// written saves a state as an engine does.
type written struct {
	dir    string
	state  kv.StateIdentity
	tokens []kv.Token
}

func (w written) Save(context.Context, int) (path string, tokens int, size int64, err error) {
	run := kv.Run{Type: 1, Row: 128}
	layout := kv.Layout{Version: slotfile.Version, Memory: kv.Dense, Layers: 2, Runs: []kv.Run{run, run, run, run}}
	m := &kv.Manifest{Model: weights(), State: w.state, Codec: kv.Raw(), Layout: layout, Streams: 1, Tokens: w.tokens}
	block := make([]byte, layout.BlockBytes(kv.BlockTokens))
	for range len(w.tokens) / kv.BlockTokens {
		m.Blocks = append(m.Blocks, kv.BlockOf(block))
	}
	path = filepath.Join(w.dir, "state")
	f, err := os.Create(path)
	if err != nil {
		return "", 0, 0, err
	}
	defer f.Close()
	a, err := slotfile.Assemble(f, m, kv.FillPlan{Tokens: len(w.tokens)}, slotfile.Target{Streams: 1})
	if err != nil {
		return "", 0, 0, err
	}
	for i := range m.Blocks {
		if err := a.Put(i, block); err != nil {
			return "", 0, 0, err
		}
	}
	return path, len(w.tokens), a.Size(), a.Finish()
}
