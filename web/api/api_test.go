package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/config"
	"holdfast/core/content"
	"holdfast/core/guard"
	"holdfast/core/session"
)

// shelf is a ledger of one session with fixed views.
type shelf struct {
	blobs   map[content.ID][]byte
	rows    []session.RowView
	deleted string
	asked   string // the last page asked for
	fault   error  // returned by everything, when set
}

func newShelf() *shelf {
	s := &shelf{blobs: map[content.ID][]byte{}}
	add := func(elem int64, ref, role, kind, raw string) {
		id := content.Of([]byte(raw))
		s.blobs[id] = []byte(raw)
		s.rows = append(s.rows, session.RowView{RowID: int64(len(s.rows) + 1), Pos: elem, Elem: elem, Ref: ref, Role: role, Kind: kind, State: session.Live, Hash: id.String()})
	}
	add(1, "m00001", "user", "text", `{"role":"user","content":"Rename <it>."}`)
	call := `{"role":"assistant","content":[ {"type":"text","text":"On it."}, {"type":"tool_use","id":"t1","name":"sh","input":{"cmd":"echo '~~~' "}} ]}`
	add(2, "m00002", "assistant", "text", call)
	add(2, "m00002", "assistant", "tool_call", call)
	add(3, "m00003", "user", "result", "not json at all")
	s.rows = append(s.rows, session.RowView{RowID: 5, Pos: 4, Elem: 4, Ref: "m00004", Role: "assistant", State: session.Archived, Hash: content.Of([]byte("gone")).String()})
	return s
}

func (s *shelf) Sessions(_ context.Context, q string, page, size int) ([]session.SessionView, int, error) {
	s.asked = fmt.Sprint(q, " ", page, " ", size)
	return []session.SessionView{{ID: "L1", Title: "Rename it"}}, 1, s.fault
}

func (s *shelf) Session(_ context.Context, id string) (session.SessionView, error) {
	if id != "L1" {
		return session.SessionView{}, fmt.Errorf("session %s: %w", id, session.ErrUnknown)
	}
	return session.SessionView{ID: id, Title: "Rename it", Model: "m", Wire: "anthropic", Turns: 2, Elements: 4}, s.fault
}

func (s *shelf) RowViews(context.Context, string) ([]session.RowView, error) { return s.rows, s.fault }
func (s *shelf) Coverage(context.Context, string) (session.CoverageView, error) {
	return session.CoverageView{PosHi: 4}, s.fault
}
func (s *shelf) Delete(_ context.Context, id string) error { s.deleted = id; return s.fault }

func (s *shelf) Turns(_ context.Context, id string, page, size int) ([]session.TurnView, int, error) {
	s.asked = fmt.Sprint(id, " ", page, " ", size)
	return nil, 0, s.fault
}

func (s *shelf) TurnView(_ context.Context, id int64) (session.TurnView, error) {
	if id != 7 {
		return session.TurnView{}, session.ErrUnknown
	}
	return session.TurnView{ID: id}, s.fault
}

func (s *shelf) Degrades(_ context.Context, since int64) ([]session.DegradeView, error) {
	s.asked = fmt.Sprint(since)
	return nil, s.fault
}

func (s *shelf) Blob(_ context.Context, id content.ID) ([]byte, error) {
	b, ok := s.blobs[id]
	if !ok {
		return nil, fmt.Errorf("%w: purged to keep the budget", session.ErrNotKept)
	}
	return b, nil
}

func (s *shelf) Body(_ context.Context, turn int64, part string) (Body, error) {
	if turn == 8 {
		return Body{}, fmt.Errorf("%w: this turn was recorded by size and hash only (side)", session.ErrNotKept)
	}
	return Body{Bytes: []byte("<b>" + part), Type: "text/html", Encoding: map[string]string{"response": "gzip"}[part]}, s.fault
}

// knobs are settings in memory.
type knobs struct {
	c      config.Config
	values map[string]string
	fault  error
	broken error
}

func (k *knobs) Config() (*config.Config, string, error) { return &k.c, "/home/config.toml", k.broken }

func (k *knobs) Change(_ context.Context, values map[string]string) error {
	k.values = values
	if k.fault != nil {
		return k.fault
	}
	if v, ok := values["rollout.mode"]; ok {
		k.c.Rollout.Mode = config.RolloutMode(v)
	}
	if v, ok := values["bypass"]; ok {
		k.c.Bypass = v == "true"
	}
	return nil
}

