package sessions

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want string }{
		"equal":           {`{"a":1}`, `{"a":1}`, ""},
		"white space":     {`{"a":1}`, `{ "a": 1 }`, "$ changed"},
		"member added":    {`{"a":1}`, `{"a":1,"b":2}`, "$.b added"},
		"member gone":     {`{"a":1,"b":2}`, `{"a":1}`, "$.b removed"},
		"value":           {`{"a":{"b":[1,2]}}`, `{"a":{"b":[1,3]}}`, "$.a.b[1] changed"},
		"item added":      {`[1,2,3]`, `[1,9,2,3]`, "$[1] added"},
		"items removed":   {`[1,2,3,4]`, `[1,4]`, "$[1] removed, $[2] removed"},
		"item replaced":   {`[{"t":"a"},{"t":"b"}]`, `[{"t":"a"},{"t":"c"}]`, "$[1].t changed"},
		"other kind":      {`{"a":"x"}`, `{"a":["x"]}`, "$.a changed"},
		"not JSON":        {`hello`, `hallo`, "$ changed"},
		"folded to one":   {`["m","a","b","c","z"]`, `["m","fold","z"]`, "$[1] removed, $[2] removed, $[3] removed, $[1] added"},
		"numbers spelled": {`{"a":1.0}`, `{"a":1}`, "$.a changed"},
	} {
		changes, more := compare([]byte(c.a), []byte(c.b))
		var got []string
		for _, ch := range changes {
			got = append(got, ch.Path+" "+ch.Kind)
		}
		if s := strings.Join(got, ", "); s != c.want || more != 0 {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

func TestCompareIsBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&a, `,"k%d":1`, i)
		fmt.Fprintf(&b, `,"k%d":2`, i)
	}
	changes, more := compare([]byte("{"+a.String()[1:]+"}"), []byte("{"+b.String()[1:]+"}"))
	if len(changes) != maxChanges || len(changes)+more != 5000 {
		t.Errorf("%d changes and %d more, want 5000 in all", len(changes), more)
	}
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	if changes, _ := compare([]byte(deep), []byte("["+deep+"]")); len(changes) == 0 {
		t.Error("deep bodies that differ are called equal")
	}
}

// The pieces of a changed text, without what was added, are the old text; and
// without what was removed the new one, up to what was cut off at the ends.
func TestCharactersAreAScript(t *testing.T) {
	const alphabet = "ab \n<é"
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		text := func() string {
			var b strings.Builder
			for range rnd.IntN(40) {
				b.WriteRune([]rune(alphabet)[rnd.IntN(6)])
			}
			return b.String()
		}
		a, b := text(), text()
		var was, is string
		for _, p := range characters(a, b) {
			if p.Op != "ins" {
				was += p.Text
			}
			if p.Op != "del" {
				is += p.Text
			}
		}
		if was != a || is != b {
			t.Errorf("seed %d: %q to %q became %q to %q", seed, a, b, was, is)
		}
	}
}
