package seed

import "testing"

func TestSeed(t *testing.T) {
	t.Setenv(Env, "77")
	if got := Of(t); got != 77 {
		t.Errorf("seed %d of 77", got)
	}
	t.Setenv(Env, "")
	if one, other := Of(t), Of(t); one == other {
		t.Error("two open runs begin alike")
	}
	if _, err := of("seven"); err == nil {
		t.Error("a word passes for a seed")
	}
}
