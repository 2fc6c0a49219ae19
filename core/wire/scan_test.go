package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestCut(t *testing.T) {
	raw := "\t{ \"mod\\u0065l\" : \"m\\\"x\" ,\r\n\"messages\":\n[ {\"a\":\"]}\\\\\"} ,\n 1e3,\"s\\\\\\\"\" ],\"messagesx\":[]}\n"
	b, err := Cut([]byte(raw), "messages")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b.Field("model")), `"m\"x"`; got != want {
		t.Errorf("model = %s, want %s", got, want)
	}
	want := []string{`{"a":"]}\\"}`, "1e3", `"s\\\""`}
	if len(b.Elements) != len(want) {
		t.Fatalf("%d elements, want %d", len(b.Elements), len(want))
	}
	for i, w := range want {
		if got := string(b.Element(i)); got != w {
			t.Errorf("element %d = %s, want %s", i, got, w)
		}
	}
	if got := string(b.List.Of(b.Raw)); got[0] != '[' || got[len(got)-1] != ']' {
		t.Errorf("list = %s, want brackets included", got)
	}
	if b.Field("none") != nil {
		t.Error("an absent field has bytes")
	}
}

func TestCutRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"empty":                {"", ErrNotJSON},
		"white space":          {" \n", ErrNotJSON},
		"text":                 {"hello", ErrNotJSON},
		"byte order mark":      {"\xEF\xBB\xBF{\"messages\":[]}", ErrNotJSON},
		"cut off":              {`{"messages":[{"a":1}`, ErrNotJSON},
		"cut off in a string":  {`{"messages":["a\"]}`, ErrNotJSON},
		"second value":         {`{"messages":[]} {}`, ErrNotJSON},
		"trailing comma":       {`{"messages":[],}`, ErrNotJSON},
		"trailing list comma":  {`{"messages":[1,]}`, ErrNotJSON},
		"missing comma":        {`{"messages":[1 2]}`, ErrNotJSON},
		"missing value":        {`{"messages":}`, ErrNotJSON},
		"missing colon":        {`{"messages" []}`, ErrNotJSON},
		"bare key":             {`{messages:[]}`, ErrNotJSON},
		"bad escape in a key":  {`{"\x":1,"messages":[]}`, ErrNotJSON},
		"control in a key":     {"{\"a\nb\":1,\"messages\":[]}", ErrNotJSON},
		"NUL":                  {"{\x00\"messages\":[]}", ErrNotJSON},
		"array at top":         {`[{"messages":[]}]`, ErrShape},
		"number at top":        {`7`, ErrShape},
		"no list":              {`{"model":"m"}`, ErrShape},
		"list is a string":     {`{"messages":"hi"}`, ErrShape},
		"list is null":         {`{"messages":null}`, ErrShape},
		"list one level down":  {`{"x":{"messages":[]}}`, ErrShape},
		"key twice":            {`{"model":"a","messages":[],"model":"b"}`, ErrDuplicateKey},
		"list twice":           {`{"messages":[],"messages":[]}`, ErrDuplicateKey},
		"key twice, escaped":   {`{"model":"a","messages":[],"mod\u0065l":"b"}`, ErrDuplicateKey},
		"key twice among many": {`{"messages":[],"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"a":1}`, ErrDuplicateKey},
		"too deep in the list": {`{"messages":[` + deep(MaxDepth-1) + `]}`, ErrTooDeep},
		"too deep in a field":  {`{"messages":[],"x":` + deep(MaxDepth) + `}`, ErrTooDeep},
		"never closed":         {`{"messages":` + strings.Repeat("[", 1<<20), ErrTooDeep},
	} {
		if b, err := Cut([]byte(c.raw), "messages"); !errors.Is(err, c.want) || b != nil {
			t.Errorf("%s: Cut = %v, %v, want %v", name, b, err, c.want)
		}
	}
	if _, err := Cut([]byte(`{"messages":[`+deep(MaxDepth-2)+`]}`), "messages"); err != nil {
		t.Errorf("nested exactly MaxDepth deep: %v", err)
	}
}

