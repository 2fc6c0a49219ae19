package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/web/api"
)

// running is an App that serves a home of its own.
type running struct {
	*App
	home string
	log  *bytes.Buffer
}

// runApp serves until the test ends, or until stop is called.
func runApp(t *testing.T, toml string) (r running, stop func() error) {
	t.Helper()
	r = running{home: filepath.Join(t.TempDir(), "home"), log: new(bytes.Buffer)}
	p := Paths{r.home, r.home, r.home}
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(p.configFile(), []byte(toml)); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), AppOptions{Paths: p, Env: func(string) string { return "" }, Console: r.log,
		Flags: map[string]string{"addr": "127.0.0.1:0", "inspector_addr": "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	r.App = a
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return errors.Join(<-ran, a.Close())
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return r, stop
}

// ask sends a request to one of the two listeners.
func ask(t *testing.T, method, url, token string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := loopbackClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func routeTo(url string) string {
	return "[routes.model]\nurl = \"" + url + "\"\ndefault_for = [\"anthropic\", \"openai\"]\n"
}

func TestHomeIsPrivate(t *testing.T) {
	r, stop := runApp(t, "")
	if runtime.GOOS == "windows" {
		t.Log("modes say nothing on Windows")
		return
	}
	err := filepath.WalkDir(r.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.paths.runtimeFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("runtime.json outlives the process: %v", err)
	}
}

func TestTokenSurvivesAndIsRepaired(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	first, err := loadToken(name)
	if err != nil || len(first) != 64 {
		t.Fatalf("%q %v", first, err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := loadToken(name)
	if err != nil || again != first {
		t.Errorf("the token changed: %v", err)
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if err := os.WriteFile(name, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fresh, err := loadToken(name); err != nil || len(fresh) != 64 || fresh == first {
		t.Errorf("a token too short is kept: %q %v", fresh, err)
	}
}

func TestListenersAreGuarded(t *testing.T) {
	r, _ := runApp(t, "")
	for _, c := range []struct {
		url, token string
		head       [2]string
		status     int
	}{
		{"http://" + r.Inspector + "/hf/v1/status", "", [2]string{}, 401},
		{"http://" + r.Inspector + "/hf/v1/status", r.token, [2]string{}, 200},
		{"http://" + r.Inspector + "/hf/v1/status", r.token, [2]string{"Origin", "https://evil.example"}, 403},
		{"http://" + r.Addr + "/hf/v1/health", "", [2]string{}, 200},
		{"http://" + r.Addr + "/hf/v1/status", r.token, [2]string{}, 404},
		{"http://" + r.Addr + "/v1/models", "", [2]string{"Origin", "null"}, 403},
		{"http://" + r.Addr + "/v1/models", "", [2]string{"Sec-Fetch-Mode", "navigate"}, 403},
		{"http://" + r.Addr + "/via/http://169.254.169.254/latest/meta-data", "", [2]string{}, 403},
		{"http://" + r.Addr + "/via/http://" + r.Inspector + "/hf/v1/status", r.token, [2]string{}, 403},
		{"http://" + r.Addr + "/via/http://" + r.Addr + "/hf/v1/health", "", [2]string{}, 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		if c.head[0] != "" {
			req.Header.Set(c.head[0], c.head[1])
		}
		res, err := loopbackClient().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s %v: %d %s", c.url, c.head, res.StatusCode, body)
		}
	}
}

func TestForgedHost(t *testing.T) {
	r, _ := runApp(t, "")
	for _, addr := range []string{r.Addr, r.Inspector} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/hf/v1/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example"
		res, err := loopbackClient().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s answers evil.example: %d", addr, res.StatusCode)
		}
	}
}

func TestProxySecret(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	defer model.Close()
	r, _ := runApp(t, routeTo(model.URL)+"[web]\nproxy_secret = true\n")
	if res := ask(t, "GET", "http://"+r.Addr+"/r/model/x", "", nil); res.StatusCode != 403 {
		t.Errorf("without the secret: %d", res.StatusCode)
	}
	res := ask(t, "GET", r.BaseURL()+"/r/model/x", "", nil)
	if body, _ := io.ReadAll(res.Body); string(body) != "/x" {
		t.Errorf("with it: %d %s", res.StatusCode, body)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	r, _ := runApp(t, "")
	_, err := Open(t.Context(), AppOptions{Paths: r.paths, Env: func(string) string { return "" }})
	var f *Fault
	if !errors.As(err, &f) || f.Code != exitRefused || !strings.Contains(f.What, r.Addr) {
		t.Fatalf("%v", err)
	}
	// The refusal leaves the first one alone.
	if res := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/status", r.token, nil); res.StatusCode != 200 {
		t.Errorf("the first process answers %d", res.StatusCode)
	}
	if _, ok := findRunning(t.Context(), r.paths); !ok {
		t.Error("runtime.json is gone")
	}
}

// A runtime.json whose address now belongs to somebody else is not a running
// Holdfast, and no command sends it the token; not even when the stranger has
// learnt what health said there before.
func TestStaleRuntimeIsNotTrusted(t *testing.T) {
	for _, instance := range []string{"other", "mine"} {
		t.Run(instance, func(t *testing.T) { staleRuntime(t, instance) })
	}
}

func staleRuntime(t *testing.T, instance string) {
	asked := make(chan string, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		io.WriteString(w, `{"ok":true,"instance":"`+instance+`"}`)
	}))
	defer other.Close()
	home := t.TempDir()
	p := Paths{home, home, home}
	if _, err := loadToken(p.tokenFile()); err != nil {
		t.Fatal(err)
	}
	if err := (Runtime{Addr: "x", Inspector: strings.TrimPrefix(other.URL, "http://"), Instance: "mine"}).write(p); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"status"}, stdio{strings.NewReader(""), &out, &errs, func(k string) string {
		return map[string]string{"HOLDFAST_HOME": home}[k]
	}})
	if code != exitNotRunning {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if got := <-asked; got != "" || len(asked) > 0 {
		t.Errorf("the stranger was sent %q", got)
	}
}

// A broken file keeps the last good settings and is told in log, status and
// event; a good one is taken up. Editors replace the file by renaming.
func TestWatchKeepsLastGood(t *testing.T) {
	r, stop := runApp(t, "log_level = \"info\"\n")
	res := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/events", r.token, nil)
	events := bufio.NewScanner(res.Body)
	next := func() (v api.ConfigView) {
		for events.Scan() {
			if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		t.Fatalf("the stream ended: %v", events.Err())
		return v
	}
	if err := writeFile(r.paths.configFile(), []byte("log_level = \"debug\"\n")); err != nil {
		t.Fatal(err)
	}
	if v := next(); v.Error != "" || r.settings.Current().LogLevel != "debug" {
		t.Errorf("not taken up: %+v", v)
	}
	overwrite(t, r.paths.configFile(), "log_level = \"noisy\"\n")
	if v := next(); !strings.Contains(v.Error, "noisy") || r.settings.Current().LogLevel != "debug" {
		t.Errorf("the last good settings are gone: %+v", v.Error)
	}
	var s api.Status
	if err := json.NewDecoder(ask(t, "GET", "http://"+r.Inspector+"/hf/v1/status", r.token, nil).Body).Decode(&s); err != nil || !strings.Contains(s.ConfigError, "noisy") {
		t.Errorf("status %+v %v", s.ConfigError, err)
	}
	if err := os.Remove(r.paths.configFile()); err != nil {
		t.Fatal(err)
	}
	if v := next(); v.Error != "" || r.settings.Current().LogLevel != "info" {
		t.Errorf("a removed file means defaults: %+v", v.Error)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.log.String(), "config.toml is broken") {
		t.Errorf("log: %s", r.log.String())
	}
}

// overwrite writes in place what is as long as a file, in one step: cut to nothing
// first, it would be good settings for a moment.
func overwrite(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A change that cannot be saved is not made.
func TestChangeIsRolledBack(t *testing.T) {
	s, err := loadSettings(filepath.Join(t.TempDir(), "missing", "config.toml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	s.onChange(func(*config.Config, error) { told = true })
	if err := s.Change(t.Context(), map[string]string{"bypass": "true"}); err == nil || s.Current().Bypass || told {
		t.Errorf("%v, bypass %v, told %v", err, s.Current().Bypass, told)
	}
}

// Turning the rollout on, and nothing else, lets held groups go on.
func TestOnReleasesGroups(t *testing.T) {
	s, err := loadSettings(filepath.Join(t.TempDir(), "config.toml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values map[string]string
		want   int
	}{
		{map[string]string{"rollout.mode": "on"}, 1},
		{map[string]string{"rollout.mode": "on"}, 1}, // already on, said again
		{map[string]string{"rollout.mode": "shadow"}, 0},
		{map[string]string{"rollout.percent": "50"}, 0},
		{map[string]string{"rollout.mode": "on", "rollout.percent": "200"}, 0},
	} {
		n := 0
		_ = control{s, func() { n++ }}.Change(t.Context(), c.values) // the last one is refused
		if n != c.want {
			t.Errorf("%v: released %d times", c.values, n)
		}
	}
}

// All values of a change are made, or none.
func TestChangeIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.toml")
	s, err := loadSettings(name, func(k string) string { return map[string]string{"HOLDFAST_LOG_LEVEL": "warn"}[k] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []map[string]string{
		{"bypass": "true", "rollout.percent": "101"},
		{"bypass": "true", "log_level": "debug"}, // the environment decides this one
		{"bypass": "true", "nope": "1"},
	} {
		if err := s.Change(t.Context(), values); err == nil || s.Current().Bypass {
			t.Errorf("%v: %v, bypass %v", values, err, s.Current().Bypass)
		}
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused change wrote the file: %v", err)
	}
	if err := s.Change(t.Context(), map[string]string{"bypass": "true", "rollout.percent": "10"}); err != nil || !s.Current().Bypass {
		t.Errorf("%v", err)
	}
}

// A config.toml that is a link into somebody's dotfiles stays one.
func TestChangeKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "dotfile"), filepath.Join(dir, "config.toml")
	if err := os.WriteFile(target, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(link, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), map[string]string{"bypass": "true"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "bypass = true\n# mine\n" {
		t.Errorf("%q %v", data, err)
	}
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Fatal("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

// Stopping lets a reply under way end.
func TestStopDrains(t *testing.T) {
	arrived, go_on := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		close(arrived)
		<-go_on
		io.WriteString(w, "last")
	}))
	defer model.Close()
	r, stop := runApp(t, routeTo(model.URL))
	r.drainTime = time.Hour // the reply decides, not a slow machine
	res := ask(t, "GET", r.BaseURL()+"/r/model/x", "", nil)
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // once the listener is gone, the drain has begun
		c, err := net.Dial("tcp", r.Addr)
		if err != nil {
			break
		}
		c.Close()
	}
	close(go_on)
	if body, err := io.ReadAll(res.Body); string(body) != "first last" {
		t.Errorf("the reply was cut: %q %v", body, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What does not end is cut after the drain time, and the home is given back.
func TestStopCutsWhatHangs(t *testing.T) {
	arrived := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		close(arrived)
		<-r.Context().Done()
	}))
	defer model.Close()
	r, stop := runApp(t, routeTo(model.URL))
	r.drainTime = 50 * time.Millisecond
	res := ask(t, "GET", r.BaseURL()+"/r/model/x", "", nil)
	<-arrived
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the reply ended by itself")
	}
	lock, err := lockData(r.paths)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

// A handler that outlives its connection is waited for: the ledger must not
// close under it.
func TestDrainWaitsForHandlers(t *testing.T) {
	r, _ := runApp(t, "")
	arrived, release := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	r.proxy.Handler = r.counted(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		close(arrived)
		<-release // deaf to its context
		returned.Store(true)
	}))
	r.drainTime = time.Millisecond
	res := ask(t, "GET", "http://"+r.Addr+"/", "", nil)
	<-arrived
	drained := make(chan struct{})
	go func() { r.drain(); close(drained) }()
	io.Copy(io.Discard, res.Body) // ends when the connection is cut
	select {
	case <-drained:
		t.Error("the handler was not waited for")
	case <-time.After(50 * time.Millisecond): // long enough for a drain that does not wait
	}
	close(release)
	<-drained
	if !returned.Load() {
		t.Error("drained before the handler returned")
	}
}

func TestUnknownSessionHasNoTurns(t *testing.T) {
	r, _ := runApp(t, "")
	for _, path := range []string{"", "/turns", "/rows", "/coverage", "/export"} {
		if res := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/sessions/none"+path, r.token, nil); res.StatusCode != 404 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	for method, path := range map[string]string{"POST": "/verify", "DELETE": ""} {
		if res := ask(t, method, "http://"+r.Inspector+"/hf/v1/sessions/none"+path, r.token, nil); res.StatusCode != 404 {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	home := t.TempDir()
	_, err = Open(t.Context(), AppOptions{Paths: Paths{home, home, home}, Flags: map[string]string{"addr": l.Addr().String(), "inspector_addr": "127.0.0.1:0"}})
	var f *Fault
	if !errors.As(err, &f) || f.Code != exitFailed || !strings.Contains(f.Hint, "addr") {
		t.Fatalf("%v", err)
	}
	lock, err := lockData(Paths{home, home, home})
	if err != nil {
		t.Fatalf("a failed start keeps the lock: %v", err)
	}
	lock.Close()
}

// TestSecretsNeverStay sends keys in every place clients put them, on good and
// bad roads, and then looks for them in everything a home holds and a bundle
// shows.
func TestSecretsNeverStay(t *testing.T) {
	const secret = "sk-ant-SECRETSECRETSECRET"
	s := &script{t: t, home: filepath.Join(t.TempDir(), "home"), files: map[string][]byte{}, vars: map[string]string{}}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != secret && r.Header.Get("Authorization") == "" && r.URL.Query().Get("key") == "" {
			t.Errorf("%s: the key did not reach the model", r.URL)
		}
		w.Header().Set("Set-Cookie", "session="+secret)
		io.WriteString(w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	defer model.Close()
	r, stop := runApp(t, "log_level = \"debug\"\n"+routeTo(model.URL)+"[routes.down]\nurl = \"http://127.0.0.1:1\"\n")
	s.home = r.home

	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a private title"}],"tools":[{"name":"sh","input_schema":{}}]}`
	for _, path := range []string{
		"/v1/messages", "/v1/messages?key=" + secret, "/r/down/v1/messages?api_key=" + secret, "/r/none/v1/messages?key=" + secret,
		"/via/" + model.URL + "/v1/messages?key=" + secret, "/via/http://user:" + secret + "@127.0.0.1:1/v1/messages",
		"/v1/chat/completions", "/v1/embeddings?key=" + secret, "/v1beta/models/g:generateContent?key=" + secret,
	} {
		for _, head := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key"} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.Addr+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(head, map[bool]string{true: "Bearer "}[head == "Authorization"]+secret)
			req.Header.Set("Cookie", "k="+secret)
			req.Header.Set("X-Api-Key", secret)
			req.Header.Set("X-Claude-Code-Session-Id", "private-host-id")
			req.Header.Set("X-Claude-Code-Agent-Id", "private-agent-id")
			req.Header.Set("Content-Type", "application/json")
			res, err := loopbackClient().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	ask(t, "GET", "http://"+r.Inspector+"/hf/v1/status?key="+secret, "wrong-"+secret, nil)
	r.engine.chain.Idle()
	seen := readAPI(t, r)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.env = map[string]string{"HOLDFAST_HOME": r.home}
	if err := s.hf("doctor --bundle " + filepath.Join(r.home, "bundle.zip") + " => 0"); err != nil {
		t.Fatalf("%v\n%s%s", err, s.out.String(), s.err.String())
	}
	everything := map[string][]byte{"log on the console": r.log.Bytes(), "API": seen, "doctor": s.out.Bytes()}
	readHome(t, r.home, everything)
	for name, data := range everything {
		if bytes.Contains(data, []byte("SECRETSECRET")) {
			at := bytes.Index(data, []byte("SECRETSECRET"))
			t.Errorf("%s holds the key: …%q…", name, data[max(0, at-80):min(len(data), at+20)])
		}
		if strings.HasPrefix(name, "bundle.zip:") && bytes.Contains(data, []byte("private")) {
			t.Errorf("%s holds a title or a host's id", name)
		}
		if name != "token" && bytes.Contains(data, []byte(r.token)) {
			t.Errorf("%s holds the token", name)
		}
	}
	if len(everything["bundle.zip:holdfast/holdfast.log"]) == 0 || len(everything["ledger.db"]) == 0 {
		t.Errorf("looked at too little: %d files", len(everything))
	}
}

// readAPI reads every session and turn through the API.
func readAPI(t *testing.T, r running) (all []byte) {
	read := func(path string) []byte {
		data, err := io.ReadAll(ask(t, "GET", "http://"+r.Inspector+path, r.token, nil).Body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
		return data
	}
	read("/hf/v1/status")
	read("/hf/v1/degrades")
	var list api.SessionList
	if err := json.Unmarshal(read("/hf/v1/sessions"), &list); err != nil || len(list.Sessions) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, s := range list.Sessions {
		read("/hf/v1/sessions/" + s.ID + "/rows")
		read("/hf/v1/sessions/" + s.ID + "/export")
		var turns api.TurnList
		if err := json.Unmarshal(read("/hf/v1/sessions/"+s.ID+"/turns"), &turns); err != nil {
			t.Fatal(err)
		}
		for _, turn := range turns.Turns {
			id, err := json.Marshal(turn.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"", "/inbound", "/outbound", "/response"} {
				read("/hf/v1/turns/" + string(id) + part)
			}
		}
	}
	return all
}

// readHome reads every file of a home, and the files inside bundles.
func readHome(t *testing.T, home string, into map[string][]byte) {
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		into[filepath.Base(path)] = data
		if z, zipErr := zip.NewReader(bytes.NewReader(data), int64(len(data))); zipErr == nil {
			for _, f := range z.File {
				in, err := f.Open()
				if err != nil {
					return err
				}
				inside, err := io.ReadAll(in)
				if err != nil {
					return err
				}
				into[filepath.Base(path)+":"+f.Name] = inside
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		`GET "https://x/v1beta/m:g?alt=sse&key=AIzaSyAAAAAAAAAAAA": dial`: `GET "https://x/v1beta/m:g?alt=sse&key=(masked)": dial`,
		"Authorization: Bearer abc.def-123=":                              "Authorization: Bearer (masked)",
		"http://127.0.0.1:1/p/" + strings.Repeat("0a", 16) + "/v1":        "http://127.0.0.1:1/p/(masked)/v1",
		"https://ann:pw@host/x":                                           "https://(masked)@host/x",
		"wrong key sk-ant-api03-abcdefghijklmnop, really":                 "wrong key (masked), really",
		"a plain sentence about tasks and /p/ages":                        "a plain sentence about tasks and /p/ages",
		"sk-1": "sk-1",
	} {
		if got := mask(in); got != want {
			t.Errorf("mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLogIsMasked(t *testing.T) {
	home := t.TempDir()
	var console bytes.Buffer
	l := openLog(Paths{home, home, home}, &console)
	l.Warn("upstream failed", "error", errors.New(`Post "https://x/?key=SECRETSECRET": refused`), "x-api-key", "SECRETSECRET", "url", "https://x/?key=SECRETSECRET")
	l.Debug("not at this level")
	l.setLevel("debug")
	l.Debug("at this level")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(home, "holdfast.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(file), console.String()} {
		if strings.Contains(text, "SECRET") || strings.Contains(text, "not at") || !strings.Contains(text, "at this level") || !strings.Contains(text, "refused") {
			t.Errorf("log: %s", text)
		}
	}
	for line := range strings.Lines(string(file)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[2Jb\nc\u202ed\tü–"); got != "a [2Jb c d ü–" {
		t.Errorf("%q", got)
	}
}

func TestWords(t *testing.T) {
	now := time.UnixMilli(1_000_000_000_000)
	for got, want := range map[string]string{
		count(0): "0", count(-1234567): "-1,234,567", count(123456): "123,456",
		bytesText(1023): "1023 B", bytesText(1536): "1.5 KiB", bytesText(5 << 40): "5.0 TiB",
		ago(now.UnixMilli(), now): "just now", ago(now.Add(-3*time.Hour).UnixMilli(), now): "3 h ago", ago(0, now): "never",
		percentText(1, 3): "33.3 %", percentText(1, 0): "–", short("abcdef", 4): "abc…",
		countsText(map[string]int64{"side_request": 2, "bypass": 0, "a": 1}): "1 a, 2 side request",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Doctor says of each thing that can be wrong what it is and what to do.
func TestDoctorFinds(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name, toml string
		spoil      func(t *testing.T, p Paths)
		want       string // state and name
	}{
		{"good", "", func(*testing.T, Paths) {}, ""},
		{"open folder", "", func(t *testing.T, p Paths) { chmod(t, p.Data, 0o755) }, "fail folder"},
		{"open token", "", func(t *testing.T, p Paths) {
			if _, err := loadToken(p.tokenFile()); err != nil {
				t.Fatal(err)
			}
			chmod(t, p.tokenFile(), 0o644)
		}, "fail file"},
		{"broken settings", "x = 1", func(*testing.T, Paths) {}, "fail settings"},
		{"port taken", "addr = \"" + taken.Addr().String() + "\"", func(*testing.T, Paths) {}, "fail ports"},
		{"no default route", "[routes.google]\ndefault_for = []", func(*testing.T, Paths) {}, "warn routes"},
		{"wide", "addr = \"0.0.0.0:0\"", func(*testing.T, Paths) {}, "warn reach"},
		{"locked", "", func(t *testing.T, p Paths) {
			lock, err := lockData(p)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Close() })
		}, "fail process"},
		{"damaged ledger", "", func(t *testing.T, p Paths) {
			if err := os.WriteFile(p.ledgerFile(), []byte(strings.Repeat("not a database ", 500)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "fail ledger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			p := Paths{home, home, home}
			if err := p.make(); err != nil {
				t.Fatal(err)
			}
			toml := c.toml
			if !strings.Contains(toml, "addr =") {
				toml = "addr = \"127.0.0.1:0\"\n" + toml
			}
			if err := writeFile(p.configFile(), []byte("inspector_addr = \"localhost:0\"\n"+toml)); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, p)
			d := &doctor{cli: &cli{stdio: stdio{getenv: func(k string) string { return map[string]string{"HOLDFAST_HOME": home}[k] }}}, paths: p}
			found := []string{}
			for _, ch := range d.examine(t.Context()) {
				if ch.State == "fail" || ch.State == "warn" && ch.Name == strings.TrimPrefix(c.want, "warn ") {
					found = append(found, ch.State+" "+ch.Name)
					if ch.Hint == "" {
						t.Errorf("%+v does not say what to do", ch)
					}
				}
			}
			if d.backend != nil {
				if err := d.backend.close(); err != nil {
					t.Error(err)
				}
			}
			if got := strings.Join(found, ","); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// The inspector opens to a browser by a one-time code and the cookie it is
// traded for.
func TestLoginThroughTheListener(t *testing.T) {
	r, _ := runApp(t, "")
	res := ask(t, "POST", "http://"+r.Inspector+guard.LoginPath, "", strings.NewReader("code=guess"))
	if res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
		t.Errorf("%d %v", res.StatusCode, res.Cookies())
	}
}

func TestRolloutIsLiveAndTold(t *testing.T) {
	r, _ := runApp(t, "[rollout]\nmode = \"on\"\n")
	stream := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/events", r.token, nil)
	res := ask(t, "PUT", "http://"+r.Inspector+"/hf/v1/rollout", r.token, strings.NewReader(`{"mode":"off"}`))
	if res.StatusCode != 200 || r.settings.Current().Rollout.Mode != config.Off {
		t.Errorf("%d %v", res.StatusCode, r.settings.Current().Rollout)
	}
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if lines.Text() == "event: rollout" {
			lines.Scan()
			if !strings.HasPrefix(lines.Text(), `data: {"mode":"off","percent":100,"evidence":{`) {
				t.Error(lines.Text())
			}
			return
		}
	}
	t.Error("no rollout event")
}

// Addresses beyond loopback need the owner's word and the proxy secret.
func TestMayBind(t *testing.T) {
	for _, c := range []struct {
		addr, inspector string
		iKnow, secret   bool
		may             bool
	}{
		{"127.0.0.1:0", "localhost:0", false, false, true},
		{"0.0.0.0:0", "127.0.0.1:0", false, false, false},
		{"0.0.0.0:0", "127.0.0.1:0", true, false, false},
		{"0.0.0.0:0", "127.0.0.1:0", false, true, false},
		{"0.0.0.0:0", "127.0.0.1:0", true, true, true},
		{"127.0.0.1:0", "192.168.1.2:0", false, true, false},
		{"127.0.0.1:0", "holdfast.example:0", true, true, true},
	} {
		cfg := config.Default()
		cfg.Addr, cfg.InspectorAddr, cfg.Web.ProxySecret = c.addr, c.inspector, c.secret
		err := mayBind(&cfg, c.iKnow)
		var f *Fault
		if (err == nil) != c.may || err != nil && (!errors.As(err, &f) || f.Code != exitRefused) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The ledger stays under a budget that is lowered while it runs.
func TestBudgetIsLive(t *testing.T) {
	r, _ := runApp(t, "")
	res := ask(t, "PUT", "http://"+r.Inspector+"/hf/v1/config", r.token, strings.NewReader(`{"ledger.budget":"32MiB"}`))
	if res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	r.engine.tend(t.Context(), new(config.Size), slog.New(slog.DiscardHandler))
	var s api.Status
	if err := json.NewDecoder(ask(t, "GET", "http://"+r.Inspector+"/hf/v1/status", r.token, nil).Body).Decode(&s); err != nil || s.Ledger.BudgetBytes != 32<<20 {
		t.Errorf("%+v %v", s.Ledger, err)
	}
}
