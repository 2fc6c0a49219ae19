package session

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/chat"
	"holdfast/core/content"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata; review the diff")

// golden runs want over every file of an archive: the first lines up to a blank
// one are the case, the rest is what want must return for it.
func golden(t *testing.T, name string, want func(t *testing.T, in string) string) {
	t.Helper()
	path := "testdata/" + name
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range ar.Files {
		in, out, _ := strings.Cut(string(f.Data), "\n\n")
		t.Run(f.Name, func(t *testing.T) {
			got := want(t, in)
			if got != strings.TrimRight(out, "\n") && !*update {
				t.Errorf("%s: %s\n%s\n\ngot:\n%s\nwant:\n%s", path, f.Name, in, got, out)
			}
			ar.Files[i].Data = []byte(strings.TrimRight(in, "\n") + "\n\n" + got + "\n\n")
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tokenKey reads a token of a golden: empty:ROLE and think:ROLE are elements
// without content of their own, anything else is one text.
func tokenKey(tok string) content.ID {
	return tokenMessage(tok).Key
}

func tokenMessage(tok string) chat.Message {
	part := chat.Part{Kind: chat.Text, Role: chat.User, Text: tok}
	if kind, role, ok := strings.Cut(tok, ":"); ok {
		part = chat.Part{Kind: map[string]chat.Kind{"empty": chat.Empty, "think": chat.Reasoning}[kind], Role: chat.Role(role)}
	}
	m := chat.Message{Role: part.Role, Parts: []chat.Part{part}}
	m.Seal()
	return m
}

func tokenKeys(toks []string) []content.ID {
	keys := make([]content.ID, len(toks))
	for i, t := range toks {
		keys[i] = tokenKey(t)
	}
	return keys
}

// tokenCores reads tokens whose cores are joined by "+".
func tokenCores(toks []string) [][]chat.CanonID {
	out := make([][]chat.CanonID, len(toks))
	for i, tok := range toks {
		for _, c := range strings.Split(tok, "+") {
			out[i] = append(out[i], tokenMessage(c).Parts[0].Canon)
		}
	}
	return out
}

// caseLine returns the words of one line of a golden's case.
func caseLine(in, name string) []string {
	for line := range strings.Lines(in) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}

func TestAlignGolden(t *testing.T) {
	golden(t, "align.txtar", func(_ *testing.T, in string) string {
		stored, inbound := caseLine(in, "stored"), caseLine(in, "inbound")
		return tell(stored, inbound, Align(tokenKeys(stored), tokenKeys(inbound)))
	})
}

func TestAlignCoresGolden(t *testing.T) {
	golden(t, "wireswitch.txtar", func(_ *testing.T, in string) string {
		stored, inbound := caseLine(in, "stored"), caseLine(in, "inbound")
		return tell(stored, inbound, AlignCores(tokenCores(stored), tokenCores(inbound)))
	})
}

// tell writes an alignment for people: a kept element that moved carries its
// old and new index.
func tell(stored, inbound []string, a Alignment) string {
	var b strings.Builder
	line := func(name string, words []string) {
		if len(words) > 0 {
			fmt.Fprintf(&b, "%-9s %s\n", name+":", strings.Join(words, " "))
		}
	}
	row := map[int]string{4: "branch", 5: "tail", 6: "replace", 7: "remove", 8: "re-stamp", 9: "wire switch"}[a.Row]
	if a.Retry() {
		row = "retry"
	}
	fmt.Fprintf(&b, "row:      %d %s\n", a.Row, row)
	var kept, replaced []string
	for j, i := range a.Kept {
		switch {
		case i == j:
			kept = append(kept, inbound[j])
		case i >= 0:
			kept = append(kept, fmt.Sprintf("%s(%d>%d)", inbound[j], i, j))
		}
	}
	for _, p := range a.Replaced {
		replaced = append(replaced, stored[p.Stored]+">"+inbound[p.Inbound])
	}
	line("kept", kept)
	line("replaced", replaced)
	line("removed", pick(stored, a.Removed))
	line("rewound", pick(stored, a.Rewound))
	line("appended", inbound[a.Appended:])
	if a.AnchorsOut {
		b.WriteString("anchors out of order\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func pick(toks []string, at []int) (out []string) {
	for _, i := range at {
		out = append(out, toks[i])
	}
	return out
}

func TestExtends(t *testing.T) {
	for _, c := range []struct {
		stored, inbound string
		want            bool
	}{
		{"", "", true}, {"", "a", true}, {"a b", "a b", true}, {"a b", "a b c", true},
		{"a b", "a", false}, {"a b", "a c b", false}, {"a", "", false},
	} {
		if got := Extends(tokenKeys(strings.Fields(c.stored)), tokenKeys(strings.Fields(c.inbound))); got != c.want {
			t.Errorf("Extends(%q, %q) = %v", c.stored, c.inbound, got)
		}
	}
}

func TestChainSums(t *testing.T) {
	keys := tokenKeys([]string{"a", "b", "a", "a"})
	sums := ChainSums(keys)
	for i := range keys {
		if got := ChainSum(keys[:i+1]); got != sums[i] {
			t.Errorf("sum of the first %d keys depends on what follows", i+1)
		}
	}
	seen := map[content.ID]bool{{}: true}
	for _, s := range sums {
		if seen[s] {
			t.Error("two prefixes share a sum")
		}
		seen[s] = true
	}
	if ChainSum(nil) != (content.ID{}) {
		t.Error("the empty list has a sum")
	}
	slices.Reverse(keys)
	if ChainSum(keys) == sums[3] {
		t.Error("the sum does not depend on order")
	}
}

func TestChoose(t *testing.T) {
	branch := func(tools bool, wire, toks string) *State {
		st := &State{Head: Head{Tools: tools, Wire: wire}}
		for _, k := range tokenKeys(strings.Fields(toks)) {
			st.List = append(st.List, Elem{Key: k})
		}
		return st
	}
	branches := []*State{
		branch(true, "anthropic", "s u a r a2"),
		branch(false, "anthropic", "s u a r a2 u3 a3"), // a summariser: no tools
		branch(true, "openai", "s u a r a2 u3 a3"),
		branch(true, "anthropic", "s u x r a2"),
		branch(true, "anthropic", "s u a"),
		branch(true, "anthropic", "s u a"), // newer, equal
	}
	for _, c := range []struct {
		name, inbound string
		tools         bool
		want, row     int
	}{
		{"longest prefix", "s u a r a2 u3", true, 0, 5},
		{"tools never cross to a branch without", "s u a r a2 u3 a3", true, 0, 5},
		{"nor the other way round", "s u x", false, 1, 5},
		{"longer prefix beats more kept", "s u x a r a2", true, 3, 8},
		{"more kept of equal prefixes", "s u a r b", true, 0, 5},
		{"of equals the newest", "s u a", true, 5, 5},
		{"nothing kept", "q w", true, -1, 0},
	} {
		got, al := Choose(branches, c.tools, "anthropic", tokenKeys(strings.Fields(c.inbound)))
		if got != c.want || al.Row != c.row {
			t.Errorf("%s: branch %d row %d, want branch %d row %d", c.name, got, al.Row, c.want, c.row)
		}
	}
}