func newAPI(s *shelf, k *knobs) (*API, http.Handler) {
	a := New(Options{
		Sessions: s, Turns: s, Bytes: s, Settings: k, Hub: NewHub(), Log: slog.New(slog.DiscardHandler),
		Status: func(context.Context) (Status, error) {
			return Status{Version: "v", Chain: ChainStatus{Gates: map[string]int64{"R1": 3}}}, s.fault
		},
		Verify: func(_ context.Context, id string) (Verification, error) {
			return Verification{Session: id, Sound: true, Faults: []string{}}, s.fault
		},
		Health: func() Health { return Health{true, "v", "i"} }, Tier: newStore(),
	})
	mux := http.NewServeMux()
	a.Register(mux)
	mux.HandleFunc("/", NotFound)
	return a, mux
}

func do(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		has                  string // in the body
	}{
		{"GET", "/hf/v1/health", "", 200, `{"ok":true,"version":"v","instance":"i"}`},
		{"GET", "/hf/v1/status", "", 200, `"gates":{"R1":3}`},
		{"GET", "/hf/v1/sessions", "", 200, `"total":1,"page":1,"size":50`},
		{"GET", "/hf/v1/sessions?q=x&page=2&size=10", "", 200, `"page":2,"size":10`},
		{"GET", "/hf/v1/sessions?page=0", "", 400, `"code":"page"`},
		{"GET", "/hf/v1/sessions?size=501", "", 400, `"code":"page"`},
		{"GET", "/hf/v1/sessions?size=many", "", 400, `"code":"page"`},
		{"GET", "/hf/v1/sessions/L1", "", 200, `"id":"L1"`},
		{"GET", "/hf/v1/sessions/L2", "", 404, `"code":"unknown"`},
		{"GET", "/hf/v1/sessions/L1/rows", "", 200, `{"rows":[{"row_id":1,`},
		{"GET", "/hf/v1/sessions/L1/coverage", "", 200, `"pos_hi":4`},
		{"GET", "/hf/v1/sessions/L1/turns", "", 200, `{"turns":[],"total":0,`},
		{"GET", "/hf/v1/sessions/L1/export?format=pdf", "", 400, `"code":"format"`},
		{"GET", "/hf/v1/sessions/L2/export", "", 404, `"code":"unknown"`},
		{"POST", "/hf/v1/sessions/L1/verify", "", 200, `"sound":true`},
		{"DELETE", "/hf/v1/sessions/L1", "", 204, ""},
		{"GET", "/hf/v1/turns/7", "", 200, `"id":7`},
		{"GET", "/hf/v1/turns/9", "", 404, `"code":"unknown"`},
		{"GET", "/hf/v1/turns/seven", "", 404, `"code":"unknown"`},
		{"GET", "/hf/v1/turns/7/inbound", "", 200, `<b>inbound`},
		{"GET", "/hf/v1/turns/8/inbound", "", 410, `recorded by size and hash only (side)`},
		{"GET", "/hf/v1/turns/7/secrets", "", 404, `"code":"no_such_path"`},
		{"GET", "/hf/v1/degrades?since=5", "", 200, `{"degrades":[]}`},
		{"GET", "/hf/v1/degrades?since=yesterday", "", 400, `"code":"since"`},
		{"GET", "/hf/v1/config", "", 200, `{"path":"/home/config.toml","fields":[{"key":"addr","value":"127.0.0.1:4153","source":"default","effect":"restart"}`},
		{"PUT", "/hf/v1/config", `{}`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/config", `[]`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/config", `{"a":{"b":1}}`, 400, `"code":"value"`},
		{"PUT", "/hf/v1/config", `{"a":null}`, 400, `"code":"value"`},
		{"PUT", "/hf/v1/config", `{"a":1}{"b":2}`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/config", `{"a":"` + strings.Repeat("x", controlBytes) + `"}`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/rollout", `{"mode":"on","percent":12.5}`, 200, `{"mode":"on","percent":100}`},
		{"PUT", "/hf/v1/rollout", `{}`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/rollout", `{"mood":"on"}`, 400, `"code":"body"`},
		{"PUT", "/hf/v1/bypass", `{"on":true}`, 200, `{"on":true}`},
		{"PUT", "/hf/v1/bypass", `{}`, 400, `"code":"body"`},
		{"POST", "/hf/v1/bypass", `{"on":true}`, 404, `"code":"no_such_path"`},
		{"GET", "/metrics", "", 200, `holdfast_gates_total{gate="R1"} 3`},
		{"GET", "/nowhere", "", 404, `"code":"no_such_path"`},
	} {
		_, h := newAPI(newShelf(), &knobs{c: config.Default()})
		w := do(h, c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
		if c.status >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %s", c.method, c.target, w.Header().Get("Content-Type"))
		}
	}
}

