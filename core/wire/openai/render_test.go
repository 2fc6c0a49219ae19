package openai

import (
	"testing"

	"holdfast/core/seed"
	"holdfast/core/wire/wiretest"
)

func TestRenderGolden(t *testing.T) { wiretest.RenderGolden(t, Codec{}) }

func TestRenderProperties(t *testing.T) { wiretest.RenderProperties(t, Codec{}, seed.Of(t)) }

func TestUnthink(t *testing.T) {
	for members, want := range map[string]string{
		`"role":"assistant","content":"a"`:                                                           `"role":"assistant","content":"a"`,
		`"role":"assistant", "content":"a \u00e9","reasoning_content":"?"`:                           `"role":"assistant", "content":"a \u00e9"`,
		`"reasoning":"?","reasoning_details":[{"a":1}],"content":[{"type":"text","text":"a"}]`:       `"content":[{"type":"text","text":"a"}]`,
		`"content":null,"reasoning_text":"?","reasoning_opaque":"x","tool_calls":[{"id":"1"}],"x":1`: `"content":null,"tool_calls":[{"id":"1"}],"x":1`,
		`"content":null,"reasoning_content":"?","function_call":{"name":"f"}`:                        `"content":null,"function_call":{"name":"f"}`,
	} {
		got, ok := Codec{}.Unthink([]byte(`{` + members + `}`))
		if !ok || string(got) != `{`+want+`}` {
			t.Errorf("%s: %s, %v, want %s", members, got, ok, want)
		}
	}
	for _, members := range []string{`"content":"","reasoning":"?"`, `"content":null,"reasoning":"?","tool_calls":[]`} {
		if got, ok := (Codec{}).Unthink([]byte(`{` + members + `}`)); ok {
			t.Errorf("nothing is left, and it is %s", got)
		}
	}
}
