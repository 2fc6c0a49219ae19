package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/wire"
)

func routed() *config.Config {
	cfg := config.Default()
	cfg.Routes = map[string]config.Route{
		"a":   {URL: "https://a.example/base/", DefaultFor: []config.Family{config.Anthropic}},
		"o":   {URL: "http://127.0.0.1:9", DefaultFor: []config.Family{config.OpenAI}},
		"via": {URL: "https://v.example", Wire: config.OpenAI},
	}
	return &cfg
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		method, path, query string
		url                 string // "" means refused with code
		route               string
		family              wire.Family
		count               bool
		code                string
	}{
		{"POST", "/via/https://api.example/v1/messages", "beta=true", "https://api.example/v1/messages?beta=true", "via", wire.Anthropic, false, ""},
		{"POST", "/via/https://api.example/v1/messages/count_tokens", "", "https://api.example/v1/messages/count_tokens", "via", wire.Anthropic, true, ""},
		{"POST", "/via/http://h:81//v1//chat/completions", "", "http://h:81//v1//chat/completions", "via", wire.OpenAI, false, ""},
		{"GET", "/via/http://h/v1/models", "", "http://h/v1/models", "via", "", false, ""},
		{"POST", "/via/http://h/a%2Fb%20c/messages", "", "http://h/a%2Fb%20c/messages", "via", wire.Anthropic, false, ""},
		{"POST", "/via/http://h/x%0d%0aX-Evil:%201/messages", "", "http://h/x%0d%0aX-Evil:%201/messages", "via", wire.Anthropic, false, ""},
		{"POST", "/via/http://h/v1beta/models/g:streamGenerateContent", "alt=sse&key=k", "http://h/v1beta/models/g:streamGenerateContent?alt=sse&key=k", "via", wire.Google, false, ""},
		{"POST", "/r/a/v1/messages", "", "https://a.example/base/v1/messages", "a", wire.Anthropic, false, ""},
		{"POST", "/r/a//v1//messages", "", "https://a.example/base//v1//messages", "a", wire.Anthropic, false, ""},
		{"GET", "/r/a/x%2F..%2Fy", "", "https://a.example/base/x%2F..%2Fy", "a", "", false, ""},
		{"GET", "/r/a", "", "https://a.example/base/", "a", "", false, ""},
		{"GET", "/r/a/@evil.example/", "", "https://a.example/base/@evil.example/", "a", "", false, ""},
		{"POST", "/r/via/v1/messages", "", "https://v.example/v1/messages", "via", wire.OpenAI, false, ""},
		{"POST", "/v1/messages", "", "https://a.example/base/v1/messages", "a", wire.Anthropic, false, ""},
		{"POST", "/v1/chat/completions", "", "http://127.0.0.1:9/v1/chat/completions", "o", wire.OpenAI, false, ""},
		{"HEAD", "/api/hello", "", "https://a.example/base/api/hello", "a", "", false, ""},
		{"GET", "/v1/models", "", "http://127.0.0.1:9/v1/models", "o", "", false, ""},

		{"POST", "/v1/responses", "", "", "", "", false, "no_default_route"},
		{"GET", "/", "", "", "", "", false, "unknown_path"},
		{"GET", "/etc/passwd", "", "", "", "", false, "unknown_path"},
		{"POST", "/r/none/v1/messages", "", "", "", "", false, "unknown_route"},
		{"POST", "/r/../v1/messages", "", "", "", "", false, "unknown_route"},
		{"POST", "/r/a%2F..%2Fo/v1/messages", "", "", "", "", false, "unknown_route"},
		{"POST", "/via/", "", "", "", "", false, "bad_via"},
		{"POST", "/via/api.example/v1/messages", "", "", "", "", false, "bad_via"},
		{"POST", "/via/file:///etc/passwd", "", "", "", "", false, "bad_via"},
		{"POST", "/via/ftp://h/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http:/h/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http://:80/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http://user:pw@h/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http://user@h/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http://h%0d%0aX/x", "", "", "", "", false, "bad_via"},
		{"POST", "/via/http://h:8o/x", "", "", "", "", false, "bad_via"},
		{"GET", "/via/http://169.254.169.254/latest/meta-data", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://metadata.google.internal./x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://METADATA/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://[fe80::1%25eth0]/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://[::ffff:169.254.169.254]/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://[64:ff9b::a9fe:a9fe]/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://[fd00:ec2::254]/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://100.100.100.200/x", "", "", "", "", false, "via_refused"},
		{"GET", "/via/http://0.0.0.0:80/x", "", "", "", "", false, "via_refused"},
	} {
		tg, err := Resolve(routed(), c.method, c.path, c.query)
		var refusal *Refusal
		switch {
		case c.url == "" && (!errors.As(err, &refusal) || refusal.Code != c.code || refusal.Hint == ""):
			t.Errorf("%s %s: %v %v, want %s with a hint", c.method, c.path, tg.URL, err, c.code)
		case c.url != "" && err != nil:
			t.Errorf("%s %s: %v", c.method, c.path, err)
		case c.url != "" && (tg.URL.String() != c.url || tg.Route != c.route || tg.Family != c.family || tg.Count != c.count):
			t.Errorf("%s %s: %s route %s family %q count %t, want %s %s %q %t", c.method, c.path, tg.URL, tg.Route, tg.Family, tg.Count, c.url, c.route, c.family, c.count)
		}
	}
}

