package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// fake plays an engine: a token is a word, a slot holds the words of its last
// prompt and reply, and the reply is what the test says.
type fake struct {
	url   string
	mu    sync.Mutex
	slots [][]string
	seen  []string // calls, by path and slot
	asked []string // chat bodies
	// template is the chat template it says it has.
	template string
	// reply is the chat reply; "" for a plain one. hold delays replies until it is
	// closed, nil for none; it is not taken away again, since a request that was
	// given up may still be on its way here. held is told of each that waits.
	reply string
	hold  chan struct{}
	held  chan struct{}
}

func newFake(t *testing.T, slots int) *fake {
	f := &fake{slots: make([][]string, slots)}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/props":
		fmt.Fprintf(w, `{"total_slots":%d,"build_info":"fake","model_path":"","chat_template":%q,"default_generation_settings":{"n_ctx":4096}}`, len(f.slots), f.template)
	case r.URL.Path == "/apply-template":
		json.NewEncoder(w).Encode(map[string]string{"prompt": render(body)})
	case r.URL.Path == "/tokenize":
		var in struct{ Content string }
		json.Unmarshal(body, &in)
		ids := []int{}
		for _, word := range strings.Fields(in.Content) {
			ids = append(ids, idOf(word))
		}
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids})
	case strings.HasPrefix(r.URL.Path, "/slots/"):
		f.note(r.URL.RequestURI())
		fmt.Fprint(w, `{}`)
	case r.URL.Path == "/v1/chat/completions":
		f.chat(w, body)
	default:
		f.note(r.Method + " " + r.URL.RequestURI() + " " + string(body))
		fmt.Fprint(w, "as it is")
	}
}

func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, s)
}

func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.seen...)
}

func (f *fake) bodies() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.asked...)
}

func idOf(word string) int {
	n := 7
	for _, c := range word {
		n = (n*31 + int(c)) % 1_000_003
	}
	return n
}

func render(body []byte) string {
	var in struct {
		Messages []struct{ Role, Content string }
	}
	json.Unmarshal(body, &in)
	var b strings.Builder
	for _, m := range in.Messages {
		fmt.Fprintf(&b, "<%s> %s ", m.Role, m.Content)
	}
	return b.String()
}

func (f *fake) chat(w http.ResponseWriter, body []byte) {
	if f.hold != nil {
		if f.held != nil {
			f.held <- struct{}{}
		}
		<-f.hold
	}
	var in struct {
		Slot   *int `json:"id_slot"`
		Stream bool
		Max    *int `json:"max_tokens"`
		Reuse  bool `json:"cache_prompt"`
	}
	json.Unmarshal(body, &in)
	words := strings.Fields(render(body))
	cached := 0
	f.mu.Lock()
	f.asked = append(f.asked, string(body))
	if in.Slot != nil {
		held := f.slots[*in.Slot]
		for cached < min(len(held), len(words)) && held[cached] == words[cached] {
			cached++
		}
		f.slots[*in.Slot] = words
		what := "chat"
		if !in.Reuse {
			what, cached = "chat afresh", 0
		}
		if in.Max != nil && *in.Max == 0 {
			what = "prompt"
		}
		f.seen = append(f.seen, fmt.Sprintf("%s in %d", what, *in.Slot))
	} else {
		f.seen = append(f.seen, "chat anywhere")
	}
	f.mu.Unlock()
	if f.reply != "" {
		kind := "application/json"
		if strings.HasPrefix(f.reply, "data: ") {
			kind = "text/event-stream"
		}
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, f.reply)
		return
	}
	tail := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":%d}},"timings":{"cache_n":%d,"prompt_n":%d,"prompt_ms":%d}`,
		len(words), cached, cached, len(words)-cached, len(words)-cached)
	if !in.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-1","model":"m","choices":[{"finish_reason":"stop","message":{"content":"So be it."}}],%s}`, tail)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}],\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d}}\n\n", len(words), cached, len(words))
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"So be it.\"}}]}\n\n")
	fmt.Fprintf(w, "data: {\"choices\":[{\"finish_reason\":\"stop\",\"delta\":{}}],%s}\n\ndata: [DONE]\n\n", tail)
}

// on is a driver on a fake whose tier is off: it places requests in slots, and
// nothing comes from disk.
func on(t *testing.T, f *fake) *Engine {
	t.Helper()
	m, err := tier.Open(t.Context(), tier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := engine.NewClient(f.url, "")
	dir := t.TempDir()
	e := New(Options{Route: "local", Host: standing{client}, Tier: m, Handover: dir, Weights: engine.OpenWeights(filepath.Join(dir, "w")),
		Findings: OpenFindings(filepath.Join(dir, "f")), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		e.Close()
		client.Close()
	})
	l, err := e.contact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-l.quick
	l.set(func() { l.identity, l.closed = &kv.StateIdentity{}, "" }) // as if it had been tried out
	return e
}

// standing is an engine that runs.
type standing struct{ client *engine.Client }

func (s standing) Running(context.Context) (engine.Running, error) {
	return engine.Running{Client: s.client, Life: 1}, nil
}

// answered is a reply with its receipt.
type answered struct {
	status  int
	header  http.Header
	body    string
	receipt usage.Receipt
}

func ask(t *testing.T, e *Engine, method, path, body string) (a answered) {
	t.Helper()
	ctx := upstream.WithCall(t.Context(), upstream.Call{Report: func(r usage.Receipt) { a.receipt = r }})
	req, err := http.NewRequestWithContext(ctx, method, "http://local"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := e.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(data)
	return a
}
