package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/wire"
	"holdfast/core/wire/wiretest"
)

func TestGolden(t *testing.T) { wiretest.Golden(t, Codec{}) }

func FuzzElement(f *testing.F) { wiretest.FuzzElement(f, Codec{}) }

func TestElementRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"cut off":               {`{"role":"user"`, wire.ErrNotJSON},
		"not an object":         {`["hi"]`, wire.ErrShape},
		"role is a number":      {`{"role":1}`, wire.ErrShape},
		"content is a number":   {`{"role":"user","content":1}`, wire.ErrShape},
		"content is an object":  {`{"role":"user","content":{}}`, wire.ErrShape},
		"result is a number":    {`{"role":"tool","content":1}`, wire.ErrShape},
		"result id is a number": {`{"role":"tool","tool_call_id":1,"content":"x"}`, wire.ErrShape},
		"calls are an object":   {`{"role":"assistant","tool_calls":{}}`, wire.ErrShape},
		"arguments are a list":  {`{"role":"assistant","tool_calls":[{"function":{"arguments":[]}}]}`, wire.ErrShape},
		"reasoning is a number": {`{"role":"assistant","reasoning_content":1}`, wire.ErrShape},
		"refusal is a list":     {`{"role":"assistant","refusal":[]}`, wire.ErrShape},
		"key twice":             {`{"role":"user","role":"user"}`, wire.ErrDuplicateKey},
		"key twice in a part":   {`{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}`, wire.ErrDuplicateKey},
		"too deep":              {`{"role":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, wire.ErrTooDeep},
	} {
		if _, err := (Codec{}).Element([]byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func frame(t *testing.T, members string) (wire.Frame, error) {
	t.Helper()
	b, err := wire.Cut([]byte(`{"messages":[]`+members+`}`), Codec{}.List())
	if err != nil {
		t.Fatal(err)
	}
	return Codec{}.Frame(b)
}

func TestFrame(t *testing.T) {
	for members, want := range map[string]wire.Frame{
		``: {},
		`,"model":"m","stream":true,"future":[{}]`:              {Model: "m", Stream: true},
		`,"max_tokens":100`:                                     {MaxOutput: 100},
		`,"max_tokens":100,"max_completion_tokens":-1`:          {},
		`,"max_tokens":100,"max_completion_tokens":200`:         {MaxOutput: 200},
		`,"max_completion_tokens":2.0e2,"max_tokens":null`:      {MaxOutput: 200},
		`,"stream_options":{"include_usage":true}`:              {IncludeUsage: true},
		`,"stream_options":null`:                                {},
		`,"response_format":{"type":"json_object"}`:             {JSONFormat: true},
		`,"response_format":{"type":"json_schema"}`:             {JSONFormat: true},
		`,"response_format":{"type":"text"}`:                    {},
		`,"tools":[],"functions":[]`:                            {},
		`,"functions":[{"name":"old"}]`:                         {Tools: true, ToolNames: []string{"old"}, OldTools: true},
		`,"metadata":{"user_id":"{\"session_id\":\"a\"}"}`:      {},
		`,"user":7,"metadata":"whatever","tool_choice":{"a":1}`: {Choice: wire.ChoiceAny},
		`,"tools":[{"function":{"name":"f"}}],"functions":[{"name":"old"}]`: {
			Tools: true, ToolNames: []string{"f", "old"}},
		`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}},{"type":"web_search"}]`: {
			Tools: true, ToolNames: []string{"f", "c", "web_search"}},
	} {
		got, err := frame(t, members)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, %v, want %+v", members, got, err, want)
		}
	}
}

func TestChoice(t *testing.T) {
	for members, want := range map[string]wire.ToolChoice{
		`"tool_choice":null`:       wire.ChoiceFree,
		`"tool_choice":"auto"`:     wire.ChoiceFree,
		`"tool_choice":"none"`:     wire.ChoiceNone,
		`"tool_choice":"required"`: wire.ChoiceAny,
		`"tool_choice":{"type":"function","function":{"name":"f"}}`:              wire.ChoiceNamed,
		`"tool_choice":{"type":"custom","custom":{"name":"f"}}`:                  wire.ChoiceNamed,
		`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}`: wire.ChoiceAllowed,
		`"tool_choice":["new"]`:                       wire.ChoiceAny,
		`"function_call":"auto"`:                      wire.ChoiceFree,
		`"function_call":"none"`:                      wire.ChoiceNone,
		`"function_call":{"name":"f"}`:                wire.ChoiceNamed,
		`"tool_choice":"auto","function_call":"none"`: wire.ChoiceFree,
		`"tool_choice":{"type":"function","function":{"name":"f"}},"function_call":1`: wire.ChoiceNamed,
	} {
		if got, err := frame(t, ","+members); err != nil || got.Choice != want {
			t.Errorf("%s: %q, %v, want %q", members, got.Choice, err, want)
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, members := range []string{
		`,"model":[]`, `,"stream":"true"`, `,"max_tokens":"8"`, `,"max_completion_tokens":0.5`, `,"tools":{}`, `,"tools":[7]`,
		`,"tools":[{"function":{"name":1}}]`, `,"functions":"f"`, `,"response_format":"json_object"`,
		`,"response_format":{"type":1}`, `,"stream_options":true`, `,"stream_options":{"include_usage":"yes"}`,
	} {
		if _, err := frame(t, members); !errors.Is(err, wire.ErrShape) {
			t.Errorf("%s: %v, want ErrShape", members, err)
		}
	}
}

func TestBillingLineIsNever(t *testing.T) {
	const system = `[{"type":"text","text":"x-anthropic-billing-header: a"}]`
	if rest, found := (Codec{}).BillingLine([]byte(system)); found || string(rest) != system {
		t.Errorf("%s, %v", rest, found)
	}
}

func BenchmarkElement(b *testing.B) {
	for name, raw := range map[string]string{
		"result2KB": `{"role":"tool","tool_call_id":"c","content":"` +
			strings.Repeat(`\tif err != nil {\n\t\treturn fmt.Errorf(\"open %q: %w\", name, err)\n\t}\n`, 30) + `"}`,
		"call": `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"read","arguments":"{\"path\":\"/a.go\",\"limit\":200}"}}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Codec{}).Element([]byte(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
