package demo

import (
	"strings"
	"testing"

	"holdfast/core/wire"
)

// TestStrict: what a strict provider refuses, and what it takes.
func TestStrict(t *testing.T) {
	signed := `{"type":"thinking","thinking":"hm","signature":"` + signature("hm", 0, "tool_usec1") + `"}`
	said := `{"type":"text","text":"so"}`
	call := `{"type":"tool_use","id":"c1","name":"Read","input":{}}`
	result := `{"type":"tool_result","tool_use_id":"c1","content":"text"}`
	user := func(blocks ...string) string {
		return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	}
	assistant := func(blocks ...string) string {
		return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
	}
	hi := user(`{"type":"text","text":"hi"}`)
	for name, tc := range map[string]struct {
		messages []string
		why      string
	}{
		"a round":               {[]string{hi, assistant(signed, call), user(result)}, ""},
		"text behind results":   {[]string{hi, assistant(call), user(result, `{"type":"text","text":"and"}`)}, ""},
		"neighbours":            {[]string{hi, hi}, ""},
		"on and on":             {[]string{hi, assistant(said), hi}, ""},
		"string":                {[]string{`{"role":"user","content":"hi"}`}, ""},
		"foreign signature":     {[]string{hi, assistant(strings.Replace(signed, "hm", "hmm", 1), call), user(result)}, "invalid signature"},
		"signed elsewhere":      {[]string{hi, assistant(said, signed, call), user(result)}, "messages.1: content.1: invalid signature"},
		"something between":     {[]string{hi, assistant(signed, said, call), user(result)}, "invalid signature"},
		"signed alone":          {[]string{hi, assistant(signed)}, "invalid signature"},
		"omitted":               {[]string{hi, assistant(`{"type":"thinking","thinking":"","signature":"`+signature("", 0, "textso")+`"}`, said)}, ""},
		"system between turns":  {[]string{hi, `{"role":"system","content":[]}`, assistant(said), hi, `{"role":"system","content":"x"}`}, ""},
		"system before results": {[]string{hi, assistant(call), `{"role":"system","content":"x"}`, user(result)}, "has no place here"},
		"no signature":          {[]string{hi, assistant(`{"type":"thinking","thinking":"hm"}`)}, "invalid signature"},
		"made-up redaction":     {[]string{hi, assistant(`{"type":"redacted_thinking","data":"YWJj"}`)}, "invalid data"},
		"no result":             {[]string{hi, assistant(call)}, "1 calls have no result"},
		"result elsewhere":      {[]string{hi, assistant(call), hi, user(result)}, "before the results"},
		"half the results":      {[]string{hi, assistant(call, strings.Replace(call, "c1", "c2", 1)), user(result)}, "have no result here"},
		"result behind text":    {[]string{hi, assistant(call), user(`{"type":"text","text":"and"}`, result)}, "text before the results"},
		"orphan":                {[]string{hi, user(result)}, "did not call"},
		"id again":              {[]string{hi, assistant(call), user(result), assistant(call), user(result)}, "unique"},
		"model first":           {[]string{assistant(`{"type":"text","text":"hi"}`)}, "must be the user's"},
		"system in the list":    {[]string{`{"role":"system","content":"x"}`, hi}, "has no place here"},
		"empty text":            {[]string{user(`{"type":"text","text":""}`)}, "must not be empty"},
		"nothing":               {[]string{user()}, "content is empty"},
		"no messages":           {nil, "at least one message"},
		"call of the user":      {[]string{user(call)}, "outside the model's"},
		"the user's own reason": {[]string{hi, `{"role":"moderator","content":"x"}`}, `role "moderator"`},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"messages":[` + strings.Join(tc.messages, ",") + `]}`
			refused(t, anthropicWire{}.rules().judge(hearAnthropic(wire.ValueOf([]byte(body)).Obj())), tc.why)
		})
	}
}

// TestStrictChat: the same for Chat Completions, where turns alternate.
func TestStrictChat(t *testing.T) {
	const (
		hi     = `{"role":"user","content":"hi"}`
		said   = `{"role":"assistant","content":"hello"}`
		call   = `{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"c1","content":"text"}`
		system = `{"role":"system","content":"be brief"}`
	)
	for name, tc := range map[string]struct {
		messages []string
		why      string
	}{
		"a round":          {[]string{system, hi, call, result, said, hi}, ""},
		"on and on":        {[]string{hi, call, result, strings.Replace(call, "c1", "c2", 1), strings.Replace(result, "c1", "c2", 1)}, ""},
		"two users":        {[]string{hi, hi}, "two turns of the user"},
		"user after tools": {[]string{hi, call, result, hi}, "two turns of the user"},
		"two models":       {[]string{hi, said, said}, "two turns of the assistant"},
		"late system":      {[]string{hi, said, system}, "has no place here"},
		"no result":        {[]string{hi, call, hi}, "two turns of the user"},
		"answered late":    {[]string{hi, call, said}, "before the results"},
		"orphan":           {[]string{hi, result}, "did not call"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"messages":[` + strings.Join(tc.messages, ",") + `]}`
			refused(t, chatWire{}.rules().judge(hearChat(wire.ValueOf([]byte(body)).Obj())), tc.why)
		})
	}
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
		t.Errorf("%v, want %q", err, why)
	}
}

// TestAlternation: where neighbours of one role are refused.
func TestAlternation(t *testing.T) {
	two := []heard{{role: "user", parts: []part{{kind: partText, text: "a"}}}, {role: "user", parts: []part{{kind: partText, text: "b"}}}}
	for _, tc := range []struct {
		a                    Alternation
		onAnthropic, onChats string
	}{{AlternateChat, "", "two turns"}, {AlternateNowhere, "", ""}, {AlternateEverywhere, "two turns", "two turns"}} {
		refused(t, tc.a.of(anthropicWire{}.rules()).judge(two), tc.onAnthropic)
		refused(t, tc.a.of(chatWire{}.rules()).judge(two), tc.onChats)
	}
}
