package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdfast/core/content"
	"holdfast/core/seed"
)

func mustCut(t *testing.T, raw string) *Body {
	t.Helper()
	b, err := Cut([]byte(raw), "messages")
	if err != nil {
		t.Fatalf("Cut(%s): %v", raw, err)
	}
	return b
}

// view reads "0 1 x 2": numbers are the inbound elements, anything else is an
// element put back.
func view(words string) []Item {
	var items []Item
	for _, w := range strings.Fields(words) {
		it := Item{Inbound: -1, Raw: []byte(w)}
		if n, err := fmt.Sscan(w, &it.Inbound); n == 1 && err == nil {
			it.Raw = nil
		}
		items = append(items, it)
	}
	return items
}

func TestSplice(t *testing.T) {
	const (
		compact = `{"model":"m","messages":["a","b","c"],"x":1}`
		pretty  = "{\n  \"messages\": [\n    \"a\",\n    \"b\" ,\n\n    \"c\"\n  ]\n}\n"
		empty   = `{"messages":[ ],"x":1}`
	)
	for name, c := range map[string]struct{ body, view, want string }{
		"removed at the head":    {compact, `1 2`, `{"model":"m","messages":["b","c"],"x":1}`},
		"removed in the middle":  {compact, `0 2`, `{"model":"m","messages":["a","c"],"x":1}`},
		"removed at the tail":    {compact, `0 1`, `{"model":"m","messages":["a","b"],"x":1}`},
		"all removed":            {compact, ``, `{"model":"m","messages":[],"x":1}`},
		"put back at the head":   {compact, `"p" 0 1 2`, `{"model":"m","messages":["p","a","b","c"],"x":1}`},
		"put back in the middle": {compact, `0 "p" 1 2`, `{"model":"m","messages":["a","p","b","c"],"x":1}`},
		"put back at the tail":   {compact, `0 1 2 "p" "q"`, `{"model":"m","messages":["a","b","c","p","q"],"x":1}`},
		"replaced":               {compact, `0 "p" 2`, `{"model":"m","messages":["a","p","c"],"x":1}`},
		"order changed":          {compact, `2 0 1`, `{"model":"m","messages":["c","a","b"],"x":1}`},
		"pretty, tail removed":   {pretty, `0 1`, "{\n  \"messages\": [\n    \"a\",\n    \"b\"\n  ]\n}\n"},
		"pretty, head removed":   {pretty, `1 2`, "{\n  \"messages\": [\n    \"b\" ,\n\n    \"c\"\n  ]\n}\n"},
		"pretty, put back":       {pretty, `0 "p" 1 2`, "{\n  \"messages\": [\n    \"a\",\"p\",\"b\" ,\n\n    \"c\"\n  ]\n}\n"},
		"empty list, put back":   {empty, `"p" "q"`, `{"messages":["p","q" ],"x":1}`},
	} {
		got := Splice(mustCut(t, c.body), view(c.view))
		if string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestSpliceUnchangedIsTheBody(t *testing.T) {
	for raw, words := range map[string]string{
		`{"messages":[1,2 , 3]}`: "0 1 2",
		`{"messages":[ ]}`:       "",
	} {
		b := mustCut(t, raw)
		got := Splice(b, view(words))
		if &got[0] != &b.Raw[0] || len(got) != len(b.Raw) {
			t.Errorf("%s: a view equal to the inbound list was copied", raw)
		}
	}
}

// For random bodies and views the result holds exactly the elements of the
// view, in order, and the frame's own bytes.
func TestSpliceProperty(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		b := mustCut(t, randomBody(r))
		var items []Item
		var want [][]byte
		for n := r.IntN(6); n > 0; n-- {
			it := Item{Inbound: r.IntN(len(b.Elements)+1) - 1}
			var raw []byte
			if it.Inbound >= 0 {
				raw = b.Element(it.Inbound)
			}
			if it.Inbound < 0 || r.IntN(4) == 0 {
				it.Raw = []byte(randomValue(r, 1))
				raw = it.Raw
			}
			items, want = append(items, it), append(want, raw)
		}
		got := mustCut(t, string(Splice(b, items)))
		if len(got.Elements) != len(want) {
			t.Fatalf("%d elements, want %d: %s", len(got.Elements), len(want), got.Raw)
		}
		for i := range want {
			if !bytes.Equal(got.Element(i), want[i]) {
				t.Fatalf("element %d is %s, want %s", i, got.Element(i), want[i])
			}
		}
		if !bytes.Equal(got.Raw[:got.List.Start], b.Raw[:b.List.Start]) ||
			!bytes.Equal(got.Raw[got.List.End:], b.Raw[b.List.End:]) {
			t.Fatalf("the frame changed: %s\nfrom %s", got.Raw, b.Raw)
		}
	}
}

func TestPatch(t *testing.T) {
	const raw = `{"a":"x","messages":[1, 2],"b":[ ]}`
	for name, c := range map[string]struct {
		view  string
		edits func(b *Body) []Edit
		want  string
	}{
		"before the list": {`0 1`, func(b *Body) []Edit { return []Edit{Lengthen(b.Get("a"), "y")} },
			`{"a":"x\n\ny","messages":[1, 2],"b":[ ]}`},
		"behind the list": {`1`, func(b *Body) []Edit { return []Edit{Insert(b.Get("b"), nil, 0, []byte(`3`), []byte(`4`))} },
			`{"a":"x","messages":[2],"b":[3,4 ]}`},
		"both, and new members": {`"p"`, func(b *Body) []Edit {
			return []Edit{b.Set("a", []byte(`7`)), b.Set("c", []byte(`8`)), b.Set("d", []byte(`9`))}
		}, `{"a":7,"messages":["p"],"b":[ ],"c":8,"d":9}`},
	} {
		b := mustCut(t, raw)
		if got := Patch(b, view(c.view), c.edits(b)); string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	b := mustCut(t, `{"messages":[ ]}`)
	if got := Patch(b, nil, []Edit{b.Set("c", []byte(`8`))}); string(got) != `{"messages":[ ],"c":8}` {
		t.Errorf("the list is the last member: %s", got)
	}
}

// An element with other bytes stays in its place, separators and all.
func TestSpliceChangedInPlace(t *testing.T) {
	b := mustCut(t, "{\"messages\":[1 ,\n2 , 3]}")
	items := []Item{{Inbound: 0}, {Inbound: 1, Raw: []byte(`"two"`)}, {Inbound: 2}}
	if got := Splice(b, items); string(got) != "{\"messages\":[1 ,\n\"two\" , 3]}" {
		t.Errorf("%s", got)
	}
}

// What is not UTF-8 does not leave: a provider may refuse the request for it.
func TestQuoteIsValid(t *testing.T) {
	for text, want := range map[string]string{
		"a\"b\\c\n\x01é":    `"a\"b\\c\n\u0001é"`,
		"half \xed\xa0\xbd": `"half ` + "\uFFFD" + `"`,
		"\xff":              `"` + "\uFFFD" + `"`,
	} {
		if got := string(Quote(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// seeded is a random source whose seed a failing test prints.
func seeded(t *testing.T) *rand.Rand {
	return rand.New(rand.NewPCG(seed.Of(t), 0))
}

// gap is random white space, mostly none.
func gap(r *rand.Rand) string {
	return []string{"", "", "", "", " ", "\n\t", "\r\n  ", "   "}[r.IntN(8)]
}

func randomKey(r *rand.Rand, n int) string {
	return fmt.Sprintf([]string{`"k%d"`, `"\u006b%d"`, `"k\"%d\\"`, `"ключ%d"`, `"[%d]"`}[r.IntN(5)], n)
}

func randomValue(r *rand.Rand, depth int) string {
	switch n := r.IntN(8); {
	case n == 0 && depth > 0:
		var parts []string
		for i := r.IntN(4); i > 0; i-- {
			parts = append(parts, randomValue(r, depth-1))
		}
		return "[" + gap(r) + strings.Join(parts, gap(r)+","+gap(r)) + "]"
	case n <= 2 && depth > 0:
		var parts []string
		for i := r.IntN(4); i > 0; i-- {
			parts = append(parts, randomKey(r, i)+gap(r)+":"+gap(r)+randomValue(r, depth-1))
		}
		return "{" + gap(r) + strings.Join(parts, gap(r)+","+gap(r)) + "}"
	case n == 3:
		return `"` + strings.Repeat("long \\\\ text\\n", r.IntN(20)) + `"`
	}
	return []string{`"a\"]}"`, "null", "true", "-1.50e3", "0", `"\\"`, `""`}[r.IntN(7)]
}

// randomBody is a valid body with a list called messages.
func randomBody(r *rand.Rand) string {
	fields := r.IntN(5)
	at := r.IntN(fields + 1)
	parts := make([]string, 0, fields+1)
	for i := range fields + 1 {
		if i == at {
			parts = append(parts, `"messages"`+gap(r)+":"+gap(r)+randomList(r))
			continue
		}
		parts = append(parts, randomKey(r, i)+gap(r)+":"+gap(r)+randomValue(r, 3))
	}
	return gap(r) + "{" + gap(r) + strings.Join(parts, gap(r)+","+gap(r)) + gap(r) + "}" + gap(r)
}

func randomList(r *rand.Rand) string {
	n := []int{0, 1, 2, r.IntN(40)}[r.IntN(4)]
	var b strings.Builder
	b.WriteString("[" + gap(r))
	sep := gap(r) + "," + gap(r)
	for i := range n {
		if r.IntN(10) == 0 {
			sep = gap(r) + "," + gap(r)
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(randomValue(r, 2))
	}
	return b.String() + gap(r) + "]"
}

// rebuild stores a skeleton, reads it back and builds the body from it.
func rebuild(t *testing.T, b *Body) (built, stored []byte) {
	t.Helper()
	s, blobs := SkeletonOf(b)
	stored, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	kept := map[content.ID][]byte{}
	for _, blob := range blobs {
		kept[blob.ID] = blob.Raw
	}
	var back Skeleton
	if err := back.UnmarshalBinary(stored); err != nil {
		t.Fatalf("reading back the skeleton of %s: %v", b.Raw, err)
	}
	elems := make([][]byte, back.Elements())
	for i := range elems {
		elems[i] = b.Element(i)
	}
	built, err = back.Build(func(id content.ID) ([]byte, error) { return kept[id], nil }, elems)
	if err != nil {
		t.Fatal(err)
	}
	return built, stored
}
