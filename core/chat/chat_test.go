package chat

import (
	"testing"
)

func seal(parts ...Part) Message {
	m := Message{Parts: parts}
	m.Seal()
	return m
}

// Every field of a core is part of its id, and length prefixes keep a byte from
// moving between two fields unseen.
func TestCanonSeparatesFields(t *testing.T) {
	parts := []Part{
		{},
		{Role: User},
		{Kind: "user"},
		{Kind: Text, Role: User, Text: "ab"},
		{Kind: Text, Role: Assistant, Text: "ab"},
		{Kind: Opaque, Role: User, Text: "ab"},
		{Kind: ToolCall, Role: User, CallID: "a", Text: "b"},
		{Kind: ToolCall, Role: User, CallID: "ab"},
		{Kind: ToolCall, Role: User, Tool: "ab"},
		{Kind: ToolCall, Role: User, Tool: "a", Text: "b"},
		{Kind: ToolCall, Role: User, CallID: "a", Tool: "b"},
	}
	seen := map[CanonID]Part{}
	for _, p := range seal(parts...).Parts {
		if other, ok := seen[p.Canon]; ok {
			t.Errorf("%+v and %+v have one id", p, other)
		}
		seen[p.Canon] = p
	}
}

// The id is stored for good: a change of the formula orphans every ledger.
func TestCanonIsStable(t *testing.T) {
	m := seal(Part{Kind: ToolCall, Role: Assistant, CallID: "call_1", Tool: "read", Text: `{"path":"a"}`})
	const wantCanon, wantKey = "h_38009a17b7f2d9473cde7eb9b0efbefb", "b3a4d5d797d137685126ddff692fae12a29118c5b9822edae33e374cacf947ec"
	if got := m.Parts[0].Canon.String(); got != wantCanon {
		t.Errorf("canonical id = %s, want %s", got, wantCanon)
	}
	if got := m.Key.String(); got != wantKey {
		t.Errorf("key = %s, want %s", got, wantKey)
	}
}

func TestKeyEquality(t *testing.T) {
	text := Part{Kind: Text, Role: Assistant, Text: "a"}
	other := Part{Kind: Text, Role: Assistant, Text: "b"}
	thought := Part{Kind: Reasoning, Role: Assistant, Text: "hm"}
	rethought := Part{Kind: Reasoning, Role: Assistant, Text: "hm, again"}
	userThought := Part{Kind: Reasoning, Role: User, Text: "hm"}
	result := Part{Kind: ToolResult, Role: Tool, CallID: "1", Text: "r"}
	otherResult := Part{Kind: ToolResult, Role: Tool, CallID: "2", Text: "r"}
	for name, c := range map[string]struct {
		a, b  []Part
		equal bool
	}{
		"same":                       {[]Part{text}, []Part{text}, true},
		"order matters":              {[]Part{text, other}, []Part{other, text}, false},
		"repeats of text count":      {[]Part{text, text}, []Part{text}, false},
		"reasoning dropped":          {[]Part{thought, text}, []Part{text}, true},
		"reasoning changed":          {[]Part{thought, text}, []Part{rethought, text}, true},
		"reasoning alone, same role": {[]Part{thought}, []Part{rethought, thought}, true},
		"reasoning alone, by role":   {[]Part{thought}, []Part{userThought}, false},
		"reasoning alone, nothing":   {[]Part{thought}, nil, false},
		"doubled result":             {[]Part{result, otherResult, result}, []Part{result, otherResult}, true},
		"results of two calls":       {[]Part{result, otherResult}, []Part{result}, false},
	} {
		a, b := seal(c.a...), seal(c.b...)
		if got := a.Key == b.Key; got != c.equal {
			t.Errorf("%s: equal = %v, want %v", name, got, c.equal)
		}
	}
}

func TestFirstText(t *testing.T) {
	m := Message{Parts: []Part{{Kind: Reasoning, Text: "hm"}, {Kind: Text}, {Kind: Text, Text: "title"}, {Kind: Text, Text: "more"}}}
	if got, own := m.FirstText(); got != "title" || !own {
		t.Errorf("FirstText = %q, %v, want the first text that says something", got, own)
	}
	if got, own := (&Message{}).FirstText(); got != "" || own {
		t.Errorf("FirstText of nothing = %q, %v", got, own)
	}
}

func TestFirstTextPassesOverWhatAHostWrapped(t *testing.T) {
	const reminder = "<system-reminder>\nToday is Monday.\n</system-reminder>\n"
	for name, c := range map[string]struct {
		texts []string
		want  string
		own   bool
	}{
		"a reminder first":      {[]string{reminder, "fix the <b>"}, "fix the <b>", true},
		"nothing else":          {[]string{reminder, "<env>x</env>"}, reminder, false},
		"a question behind it":  {[]string{reminder + "why?"}, reminder + "why?", true},
		"two elements":          {[]string{"<a>x</a><b>y</b>"}, "<a>x</a><b>y</b>", true},
		"a tag with attributes": {[]string{"<p id=1>x</p id=1>"}, "<p id=1>x</p id=1>", true},
		"no tag at all":         {[]string{"<>x</>"}, "<>x</>", true},
	} {
		var m Message
		for _, text := range c.texts {
			m.Parts = append(m.Parts, Part{Kind: Text, Text: text})
		}
		if got, own := m.FirstText(); got != c.want || own != c.own {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, own, c.want, c.own)
		}
	}
}

// A span's bytes have no spare capacity: appending to them must not write into
// the client's body.
func TestSpanOf(t *testing.T) {
	buf := []byte("abcdef")
	got := Span{1, 3}.Of(buf)
	_ = append(got, 'X')
	if string(got) != "bc" || string(buf) != "abcdef" || (Span{1, 3}).Len() != 2 {
		t.Errorf("Of = %q, buffer = %q", got, buf)
	}
}
