package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/core/client"
	"holdfast/core/guard"
	"holdfast/web/api"
)

// TestDeskRoutesAreGuarded: the routes that hand out codes, stop the program
// or edit settings of agents are for the token, on the inspector alone.
func TestDeskRoutesAreGuarded(t *testing.T) {
	r, _ := runApp(t, "")
	type head = [2]string
	code := ask(t, "POST", "http://"+r.Inspector+"/hf/v1/login-codes", r.token, nil)
	var first api.LoginCode
	if err := json.NewDecoder(code.Body).Decode(&first); err != nil || len(first.Code) != 64 {
		t.Fatalf("%v %+v", err, first)
	}
	in := login(t, first)
	for _, route := range []string{"POST /hf/v1/login-codes", "POST /hf/v1/quit", "POST /hf/v1/activate", "GET /hf/v1/clients",
		"POST /hf/v1/clients/claude/connection", "DELETE /hf/v1/clients/claude/connection"} {
		method, path, _ := strings.Cut(route, " ")
		for _, c := range []struct {
			name, addr, token, host string
			head                    head
			status                  int
		}{
			{"no token", r.Inspector, "", "", head{}, 401},
			{"wrong token", r.Inspector, "x" + r.token, "", head{}, 401},
			{"forged host", r.Inspector, r.token, "evil.example", head{}, 403},
			{"foreign page", r.Inspector, r.token, "", head{"Origin", "https://evil.example"}, 403},
			{"local file", r.Inspector, r.token, "", head{"Origin", "null"}, 403},
			{"the proxy's listener", r.Addr, r.token, "", head{}, 404},
		} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.addr+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.host != "" {
				req.Host = c.host
			}
			if c.head[0] != "" {
				req.Header.Set(c.head[0], c.head[1])
			}
			res, err := loopbackClient().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("%s, %s: %s", route, c.name, res.Status)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.Inspector+"/hf/v1/login-codes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(in)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := loopbackClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusForbidden {
		t.Errorf("a page gets codes: %s", res.Status)
	}
	if res := ask(t, "POST", "http://"+r.Inspector+"/hf/v1/activate", r.token, nil); res.StatusCode != http.StatusConflict {
		t.Errorf("a program without a desktop came forward: %s", res.Status)
	}
}

// login trades a code for the cookie, once.
func login(t *testing.T, c api.LoginCode) *http.Cookie {
	t.Helper()
	var got []*http.Cookie
	for try, want := range []int{200, 403} {
		res, err := loopbackClient().PostForm(c.Post, url.Values{"code": {c.Code}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Fatalf("try %d: %s", try, res.Status)
		}
		got = append(got, res.Cookies()...)
	}
	if len(got) != 1 {
		t.Fatalf("cookies %v", got)
	}
	return got[0]
}

// TestQuit: the route ends Run, and closing gives the folder back.
func TestQuit(t *testing.T) {
	r, stop := runApp(t, "")
	b, err := connect(r.paths, r.Runtime)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // whoever asks twice is not told off
		if _, err := b.call(t.Context(), http.MethodPost, "/hf/v1/quit", nil); err != nil {
			t.Fatal(err)
		}
	}
	<-r.quit
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := b.gone(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}

func TestDoorFiles(t *testing.T) {
	dir := t.TempDir()
	file, err := writeDoor(dir, api.LoginCode{Code: "c0de", Post: "http://127.0.0.1:1/hf/v1/login"}, `/ui/"><script>`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), `"><script>`) || !strings.Contains(string(text), `value="c0de"`) || strings.Contains(file, "c0de") {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	sweepDoors(dir, time.Now())
	if _, err := os.Stat(file); err != nil {
		t.Error("a fresh file was swept away")
	}
	sweepDoors(dir, time.Now().Add(2*doorLife))
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("a dead file stays")
	}
}

// TestDoorsAreSwept: the file of a code goes some time after the code, with the
// process, and at the next start.
func TestDoorsAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Paths{State: t.TempDir()}
		write := func(age time.Duration) string {
			file := filepath.Join(p.State, doorName+time.Now().Format("150405.000")+age.String()+".html")
			at := time.Now().Add(-age) // the bubble's time, not the disk's
			if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, at, at)); err != nil {
				t.Fatal(err)
			}
			return file
		}
		there := func(file string) bool { _, err := os.Stat(file); return err == nil }
		left, young := write(2*doorLife), write(0)
		d := &doors{folder: p.State, alone: true}
		d.sweep()
		if there(left) || !there(young) {
			t.Error("a sweep takes the young one, or leaves the old one")
		}
		d.given()
		given := write(0)
		time.Sleep(2 * doorLife)
		synctest.Wait()
		if there(given) {
			t.Error("a dead file stays")
		}
		last := write(0)
		d.Close()
		if there(last) {
			t.Error("the process ends and its file stays")
		}
	})
}

