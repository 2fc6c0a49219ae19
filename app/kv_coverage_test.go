package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/core/session"
)

// wordEngine plays a local engine whose tokens are words, and which takes for
// ever to be tried out: its first erase does not come back.
type wordEngine struct {
	dir    string // of its models, by life
	life   atomic.Int64
	erases atomic.Int64
}

func (f *wordEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/props":
		fmt.Fprintf(w, `{"total_slots":2,"build_info":"fake","model_path":%q,"default_generation_settings":{"n_ctx":4096}}`, f.model())
	case r.URL.Path == "/lora-adapters":
		io.WriteString(w, `[]`)
	case r.URL.Path == "/apply-template":
		json.NewEncoder(w).Encode(map[string]string{"prompt": f.render(body)})
	case r.URL.Path == "/tokenize":
		var in struct{ Content string }
		json.Unmarshal(body, &in)
		ids := []int{}
		for _, word := range strings.Fields(in.Content) {
			n := 7
			for _, c := range word {
				n = (n*31 + int(c)) % 1_000_003
			}
			ids = append(ids, n)
		}
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids})
	case strings.HasPrefix(r.URL.Path, "/slots/"):
		if f.erases.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		io.WriteString(w, `{}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		n := len(strings.Fields(f.render(body)))
		fmt.Fprintf(w, `{"id":"c","model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"So be it."}}],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":3},"timings":{"cache_n":0,"prompt_n":%d,"prompt_ms":1}}`, n, n)
	}
}

func (f *wordEngine) model() string {
	return filepath.Join(f.dir, fmt.Sprintf("m%d.gguf", f.life.Load()))
}

func (f *wordEngine) render(body []byte) string {
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

// tried waits until the engine is being tried out.
func (f *wordEngine) tried() {
	for f.erases.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

// talk is a chat request of texts in turn.
func talk(texts ...string) string {
	var list []map[string]string
	for i, text := range texts {
		list = append(list, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	b, _ := json.Marshal(map[string]any{"model": "m", "messages": list})
	return string(b)
}

// coverageOf is the KV part of a session's coverage as the API has it.
func coverageOf(t *testing.T, r running, id string) (hi int64, kv []session.KVView, text string) {
	t.Helper()
	res := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/sessions/"+id+"/coverage", r.token, nil)
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", res.StatusCode, err, data)
	}
	var c session.CoverageView
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c.PosHi, c.KV, string(data)
}

// onWords is a home whose chat route is an attached engine of words, with the
// tier on.
func onWords(t *testing.T) (*wordEngine, running) {
	t.Helper()
	dir := t.TempDir()
	f := &wordEngine{dir: dir}
	f.weigh(t)
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	slots := filepath.Join(dir, "slots")
	if err := os.Mkdir(slots, 0o700); err != nil {
		t.Fatal(err)
	}
	r, _ := runApp(t, fmt.Sprintf("[rollout]\nmode = \"on\"\n[routes.local]\nurl = %q\nengine = \"llamacpp\"\nslot_dir = %q\ndefault_for = [\"openai\"]\n"+
		"[kv.disk]\nmode = \"fixed\"\nbudget = \"64MiB\"\nreserve = \"1GiB\"\n", srv.URL, slots))
	return f, r
}

// weigh puts the model of this life where the engine says it is.
func (f *wordEngine) weigh(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(f.model(), []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// asks sends a turn of a session through the proxy.
func asks(t *testing.T, r running, session, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.Addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Session-Affinity", session)
	res, err := loopbackClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if data, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", res.StatusCode, err, data)
	}
}

// firstOf is the id of the only session.
func firstOf(t *testing.T, r running) string {
	t.Helper()
	list, _, err := r.engine.views().Sessions(t.Context(), "", 1, 9)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	return list[0].ID
}

// TestCoverageOfALocalEngine: the coverage of a session on a local engine says
// what a slot holds of it, and what it no longer does after another session took
// the slot; the answer has positions and states, no text and no tokens.
func TestCoverageOfALocalEngine(t *testing.T) {
	f, r := onWords(t)
	long := strings.Repeat("tide ", 90)
	asks(t, r, "one", talk(long+strings.Repeat("foam ", 60), "So be it.", "And now?"))
	id := firstOf(t, r)
	hi, kv, text := coverageOf(t, r, id)
	if len(kv) != 1 || kv[0] != (session.KVView{From: 0, To: hi, State: session.KVResident}) || hi == 0 {
		t.Errorf("after its turn: %v of %d", kv, hi)
	}
	if strings.Contains(text, "tide") {
		t.Errorf("text in %s", text)
	}
	f.tried() // which takes the other slot
	asks(t, r, "two", talk(long+"second "+long, "So be it.", "And then?"))
	hi, kv, _ = coverageOf(t, r, id)
	if len(kv) != 1 || kv[0] != (session.KVView{From: 0, To: hi, State: session.KVCold}) {
		t.Errorf("after another took its slot in the first row: %v of %d", kv, hi)
	}
}

// TestCoverageAfterARestart: a driver that is new knows nothing of earlier
// prompts; it finds out when somebody looks, once the engine is in use.
func TestCoverageAfterARestart(t *testing.T) {
	f, r := onWords(t)
	long := strings.Repeat("tide ", 90)
	asks(t, r, "one", talk(long, "So be it.", "And now?"))
	id := firstOf(t, r)
	f.tried() // or the driver's last erase could arrive after it is gone
	r.engine.kv.mu.Lock()
	before := r.engine.kv.drivers["local"]
	delete(r.engine.kv.drivers, "local")
	r.engine.kv.mu.Unlock()
	before.engine.Close()
	f.erases.Store(0)
	// A model nobody knows: for one that is known, requests wait for the trial.
	f.life.Add(1)
	f.weigh(t)
	_, kv, _ := coverageOf(t, r, id)
	if len(kv) != 0 || f.erases.Load() != 0 {
		t.Errorf("looking started an engine: %v", kv)
	}
	asks(t, r, "two", talk(long, "So be it.", "And otherwise?"))
	for len(kv) == 0 {
		time.Sleep(time.Millisecond)
		_, kv, _ = coverageOf(t, r, id)
	}
	if kv[0].State != session.KVResident || kv[0].To < 3 {
		t.Errorf("found out after a restart: %v", kv)
	}
}
