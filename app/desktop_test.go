//go:build desktop && linux && !headless

package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// talk sends the n-th request of a session through the proxy.
func (p *program) talk(session string, n int) {
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
	req.Header.Set("X-Session-Affinity", session)
	res, err := loopbackClient().Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if data, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		p.t.Fatal(res.Status, err, string(data))
	}
}

// lastPath is how the newest of want turns of a session was served.
func (p *program) lastPath(name string, want int) (path session.Path) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d turns of %s in the ledger", want, name), func() (bool, any) {
		var list api.SessionList
		p.get("/hf/v1/sessions?size=50", &list)
		at := slices.IndexFunc(list.Sessions, func(s session.SessionView) bool { return strings.Contains(s.SessRaw, name) })
		if at < 0 {
			return false, list
		}
		var turns api.TurnList
		p.get("/hf/v1/sessions/"+list.Sessions[at].ID+"/turns", &turns)
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
	p.measure("with tray", 5*time.Second)

	p.talk("desk", 1)
	if got := p.lastPath("desk", 1); got != session.PathFull {
		t.Errorf("in shadow a turn was served by %q", got)
	}
	talked := time.Now()
	until(t, "the status line says working", func() (bool, any) {
		if time.Since(talked) > busyTime/2 { // it says so for a while only
			p.talk("desk", 1)
			talked = time.Now()
		}
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
	if doors, err := filepath.Glob(filepath.Join(p.home, doorName+"*")); err != nil || len(doors) > 0 {
		t.Errorf("files that signed a browser in are left: %q, %v", doors, err)
	}
}

func clickBypass(t *testing.T, h *host, p *program) {
	const label = "Bypass (send everything untouched)"
	idle := h.pixels()
	h.click(label)
	until(t, "bypass on", func() (bool, any) { s := p.status(); return s.Bypass, s })
	until(t, "another icon", func() (bool, any) { return !bytes.Equal(h.pixels(), idle), "the same" })
	h.same(p)
	before := p.status().Traffic.Skipped["bypass"]
	p.talk("desk", 2)
	until(t, "the next request went out untouched", func() (bool, any) {
		n := p.status().Traffic.Skipped["bypass"]
		return n == before+1, n
	})
	h.click(label)
	until(t, "bypass off", func() (bool, any) { s := p.status(); return !s.Bypass, s })
	h.same(p)
}

func clickServe(t *testing.T, h *host, p *program) {
	p.talk("desk", 2)
	p.talk("desk", 3)
	if p.status().Rollout.Mode != "shadow" {
		t.Fatal("not in shadow")
	}
	// With clean evidence there is nothing to ask.
	until(t, "turns are compared", func() (bool, any) {
		ev := p.status().Rollout.Evidence
		return ev.Turns > 0, ev
	})
	h.same(p)
	h.click("Serve from snapshots", "Turn on anyway") // the second where a turn stepped down
	until(t, "rollout on", func() (bool, any) { s := p.status().Rollout; return s.Mode == "on", s })
	h.same(p)
	// On a slow machine a commit may take too long, and that turn steps down
	// rightly; the next session is served from its rows then.
	n := 0
	until(t, "a turn served from its rows", func() (bool, any) {
		n++
		name := fmt.Sprintf("reef-%d-", n)
		p.talk(name, 1)
		p.talk(name, 2)
		got := p.lastPath(name, 2)
		return got == session.PathSnapshot, got
	})
	h.click("Serve from snapshots")
	until(t, "rollout in shadow", func() (bool, any) { s := p.status().Rollout; return s.Mode == "shadow", s })
	p.talk("shore", 1)
	p.talk("shore", 2)
	if got := p.lastPath("shore", 2); got != session.PathFull {
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
	h.noticed("Copied the line for Claude Code")
}

// noticed waits for a notice by its title. Others may come between: on a slow
// machine a session steps down.
func (h *host) noticed(title string) {
	h.t.Helper()
	for {
		select {
		case n := <-h.notice:
			if n[0] == title {
				return
			}
			h.t.Logf("also noticed: %q", n)
		case <-time.After(patience):
			h.t.Fatalf("no notice %q", title)
		}
	}
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
	h.noticed("config.toml has a mistake")
	until(t, "the status line says so", func() (bool, any) {
		lines := h.menu()
		return strings.HasPrefix(menuText(lines), "Holdfast: degraded, config.toml has a mistake (disabled)\n"), menuText(lines)
	})
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	h.same(p)
	for len(h.notice) > 0 {
		if n := <-h.notice; n[0] == "config.toml has a mistake" {
			t.Error("noticed twice")
		}
	}
}

// clipboard asks the owner of the clipboard for its text.
func clipboard(t *testing.T, p *program) string {
	t.Helper()
	conn := p.x()
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

// measure prints what the idle program takes; nothing is asserted. Processor
// time is what the kernel ran its threads for, in nanoseconds.
func (p *program) measure(what string, span time.Duration) {
	p.t.Helper()
	ran := func() (sum time.Duration) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			p.t.Fatal(threads, err)
		}
		for _, file := range threads {
			data, _ := os.ReadFile(file) // a thread may just have ended
			var ns time.Duration
			fmt.Sscan(string(data), &ns)
			sum += ns
		}
		return sum
	}
	before, began := ran(), time.Now()
	time.Sleep(span)
	used, took := ran()-before, time.Since(began)
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	rss := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(data)
	p.t.Logf("%s: resident %s KB, idle %.3f %% of a core over %v", what, rss[1], 100*used.Seconds()/took.Seconds(), took.Round(time.Second))
}

// settleTime is how long the program is left alone before it is measured as
// idle: it gives back what starting and serving took.
const settleTime = 12 * time.Second

// TestDesktopIdle prints what the program without a desktop takes at rest: in a
// new home, and in one with 1,000 sessions.
func TestDesktopIdle(t *testing.T) {
	p := newProgram(t, "", "", routeTo(answering(t)))
	if p.path = os.Getenv(headlessEnv); p.path == "" {
		t.Fatalf("%s does not name the program; run go run ./build test", headlessEnv)
	}
	p.start()
	time.Sleep(settleTime)
	p.measure("headless, new", 5*time.Second)
	for i := range 1000 {
		p.talk(fmt.Sprintf("idle-%d-", i), 1)
	}
	time.Sleep(settleTime)
	p.measure("headless, 1,000 sessions", 5*time.Second)
	if out, code := p.command("quit"); code != 0 {
		t.Fatal(out, code)
	}
	p.ends()
}

// TestDesktopWithoutTray: a desktop without a tray gets the window; closing it
// leaves the program running, and a second start brings it back.
func TestDesktopWithoutTray(t *testing.T) {
	display := startX(t)
	p := newProgram(t, startBus(t), display, routeTo(answering(t)))
	p.start()
	window := p.window()
	if file := os.Getenv("HOLDFAST_SHOTS"); file != "" {
		p.shoot(window, filepath.Join(file, "window.png"))
	}
	p.close(window)
	until(t, "a second start brings the window back", func() (bool, any) { // its old process may still be ending
		out, code := p.command()
		if code != 0 || !strings.Contains(out, "already runs") {
			t.Fatal(out, code)
		}
		_, ok := p.visible()
		return ok, p.said()
	})
	p.shown(1)
	if out, code := p.command("quit"); code != 0 {
		t.Fatal(out, code)
	}
	p.ends()
}

// TestDesktopWithoutDisplay serves, and says how that is asked for.
func TestDesktopWithoutDisplay(t *testing.T) {
	p := newProgram(t, startBus(t), "", routeTo(answering(t)))
	p.start()
	until(t, "it names holdfast serve", func() (bool, any) { return strings.Contains(p.said(), "holdfast serve"), p.said() })
	p.talk("desk", 1)
	if out, code := p.command("open"); code != 0 {
		t.Fatal(out, code)
	}
	if out, code := p.command("quit"); code != 0 {
		t.Fatal(out, code)
	}
	p.ends()
	if out, code := p.command("quit"); code != exitNotRunning {
		t.Fatal(out, code)
	}
}

// TestDesktopRun starts an agent that starts Holdfast.
func TestDesktopRun(t *testing.T) {
	p := newProgram(t, startBus(t), startX(t), routeTo(answering(t))+"addr = \"127.0.0.1:0\"\n")
	file := filepath.Join(p.home, "config.toml")
	toml := "addr = \"127.0.0.1:0\"\ninspector_addr = \"127.0.0.1:0\"\n" + routeTo(answering(t))
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(filepath.Dir(p.opened), "bin", "claude")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\necho \"at $ANTHROPIC_BASE_URL with $*\"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := p.command("run", "claude", "--", "-p", "hello")
	r, ok := findRunning(t.Context(), p.paths())
	if !ok || code != 7 || !strings.Contains(out, "at http://"+r.Addr+" with -p hello") {
		t.Fatal(out, code, r)
	}
	if out, code := p.command("run", "claude"); code != 7 || strings.Contains(out, "started") {
		t.Fatal(out, code)
	}
	if out, code := p.command("quit"); code != 0 {
		t.Fatal(out, code)
	}
}

// x is the one connection to the program's display: a server takes 256 in all.
func (p *program) x() *xgb.Conn {
	p.t.Helper()
	if p.conn != nil {
		return p.conn
	}
	for _, e := range p.env {
		if display, ok := strings.CutPrefix(e, "DISPLAY="); ok && display != "" {
			conn, err := xgb.NewConnDisplay(display)
			if err != nil {
				p.t.Fatal(err)
			}
			p.t.Cleanup(conn.Close)
			p.conn = conn
			return conn
		}
	}
	p.t.Fatal("no display")
	return nil
}

// window waits for the program's window and returns it.
func (p *program) window() (w xproto.Window) {
	p.t.Helper()
	until(p.t, "a window", func() (ok bool, _ any) {
		w, ok = p.visible()
		return ok, p.said()
	})
	return w
}

// visible looks for the program's window.
func (p *program) visible() (w xproto.Window, ok bool) {
	p.t.Helper()
	conn := p.x()
	root := xproto.Setup(conn).DefaultScreen(conn).Root
	tree, err := xproto.QueryTree(conn, root).Reply()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, child := range tree.Children {
		name, err := xproto.GetProperty(conn, false, child, xproto.AtomWmName, xproto.GetPropertyTypeAny, 0, 64).Reply()
		attr, aerr := xproto.GetWindowAttributes(conn, child).Reply()
		if err == nil && aerr == nil && string(name.Value) == ui.Title && attr.MapState == xproto.MapStateViewable {
			return child, true
		}
	}
	return 0, false
}

// close asks the window to close, as a window manager does, until it is gone.
func (p *program) close(w xproto.Window) {
	p.t.Helper()
	conn := p.x()
	atom := func(name string) xproto.Atom {
		reply, err := xproto.InternAtom(conn, false, uint16(len(name)), name).Reply()
		if err != nil {
			p.t.Fatal(err)
		}
		return reply.Atom
	}
	e := xproto.ClientMessageEvent{Format: 32, Window: w, Type: atom("WM_PROTOCOLS"),
		Data: xproto.ClientMessageDataUnionData32New([]uint32{uint32(atom("WM_DELETE_WINDOW")), 0, 0, 0, 0})}
	xproto.SendEvent(conn, false, w, xproto.EventMaskNoEvent, string(e.Bytes()))
	until(p.t, "the window is closed", func() (bool, any) {
		_, err := xproto.GetWindowAttributes(conn, w).Reply()
		return err != nil, "it is there"
	})
}

// shoot writes a picture of a window once it has drawn more than one colour.
func (p *program) shoot(w xproto.Window, file string) {
	p.t.Helper()
	conn := p.x()
	geo, err := xproto.GetGeometry(conn, xproto.Drawable(w)).Reply()
	if err != nil {
		p.t.Fatal(err)
	}
	img := image.NewRGBA(image.Rect(0, 0, int(geo.Width), int(geo.Height)))
	until(p.t, "the window is drawn", func() (bool, any) {
		got, err := xproto.GetImage(conn, xproto.ImageFormatZPixmap, xproto.Drawable(w), 0, 0, geo.Width, geo.Height, ^uint32(0)).Reply()
		if err != nil {
			return false, err
		}
		colours := map[[3]byte]bool{}
		for i := 0; i+3 < len(got.Data); i += 4 {
			img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = got.Data[i+2], got.Data[i+1], got.Data[i], 255
			colours[[3]byte(got.Data[i:i+3])] = true
		}
		return len(colours) > 60, len(colours)
	})
	out, err := os.Create(file)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := errors.Join(png.Encode(out, img), out.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// TestDesktopLoginTexts are the files of three systems that start us at login.
func TestDesktopLoginTexts(t *testing.T) {
	const exe = `/opt/my apps/50% "hold"/hold$fast`
	if got := desktopEntry(exe); !strings.Contains(got, `Exec="/opt/my apps/50%% \\"hold\\"/hold\\$fast" --hidden`+"\n") || !strings.Contains(got, "TryExec="+exe+"\n") {
		t.Errorf("desktop entry:\n%s", got)
	}
	if got := launchAgent(`/Applications/A & B.app/x`); !strings.Contains(got, "<string>/Applications/A &amp; B.app/x</string><string>--hidden</string>") {
		t.Errorf("launch agent:\n%s", got)
	}
	if got := runValue(`C:\Users\a b\HoldfastTray.exe`); got != `"C:\Users\a b\HoldfastTray.exe" --hidden` {
		t.Errorf("run value: %s", got)
	}
}
