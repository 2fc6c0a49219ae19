//go:build desktop && linux && !headless

package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"holdfast/core/session"
	"holdfast/ui"
	"holdfast/web/api"
)

// answering is a model that always says the same.
func answering(t *testing.T) string {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)
	}))
	t.Cleanup(model.Close)
	return model.URL
}

// talk sends the n-th request of one session through the proxy.
func (p *program) talk(n int) {
	p.t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"tide_table & reef"}`
	for i := range n - 1 {
		body += fmt.Sprintf(`,{"role":"assistant","content":"yes"},{"role":"user","content":"and %d"}`, i)
	}
	r, _ := readRuntime(p.paths())
	req, err := http.NewRequestWithContext(p.t.Context(), "POST", "http://"+r.Addr+"/v1/chat/completions", strings.NewReader(body+"]}"))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Affinity", "desk")
	res, err := loopbackClient().Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if data, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		p.t.Fatal(res.Status, err, string(data))
	}
}

// lastPath is how the newest of want turns was served.
func (p *program) lastPath(want int) (path session.Path) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d turns in the ledger", want), func() (bool, any) {
		var list api.SessionList
		p.get("/hf/v1/sessions", &list)
		if len(list.Sessions) == 0 {
			return false, list
		}
		var turns api.TurnList
		p.get("/hf/v1/sessions/"+list.Sessions[0].ID+"/turns", &turns)
		if len(turns.Turns) < want || turns.Turns[0].Status == 0 {
			return false, turns
		}
		path = turns.Turns[0].Path
		return true, nil
	})
	return path
}

func (p *program) status() (s api.Status) {
	p.t.Helper()
	p.get("/hf/v1/status", &s)
	return s
}

// wanted is the menu the pure functions make of the state the API tells now.
func (p *program) wanted() string {
	p.t.Helper()
	d := newDesk(p.api(), func(key string) string {
		for _, e := range p.env {
			if v, ok := strings.CutPrefix(e, key+"="); ok {
				return v
			}
		}
		return ""
	}, nil)
	s, err := d.read(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	var lines []line
	var walk func(items []ui.Item, depth int)
	walk = func(items []ui.Item, depth int) {
		for _, it := range items {
			if !it.Hidden {
				lines = append(lines, line{depth: depth, label: it.Label, check: it.Check, on: it.Checked, off: it.Disabled, separator: it.Separator})
				walk(it.Items, depth+1)
			}
		}
	}
	snapshot := s.snapshot()
	walk(ui.Menu(snapshot), 0)
	// Whether a turn is a moment ago is the program's to know.
	lines[0].label = strings.NewReplacer("working", "#", "idle", "#").Replace(lines[0].label)
	return menuText(lines)
}

// same waits until the menu is the one of the pure functions.
func (h *host) same(p *program) {
	h.t.Helper()
	until(h.t, "the menu equals the pure functions'", func() (bool, any) {
		lines := h.menu()
		if len(lines) > 0 {
			lines[0].label = strings.NewReplacer("working", "#", "idle", "#").Replace(lines[0].label)
		}
		got, want := menuText(lines), p.wanted()
		return got == want, "menu:\n" + got + "\nwant:\n" + want
	})
}

// TestDesktopTray clicks through the tray and looks at the API, and at what the
// next request does.
func TestDesktopTray(t *testing.T) {
	bus := startBus(t)
	h := newHost(t, bus)
	p := newProgram(t, bus, startX(t), routeTo(answering(t))+"[rollout]\ntripwire_percent = 100\n")
	began := time.Now()
	p.start()
	h.await()
	t.Logf("icon registered %v after the start", time.Since(began).Round(time.Millisecond))
	if id := h.prop("Id"); id != ui.Title {
		t.Errorf("the item's id is %v: a panel cannot remember it", id)
	}
	h.same(p)
	p.measure()

	p.talk(1)
	if got := p.lastPath(1); got != session.PathFull {
		t.Errorf("in shadow a turn was served by %q", got)
	}
	until(t, "the status line says working", func() (bool, any) {
		text := menuText(h.menu())
		return strings.HasPrefix(text, "Holdfast: working (disabled)\n"), text
	})
	h.same(p)

	t.Run("bypass", func(t *testing.T) { clickBypass(t, h, p) })
	t.Run("serve from snapshots", func(t *testing.T) { clickServe(t, h, p) })
	t.Run("disk KV cache", func(t *testing.T) { clickCache(t, h, p) })
	t.Run("inspector", func(t *testing.T) { clickOpen(t, h, p) })
	t.Run("copy", func(t *testing.T) { clickCopy(t, h, p) })
	t.Run("login", func(t *testing.T) { clickLogin(t, h, p) })
	t.Run("notices", func(t *testing.T) { breakSettings(t, h, p) })

	// A panel that restarts finds the icon again.
	if _, err := h.conn.ReleaseName(watcherName); err != nil {
		t.Fatal(err)
	}
	if _, err := h.conn.RequestName(watcherName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	h.await()
	h.same(p)
	h.click("Quit")
	p.ends()
}

func clickBypass(t *testing.T, h *host, p *program) {
	const label = "Bypass (send everything untouched)"
	idle := h.pixels()
	h.click(label)
	until(t, "bypass on", func() (bool, any) { s := p.status(); return s.Bypass, s })
	until(t, "another icon", func() (bool, any) { return !bytes.Equal(h.pixels(), idle), "the same" })
	h.same(p)
	before := p.status().Traffic.Skipped["bypass"]
	p.talk(2)
	until(t, "the next request went out untouched", func() (bool, any) {
		n := p.status().Traffic.Skipped["bypass"]
		return n == before+1, n
	})
	h.click(label)
	until(t, "bypass off", func() (bool, any) { s := p.status(); return !s.Bypass, s })
	h.same(p)
}

func clickServe(t *testing.T, h *host, p *program) {
	p.talk(2)
	p.talk(3)
	if p.status().Rollout.Mode != "shadow" {
		t.Fatal("not in shadow")
	}
	// With clean evidence there is nothing to ask.
	until(t, "turns are compared", func() (bool, any) {
		ev := p.status().Rollout.Evidence
		return ev.Turns > 0, ev
	})
	h.same(p)
	label := "Serve from snapshots"
	if strings.Contains(menuText(h.menu()), "not advised") {
		label = "Turn on anyway"
	}
	h.click(label)
	until(t, "rollout on", func() (bool, any) { s := p.status().Rollout; return s.Mode == "on", s })
	h.same(p)
	p.talk(4)
	if got := p.lastPath(4); got != session.PathSnapshot {
		t.Errorf("with the rollout on, a turn was served by %q", got)
	}
	h.click("Serve from snapshots")
	until(t, "rollout in shadow", func() (bool, any) { s := p.status().Rollout; return s.Mode == "shadow", s })
	p.talk(5)
	if got := p.lastPath(5); got != session.PathFull {
		t.Errorf("back in shadow, a turn was served by %q", got)
	}
	h.same(p)
}

func clickCache(t *testing.T, h *host, p *program) {
	mode := func() string {
		var v api.ConfigView
		p.get("/hf/v1/config", &v)
		m, _ := seen{config: v}.setting("kv.disk.mode").(string)
		return m
	}
	h.click("Auto")
	until(t, "the cache is set to auto", func() (bool, any) { return mode() == "auto", mode() })
	h.same(p)
	if text := menuText(h.menu()); !strings.Contains(text, "Disk KV cache: auto") {
		t.Errorf("the menu does not say so:\n%s", text)
	}
	if file, err := os.ReadFile(filepath.Join(p.home, "config.toml")); err != nil || !strings.Contains(string(file), "auto") {
		t.Errorf("it is not kept: %v\n%s", err, file)
	}
	h.click("Off")
	until(t, "the cache is off", func() (bool, any) { return mode() == "off", mode() })
	h.same(p)
}

// form is what a door file posts.
func form(t *testing.T, file string) (post string, values url.Values) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	get := func(re string) string {
		m := regexp.MustCompile(re).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in %s", re, text)
		}
		return html.UnescapeString(string(m[1]))
	}
	return get(`action="([^"]+)"`), url.Values{"code": {get(`name="code" value="([^"]+)"`)}, "next": {get(`name="next" value="([^"]+)"`)}}
}

