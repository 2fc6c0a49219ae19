package anthropic

import (
	"bytes"
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
		"cut off":              {`{"role":"user"`, wire.ErrNotJSON},
		"not an object":        {`"hi"`, wire.ErrShape},
		"null":                 {`null`, wire.ErrShape},
		"role is a number":     {`{"role":1,"content":"x"}`, wire.ErrShape},
		"content is a number":  {`{"role":"user","content":1}`, wire.ErrShape},
		"content is an object": {`{"role":"user","content":{"type":"text"}}`, wire.ErrShape},
		"text is a number":     {`{"role":"user","content":[{"type":"text","text":1}]}`, wire.ErrShape},
		"call id is a number":  {`{"role":"assistant","content":[{"type":"tool_use","id":1}]}`, wire.ErrShape},
		"error is a string":    {`{"role":"user","content":[{"type":"tool_result","is_error":"yes"}]}`, wire.ErrShape},
		"key twice":            {`{"role":"user","role":"user"}`, wire.ErrDuplicateKey},
		"key twice in a block": {`{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}`, wire.ErrDuplicateKey},
		"too deep":             {`{"role":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, wire.ErrTooDeep},
	} {
		if _, err := (Codec{}).Element([]byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A payload leaves its element only when it is long enough and free of
// escapes; the spans follow the bytes when a marker before them goes.
func TestPayloads(t *testing.T) {
	long, short := strings.Repeat("QUJD", 300), strings.Repeat("QUJD", 255)
	image := func(data string) string {
		return `{"cache_control":{"type":"ephemeral"},"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	}
	for name, c := range map[string]struct {
		block string
		want  []string
	}{
		"long":      {image(long), []string{long}},
		"short":     {image(short), nil},
		"escaped":   {image(long + `\/`), nil},
		"url":       {strings.Replace(image(long), `"base64"`, `"url"`, 1), nil},
		"in result": {`{"type":"tool_result","tool_use_id":"t","content":[` + image(long) + `,` + image(long) + `]}`, []string{long, long}},
		"document":  {strings.Replace(image(long), `"image"`, `"document"`, 1), []string{long}},
	} {
		raw := []byte(`{"role":"user","content":[{"type":"text","text":"look","cache_control":null},` + c.block + `]}`)
		wiretest.Element(t, Codec{}, raw)
		m, err := Codec{}.Element(raw)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range m.Media {
			got = append(got, string(s.Of(m.Stripped)))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %d payloads, want %d", name, len(got), len(c.want))
		}
		if bytes.Contains(m.Stripped, []byte(wire.CacheMarker)) {
			t.Errorf("%s: a marker is left in %s", name, m.Stripped)
		}
	}
}

func TestStrippedIsRawWithoutMarkers(t *testing.T) {
	raw := []byte(`{"role":"user","content":[{"type":"text","text":"cache_control"}]}`)
	m, err := Codec{}.Element(raw)
	if err != nil || &m.Stripped[0] != &raw[0] || &m.Raw[0] != &raw[0] {
		t.Errorf("without a marker the stored form is the client's slice (%v)", err)
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
		``:                 {},
		`,"max_tokens":-8`: {},
		`,"model":"m","stream":true,"max_tokens":8e3,"future":{"x":[1]}`:           {Model: "m", Stream: true, MaxOutput: 8000},
		`,"model":null,"stream":null,"max_tokens":null,"tools":null,"system":null`: {},
		`,"system":"be\nbrief"`: {System: "be\nbrief"},
		`,"system":[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"b"}]`: {System: "a\nb"},
		`,"tools":[]`: {},
		`,"tools":[{"name":"Read"},{"type":"bash_20250124","name":"bash"},{"type":"x"}]`: {Tools: true, ToolNames: []string{"Read", "bash", ""}},
		`,"mcp_servers":[{"url":"u"}]`:                                           {Tools: true},
		`,"output_config":{"format":{"type":"json_schema","schema":{}}}`:         {JSONFormat: true},
		`,"output_format":{"type":"json_schema"}`:                                {JSONFormat: true},
		`,"output_config":{"effort":"high"},"thinking":5`:                        {},
		`,"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"S-1\"}"}`: {SessionHint: "S-1"},
		`,"metadata":{"user_id":"user_abc_session_123"}`:                         {},
		`,"metadata":{"user_id":"{\"session_id\":1}"}`:                           {},
		`,"metadata":{"user_id":"{\"session_id\":\"a\",\"session_id\":\"b\"}"}`:  {},
		`,"metadata":{"user_id":"{\"session_id\":\"S-1\""}`:                      {},
	} {
		got, err := frame(t, members)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, %v, want %+v", members, got, err, want)
		}
	}
}

func TestChoice(t *testing.T) {
	for choice, want := range map[string]wire.ToolChoice{
		`null`: wire.ChoiceFree,
		`{"type":"auto","disable_parallel_tool_use":true}`: wire.ChoiceFree,
		`{"type":"none"}`:             wire.ChoiceNone,
		`{"type":"any"}`:              wire.ChoiceAny,
		`{"type":"tool","name":"Go"}`: wire.ChoiceNamed,
		`{"type":"new"}`:              wire.ChoiceAny,
		`"auto"`:                      wire.ChoiceAny,
	} {
		if got, err := frame(t, `,"tool_choice":`+choice); err != nil || got.Choice != want {
			t.Errorf("%s: %q, %v, want %q", choice, got.Choice, err, want)
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, members := range []string{
		`,"model":1`, `,"stream":"yes"`, `,"stream":1`, `,"max_tokens":"8"`, `,"max_tokens":1.5`, `,"max_tokens":1e99`,
		`,"tools":{}`, `,"tools":["Read"]`, `,"tools":[{"name":1}]`, `,"system":1`, `,"system":["a"]`, `,"system":{"a":1}`,
		`,"metadata":"u"`, `,"metadata":{"user_id":7}`, `,"output_config":[]`, `,"output_format":"json"`, `,"mcp_servers":1`,
		`,"model":"\q"`,
	} {
		if _, err := frame(t, members); !errors.Is(err, wire.ErrShape) {
			t.Errorf("%s: %v, want ErrShape", members, err)
		}
	}
}

func TestBillingLine(t *testing.T) {
	const line = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.332.a1b; cc_entrypoint=cli;"}`
	for _, c := range []struct {
		system, rest string
		found        bool
	}{
		{`[` + line + `]`, `[]`, true},
		{"[ " + line + " ,\n {\"type\":\"text\",\"text\":\"a\"} ]", `[{"type":"text","text":"a"} ]`, true},
		{`[{"type":"text","text":"a"},` + line + `]`, `[{"type":"text","text":"a"},` + line + `]`, false},
		{`"x-anthropic-billing-header: as text"`, `"x-anthropic-billing-header: as text"`, false},
		{`[]`, `[]`, false},
		{`null`, `null`, false},
		{``, ``, false},
		{`[1,`, `[1,`, false},
	} {
		before := c.system
		rest, found := Codec{}.BillingLine([]byte(c.system))
		if string(rest) != c.rest || found != c.found || c.system != before {
			t.Errorf("%s: %s, %v, want %s, %v", c.system, rest, found, c.rest, c.found)
		}
	}
}

func BenchmarkElement(b *testing.B) {
	result := strings.Repeat(`\tif err != nil {\n\t\treturn fmt.Errorf(\"open %q: %w\", name, err)\n\t}\n`, 30)
	for name, raw := range map[string]string{
		"result2KB": `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + result + `","cache_control":{"type":"ephemeral"}}]}`,
		"call":      `{"role":"assistant","content":[{"type":"text","text":"Reading."},{"type":"tool_use","id":"t","name":"Read","input":{"path":"/a.go","limit":200}}]}`,
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
