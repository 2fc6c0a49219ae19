package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
	"holdfast/core/wire/wiretest"
)

// The tests of this file are named after the reports they answer, as those of
// core/fold are.

// request is a body whose messages and other members are given as written.
func request(t *testing.T, members string, messages ...string) *wire.Body {
	t.Helper()
	b, err := wire.Cut([]byte(`{"messages":[`+strings.Join(messages, ",")+`]`+members+`}`), "messages")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// all is the view in which nothing happened.
func all(b *wire.Body) []wire.Slot {
	view := make([]wire.Slot, len(b.Elements))
	for i := range view {
		view[i].Inbound = i
	}
	return view
}

func render(t *testing.T, codec wire.Codec, b *wire.Body, view []wire.Slot, add wire.Additions) string {
	t.Helper()
	out, err := codec.Render(b, view, add)
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Bytes(b))
}

// everything is all we can add to a request.
func everything() wire.Additions {
	return wire.Additions{Paragraph: "About folds.", Nudge: "Fold now.", Tools: wiretest.Own()}
}

const (
	askA    = `{"role":"user","content":"Fix it."}`
	callA   = `{"role":"assistant","content":[{"type":"thinking","thinking":"caf\u00e9 <b>","signature":"c2ln\/+="},{"type":"tool_use","id":"t1","name":"Read","input":{"n":1.0}}]}`
	resultA = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"text"}]}`
)

// P5, P50, C17: thinking and its signature go back byte for byte, in the rounds
// of this turn and in those of a turn before.
func TestP5_P50_C17_SignaturesAreExact(t *testing.T) {
	b := request(t, "", askA, `{"role":"assistant","content":"Merged."}`, askA)
	own := []wire.Private{{Assistant: []byte(callA), Results: []wire.Result{{CallID: "t1", Text: "r"}}}}
	view := all(b)
	view[1].Echo = own
	for name, out := range map[string]string{
		"this turn":   render(t, anthropic.Codec{}, b, all(b), wire.Additions{Rounds: own}),
		"turn before": render(t, anthropic.Codec{}, b, view, wire.Additions{}),
	} {
		if !strings.Contains(out, callA) {
			t.Errorf("%s: the round is not what the model said: %s", name, out)
		}
	}
}

// P6, P78, C17: a refused signature goes with its whole block, never with a
// changed text; the rest stays as it was.
func TestP6_P78_C17_ThinkingGoesWhole(t *testing.T) {
	rest, ok := anthropic.Codec{}.Unthink([]byte(callA))
	const want = `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"n":1.0}}]}`
	if !ok || string(rest) != want {
		t.Errorf("%s, want %s", rest, want)
	}
	if same, ok := (anthropic.Codec{}).Unthink([]byte(want)); !ok || string(same) != want {
		t.Errorf("without thinking: %s", same)
	}
}

// P7, P31, P42: blocks and items we do not know pass as they came, also beside
// results that are shortened.
func TestP7_P31_P42_UnknownBlocksPass(t *testing.T) {
	const server = `{"type":"server_tool_use","id":"s1","name":"web","input":{"q": "x"},"caller":{"type":"direct"}}`
	const answer = `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"text","text":"long enough to be cut"}]}`
	b := request(t, "", askA, `{"role":"assistant","content":[`+server+`, `+answer+`]}`, callA,
		`{"role":"user","content":[`+answer+`,{"type":"tool_result","tool_use_id":"t1","content":"long enough to be cut"}]}`)
	view := all(b)
	view[3].Overlays = []wire.Overlay{{Core: 1, Shorten: func(string) string { return "cut" }}}
	out := render(t, anthropic.Codec{}, b, view, everything())
	if !strings.Contains(out, server+`, `+answer) || !strings.Contains(out, `[`+answer+`,{"type":"tool_result","tool_use_id":"t1","content":"cut"}`) {
		t.Errorf("changed: %s", out)
	}
	view[3].Overlays[0].Core = 0
	if _, err := (anthropic.Codec{}).Render(b, view, wire.Additions{}); err == nil {
		t.Error("a block that is no result of a client's tool was shortened")
	}
}

// P11, C1: nothing is put in front of the client's last cache marker but what is
// constant; the nudge is the last thing of all, and never in the system text.
func TestP11_C1_NothingMovesBeforeTheMarker(t *testing.T) {
	const system = `,"system":[{"type":"text","text":"You are.","cache_control":{"type":"ephemeral"}}]`
	marked := strings.Replace(resultA, `"content":"text"`, `"content":"text","cache_control":{"type":"ephemeral"}`, 1)
	b := request(t, system, askA, callA, marked)
	quiet := everything()
	quiet.Nudge = ""
	loud, still := render(t, anthropic.Codec{}, b, all(b), everything()), render(t, anthropic.Codec{}, b, all(b), quiet)
	at := strings.Index(still, marked) + len(marked) - len(`]}`)
	if loud[:at] != still[:at] || loud[at:] != `,{"type":"text","text":"Fold now."}`+still[at:] {
		t.Errorf("the nudge is not only at the end:\n%s\n%s", loud, still)
	}
	if strings.Count(loud, wire.CacheMarker) != strings.Count(string(b.Raw), wire.CacheMarker) {
		t.Errorf("markers came or went: %s", loud)
	}
}

// P33, P34, C60, C19: what is added does not change how the client spells
// anything: white space, escapes, numbers, ids.
func TestP33_P34_C60_C19_SpellingIsKept(t *testing.T) {
	const odd = "{ \"content\" : \"caf\\u00e9 \\/ é\",\n\t\"role\":\"user\", \"n\": 12345678901234567890.10 }"
	const members = ` , "temperature":1.0,"seed": 9007199254740993 , "metadata":{"user_id":"\u0061"}`
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		b := request(t, members, odd, `{"role":"assistant","content":"x"}`, `{"role":"user","content":"go"}`)
		out := render(t, codec, b, all(b), everything())
		if !strings.Contains(out, odd) || !strings.Contains(out, members) || !json.Valid([]byte(out)) {
			t.Errorf("%s: %s", codec.Family(), out)
		}
		if !wiretest.Added(b.Raw, []byte(out), everything()) {
			t.Errorf("%s: more changed than was added: %s", codec.Family(), out)
		}
	}
}

// P35: what we add to the frame is the same bytes at the same place, however
// the conversation goes.
func TestP35_FrameAdditionsAreConstant(t *testing.T) {
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		seen := map[string]bool{}
		for n := range 4 {
			messages := []string{`{"role":"system","content":"You are."}`}
			for i := range n {
				messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d"}`, i))
			}
			b := request(t, `,"tools":[{"name":"Read"}]`, messages...)
			add := everything()
			if n%2 == 0 {
				add.Nudge = ""
			}
			out := render(t, codec, b, all(b), add)
			seen[out[strings.LastIndex(out, `],"tools"`):]] = true
		}
		if len(seen) != 1 {
			t.Errorf("%s: %v", codec.Family(), seen)
		}
	}
}

