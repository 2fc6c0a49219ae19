package api

import (
	"context"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/session"
)

// P21: turning everything off is asked about while a session's own history no
// longer fits its model, and is not otherwise.
func TestP21_BypassAsksWhereItWouldHurt(t *testing.T) {
	for name, long := range map[string][]session.LongView{
		"nothing outgrew its window": nil,
		"one session did":            {{ID: "l", Title: "port the parser", Raw: 900_000, Window: 200_000}},
	} {
		k := &knobs{c: config.Default()}
		a, h := newAPI(newShelf(), k)
		a.Long = func(context.Context) ([]session.LongView, error) { return long, nil }
		w := do(h, "PUT", "/hf/v1/bypass", `{"on":true}`)
		if asked := w.Code == 409 && strings.Contains(w.Body.String(), "port the parser"); asked != (long != nil) || k.c.Bypass == asked {
			t.Errorf("%s: %d %s, bypass %v", name, w.Code, w.Body, k.c.Bypass)
		}
	}
}
