package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"holdfast/core/guard"
	"holdfast/web/api"
)

// proxyHandler is the proxy's listener around a chain that says what it got.
func proxyHandler() http.Handler {
	none := func() []string { return nil }
	a := api.New(api.Options{
		Hub: api.NewHub(), Log: slog.New(slog.DiscardHandler),
		Health: func() api.Health { return api.Health{OK: true} },
	})
	chain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "chain "+r.RequestURI) })
	p := &guard.Proxy{Origins: none, Secret: func() string { return "" }, Forward: func() bool { return true }}
	return ProxyHandler(p, a, chain)
}

func get(h http.Handler, target, token string) (int, string) {
	r := httptest.NewRequest("GET", target, nil)
	if r.URL.Host == "" {
		r.Host = "127.0.0.1:1"
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The proxy serves health and the chain; nothing of the inspector is reachable
// through it, in whatever form it is asked for.
func TestProxyHandler(t *testing.T) {
	proxy := proxyHandler()
	for _, c := range []struct {
		target string
		status int
		body   string // "" for anything
	}{
		{"/hf/v1/health", 200, `{"ok":true,"version":"","instance":""}` + "\n"},
		{"/hf/v1/status", 404, ""},
		{"/hf", 404, ""},
		{"/ui/", 404, ""},
		{"/hf/v1/%73tatus", 404, ""},
		{"http://api.example.com/hf/v1/health", 404, ""},
		{"http://api.example.com/v1/models", 200, "chain http://api.example.com/v1/models"},
		{"/hfx", 200, "chain /hfx"},
		{"/via/https://x.example//a/../b", 200, "chain /via/https://x.example//a/../b"},
		{"/v1/messages", 200, "chain /v1/messages"},
	} {
		status, body := get(proxy, c.target, "tok")
		if status != c.status || c.body != "" && body != c.body {
			t.Errorf("%s: %d %s", c.target, status, body)
		}
	}
}

func TestInspectorHandler(t *testing.T) {
	inspector := newHouse(t).handler
	for _, c := range []struct {
		target, token string
		status        int
	}{
		{"/hf/v1/health", "", 200},
		{"/hf/v1/sessions", "", 401},
		{"/nowhere", "", 401}, // strangers learn nothing about paths
		{"/nowhere", "tok", 404},
	} {
		if status, body := get(inspector, c.target, c.token); status != c.status {
			t.Errorf("%s: %d %s", c.target, status, body)
		}
	}
}
