package upstream

import (
	"net/http"
	"testing"
)

// P25, C25: without a proxy in the route's settings the way is direct, whatever
// the environment says; with one it is that one.
func TestP25_C25_NoProxyUnlessItIsSet(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	c := NewClient(func() []string { return nil })
	defer c.Close()
	req, err := http.NewRequest("GET", "https://api.example/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := c.transport(&Target{})
	if err != nil || direct.Proxy != nil {
		t.Errorf("without one: a proxy is looked up (%v)", err)
	}
	tr, err := c.transport(&Target{Proxy: "http://127.0.0.1:3128"})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := tr.Proxy(req); err != nil || u.Host != "127.0.0.1:3128" {
		t.Errorf("with one: %v, %v", u, err)
	}
}
