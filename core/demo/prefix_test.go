package demo

import (
	"strings"
	"testing"
)

// TestKept: what stands before a fold is found, and a change in it is.
func TestKept(t *testing.T) {
	const first = `{"role":"user","content":"the first thing that was asked for in this session"}`
	const second = `{"role":"assistant","content":"the first answer that was given in this session"}`
	const third = `{"role":"user","content":"the second thing that was asked for in this session"}`
	body := func(messages ...string) []byte { return []byte(`{"messages":[` + strings.Join(messages, ",") + `]}`) }
	one, both := `{"role":"user","content":"[fold b1 · x]"}`, `{"role":"user","content":"[fold b2 · x]"}`
	joined := strings.TrimSuffix(first, `"}`) + `\n\n[fold b1 · x]"}`
	inbound := body(first, second, third)
	for name, tc := range map[string]struct {
		cut           Cut
		before, after []byte
		kept          int
		why           string
	}{
		"plain":        {Cut{Place: 1}, body(first, second, third), body(first, one, third), len(`{"messages":[` + first + `,`), ""},
		"changed":      {Cut{Place: 1}, body(first, second, third), body(strings.Replace(first, "asked", "ASKED", 1), one, third), 0, "differ at byte"},
		"behind":       {Cut{Place: 2, Behind: "b1"}, body(first, one, strings.Replace(third, `"}`, ` yes"}`, 1)), body(first, one, both), len(`{"messages":[` + first + `,` + one), ""},
		"taken":        {Cut{Place: 1, Taken: true}, body(first, one, second), body(first, both, second), len(`{"messages":[` + first), ""},
		"strict":       {Cut{Place: 1, Strict: true}, body(first, second, third), body(joined, third), len(`{"messages":[` + strings.TrimSuffix(first, `"}`)), ""},
		"strict taken": {Cut{Place: 1, Taken: true, Strict: true}, body(joined, third), body(strings.Replace(joined, "b1", "b2", 1), third), len(`{"messages":[` + strings.TrimSuffix(first, `"}`)), ""},
		"nowhere":      {Cut{Place: 2}, body(first, one), body(first, both), 0, "cannot be told"},
		"no place":     {Cut{Place: 3}, body(first), body(first), 0, "no place 3"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := tc.cut.Kept(tc.before, tc.after, inbound)
			refused(t, err, tc.why)
			if tc.why == "" && n != tc.kept {
				t.Errorf("%d bytes kept, want %d", n, tc.kept)
			}
		})
	}
}
