//go:build desktop && linux && !headless

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/jezek/xgb"
)

// The tests behind the tag desktop run the built program as a desktop sees it:
// on a session bus and an X server of their own, with this process as the tray
// host. They wait for conditions; patience only bounds a hang.
const patience = 3 * time.Minute

// programEnv names the built program, headlessEnv the one without a desktop;
// `go run ./build test` sets them.
const (
	programEnv  = "HOLDFAST_PROGRAM"
	headlessEnv = "HOLDFAST_HEADLESS"
)

// until waits for a condition and says what was last seen when it never holds.
func until(t *testing.T, what string, ok func() (bool, any)) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		done, seen := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: it never came to that; last seen:\n%v", what, seen)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startBus runs a session bus and returns its address.
func startBus(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// startX runs an X server without a screen and returns its display.
func startX(t *testing.T) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb did not start: %v", err)
	}
	return ":" + strings.TrimSpace(line)
}

// host is a panel with a tray, and a notification daemon.
type host struct {
	t      *testing.T
	conn   *dbus.Conn
	items  chan dbus.Sender
	item   dbus.Sender
	path   dbus.ObjectPath
	notice chan [2]string // title and body
}

const watcherName, itemName, menuName = "org.kde.StatusNotifierWatcher", "org.kde.StatusNotifierItem", "com.canonical.dbusmenu"

// RegisterStatusNotifierItem is called by a program with a tray icon.
func (h *host) RegisterStatusNotifierItem(path string, sender dbus.Sender) *dbus.Error {
	h.path = dbus.ObjectPath(path)
	h.items <- sender
	return nil
}

// Notify is called by a program with news.
func (h *host) Notify(app string, replaces uint32, icon, title, body string, actions []string, hints map[string]dbus.Variant, timeout int32) (uint32, *dbus.Error) {
	h.notice <- [2]string{title, body}
	return 1, nil
}

func newHost(t *testing.T, bus string) *host {
	t.Helper()
	conn, err := dbus.Connect(bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	h := &host{t: t, conn: conn, items: make(chan dbus.Sender, 4), notice: make(chan [2]string, 16)}
	for path, name := range map[dbus.ObjectPath]string{"/StatusNotifierWatcher": watcherName, "/org/freedesktop/Notifications": "org.freedesktop.Notifications"} {
		if err := conn.Export(h, path, name); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || got != dbus.RequestNameReplyPrimaryOwner {
			t.Fatal(name, got, err)
		}
	}
	return h
}

// await takes the next registration.
func (h *host) await() {
	h.t.Helper()
	select {
	case h.item = <-h.items:
	case <-time.After(patience):
		h.t.Fatal("no tray icon was registered")
	}
}

func (h *host) prop(name string) any {
	h.t.Helper()
	v, err := h.conn.Object(string(h.item), h.path).GetProperty(itemName + "." + name)
	if err != nil {
		h.t.Fatal(name, err)
	}
	return v.Value()
}

// pixels are the bytes of the icon.
func (h *host) pixels() []byte { return h.prop("IconPixmap").([][]any)[0][2].([]byte) }

// line is an item of the menu as the panel has it.
type line struct {
	id                        int32
	depth                     int
	label                     string
	check, on, off, separator bool // off is disabled
}

func (l line) String() string {
	mark := ""
	if l.check {
		mark = map[bool]string{true: " [x]", false: " [ ]"}[l.on]
	}
	if l.off {
		mark += " (disabled)"
	}
	if l.separator {
		return strings.Repeat("  ", l.depth) + "---"
	}
	return strings.Repeat("  ", l.depth) + l.label + mark
}

// menu reads the whole menu; hidden items and what is below them are left out.
func (h *host) menu() (out []line) {
	h.t.Helper()
	menu := h.conn.Object(string(h.item), h.prop("Menu").(dbus.ObjectPath))
	var revision uint32
	var root struct {
		ID    int32
		Props map[string]dbus.Variant
		Kids  []dbus.Variant
	}
	if err := menu.Call(menuName+".GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &root); err != nil {
		h.t.Fatal(err)
	}
	var walk func(kids []dbus.Variant, depth int)
	walk = func(kids []dbus.Variant, depth int) {
		for _, kid := range kids {
			f := kid.Value().([]any)
			l, visible := lineOf(f[0].(int32), f[1].(map[string]dbus.Variant), depth)
			if visible {
				out = append(out, l)
				walk(f[2].([]dbus.Variant), depth+1)
			}
		}
	}
	walk(root.Kids, 0)
	return out
}

func lineOf(id int32, props map[string]dbus.Variant, depth int) (l line, visible bool) {
	get := func(key string) any { return props[key].Value() }
	l = line{id: id, depth: depth, separator: get("type") == "separator", check: get("toggle-type") == "checkmark",
		on: get("toggle-state") == int32(1), off: get("enabled") == false}
	if label, ok := get("label").(string); ok {
		l.label = strings.ReplaceAll(label, "__", "_")
	}
	return l, get("visible") != false
}

func menuText(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// find waits until the menu has a line with one of the labels.
func (h *host) find(labels ...string) (found line) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("an item %q", labels), func() (bool, any) {
		lines := h.menu()
		for _, l := range lines {
			if slices.Contains(labels, l.label) && !l.off {
				found = l
				return true, nil
			}
		}
		return false, menuText(lines)
	})
	return found
}