// Dots in a path stay the upstream's business, but never leave its host.
func TestTraversalKeepsHost(t *testing.T) {
	for _, path := range []string{"/r/a/x/../../../../", "/r/a/..%2f..%2f@evil/", "/r/a//evil.example/", "/r/a/\\evil.example", "/r/a/?@evil/", "/v1/messages/../../.."} {
		tg, err := Resolve(routed(), "GET", path, "")
		if err != nil || tg.URL.Host != "a.example" || !strings.HasPrefix(tg.URL.EscapedPath(), "/base/") {
			t.Errorf("%s: %v, %v", path, tg.URL, err)
		}
	}
}

func TestForbidden(t *testing.T) {
	for ip, want := range map[string]bool{
		"169.254.1.1": true, "fe80::1": true, "fe80::1%lo": true, "::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true,
		"224.0.0.1": true, "ff02::1": true, "0.0.0.0": true, "::": true, "fd00:ec2::254": true, "fd20:ce::254": true,
		"100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "100.100.100.100": false, "8.8.8.8": false, "64:ff9b::808:808": false,
	} {
		if got := forbidden(netip.MustParseAddr(ip)); got != want {
			t.Errorf("forbidden(%s) = %t", ip, got)
		}
	}
}

func TestOwnPort(t *testing.T) {
	own := []string{"127.0.0.1:4153", "[::1]:4154", "broken"}
	for addr, want := range map[string]bool{
		"127.0.0.1:4153": true, "[::1]:4153": true, "127.9.9.9:4154": true, "[::ffff:127.0.0.1]:4154": true, "0.0.0.0:4153": true, "[::]:4153": true,
		"127.0.0.1:4155": false, "10.0.0.1:4153": false, "localhost": false,
	} {
		if got := ownPort(addr, own); got != want {
			t.Errorf("ownPort(%s) = %t", addr, got)
		}
	}
}

// The guard looks at the address that is dialled, so a name that leads to a
// refused one is refused too. The dialer gets the resolved address here, as it
// would from the resolver.
func TestDialGuard(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	_, port, _ := net.SplitHostPort(up.Listener.Addr().String())
	own := []string{}
	c := NewClient(func() []string { return own })
	defer c.Close()
	get := func(u string, guarded bool) error {
		tg, err := viaTarget(u, "")
		if err != nil {
			t.Fatal(err)
		}
		tg.Guarded = guarded
		resp, err := c.Send(context.Background(), &tg, "GET", http.Header{}, nil, 0)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	name := "http://localhost:" + port + "/"
	if err := get(name, true); err != nil {
		t.Fatalf("a name of this machine: %v", err)
	}
	c.Close() // no idle connection may answer what follows
	own = []string{"127.0.0.1:" + port}
	for _, guarded := range []bool{true, false} {
		if err := get(name, guarded); !errors.Is(err, ErrForbidden) {
			t.Errorf("our own port by name, guarded %t: %v", guarded, err)
		}
	}
	for _, addr := range []string{"169.254.169.254:80", "[fe80::1%1]:80", "0.0.0.0:80", "[::ffff:169.254.169.254]:80", "not an address:80"} {
		if err := c.dialer(true).Control("tcp", addr, nil); err == nil {
			t.Errorf("guarded dial of %s is allowed", addr)
		}
	}
	if err := c.dialer(false).Control("tcp", "169.254.169.254:80", nil); err != nil {
		t.Errorf("the owner's own route is refused: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost:1": true, "LOCALHOST": true, "127.0.0.1:1": true, "[::1]:1": true, "127.1.2.3": true,
		"localhost.evil.example": false, "10.0.0.1": false, "api.example": false} {
		tg, err := viaTarget("http://"+host+"/", "")
		if err != nil || tg.Loopback() != want {
			t.Errorf("%s: loopback %t, %v", host, tg.Loopback(), err)
		}
	}
}
