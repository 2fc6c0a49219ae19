package guard

import (
	"testing"
	"time"
)

// C53: the inspector answers behind a forwarded port: names are compared, the
// port of our own listener is not.
func TestC53_ForwardedPorts(t *testing.T) {
	g := inspector(&clock{time.Unix(0, 0)})
	for host, want := range map[string]string{"localhost:9999": "", "127.0.0.1:1": "", "[::1]:80": "", "evil.example:4153": "host"} {
		res := ask(g.Wrap(yes(t)), "GET", "/hf/v1/status", "", "Host: "+host, "Origin: http://"+host, "Authorization: Bearer tok")
		if got := code(t, res); got != want {
			t.Errorf("%s: %d %q, want %q", host, res.StatusCode, got, want)
		}
	}
}