// click clicks a line with one of the labels, once it is there.
func (h *host) click(labels ...string) {
	h.t.Helper()
	id := h.find(labels...).id
	menu := h.conn.Object(string(h.item), h.prop("Menu").(dbus.ObjectPath))
	if err := menu.Call(menuName+".Event", 0, id, "clicked", dbus.MakeVariant(""), uint32(0)).Err; err != nil {
		h.t.Fatal(err)
	}
}

// program is the running program.
type program struct {
	t          *testing.T
	path, home string
	env        []string
	opened     string // file that lists what was handed to xdg-open
	cmd        *exec.Cmd
	done       chan error
	conn       *xgb.Conn // to the display, once somebody looked

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// newProgram prepares a home with settings and a desktop whose browser only
// writes down what it was to open.
func newProgram(t *testing.T, bus, display, toml string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, path: os.Getenv(programEnv), home: filepath.Join(dir, "home"), opened: filepath.Join(dir, "opened"), done: make(chan error, 1)}
	if p.path == "" {
		t.Fatalf("%s does not name the program; run go run ./build test", programEnv)
	}
	for _, folder := range []string{"bin", "run", "home/.cache"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	browser := "#!/bin/sh\nprintf '%s\\n' \"$1\" >> '" + p.opened + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "xdg-open"), []byte(browser), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.home, "config.toml"), []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "HOLDFAST_HOME="+p.home, "HOME="+p.home, "XDG_CONFIG_HOME="+p.home+"/config", "XDG_CURRENT_DESKTOP=Test",
		"PATH="+dir+"/bin:"+os.Getenv("PATH"), "DBUS_SESSION_BUS_ADDRESS="+bus, "DISPLAY="+display, "WAYLAND_DISPLAY=",
		"XDG_RUNTIME_DIR="+dir+"/run", "LIBGL_ALWAYS_SOFTWARE=1")
	return p
}

func (p *program) start(args ...string) {
	p.t.Helper()
	p.cmd = exec.Command(p.path, append([]string{"--addr", "127.0.0.1:0", "--inspector-addr", "127.0.0.1:0"}, args...)...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.env, p, p
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	go func() { p.done <- cmd.Wait() }()
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		if p.t.Failed() {
			p.t.Log(p.said())
		}
	})
	until(p.t, "it runs", func() (bool, any) {
		_, ok := findRunning(p.t.Context(), p.paths())
		return ok, p.said()
	})
}

func (p *program) paths() Paths { return Paths{p.home, p.home, p.home} }

// command runs one command line of the program to its end.
func (p *program) command(args ...string) (out string, code int) {
	p.t.Helper()
	cmd := exec.Command(p.path, args...)
	cmd.Env = p.env
	data, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// api is the program's own API.
func (p *program) api() *backend {
	p.t.Helper()
	r, ok := readRuntime(p.paths())
	if !ok {
		p.t.Fatal("no runtime.json")
	}
	b, err := connect(p.paths(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

func (p *program) get(path string, into any) {
	p.t.Helper()
	if err := p.api().get(p.t.Context(), path, into); err != nil {
		p.t.Fatal(err)
	}
}

// shown waits until n things were handed to the browser, and returns the last.
func (p *program) shown(n int) (file string) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d things opened", n), func() (bool, any) {
		data, _ := os.ReadFile(p.opened)
		list := strings.Fields(string(data))
		if len(list) >= n {
			file = list[n-1]
		}
		return len(list) >= n, string(data) + p.said()
	})
	return file
}

// ends waits for a clean end.
func (p *program) ends() {
	p.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Fatalf("it ended with %v", err)
		}
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
	if _, ok := readRuntime(p.paths()); ok {
		p.t.Error("runtime.json outlives the process")
	}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}