// machine is agents of a home of its own.
func machine(t *testing.T) (*agents, string) {
	dir := t.TempDir()
	getenv := func(name string) string {
		for _, a := range client.All() {
			if c := a.Config(); c != nil && c.FolderVar == name && name != "" {
				return filepath.Join(dir, "home", filepath.FromSlash(c.Folder))
			}
		}
		return ""
	}
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("USERPROFILE", filepath.Join(dir, "home"))
	return &agents{paths: Paths{dir, dir, dir}, getenv: getenv, base: func() string { return "http://127.0.0.1:4153" }}, filepath.Join(dir, "home")
}

func TestPluginUndoIsExact(t *testing.T) {
	const odd = "{\r\n\t\"model\": \"opus\" ,\n \"env\":{}}\n\n"
	a, home := machine(t)
	file := filepath.Join(home, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(odd), 0o640); err != nil {
		t.Fatal(err)
	}
	v, err := a.Connect("claude")
	if err != nil || !v.Connected || v.File != file {
		t.Fatalf("%+v %v", v, err)
	}
	if again, err := a.Connect("claude"); err != nil || !again.Connected {
		t.Fatalf("%+v %v", again, err)
	}
	if v, err := a.Disconnect("claude"); err != nil || v.Connected || !strings.Contains(v.Note, "to the byte") {
		t.Fatalf("%+v %v", v, err)
	}
	text, err := os.ReadFile(file)
	info, serr := os.Stat(file)
	if err != nil || serr != nil || string(text) != odd || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v %q", err, info.Mode(), text)
	}
	if v, err := a.Disconnect("claude"); err != nil || !strings.Contains(v.Note, "has not changed") {
		t.Errorf("%+v %v", v, err)
	}
}

func TestPluginLeavesNoTrace(t *testing.T) {
	a, home := machine(t)
	for _, agent := range client.All() {
		if agent.Config() == nil {
			continue
		}
		if v, err := a.Connect(agent.ID); err != nil || !v.Connected {
			t.Errorf("%s: %+v %v", agent.ID, v, err)
		}
	}
	for _, agent := range client.All() {
		if agent.Config() != nil {
			if _, err := a.Disconnect(agent.ID); err != nil {
				t.Errorf("%s: %v", agent.ID, err)
			}
		}
	}
	if left, err := os.ReadDir(home); !os.IsNotExist(err) && len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestPluginKeepsEdits(t *testing.T) {
	a, home := machine(t)
	file := filepath.Join(home, ".codex", "config.toml")
	if _, err := a.Connect("codex"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "model = \"o9\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := a.Disconnect("codex"); err != nil || !strings.Contains(v.Note, "edited since") {
		t.Fatalf("%+v %v", v, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "model = \"o9\"\n" {
		t.Errorf("%v %q", err, text)
	}
}

// TestPluginFollowsTheAddress: connected to an address of ours that has since
// changed, an agent is connected anew and still comes back to the first bytes.
func TestPluginFollowsTheAddress(t *testing.T) {
	a, home := machine(t)
	file := filepath.Join(home, ".gemini", ".env")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("A=1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		a.base = func() string { return addr }
		if v, err := a.Connect("gemini"); err != nil || !v.Connected {
			t.Fatalf("%+v %v", v, err)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), addr) || strings.Contains(string(text), "/via/") {
			t.Fatalf("%v %q", err, text)
		}
	}
	if _, err := a.Disconnect("gemini"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "A=1" {
		t.Errorf("%v %q", err, text)
	}
}

func TestPluginRefusals(t *testing.T) {
	a, home := machine(t)
	file := filepath.Join(home, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{ // mine\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"claude": "format", "copilot": "no_config", "openai-sdk": "no_config", "emacs": "no_such_client"} {
		var p *guard.Problem
		if _, err := a.Connect(id); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{ // mine\n}" {
		t.Errorf("a file that cannot be read was changed: %v %q", err, text)
	}
}

func TestClientsOverTheAPI(t *testing.T) {
	r, _ := runApp(t, "")
	res := ask(t, "GET", "http://"+r.Inspector+"/hf/v1/clients", r.token, nil)
	var list struct{ Clients []api.ClientView }
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || len(list.Clients) != len(client.All()) {
		t.Fatalf("%v %d", err, len(list.Clients))
	}
	if !strings.Contains(list.Clients[0].Line, r.Addr) {
		t.Errorf("the line leads elsewhere: %+v", list.Clients[0])
	}
	bad := ask(t, "POST", "http://"+r.Inspector+"/hf/v1/clients/copilot/connection", r.token, nil)
	if body, _ := io.ReadAll(bad.Body); bad.StatusCode != http.StatusConflict || !strings.Contains(string(body), "holdfast run copilot") {
		t.Errorf("%s %s", bad.Status, body)
	}
}

func TestRunPrefersTheTray(t *testing.T) {
	dir := t.TempDir()
	self, tray := filepath.Join(dir, "holdfast.exe"), filepath.Join(dir, "HoldfastTray.exe")
	if got := withTray(self); got != self {
		t.Errorf("without a tray program: %s", got)
	}
	if err := os.WriteFile(tray, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := withTray(self); got != tray {
		t.Errorf("beside one: %s", got)
	}
}
