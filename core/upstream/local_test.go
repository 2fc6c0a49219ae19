package upstream

import (
	"net/http"
	"testing"

	"holdfast/core/usage"
)

// measuring is a sender that measures.
type measuring struct{ http.RoundTripper }

func (measuring) Rates() usage.Rates { return usage.Rates{Prefill: 40} }

// TestRates: only a route's own sender is asked, never what a request names.
func TestRates(t *testing.T) {
	c := NewClient(func() []string { return nil })
	defer c.Close()
	c.Route(func(route string) Sender {
		if route == "local" {
			return measuring{}
		}
		return nil
	})
	for _, x := range []struct {
		target Target
		want   float64
	}{{Target{Route: "local"}, 40}, {Target{Route: "far"}, 0}, {Target{Route: "local", Guarded: true}, 0}} {
		if got := c.Rates(&x.target); got.Prefill != x.want {
			t.Errorf("%+v: %v", x.target, got)
		}
	}
}
