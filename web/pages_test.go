package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
	"holdfast/storage/ledger"
	"holdfast/web/api"
)

// knobs are settings in memory.
type knobs struct {
	c    config.Config
	last map[string]string
}

func (k *knobs) Config() (*config.Config, string, error) { return &k.c, "/home/config.toml", nil }

func (k *knobs) Change(_ context.Context, values map[string]string) error {
	k.last = values
	return nil
}

// shelf is a ledger without bodies of turns.
type shelf struct{ *ledger.DB }

func (s shelf) Sessions(context.Context, string, int, int) ([]session.SessionView, int, error) {
	return nil, 0, nil
}

func (s shelf) Degrades(context.Context, int64) ([]session.DegradeView, error) { return nil, nil }

// shelfBody is what every request said.
const shelfBody = `{"model":"m","messages":[]}`

func (s shelf) Body(_ context.Context, _ int64, part string) (api.Body, error) {
	if part == "response" {
		return api.Body{}, session.ErrNotKept
	}
	return api.Body{Bytes: []byte(shelfBody), Type: "application/json"}, nil
}

// site of one session, with the guard that lets a browser in.
type house struct {
	handler http.Handler
	guard   *guard.Inspector
	knobs   *knobs
	ledger  string
	turn    int64
	cookie  *http.Cookie
}

func newHouse(t *testing.T) *house {
	t.Helper()
	db, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), ledger.Options{Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := ledgertest.NewScript("house")
	h := &house{knobs: &knobs{c: config.Default()}, ledger: s.State.Head.Ledger}
	for range 4 {
		h.turn = db.NextTurn()
		if err := db.Commit(t.Context(), s.Turn(h.turn)); err != nil {
			t.Fatal(err)
		}
	}
	none := func() []string { return nil }
	h.guard = guard.NewInspector(guard.InspectorOptions{Token: "tok", Origins: none, Open: Open(), Page: Stranger()})
	a := api.New(api.Options{Sessions: shelf{db}, Turns: shelf{db}, Bytes: shelf{db}, Settings: h.knobs, Hub: api.NewHub(), Log: slog.New(slog.DiscardHandler),
		Status: func(context.Context) (api.Status, error) { return api.Status{}, nil },
		Health: func() api.Health { return api.Health{OK: true} },
		Verify: func(_ context.Context, id string) (api.Verification, error) {
			return api.Verification{Session: id, Sound: true}, nil
		}})
	h.handler = Inspector(Options{Guard: h.guard, API: a, Ledger: db, BaseURL: func() string { return "http://127.0.0.1:1" }})
	h.cookie = h.signIn(t, h.guard.NewCode()).Cookies()[0]
	return h
}

// signIn trades a code.
func (h *house) signIn(t *testing.T, code string) *http.Response {
	t.Helper()
	r := httptest.NewRequest("POST", guard.LoginPath, strings.NewReader(url.Values{"code": {code}, "next": {"/ui/sessions"}}.Encode()))
	r.Host = "127.0.0.1:4154"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "null")
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Result()
}

// ask is a browser with the cookie; heads are "Name: value" and win.
func (h *house) ask(method, target string, form url.Values, heads ...string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:4154"
	r.AddCookie(h.cookie)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Accept", "text/html")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:4154")
	}
	for _, line := range heads {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pages are all pages there are.
func (h *house) pages() []string {
	one := "/ui/sessions/" + h.ledger
	return []string{"/ui/", "/ui/sessions", "/ui/sessions?q=nothing+there", one, one + "?page=1&state=live", one + "?at=3", one + "/map", one + "/turns", one + "/turns?sort=wait&dir=asc",
		"/ui/degrades", "/ui/degrades?gate=R1", "/ui/cache", "/ui/settings", "/ui/connect", "/ui/help", "/ui/help/map"}
}

// Every page is drawn, names its title, carries the strict policy and nothing
// inline that the policy would refuse.
func TestPages(t *testing.T) {
	h := newHouse(t)
	for _, p := range append(h.pages(), "/ui/turns/"+strconv.FormatInt(h.turn, 10)) {
		res := h.ask("GET", p, nil)
		body := text(t, res)
		if res.StatusCode != 200 || !strings.Contains(body, "</html>") {
			t.Errorf("%s: %s", p, res.Status)
			continue
		}
		if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", p, csp)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", p, res.Header)
		}
		for _, inline := range []string{" style=", "<style", " onclick=", "javascript:", "hx-on", "<script>"} {
			if strings.Contains(body, inline) {
				t.Errorf("%s: has %q", p, inline)
			}
		}
		if _, end, _ := strings.Cut(body, "</main>"); strings.Count(end, "<script src=") != 3 || strings.Contains(body, " defer") || strings.Contains(body, " async") {
			t.Errorf("%s: htmx may start before its extension and the page's script", p)
		}
		if strings.Count(body, "<form") > strings.Count(body, `method="get"`)+strings.Count(body, `method="dialog"`)+strings.Count(body, `name="csrf"`) {
			t.Errorf("%s: a form without its token", p)
		}
		if strings.Contains(body, h.cookie.Value) || strings.Contains(body, "tok\"") {
			t.Errorf("%s: a secret stands on the page", p)
		}
	}
}