// knock posts a form as a browser does from a local file.
func knock(t *testing.T, post string, values url.Values) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", post, strings.NewReader(values.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "null")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := loopbackClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func clickOpen(t *testing.T, h *host, p *program) {
	h.click("Open inspector")
	file := p.shown(1)
	post, values := form(t, file)
	if strings.Contains(file, values.Get("code")) {
		t.Error("the code stands in a process list")
	}
	first := knock(t, post, values)
	if first.StatusCode != 200 || len(first.Cookies()) != 1 {
		t.Fatalf("the code opens nothing: %s", first.Status)
	}
	if again := knock(t, post, values); again.StatusCode != 403 || len(again.Cookies()) != 0 {
		t.Errorf("the code works twice: %s", again.Status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", strings.Replace(post, "/hf/v1/login", "/hf/v1/status", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(first.Cookies()[0])
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := loopbackClient().Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("the cookie opens nothing: %v %v", res, err)
	}
	res.Body.Close()

	if out, code := p.command("open"); code != 0 {
		t.Fatal(out, code)
	}
	p.shown(2)
	if out, code := p.command(); code != 0 || !strings.Contains(out, "already runs") { // a second start
		t.Fatal(out, code)
	}
	p.shown(3)
	h.click("tide_table & reef") // a recent session
	if _, values := form(t, p.shown(4)); !strings.HasPrefix(values.Get("next"), "/ui/sessions/") {
		t.Errorf("a recent session opens %s", values.Get("next"))
	}
	h.click("Check setup")
	if text, err := os.ReadFile(p.shown(5)); err != nil || !strings.Contains(string(text), "Setup of Holdfast") || strings.Contains(string(text), p.api().token) {
		t.Errorf("the findings: %v\n%s", err, text)
	}
}

