//go:build clients

package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/core/demo"
)

func TestClientsDirect(t *testing.T) {
	model := demo.NewModel(demo.Options{})
	server := httptest.NewServer(model)
	defer server.Close()
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			tp := newTap(t, server.Listener.Addr().String(), nil)
			start := time.Now()
			shown := a.scenario(t, demo.BaseURL(tp.url, a.name))
			n := 0
			for _, ex := range tp.seen() {
				n += len(ex.body)
				t.Log(ex.method, ex.uri, len(ex.body), ex.status, len(ex.response))
			}
			t.Logf("%d exchanges, %d bytes, %s\n%s", len(tp.seen()), n, time.Since(start), shown)
		})
	}
}