// What is not there is a page for a person, with the right status.
func TestMissingPages(t *testing.T) {
	h := newHouse(t)
	for p, want := range map[string]int{"/ui/nowhere": 404, "/ui/sessions/none": 404, "/ui/sessions/none/map": 404, "/ui/turns/999999": 404, "/ui/turns/x": 404,
		"/ui/help/none": 404, "/ui/elements/zz": 404, "/ui/turns/1/secret": 404, "/nowhere": 404, "/ui/assets/../../etc/passwd": 404, "/ui/assets/x/css/app.css": 404} {
		if res := h.ask("GET", p, nil); res.StatusCode != want && res.StatusCode != http.StatusMovedPermanently && res.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: %s, want %d", p, res.Status, want)
		}
	}
}

// A code opens the door once, leads where it should, and sets a cookie that
// scripts cannot read and other sites cannot send.
func TestLogin(t *testing.T) {
	h := newHouse(t)
	code := h.guard.NewCode()
	res := h.signIn(t, code)
	c := res.Cookies()
	if res.StatusCode != 200 || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || !strings.Contains(text(t, res), "url=/ui/sessions") {
		t.Errorf("%s %v", res.Status, c)
	}
	res = h.signIn(t, code)
	if res.StatusCode != 403 || len(res.Cookies()) != 0 || !strings.Contains(text(t, res), "holdfast open") {
		t.Errorf("a spent code: %s", res.Status)
	}
}

// Without a cookie a person is told what to do, and a program gets the problem.
func TestStrangers(t *testing.T) {
	h := newHouse(t)
	h.cookie.Value = "wrong"
	for _, p := range h.pages() {
		res := h.ask("GET", p, nil)
		if body := text(t, res); res.StatusCode != 401 || !strings.Contains(body, "holdfast open") || strings.Contains(body, "house") {
			t.Errorf("%s: %s", p, res.Status)
		}
	}
	if res := h.ask("GET", "/ui/", nil, "Accept: application/json"); res.Header.Get("Content-Type") != "application/problem+json" {
		t.Error("a program got a page: ", res.Header)
	}
	sheet := h.ask("GET", "/ui/", nil)
	_, after, _ := strings.Cut(text(t, sheet), `rel="stylesheet" href="`)
	css, _, _ := strings.Cut(after, `"`)
	if res := h.ask("GET", css, nil); res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/css") {
		t.Errorf("the style of the page for strangers (%s): %s", css, res.Status)
	}
}