func clickCopy(t *testing.T, h *host, p *program) {
	h.click("Claude Code")
	r, _ := readRuntime(p.paths())
	want := "export ANTHROPIC_BASE_URL=http://" + r.Addr
	until(t, "the line is on the clipboard", func() (bool, any) {
		got := clipboard(t, p)
		return got == want, got
	})
	if n := h.noticed(); !strings.Contains(n[0], "Claude Code") {
		t.Errorf("noticed %q", n)
	}
}

func (h *host) noticed() (n [2]string) {
	h.t.Helper()
	select {
	case n = <-h.notice:
	case <-time.After(patience):
		h.t.Fatal("no notice")
	}
	return n
}

func clickLogin(t *testing.T, h *host, p *program) {
	file := filepath.Join(p.home, "config", "autostart", appID+".desktop")
	h.click("Start at login")
	until(t, "an autostart file", func() (bool, any) {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "--hidden"), err
	})
	h.same(p)
	h.click("Start at login")
	until(t, "no autostart file", func() (bool, any) { _, err := os.Stat(file); return os.IsNotExist(err), err })
	h.same(p)
}

// breakSettings makes a mistake in config.toml, and corrects it.
func breakSettings(t *testing.T, h *host, p *program) {
	file := filepath.Join(p.home, "config.toml")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("nonsense = 1\n"), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := h.noticed(); !strings.Contains(n[0], "config.toml") {
		t.Errorf("noticed %q", n)
	}
	until(t, "the status line says so", func() (bool, any) {
		lines := h.menu()
		return strings.HasPrefix(menuText(lines), "Holdfast: degraded, config.toml has a mistake (disabled)\n"), menuText(lines)
	})
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	h.same(p)
	select {
	case n := <-h.notice:
		t.Errorf("noticed more: %q", n)
	default:
	}
}

// clipboard asks the owner of the clipboard for its text.
func clipboard(t *testing.T, p *program) string {
	t.Helper()
	display := ""
	for _, e := range p.env {
		if v, ok := strings.CutPrefix(e, "DISPLAY="); ok {
			display = v
		}
	}
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	atom := func(name string) xproto.Atom {
		reply, err := xproto.InternAtom(conn, false, uint16(len(name)), name).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return reply.Atom
	}
	window, err := xproto.NewWindowId(conn)
	if err != nil {
		t.Fatal(err)
	}
	root := xproto.Setup(conn).DefaultScreen(conn).Root
	xproto.CreateWindow(conn, 0, window, root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil)
	xproto.ConvertSelection(conn, window, atom("CLIPBOARD"), atom("UTF8_STRING"), atom("HERE"), xproto.TimeCurrentTime)
	for {
		e, err := conn.WaitForEvent()
		if e == nil && err == nil {
			t.Fatal("the X server is gone")
		}
		note, ok := e.(xproto.SelectionNotifyEvent)
		if !ok {
			continue
		}
		if note.Property == xproto.AtomNone {
			return ""
		}
		reply, perr := xproto.GetProperty(conn, false, window, note.Property, xproto.GetPropertyTypeAny, 0, 1<<16).Reply()
		if perr != nil {
			t.Fatal(perr)
		}
		return string(reply.Value)
	}
}

// measure prints what the idle program takes; nothing is asserted.
func (p *program) measure() {
	p.t.Helper()
	ticks := func() (n int64) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		f := strings.Fields(string(data[bytes.LastIndexByte(data, ')'):]))
		var user, system int64
		fmt.Sscan(f[12], &user)
		fmt.Sscan(f[13], &system)
		return user + system // jiffies, 1/100 s
	}
	const span = 5 * time.Second
	before := ticks()
	time.Sleep(span)
	used := ticks() - before
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	rss := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(data)
	p.t.Logf("with tray: resident %s KB, idle %.2f %% of a core over %v", rss[1], 100*float64(used)*0.01/span.Seconds(), span)
}
