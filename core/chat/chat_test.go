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

func TestReasoningOnly(t *testing.T) {
	thought, text := Part{Kind: Reasoning}, Part{Kind: Text}
	for name, c := range map[string]struct {
		parts []Part
		want  bool
	}{
		"none":        {nil, false},
		"only":        {[]Part{thought, thought}, true},
		"beside text": {[]Part{thought, text}, false},
	} {
		if got := ReasoningOnly(c.parts); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestFirstText(t *testing.T) {
	m := Message{Parts: []Part{{Kind: Reasoning, Text: "hm"}, {Kind: Text}, {Kind: Text, Text: "title"}, {Kind: Text, Text: "more"}}}
	if got := m.FirstText(); got != "title" {
		t.Errorf("FirstText = %q, want the first text that says something", got)
	}
	if got := (&Message{}).FirstText(); got != "" {
		t.Errorf("FirstText of nothing = %q", got)
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