// TestBypassAsks: a session that outgrew its window makes a bypass a question.
func TestBypassAsks(t *testing.T) {
	k := &knobs{c: config.Default()}
	a, h := newAPI(newShelf(), k)
	a.Long = func(context.Context) ([]session.LongView, error) {
		return []session.LongView{{ID: "l", Title: "port the parser", Raw: 900_000, Window: 200_000}}, nil
	}
	for _, c := range []struct {
		body   string
		status int
		has    string
		on     bool
	}{
		{`{"on":true}`, 409, `"code":"past_window"`, false},
		{`{"on":true}`, 409, "port the parser", false},
		{`{"on":true,"confirm":true}`, 200, `{"on":true}`, true},
		{`{"on":false}`, 200, `{"on":false}`, false},
	} {
		w := do(h, "PUT", "/hf/v1/bypass", c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) || k.c.Bypass != c.on {
			t.Errorf("%s: %d %s, bypass %v", c.body, w.Code, w.Body, k.c.Bypass)
		}
	}
}

func TestFailuresAreNotShown(t *testing.T) {
	secret := errors.New("disk /home/ann/ledger.db is on fire")
	for _, target := range []string{"status", "sessions", "sessions/L1", "sessions/L1/rows", "sessions/L1/coverage", "sessions/L1/turns",
		"sessions/L1/export", "turns/7", "turns/7/inbound", "degrades"} {
		s := newShelf()
		s.fault = secret
		var log strings.Builder
		a, h := newAPI(s, &knobs{c: config.Default()})
		a.Log = slog.New(slog.NewTextHandler(&log, nil))
		w := do(h, "GET", "/hf/v1/"+target, "")
		if w.Code != 500 || strings.Contains(w.Body.String(), "ann") || !strings.Contains(log.String(), "on fire") {
			t.Errorf("%s: %d %s, log %s", target, w.Code, w.Body, log.String())
		}
	}
}

func TestChangesAreHandedOn(t *testing.T) {
	k := &knobs{c: config.Default()}
	_, h := newAPI(newShelf(), k)
	do(h, "PUT", "/hf/v1/config", `{"ledger.budget":"4GiB","bypass":true,"rollout.percent":12.5,"fold.protect_tools":["a","b"]}`)
	want := `map[bypass:true fold.protect_tools:["a","b"] ledger.budget:4GiB rollout.percent:12.5]`
	if got := fmt.Sprint(k.values); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	do(h, "PUT", "/hf/v1/rollout", `{"percent":7}`)
	if got := fmt.Sprint(k.values); got != "map[rollout.percent:7]" {
		t.Errorf("rollout %s", got)
	}
}

// TestProgramsNeedTheToken: what decides which program runs is not changed by a
// request that was let in by a browser's cookie.
func TestProgramsNeedTheToken(t *testing.T) {
	for _, c := range []struct {
		body  string
		token bool
		want  int
	}{
		{`{"engine.local.command":"/bin/sh"}`, false, 403},
		{`{"ledger.budget":"4GiB","engine.local.command":"/bin/sh"}`, false, 403},
		{`{"engine.other.model":"/tmp/x.gguf"}`, false, 403},
		{`{"engine.local.slots":4}`, false, 200},
		{`{"engine.local.command":"llama-server"}`, true, 200},
	} {
		k := &knobs{c: config.Default()}
		_, h := newAPI(newShelf(), k)
		r := httptest.NewRequest("PUT", "/hf/v1/config", strings.NewReader(c.body))
		if c.token {
			r.Header.Set("Authorization", "Bearer tok")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || (c.want == 200) != (len(k.values) > 0) {
			t.Errorf("%s, token %v: %d %s, changed %v", c.body, c.token, w.Code, w.Body, k.values)
		}
	}
}

func TestRefusedChanges(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&config.Error{Key: "a", What: "is wrong"}, 422, "setting"},
		{fmt.Errorf("bypass is set by env: %w", ErrOverridden), 409, "overridden"},
		{&guard.Problem{Status: 507, Code: "full", Title: "t", Hint: "h"}, 507, "full"},
	} {
		_, h := newAPI(newShelf(), &knobs{c: config.Default(), fault: c.err})
		w := do(h, "PUT", "/hf/v1/config", `{"a":"b"}`)
		if w.Code != c.status || !strings.Contains(w.Body.String(), `"code":"`+c.code+`"`) {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
	}
}

