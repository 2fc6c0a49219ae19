package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"holdfast/core/chat"
)

func TestCanonical(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"white space":     {" { \"a\" : [ 1 , 2 ] }\n", `{"a":[1,2]}`},
		"keys":            {`{"b":1,"a":{"d":1,"c":2},"aa":3}`, `{"a":{"c":2,"d":1},"aa":3,"b":1}`},
		"escaped keys":    {`{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		"escapes":         {`"\u0041\/\u00e9\t\u0009\u001f\"\\"`, `"A/é\t\t\u001f\"\\"`},
		"pair":            {`"\ud83d\ude00"`, `"😀"`},
		"half a pair":     {`"\uD83D\ud83dx"`, "\"\xed\xa0\xbd\xed\xa0\xbdx\""},
		"half, turned":    {`"\udead\ud800"`, "\"\xed\xba\xad\xed\xa0\x80\""},
		"two low halves":  {`"\udead\udc00"`, "\"\xed\xba\xad\xed\xb0\x80\""},
		"Hangul":          {`"한국어\u000a"`, `"한국어\n"`},
		"not UTF-8":       {"\"\xff\\u0041\"", "\"\xffA\""},
		"empty":           {`[{},[],"",null,true,false]`, `[{},[],"",null,true,false]`},
		"integers":        {`[1,1.0,10e-1,0.1E1,1e0,100e-2]`, `[1,1,1,1,1,1]`},
		"zeros":           {`[0,-0,0.0,0e5,-0.00E-3]`, `[0,0,0,0,0]`},
		"fractions":       {`[0.5,5e-1,50E-2,-1.50,0.001,1e-3,12.5]`, `[0.5,0.5,0.5,-1.5,0.001,0.001,12.5]`},
		"large":           {`[1e20,100000000000000000000]`, `[100000000000000000000,100000000000000000000]`},
		"beyond a float":  {`[9007199254740993,0.1234567890123456789]`, `[9007199254740993,0.1234567890123456789]`},
		"very large":      {`[1e30,10e29,1000000000000000000000000000000]`, `[1e30,1e30,1e30]`},
		"very small":      {`[1e-30,0.1e-29,12e-40]`, `[1e-30,1e-30,12e-40]`},
		"bounded":         {`[1e400,10E399,1e401,1.0e401,1E-999,0e99999999999999999999]`, `[1e400,1e400,1e401,1.0e401,1E-999,0e99999999999999999999]`},
		"drop":            {`{"x":1,"drop":[1,2],"y":{"drop":3}}`, `{"x":1,"y":{"drop":3}}`},
		"drop first":      {`{"drop":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		"drop everything": {`{"drop":1}`, `{}`},
		"drop in arrays":  {`[{"drop":1}]`, `[{"drop":1}]`},
	} {
		if got, err := Canonical([]byte(c.in), "drop"); err != nil || got != c.want {
			t.Errorf("%s: Canonical(%s) = %s, %v, want %s", name, c.in, got, err, c.want)
		}
	}
	if _, err := Canonical([]byte(`{"a":}`)); !errors.Is(err, ErrNotJSON) {
		t.Errorf("not JSON: %v", err)
	}
	if _, err := Canonical([]byte(deep(MaxDepth))); err != nil {
		t.Errorf("as deep as allowed: %v", err)
	}
}

// Numbers that differ must not meet, however they are spelled.
func TestCanonicalTellsNumbersApart(t *testing.T) {
	seen := map[string]string{}
	for _, in := range []string{
		"0", "1", "-1", "10", "0.1", "0.01", "1e24", "1e25", "1e-24", "1e-25", "11", "1.1", "101", "1e400", "1e401", "-1e400",
		"9007199254740992", "9007199254740993", "1.0000000000000000000000001",
	} {
		text, err := Canonical([]byte(in))
		if other, ok := seen[text]; ok || err != nil {
			t.Errorf("%s and %s are both %s (%v)", in, other, text, err)
		}
		seen[text] = in
	}
}

func TestStripMembers(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"none":       {`{"a":1}`, `{"a":1}`},
		"first":      {`{"cache_control":{"type":"ephemeral"},"a":1,"b":2}`, `{"a":1,"b":2}`},
		"middle":     {`{"a":1,"cache_control":{"type":"ephemeral"},"b":2}`, `{"a":1,"b":2}`},
		"last":       {`{"b":1,"a":2,"cache_control":null}`, `{"b":1,"a":2}`},
		"only":       {`{"cache_control":1}`, `{}`},
		"escaped":    {`{"a":1,"cache\u005fcontrol":1}`, `{"a":1}`},
		"not nested": {`{"a":{"cache_control":1}}`, `{"a":{"cache_control":1}}`},
		"pretty, first": {"{\n  \"cache_control\": {\n    \"x\": 1\n  },\n  \"a\": 1\n}",
			"{\n  \"a\": 1\n}"},
		"pretty, last": {"{\n  \"a\": 1 ,\n  \"cache_control\": 1\n}", "{\n  \"a\": 1\n}"},
		"pretty, only": {"{\n  \"cache_control\": 1\n}", "{\n  \n}"},
	} {
		got, err := StripMembers([]byte(c.in), []chat.Span{{Start: 0, End: len(c.in)}}, CacheMarker)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestStripMembersNested(t *testing.T) {
	raw := []byte(`{"k":{"k":1,"x":{"k":2}},"y":[{"k":3,"z":4}]}`)
	spans := []chat.Span{{Start: 37, End: len(raw) - 2}, {Start: 0, End: len(raw)}}
	spans[0].Start = bytes.Index(raw, []byte(`{"k":3`))
	got, err := StripMembers(raw, spans, "k")
	if want := `{"y":[{"z":4}]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	raw2 := []byte(`{"a":1,"k":{"k":1,"b":2}}`)
	both := []chat.Span{{Start: 0, End: len(raw2)}, {Start: 11, End: len(raw2) - 1}}
	if got, err := StripMembers(raw2, both, "k"); err != nil || string(got) != `{"a":1}` {
		t.Errorf("a cut inside a cut: %s, %v", got, err)
	}
	if same, _ := StripMembers(raw, spans, "none"); &same[0] != &raw[0] {
		t.Error("without such a member the result is raw itself")
	}
	if _, err := StripMembers([]byte(`[1]`), []chat.Span{{Start: 0, End: 3}}, "k"); !errors.Is(err, ErrShape) {
		t.Errorf("not an object: %v, want ErrShape", err)
	}
}