// P62: our calls keep the ids the model gave them, and no id is made.
func TestP62_NoIDIsMade(t *testing.T) {
	long := strings.Repeat("x", 70)
	round := wire.Private{
		Assistant: []byte(`{"role":"assistant","content":null,"tool_calls":[{"id":"` + long + `","type":"function","function":{"name":"hf_status","arguments":"{}"}}]}`),
		Results:   []wire.Result{{CallID: long, Text: "ok"}},
	}
	b := request(t, "", askA)
	out := render(t, openai.Codec{}, b, all(b), wire.Additions{Rounds: []wire.Private{round}})
	if strings.Count(out, `"`+long+`"`) != 2 || strings.Count(out, `id":"`) != 2 {
		t.Errorf("ids: %s", out)
	}
	if err := wiretest.Accept(openai.Codec{}, []byte(out), true); err != nil {
		t.Error(err)
	}
}

// P63: a tool_choice nobody knew is forwarded, and no one is asked to fold.
func TestP63_NewToolChoicePasses(t *testing.T) {
	const members = `,"tool_choice":{"type":"from_the_future","x":[1.0]}`
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		b := request(t, members, askA)
		f, err := codec.Frame(b)
		if err != nil || f.Choice == wire.ChoiceFree {
			t.Errorf("%s: %+v, %v", codec.Family(), f, err)
		}
		if out := render(t, codec, b, all(b), everything()); !strings.Contains(out, members) {
			t.Errorf("%s: %s", codec.Family(), out)
		}
	}
}

// C3: a block is carried in one place, whatever the route takes.
func TestC3_OneCarrier(t *testing.T) {
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		for _, strict := range []bool{false, true} {
			b := request(t, "", askA, `{"role":"assistant","content":"a"}`, askA)
			for at := 1; at < 3; at++ {
				view := all(b)
				view = append(view[:at:at], append([]wire.Slot{{Carrier: "[fold b1]"}}, view[at:]...)...)
				out := render(t, codec, b, view, wire.Additions{Strict: strict})
				if strings.Count(out, "[fold b1]") != 1 {
					t.Errorf("%s at %d, strict %v: %s", codec.Family(), at, strict, out)
				}
			}
		}
	}
}

// C63: neighbouring turns of the client's stay apart, on strict routes too.
func TestC63_TurnsStayApart(t *testing.T) {
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		b := request(t, "", askA, askA, `{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"b"}`, askA)
		for _, strict := range []bool{false, true} {
			if out := render(t, codec, b, all(b), wire.Additions{Strict: strict}); !bytes.Equal([]byte(out), b.Raw) {
				t.Errorf("%s, strict %v: %s", codec.Family(), strict, out)
			}
		}
	}
}