func TestStrict(t *testing.T) {
	many := `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"s":1`
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"white space around":       {" \t\r\n{\"a\" : [ ] } \n", nil},
		"not UTF-8":                {"\"\xff\xfe\"", nil},
		"half a pair":              {`"\ud800"`, nil},
		"same key in siblings":     {`[{"a":1},{"a":1},{"b":{"a":1},"a":2}]`, nil},
		"many keys":                {many + `}`, nil},
		"as deep as allowed":       {deep(MaxDepth), nil},
		"twice":                    {`{"a":1,"a":1}`, ErrDuplicateKey},
		"twice, deep":              {`[[{"x":{"a":1,"b":2,"a":1}}]]`, ErrDuplicateKey},
		"twice, spelled otherwise": {`{"a/":1,"\u0061\/":1}`, ErrDuplicateKey},
		"twice for some readers":   {"{\"\xff\":1,\"\xfe\":1}", ErrDuplicateKey},
		"twice after a nested one": {`{"a":{"b":1},"b":{"a":1},"a":1}`, ErrDuplicateKey},
		"twice among many":         {many + `,"c":1}`, ErrDuplicateKey},
		"twice among the later":    {many + `,"t":1,"t":1}`, ErrDuplicateKey},
		"one deeper":               {deep(MaxDepth + 1), ErrTooDeep},
		"ten million deep":         {strings.Repeat("[", 10_000_000), ErrTooDeep},
		"mismatched brackets":      {`[{"a":1]}`, ErrNotJSON},
		"leading zero":             {`01`, ErrNotJSON},
		"plus":                     {`+1`, ErrNotJSON},
		"bare point":               {`1.`, ErrNotJSON},
		"bare exponent":            {`1e`, ErrNotJSON},
		"word":                     {`tru`, ErrNotJSON},
		"NaN":                      {`NaN`, ErrNotJSON},
		"control character":        {"\"a\x1fb\"", ErrNotJSON},
		"control character, late":  {"\"0123456789abcdef\x01\"", ErrNotJSON},
		"bad escape":               {`"\x41"`, ErrNotJSON},
		"short unicode escape":     {`"\u12"`, ErrNotJSON},
		"two values":               {`1 2`, ErrNotJSON},
		"colon in an array":        {`["a":1]`, ErrNotJSON},
		"comma first":              {`[,1]`, ErrNotJSON},
		"nothing":                  {``, ErrNotJSON},
	} {
		if err := Strict([]byte(c.raw)); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestStrictFrame(t *testing.T) {
	b, err := Cut([]byte(`{"a":[01],"messages":[tru],"b":{"c":1,"c":2}}`), "messages")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.StrictFrame(nil); !errors.Is(err, ErrNotJSON) {
		t.Errorf("a number with a leading zero: %v, want ErrNotJSON", err)
	}
	var asked []string
	skip := func(name string, value []byte) bool {
		asked = append(asked, name+"="+string(value))
		return name == "a"
	}
	if err := b.StrictFrame(skip); !errors.Is(err, ErrDuplicateKey) {
		t.Errorf("with a skipped: %v, want ErrDuplicateKey for b", err)
	}
	if got := strings.Join(asked, " "); got != `a=[01] b={"c":1,"c":2}` {
		t.Errorf("asked about %s; the list is no frame value", got)
	}
}

// checkCut holds Cut and Strict together against encoding/json.
func checkCut(t *testing.T, raw []byte) {
	b, err := Cut(raw, "messages")
	if err == nil {
		err = b.StrictFrame(nil)
		for i := 0; err == nil && i < len(b.Elements); i++ {
			err = Strict(b.Element(i))
		}
	}
	switch {
	case errors.Is(err, ErrDuplicateKey):
		return
	case errors.Is(err, ErrShape):
		var top map[string]json.RawMessage
		if json.Unmarshal(raw, &top) == nil && bytes.HasPrefix(top["messages"], []byte("[")) {
			t.Fatalf("refused as a shape: %q", raw)
		}
		return
	case (err == nil) != json.Valid(raw):
		t.Fatalf("Cut and Strict say %v, encoding/json says valid = %v: %q", err, json.Valid(raw), raw)
	case err != nil:
		return
	}
	var top struct{ Messages []json.RawMessage }
	dec := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &dec); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(dec["messages"], &top.Messages); err != nil {
		t.Fatal(err)
	}
	if len(top.Messages) != len(b.Elements) || len(dec) != len(b.Fields) {
		t.Fatalf("%d elements and %d fields, want %d and %d", len(b.Elements), len(b.Fields), len(top.Messages), len(dec))
	}
	for i, want := range top.Messages {
		if !bytes.Equal(b.Element(i), want) {
			t.Fatalf("element %d = %q, want %q", i, b.Element(i), want)
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{
		`{"messages":[]}`, `{"messages":[{"role":"user","content":"a\\\"b"},1,[]],"model":"m"}`,
		" {\n \"messages\" : [ 1 , 2 ] } ", `{"messages":[[{]}]}`, `{"a":tru,"messages":[]}`, `{"messages":[1"a"]}`,
		`{"m\u0065ssages":[null]}`, `{"messages":{}}`, `[]`, `{"messages":[{"a":1,"a":2}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkCut(t, raw) })
}

func FuzzStrict(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `-0.5e+10`, `"\u00e9\n"`, `{"a":[1,{"b":null}],"c":true}`, "\"\x80\"", `[[[[`, `{"a":1,}`, `1 `,
		"\"0123456\\\"789\"", `"\ud800\udc00"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := Strict(raw)
		if errors.Is(err, ErrDuplicateKey) {
			return
		}
		if (err == nil) != json.Valid(raw) {
			t.Fatalf("Strict says %v, encoding/json says valid = %v: %q", err, json.Valid(raw), raw)
		}
		if err != nil {
			return
		}
		canonicalKeeps(t, raw)
	})
}

// canonicalKeeps checks that the canonical text is valid, a fixed point, and
// the same for a reformatted value.
func canonicalKeeps(t *testing.T, raw []byte) {
	text, err := Canonical(raw)
	if err != nil {
		t.Fatalf("Canonical: %v", err)
	}
	if again, err := Canonical([]byte(text)); err != nil || again != text {
		t.Fatalf("canonical text %q of %q is no fixed point: %q, %v", text, raw, again, err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if other, err := Canonical(pretty.Bytes()); err != nil || other != text {
		t.Fatalf("canonical text changes with white space: %q, want %q (%v)", other, text, err)
	}
}

// Every byte value at every place of a word, with every kind of neighbour.
func TestPlainEnd(t *testing.T) {
	special := func(c byte) bool { return c < 0x20 || c == '"' || c == '\\' }
	for c := range 256 {
		for at := range 12 {
			for _, fill := range []byte{'a', 0x20, 0x21, 0x23, 0x5B, 0x5D, 0x7F, 0x80, 0xA2, 0xFF} {
				b := bytes.Repeat([]byte{fill}, 20)
				b[at] = byte(c)
				b[at+1] = '"'
				want := at
				if !special(byte(c)) {
					want = at + 1
				}
				if got := plainEnd(b, 0); got != want {
					t.Fatalf("%q: %d, want %d", b, got, want)
				}
			}
		}
	}
}
