package local

import "testing"

// The speed of long prompts is what a fold is reckoned with; before one was
// computed nothing is claimed.
func TestRates(t *testing.T) {
	f := newFake(t, 1)
	e := on(t, f)
	if r := e.Rates(); r.Prefill != 0 || r.Decode != 0 {
		t.Errorf("before any prompt: %+v", r)
	}
	ask(t, e, "POST", "/v1/chat/completions", chatBody(false, words(600, "tide")))
	if r := e.Rates(); r.Prefill <= 0 {
		t.Errorf("after a long one: %+v", r)
	}
}
