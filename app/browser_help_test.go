//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a page of a real browser. Everything the tests know of chromedp is in
// this file: its API changes often.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string // the only one that may be asked for anything
	axe  string

	mu  sync.Mutex // guards bad
	bad []string
}

// openTab starts Debian's Chromium. A console error, a script's exception, a
// refused load or a request to elsewhere fails the test.
func openTab(t *testing.T, host string) *tab {
	t.Helper()
	b := &tab{t: t, host: host, axe: axeScript(t)}
	exe, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("Chromium is not installed; go run ./build test installs it: ", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(exe), chromedp.NoSandbox, // root has no sandbox
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("hide-scrollbars", true), chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1440, 900), chromedp.Env("HOME="+t.TempDir()))
	alloc, endBrowser := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, endTab := chromedp.NewContext(alloc)
	t.Cleanup(func() { endTab(); endBrowser() })
	// The first call starts the browser, so its context has no deadline.
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.ctx = ctx
	return b
}

// axeScript is the checker, installed beside the vendored assets.
func axeScript(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", ".cache")
	}
	text, err := os.ReadFile(filepath.Join(cache, "clients", "web", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal("axe-core is not installed; go run ./build test installs it: ", err)
	}
	return string(text)
}

// hear collects what must not happen. It runs in the loop that reads the
// browser, so it only takes notes.
func (b *tab) hear(ev any) {
	note := ""
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		note = "exception: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			note += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			for _, a := range e.Args {
				note += fmt.Sprintf("console.%s: %s %s ", e.Type, a.Value, a.Description)
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			note = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != b.host && u.Scheme != "data" && u.Scheme != "file" {
			note = "a request to elsewhere: " + e.Request.URL
		}
	}
	if note != "" {
		b.mu.Lock()
		b.bad = append(b.bad, note)
		b.mu.Unlock()
	}
}

// clean fails the test with what was collected since it was called last.
func (b *tab) clean(at string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.bad {
		b.t.Errorf("%s: %s", at, s)
	}
	b.bad = nil
}

// patience is how long anything may take before the test gives up: nothing
// waits for time, so this only bounds a hang.
const patience = 5 * time.Minute

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func eval[T any](b *tab, js string) T {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for a condition of the page; it survives a navigation.
func (b *tab) until(js string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+js+")"))
		cancel()
		if err == nil && ok {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("never came true at %s: %s (%v); the focus is on %s", eval[string](b, "location.href"), js, err,
				eval[string](b, "document.activeElement.outerHTML.slice(0, 160)"))
		}
	}
}

// ready is when a page's script has run and its stream stands.
const ready = `document.readyState === "complete" && window.htmx && document.body.dataset.stream === "open"`

// open goes to an address and waits until its script listens.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+b.host+path), chromedp.WaitVisible(chromedp.CSS("main")))
	b.until(ready)
}

// visit goes to an address that need not have a script.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+b.host+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

// signIn opens a local file that posts a one-time code, as the tray does.
func (b *tab) signIn(code string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "open.html")
	page := fmt.Sprintf(`<!doctype html><form id="f" method="post" action="http://%s/hf/v1/login"><input name="code" value="%s"></form><script>document.getElementById("f").submit()</script>`, b.host, code)
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Navigate("file://" + file))
	b.until(`location.pathname === "/ui/" && ` + ready)
}

// scheme sets what the system prefers, light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, p); err != nil {
		b.t.Fatal(err)
	}
}

// late makes the page's files with these names come one after the other, from the
// server; no names end it.
func (b *tab) late(names ...string) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	p := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{}}
	for i, name := range names {
		p.MatchedNetworkConditions = append(p.MatchedNetworkConditions, &network.Conditions{
			URLPattern: "http://" + b.host + "/*" + name, Latency: float64(500 * (i + 1)), DownloadThroughput: -1, UploadThroughput: -1})
	}
	if _, err := chromedp.Call(ctx, network.EmulateNetworkConditionsByRule, p); err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: len(names) > 0}); err != nil {
		b.t.Fatal(err)
	}
}

// width sets the window's.
func (b *tab) width(px int64) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	p := emulation.SetDeviceMetricsOverrideParams{Width: px, Height: 900, DeviceScaleFactor: 1}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, p); err != nil {
		b.t.Fatal(err)
	}
}

// still stops the page's clock, so that the pause between two keys that belong
// together is never too long.
func (b *tab) still() {
	b.t.Helper()
	eval[bool](b, `(Date.now = (at => () => at)(Date.now()), true)`)
}

// press sends keys one after the other.
func (b *tab) press(keys string) {
	b.t.Helper()
	for key := range strings.FieldsSeq(keys) {
		switch key {
		case "Enter":
			key = kb.Enter
		case "Escape":
			key = kb.Escape
		}
		b.do(chromedp.KeyEvent(key))
	}
}

// paint says how fast a page was there: reported, never asserted.
func (b *tab) paint() string {
	b.t.Helper()
	return eval[string](b, `new Promise(r => new PerformanceObserver(l => {
		const p = l.getEntries().find(e => e.name === "first-contentful-paint"), n = performance.getEntriesByType("navigation")[0];
		if (p) r("first paint " + p.startTime.toFixed(0) + " ms, of which the server " + (n.responseEnd - n.requestStart).toFixed(0) + " ms for " + (n.decodedBodySize / 1024).toFixed(0) + " KB");
	}).observe({type: "paint", buffered: true}))`)
}

// shot keeps a picture of the whole page under build/out/shots.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := filepath.Join("..", "build", "out", "shots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// accessible runs axe over the page: no violation is let through.
func (b *tab) accessible(at string) {
	b.t.Helper()
	// Evaluate goes over the debugger, so the content policy does not stop it.
	if !eval[bool](b, "!!window.axe") {
		b.do(chromedp.Evaluate[chromedp.Void](b.axe))
	}
	out := eval[string](b, `axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 4).map(n => n.html.slice(0, 300) + " " + (n.failureSummary ?? "").replace(/\s+/g, " ").slice(0, 300))}))))`)
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range found {
		b.t.Errorf("%s: axe %s: %s\n\t%s", at, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
	}
}