// Nothing is changed by a form from elsewhere, whatever it says.
func TestForgedForms(t *testing.T) {
	h := newHouse(t)
	token := h.guard.FormToken()
	forms := []string{"/ui/bypass", "/ui/rollout", "/ui/settings", "/ui/theme", "/ui/cache/clear", "/ui/cache/prune", "/ui/connect/claude",
		"/ui/sessions/" + h.ledger + "/delete", "/ui/sessions/" + h.ledger + "/verify", "/ui/turns/1/replay", "/ui/settings/check", "/ui/settings/test"}
	for _, p := range forms {
		for name, heads := range map[string][]string{
			"no token": nil, "foreign origin": {"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, "null origin": {"Origin: null", "Sec-Fetch-Site: cross-site"},
			"the other port": {"Origin: http://127.0.0.1:4153", "Sec-Fetch-Site: same-site"}, "rebound": {"Host: evil.example", "Origin: http://evil.example"}, "no cookie": {"Cookie: "},
		} {
			form := url.Values{"on": {"true"}, "mode": {"off"}, "key": {"bypass"}, "value": {"true"}}
			if name != "no token" {
				form.Set(guard.FormField, token)
			}
			res := h.ask("POST", p, form, heads...)
			if res.StatusCode != 401 && res.StatusCode != 403 && res.StatusCode != 421 {
				t.Errorf("%s, %s: %s", p, name, res.Status)
			}
		}
		if res := h.ask("GET", p+"?on=true&mode=off&key=bypass&value=true", nil); res.StatusCode < 400 && p != "/ui/settings" {
			t.Errorf("%s by GET: %s", p, res.Status)
		}
	}
	if h.knobs.last != nil {
		t.Errorf("a forged form changed %v", h.knobs.last)
	}
	res := h.ask("POST", "/ui/bypass", url.Values{"on": {"true"}, "back": {"https://evil.example/"}, guard.FormField: {token}})
	if res.StatusCode != 303 || res.Header.Get("Location") != "/ui/" || h.knobs.last["bypass"] != "true" {
		t.Errorf("a form of ours: %s to %q, changed %v", res.Status, res.Header.Get("Location"), h.knobs.last)
	}
}

// A form of ours, with everything in order, still does not decide which program
// is run.
func TestProgramsAreNotForPages(t *testing.T) {
	h := newHouse(t)
	for _, key := range []string{"engine.local.command", "engine.local.model"} {
		res := h.ask("POST", "/ui/settings", url.Values{"key": {key}, "value": {"/bin/sh"}, guard.FormField: {h.guard.FormToken()}})
		if body := text(t, res); res.StatusCode != 403 || !strings.Contains(body, "holdfast config set "+key) || h.knobs.last != nil {
			t.Errorf("%s: %s, changed %v", key, res.Status, h.knobs.last)
		}
	}
	h.knobs.c.Engine = map[string]config.Engine{"local": {Command: "llama-server", Model: "m.gguf"}}
	if body := text(t, h.ask("GET", "/ui/settings", nil)); !strings.Contains(body, "no browser may change it") || strings.Contains(body, `aria-label="Save engine.local.command"`) {
		t.Error("the page offers to change the program, or does not say why not")
	}
}

// The theme is remembered, and only as one of its names.
func TestTheme(t *testing.T) {
	h := newHouse(t)
	form := url.Values{"theme": {"dark"}, guard.FormField: {h.guard.FormToken()}, "back": {"/ui/help"}}
	res := h.ask("POST", "/ui/theme", form)
	if c := res.Cookies(); len(c) != 1 || c[0].Value != "dark" || res.Header.Get("Location") != "/ui/help" {
		t.Errorf("%s %v", res.Status, c)
	}
	if body := text(t, h.ask("GET", "/ui/help", nil, "Cookie: "+h.cookie.String()+"; "+themeName+"=dark")); !strings.Contains(body, `data-theme="dark"`) {
		t.Error("the page does not follow the choice")
	}
	if body := text(t, h.ask("GET", "/ui/help", nil, "Cookie: "+h.cookie.String()+"; "+themeName+"=\"><script>")); strings.Contains(body, "<script>") {
		t.Error("a cookie wrote into the page")
	}
}

// Nothing of the pages is reachable through the proxy's listener.
func TestPagesBehindTheProxy(t *testing.T) {
	proxy := proxyHandler()
	h := newHouse(t)
	for _, target := range []string{"/ui/", "/ui/sessions/" + h.ledger, "/ui/assets/", "/hf/v1/status", "http://127.0.0.1:4154/ui/", "http://localhost:4154/hf/v1/status", "/ui"} {
		if status, body := get(proxy, target, "tok"); status != 404 || strings.Contains(body, "<html") {
			t.Errorf("%s: %d", target, status)
		}
	}
	r := httptest.NewRequest("CONNECT", "/", nil)
	r.Host, r.URL.Host = "127.0.0.1:4154", "127.0.0.1:4154"
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("CONNECT to the inspector: %d", w.Code)
	}
}

// An error of ours is logged and shown without its text.
func TestFailure(t *testing.T) {
	s := &site{Options: Options{API: api.New(api.Options{Log: slog.New(slog.DiscardHandler)})}}
	p := s.failure(httptest.NewRequest("GET", "/ui/", nil), errors.New("/secret/path is broken"))
	if p.Status != 500 || strings.Contains(p.Title, "secret") {
		t.Errorf("%+v", p)
	}
}