func TestBrokenFileIsShown(t *testing.T) {
	_, h := newAPI(newShelf(), &knobs{c: config.Default(), broken: errors.New("line 3")})
	if w := do(h, "GET", "/hf/v1/config", ""); !strings.Contains(w.Body.String(), `"error":"line 3"`) {
		t.Errorf("%s", w.Body)
	}
}

// Bytes of strangers are never run, sniffed or shown in place.
func TestBodyHeaders(t *testing.T) {
	_, h := newAPI(newShelf(), &knobs{c: config.Default()})
	w := do(h, "GET", "/hf/v1/turns/7/response", "")
	for k, v := range map[string]string{
		"Content-Type": "text/html", "Content-Encoding": "gzip", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "sandbox; default-src 'none'", "Content-Disposition": `attachment; filename="turn-7-response"`,
	} {
		if got := w.Header().Get(k); got != v {
			t.Errorf("%s: %q, want %q", k, got, v)
		}
	}
}

func TestExport(t *testing.T) {
	data, err := os.ReadFile("testdata/export.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := newShelf()
	for _, f := range txtar.Parse(data).Files {
		var b strings.Builder
		if err := (Exporter{s, s}).Export(t.Context(), &b, "L1", f.Name); err != nil {
			t.Fatal(err)
		}
		// The session line alone is long and has a test of its own.
		got := b.String()
		if f.Name == "jsonl" {
			first, rest, _ := strings.Cut(got, "\n")
			var l struct{ Session session.SessionView }
			if json.Unmarshal([]byte(first), &l) != nil || l.Session.ID != "L1" {
				t.Errorf("first line %s", first)
			}
			got = brief(t, rest)
		}
		if got != string(f.Data) {
			t.Errorf("%s\n got:\n%s\nwant:\n%s", f.Name, got, f.Data)
		}
	}
}

// brief shows of each export line what the golden is about.
func brief(t *testing.T, lines string) string {
	var b strings.Builder
	for l := range strings.Lines(lines) {
		var x line
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "row %d element %d: %s%s\n", x.Row.RowID, x.Row.Elem, x.Element, x.NotKept)
	}
	return b.String()
}

func TestEvents(t *testing.T) {
	a, h := newAPI(newShelf(), &knobs{c: config.Default()})
	srv := httptest.NewServer(h)
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL + "/hf/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %s", got)
	}
	in := bufio.NewReader(res.Body)
	if l, _ := in.ReadString('\n'); l != ": hello\n" {
		t.Fatalf("first line %q", l)
	}
	a.Hub.Publish("degrade", session.DegradeView{ID: 3, Gate: "R1"})
	a.Hub.Publish("rollout", RolloutStatus{Mode: config.Off, Percent: 100})
	a.Hub.Close()
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	got := string(rest)
	for _, want := range []string{"\nevent: degrade\ndata: {\"id\":3,", "\n\nevent: rollout\ndata: {\"mode\":\"off\",\"percent\":100,", ended} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if w := do(h, "GET", "/hf/v1/events", ""); w.Code != 503 {
		t.Errorf("a closed hub takes readers: %d", w.Code)
	}
}

// A reader that falls behind is dropped and told so; the others go on.
func TestSlowReaderIsDropped(t *testing.T) {
	h := NewHub()
	slow, _ := h.join()
	quick, _ := h.join()
	for range clientQueue + 1 {
		h.Publish("fold", struct{}{})
		<-quick.queue
	}
	n := 0
	for range slow.queue {
		n++
	}
	if n != clientQueue {
		t.Errorf("the slow reader got %d events before its end", n)
	}
	if h.leave(slow) || !h.leave(quick) {
		t.Error("the wrong reader was dropped")
	}
}

func TestReadersAreBounded(t *testing.T) {
	h := NewHub()
	for range maxClients {
		if _, ok := h.join(); !ok {
			t.Fatal("too few readers")
		}
	}
	if _, ok := h.join(); ok {
		t.Error("no bound on readers")
	}
}

func TestRestart(t *testing.T) {
	c := config.Default()
	got := Restart(&c, map[string]string{"addr": "x", "bypass": "true", "kv.disk.mode": "auto"})
	if fmt.Sprint(got) != "[addr kv.disk.mode]" {
		t.Errorf("%v", got)
	}
}
