package guard

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:4153": true, "127.8.9.1:1": true, "localhost": true, "LocalHost:80": true,
		"[::1]": true, "[::1]:4154": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "app.localhost": false, "localhost.": false,
		"127.0.0.1.nip.io": false, "127.0.0.1@evil.example": false, "127.1": false, "0x7f000001": false, "2130706433": false,
		"0.0.0.0:4153": false, "[::]": false, "192.168.1.5": false, "::1": false, "[::1": false, "[::1%lo]": false,
		"127.0.0.1:http": false, "127.0.0.1:99999": false, "127.0.0.1:": false, ":4153": false, "local host": false,
	} {
		if got := Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %v", host, got)
		}
		if err := CheckBind(host); (err == nil) != want || err != nil && !errors.Is(err, ErrWide) {
			t.Errorf("CheckBind(%q) = %v", host, err)
		}
	}
}

// ask sends one request through h. Lines of head are "Name: value"; Host is the
// one of the request line.
func ask(h http.Handler, method, target string, body string, head ...string) *http.Response {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Host = "127.0.0.1:4153"
	u, err := r.URL.Parse(target)
	if err != nil {
		panic(err)
	}
	r.URL, r.RequestURI = u, target
	for _, line := range head {
		k, v, _ := strings.Cut(line, ": ")
		if k == "Host" {
			r.Host = v
			continue
		}
		r.Header.Add(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// code is the problem code of an answer, "" for none.
func code(t *testing.T, res *http.Response) string {
	t.Helper()
	if res.Header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	var p Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Status != res.StatusCode || p.Title == "" || p.Hint == "" {
		t.Errorf("the problem is not whole: %+v", p)
	}
	return p.Code
}

func yes(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://upstream.example")
		w.Header().Set("Reached", r.URL.Path+" "+r.URL.EscapedPath()+" "+r.RequestURI)
		io.WriteString(w, "ok")
		w.(http.Flusher).Flush()
	})
}

const page = "http://localhost:3000"

func TestProxyTable(t *testing.T) {
	for _, c := range []struct {
		name, method, target string
		head                 []string
		secret               string
		forward, wide        bool
		code                 string // "" when it passes
	}{
		{name: "agent", method: "POST", target: "/v1/messages"},
		{name: "node fetch sends a mode", method: "POST", target: "/v1/messages", head: []string{"Sec-Fetch-Mode: cors"}},
		{name: "another loopback name", method: "POST", target: "/v1/messages", head: []string{"Host: localhost:9"}},
		{name: "rebound name", method: "POST", target: "/v1/messages", head: []string{"Host: evil.example"}, code: "host"},
		{name: "no host", method: "POST", target: "/v1/messages", head: []string{"Host: "}, code: "host"},
		{name: "address of the network", method: "POST", target: "/v1/messages", head: []string{"Host: 192.168.1.5:4153"}, code: "host"},
		{name: "address of the network, bound wide", method: "POST", target: "/v1/messages", head: []string{"Host: 192.168.1.5:4153"}, wide: true},
		{name: "name, bound wide", method: "POST", target: "/v1/messages", head: []string{"Host: evil.example"}, wide: true, code: "host"},
		{name: "foreign origin", method: "POST", target: "/v1/messages", head: []string{"Origin: https://evil.example"}, code: "origin"},
		{name: "null origin", method: "POST", target: "/v1/messages", head: []string{"Origin: null"}, code: "origin"},
		{name: "empty origin", method: "POST", target: "/v1/messages", head: []string{"Origin: "}, code: "origin"},
		{name: "our own origin", method: "POST", target: "/v1/messages", head: []string{"Origin: http://127.0.0.1:4153"}, code: "origin"},
		{name: "two origins", method: "POST", target: "/v1/messages", head: []string{"Origin: " + page, "Origin: https://evil.example"}, code: "origin"},
		{name: "allowed origin", method: "POST", target: "/v1/messages", head: []string{"Origin: " + page}},
		{name: "allowed origin, other case", method: "POST", target: "/v1/messages", head: []string{"Origin: HTTP://LOCALHOST:3000"}, code: "origin"},
		{name: "allowed origin, other port", method: "POST", target: "/v1/messages", head: []string{"Origin: http://localhost:3001"}, code: "origin"},
		{name: "image tag", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, code: "origin"},
		{name: "same-site without origin", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Site: same-site"}, code: "origin"},
		{name: "typed address", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Site: none"}, code: "origin"},
		{name: "empty site, then one", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Site: ", "Sec-Fetch-Site: cross-site"}, code: "origin"},
		{name: "site with allowed origin", method: "POST", target: "/v1/messages", head: []string{"Origin: " + page, "Sec-Fetch-Site: same-site"}},
		{name: "navigation", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Mode: navigate"}, code: "navigation"},
		{name: "navigation in second place", method: "GET", target: "/v1/models", head: []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: Navigate"}, code: "navigation"},
		{name: "navigation with allowed origin", method: "POST", target: "/v1/messages", head: []string{"Origin: " + page, "Sec-Fetch-Mode: navigate"}, code: "navigation"},
		{name: "absolute form", method: "GET", target: "http://api.example.com/v1/models", head: []string{"Host: api.example.com"}, code: "not_a_forward_proxy"},
		{name: "absolute form, forwarding", method: "GET", target: "http://api.example.com/v1/models", head: []string{"Host: api.example.com"}, forward: true},
		{name: "absolute form to ourselves", method: "GET", target: "http://127.0.0.1:4154/hf/v1/status", code: "not_a_forward_proxy"},
		{name: "connect", method: "CONNECT", target: "//api.example.com:443", head: []string{"Host: api.example.com:443"}, code: "not_a_forward_proxy"},
		{name: "connect, forwarding", method: "CONNECT", target: "//api.example.com:443", head: []string{"Host: api.example.com:443"}, forward: true},
		{name: "secret", method: "POST", target: "/p/s3cret/v1/messages", secret: "s3cret"},
		{name: "no secret", method: "POST", target: "/v1/messages", secret: "s3cret", code: "proxy_secret"},
		{name: "wrong secret", method: "POST", target: "/p/s3cre/v1/messages", secret: "s3cret", code: "proxy_secret"},
		{name: "secret alone", method: "POST", target: "/p/s3cret", secret: "s3cret", code: "proxy_secret"},
		{name: "secret later in the path", method: "POST", target: "/v1/p/s3cret/messages", secret: "s3cret", code: "proxy_secret"},
		{name: "health needs no secret", method: "GET", target: HealthPath, secret: "s3cret"},
	} {
		p := Proxy{
			Origins: func() []string { return []string{page} }, Secret: func() string { return c.secret },
			Forward: func() bool { return c.forward }, Wide: c.wide, Open: []string{HealthPath},
		}
		told := ""
		p.Refused = func(_ *http.Request, bad *Problem) { told = bad.Code }
		res := ask(p.Wrap(yes(t)), c.method, c.target, "", c.head...)
		if got := code(t, res); got != c.code || told != c.code || (c.code == "") != (res.StatusCode == 200) {
			t.Errorf("%s: %d %q (told %q), want %q", c.name, res.StatusCode, got, told, c.code)
		}
	}
}

func open() *Proxy {
	return &Proxy{
		Origins: func() []string { return []string{page} }, Secret: func() string { return "" },
		Forward: func() bool { return false },
	}
}

func TestProxySecretIsCutNotCleaned(t *testing.T) {
	p := open()
	p.Secret = func() string { return "s" }
	res := ask(p.Wrap(yes(t)), "GET", "/p/s/via/https://x.example//a/%2e%2e/b?key=1", "")
	if got, want := res.Header.Get("Reached"), "/via/https://x.example//a/../b /via/https://x.example//a/%2e%2e/b /via/https://x.example//a/%2e%2e/b?key=1"; got != want {
		t.Errorf("reached %q, want %q", got, want)
	}
}

func TestCORS(t *testing.T) {
	res := ask(open().Wrap(yes(t)), "POST", "/v1/messages", "", "Origin: "+page)
	h := res.Header
	if got := h.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != page {
		t.Errorf("allow-origin %q", got)
	}
	if h.Get("Vary") != "Origin" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("headers %v", h)
	}
	res = ask(open().Wrap(yes(t)), "OPTIONS", "/v1/messages", "", "Origin: "+page,
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-api-key, content-type")
	if res.StatusCode != 204 || res.Header.Get("Reached") != "" ||
		res.Header.Get("Access-Control-Allow-Headers") != "x-api-key, content-type" ||
		res.Header.Get("Access-Control-Allow-Origin") != page {
		t.Errorf("preflight %d %v", res.StatusCode, res.Header)
	}
	if res := ask(open().Wrap(yes(t)), "OPTIONS", "/v1/messages", "", "Origin: "+page); res.Header.Get("Reached") == "" {
		t.Error("a plain OPTIONS was kept from the upstream")
	}
	if res := ask(open().Wrap(yes(t)), "POST", "/v1/messages", ""); res.Header.Get("Vary") != "" {
		t.Error("CORS headers without an Origin")
	}
}

// clock is a settable time for codes.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func inspector(c *clock) *Inspector {
	return NewInspector(InspectorOptions{Token: "tok", Origins: func() []string { return []string{page} }, Now: c.now})
}

func TestInspectorTable(t *testing.T) {
	g := inspector(&clock{time.Unix(0, 0)})
	cookie := "Cookie: holdfast_4153=" + g.cookie
	other := inspector(&clock{time.Unix(0, 0)})
	for _, c := range []struct {
		name, method, target string
		head                 []string
		code                 string
	}{
		{name: "token", method: "GET", target: "/hf/v1/status", head: []string{"Authorization: Bearer tok"}},
		{name: "no token", method: "GET", target: "/hf/v1/status", code: "token"},
		{name: "wrong token", method: "GET", target: "/hf/v1/status", head: []string{"Authorization: Bearer tok2"}, code: "token"},
		{name: "token without scheme", method: "GET", target: "/hf/v1/status", head: []string{"Authorization: tok"}, code: "token"},
		{name: "empty token", method: "GET", target: "/hf/v1/status", head: []string{"Authorization: Bearer "}, code: "token"},
		{name: "token in the query", method: "GET", target: "/hf/v1/status?token=tok", code: "token"},
		{name: "health is open", method: "GET", target: HealthPath},
		{name: "health to a rebound name", method: "GET", target: HealthPath, head: []string{"Host: evil.example"}, code: "host"},
		{name: "health to a foreign page", method: "GET", target: HealthPath, head: []string{"Origin: https://evil.example"}, code: "origin"},
		{name: "rebound name", method: "GET", target: "/hf/v1/status", head: []string{"Host: evil.example", "Authorization: Bearer tok"}, code: "host"},
		{name: "foreign page", method: "GET", target: "/hf/v1/status", head: []string{"Origin: https://evil.example", "Authorization: Bearer tok"}, code: "origin"},
		{name: "null origin", method: "GET", target: "/hf/v1/status", head: []string{"Origin: null", "Authorization: Bearer tok"}, code: "origin"},
		{name: "allowed page", method: "GET", target: "/hf/v1/status", head: []string{"Origin: " + page, "Authorization: Bearer tok"}},
		{name: "our page", method: "PUT", target: "/hf/v1/bypass", head: []string{"Origin: http://127.0.0.1:4153", cookie, "Sec-Fetch-Site: same-origin"}},
		{name: "our page on the other port", method: "PUT", target: "/hf/v1/bypass", head: []string{"Origin: http://127.0.0.1:9", cookie, "Sec-Fetch-Site: same-site"}, code: "origin"},
		{name: "address bar with cookie", method: "GET", target: "/ui/", head: []string{cookie, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"}},
		{name: "cookie from another site", method: "GET", target: "/ui/", head: []string{cookie, "Sec-Fetch-Site: cross-site"}, code: "token"},
		{name: "cookie from the same site", method: "GET", target: "/ui/", head: []string{cookie, "Sec-Fetch-Site: same-site"}, code: "token"},
		{name: "cookie without a site", method: "GET", target: "/ui/", head: []string{cookie}, code: "token"},
		{name: "cookie beside a made-up token", method: "POST", target: "/hf/v1/login-codes", head: []string{"Authorization: Bearer x", cookie, "Sec-Fetch-Site: same-origin"}, code: "token"},
		{name: "cookie of another instance", method: "GET", target: "/ui/", head: []string{"Cookie: holdfast_4153=" + other.cookie, "Sec-Fetch-Site: none"}, code: "token"},
		{name: "cookie of another port", method: "GET", target: "/ui/", head: []string{"Cookie: holdfast_9=" + g.cookie, "Sec-Fetch-Site: none"}, code: "token"},
		{name: "absolute form", method: "GET", target: "http://127.0.0.1:4153/hf/v1/status", head: []string{"Authorization: Bearer tok"}, code: "not_a_forward_proxy"},
		{name: "connect", method: "CONNECT", target: "//127.0.0.1:4153", head: []string{"Authorization: Bearer tok"}, code: "not_a_forward_proxy"},
		{name: "login by GET", method: "GET", target: LoginPath, code: "token"},
	} {
		res := ask(g.Wrap(yes(t)), c.method, c.target, "", c.head...)
		if got := code(t, res); got != c.code || (c.code == "") != (res.StatusCode == 200) {
			t.Errorf("%s: %d %q, want %q", c.name, res.StatusCode, got, c.code)
		}
		if res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: no security headers", c.name)
		}
	}
}

func TestInspectorWithoutTokenLetsNobodyIn(t *testing.T) {
	g := NewInspector(InspectorOptions{Origins: func() []string { return nil }})
	if res := ask(g.Wrap(yes(t)), "GET", "/hf/v1/status", "", "Authorization: Bearer "); code(t, res) != "token" {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestLogin(t *testing.T) {
	form, asJSON := "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json"
	for _, c := range []struct {
		name string
		body func(code string) string
		typ  string
		wait time.Duration
		code string
	}{
		{"form", func(s string) string { return "code=" + s }, form, 0, ""},
		{"json", func(s string) string { return `{"code":"` + s + `"}` }, asJSON, 0, ""},
		{"just in time", func(s string) string { return "code=" + s }, form, codeLife - 1, ""},
		{"too late", func(s string) string { return "code=" + s }, form, codeLife, "login"},
		{"wrong", func(s string) string { return "code=" + s[1:] }, form, 0, "login"},
		{"empty", func(string) string { return "" }, form, 0, "login"},
		{"not json", func(s string) string { return s }, asJSON, 0, "login"},
		{"huge", func(s string) string { return "x=" + strings.Repeat("x", loginBytes) + "&code=" + s }, form, 0, "login"},
	} {
		clk := &clock{time.Unix(1000, 0)}
		g := inspector(clk)
		h := g.Wrap(yes(t))
		one := g.NewCode()
		clk.t = clk.t.Add(c.wait)
		// The page that posts it is a local file: its origin is null.
		res := ask(h, "POST", LoginPath, c.body(one), c.typ, "Origin: null", "Sec-Fetch-Site: cross-site")
		if got := code(t, res); got != c.code {
			t.Errorf("%s: %q, want %q", c.name, got, c.code)
			continue
		}
		if c.code != "" {
			if len(res.Cookies()) != 0 {
				t.Errorf("%s: a refused login sets a cookie", c.name)
			}
			continue
		}
		ck := res.Cookies()[0]
		if !ck.HttpOnly || ck.SameSite != http.SameSiteStrictMode || ck.Path != "/" || ck.Domain != "" {
			t.Errorf("cookie %+v", ck)
		}
		in := ask(h, "GET", "/ui/", "", "Cookie: "+ck.Name+"="+ck.Value, "Sec-Fetch-Site: same-origin")
		if in.StatusCode != 200 {
			t.Errorf("%s: the cookie opens nothing: %d", c.name, in.StatusCode)
		}
		if again := ask(h, "POST", LoginPath, c.body(one), c.typ); code(t, again) != "login" {
			t.Errorf("%s: the code works twice", c.name)
		}
	}
}

func TestLoginRefusesForeignHost(t *testing.T) {
	g := inspector(&clock{time.Unix(0, 0)})
	res := ask(g.Wrap(yes(t)), "POST", LoginPath, "code="+g.NewCode(),
		"Content-Type: application/x-www-form-urlencoded", "Host: evil.example")
	if code(t, res) != "host" {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestServerLimits(t *testing.T) {
	srv := httptest.NewUnstartedServer(yes(t))
	limits := Server(yes(t))
	srv.Config.ReadHeaderTimeout, srv.Config.MaxHeaderBytes = limits.ReadHeaderTimeout, limits.MaxHeaderBytes
	srv.Start()
	defer srv.Close()
	if limits.ReadHeaderTimeout == 0 || limits.WriteTimeout != 0 {
		t.Errorf("a slow head must end, a long stream must not: %+v", limits)
	}
	req, err := http.NewRequest("GET", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Big", strings.Repeat("a", headerBytes+8<<10))
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

// connection notes the deadlines of a request's connection.
type connection struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.deadlines = append(c.deadlines, t)
	return nil
}

// A body that does not arrive holds no connection, not even a stranger's; one
// that has arrived is worked on for as long as that takes.
func TestSlowBodies(t *testing.T) {
	for _, c := range []struct{ name, method, body, token, want string }{
		{"a form", "POST", "a=b", "tok", "set lifted"},
		{"a stranger's", "POST", "a=b", "", "set"},
		{"none", "GET", "", "tok", ""},
	} {
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		r := httptest.NewRequest(c.method, "/ui/theme", body)
		r.Host = "127.0.0.1:4154"
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := &connection{ResponseRecorder: httptest.NewRecorder()}
		inspector(&clock{time.Unix(0, 0)}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if text, err := io.ReadAll(r.Body); err != nil || string(text) != c.body {
				t.Errorf("%s: %q %v", c.name, text, err)
			}
		})).ServeHTTP(w, r)
		var got []string
		for _, d := range w.deadlines {
			got = append(got, map[bool]string{true: "lifted", false: "set"}[d.IsZero()])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: the deadline was %q, want %q", c.name, got, c.want)
		}
	}
}

// The proxy reads bodies for as long as they take, but not those it refuses.
func TestSlowBodiesOfStrangers(t *testing.T) {
	for host, want := range map[string]int{"127.0.0.1:4153": 0, "evil.example": 1} {
		r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader("{}"))
		r.Host = host
		w := &connection{ResponseRecorder: httptest.NewRecorder()}
		none := func() []string { return nil }
		p := &Proxy{Origins: none, Secret: func() string { return "" }, Forward: func() bool { return false }}
		p.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if len(w.deadlines) != want {
			t.Errorf("%s: %d deadlines, want %d", host, len(w.deadlines), want)
		}
	}
}

// Whoever has the token can show it to each asker anew, and nobody else can.
func TestProof(t *testing.T) {
	res := ask(inspector(&clock{time.Unix(0, 0)}).Wrap(yes(t)), "GET", HealthPath, "", ProveHeader+": n1")
	if !Proved(res.Header, "tok", "n1") {
		t.Errorf("no proof: %v", res.Header)
	}
	if Proved(res.Header, "tok", "n2") || Proved(res.Header, "tok2", "n1") || Proved(http.Header{}, "tok", "n1") {
		t.Error("a proof is taken for another one")
	}
	if strings.Contains(Proof("tok", "proxy path"), ProxySecret("tok")) {
		t.Error("a proof reveals the proxy secret")
	}
	if res := ask(inspector(&clock{time.Unix(0, 0)}).Wrap(yes(t)), "GET", HealthPath, "", ProveHeader+": n1", "Host: evil.example"); res.Header.Get(ProofHeader) != "" {
		t.Error("a rebound name gets a proof")
	}
}

func TestSecrets(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if a == b || len(a) != 64 {
		t.Errorf("secrets %q %q", a, b)
	}
	p := ProxySecret(a)
	if p == ProxySecret(b) || p != ProxySecret(a) || strings.Contains(a, p) || len(p) != 32 {
		t.Errorf("proxy secret %q", p)
	}
}
