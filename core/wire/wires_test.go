package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
)

// One conversation, as a client writes it on either wire.
func conversation() map[wire.Codec][]string {
	return map[wire.Codec][]string{
		anthropic.Codec{}: {
			`{"role":"user","content":"Fix the \"test\"."}`,
			`{"role":"assistant","content":[
				{"type":"thinking","thinking":"Look first.","signature":"c2ln"},
				{"type":"text","text":"Reading é."},
				{"type":"tool_use","id":"c1","name":"read","input":{"path":"/a","limit":10}},
				{"type":"tool_use","id":"c2","name":"list","input":{}}]}`,
			`{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one\ntwo"}]},
				{"type":"tool_result","tool_use_id":"c2","content":""},
				{"type":"text","text":"Go on."}]}`,
			`{"role":"assistant","content":[{"type":"thinking","thinking":"Done?","signature":"c2ln"}]}`,
			`{"role":"assistant","content":[]}`,
		},
		openai.Codec{}: {
			`{"role":"user","content":[{"type":"text","text":"Fix the \"test\"."}]}`,
			`{"role":"assistant","content":"Reading \u00e9.","reasoning_content":"Look first.","tool_calls":[
				{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"limit\":1e1, \"path\":\"/a\"}"}},
				{"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}]}`,
			`{"role":"tool","tool_call_id":"c1","content":"one\ntwo"}`,
			`{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":""}]}`,
			`{"role":"user","content":"Go on."}`,
			`{"role":"assistant","content":null,"reasoning":"Done?"}`,
			`{"role":"assistant","content":null}`,
		},
	}
}

// A session that moves to another wire is aligned core by core, so the cores of
// one conversation have the same ids on both.
func TestCoresAreEqualAcrossWires(t *testing.T) {
	var first []chat.Part
	for codec, elements := range conversation() {
		var cores []chat.Part
		for _, raw := range elements {
			m, err := codec.Element([]byte(raw))
			if err != nil {
				t.Fatalf("%s: %v in %s", codec.Family(), err, raw)
			}
			cores = append(cores, m.Parts...)
		}
		if first == nil {
			first = cores
			continue
		}
		if len(cores) != len(first) {
			t.Fatalf("%d cores on one wire, %d on the other", len(first), len(cores))
		}
		for i := range cores {
			if cores[i].Canon != first[i].Canon {
				t.Errorf("core %d is %+v on one wire, %+v on the other", i, first[i], cores[i])
			}
		}
	}
}

// What a turn of a long session costs on its way out.
func BenchmarkRender1MB(b *testing.B) {
	elements := []string{`{"role":"user","content":"Fix it."}`}
	result := strings.Repeat(`\tif err != nil {\n\t\treturn err\n\t}\n`, 50)
	for i := range 500 {
		elements = append(elements, `{"role":"assistant","content":"Reading."}`,
			fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, result))
	}
	body, err := wire.Cut([]byte(`{"system":"You are.","tools":[{"name":"a"}],"messages":[`+strings.Join(elements, ",")+`]}`), "messages")
	if err != nil {
		b.Fatal(err)
	}
	view := []wire.Slot{{Item: wire.Item{Inbound: 0}}, {Carrier: "fold"}}
	for i := 101; i < len(body.Elements); i++ {
		view = append(view, wire.Slot{Item: wire.Item{Inbound: i}})
	}
	add := wire.Additions{Paragraph: "p", Tools: []json.RawMessage{json.RawMessage(`{"name":"hf"}`)}, Nudge: "n"}
	for _, codec := range []wire.Codec{anthropic.Codec{}, openai.Codec{}} {
		b.Run(string(codec.Family()), func(b *testing.B) {
			b.SetBytes(int64(len(body.Raw)))
			b.ReportAllocs()
			for b.Loop() {
				out, err := codec.Render(body, view, add)
				if err != nil || len(out.Bytes(body)) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}
