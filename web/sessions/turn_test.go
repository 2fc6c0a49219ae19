package sessions

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"holdfast/core/session"
)

// TestForensics: every cause of the closed list is shown by its name, with whose
// doing it was, where it is and both texts. The recorded pairs that lead to
// each cause are core/session's; this is what becomes of them.
func TestForensics(t *testing.T) {
	for _, c := range []struct{ cause, by, says string }{
		{session.ChangeMarker, "client", "the client's doing"}, {session.ChangeBilling, "client", "the client's doing"},
		{session.ChangeClock, "client", "the client's doing"}, {session.ChangeTools, "client", "the client's doing"},
		{session.ChangeSystem, "client", "the client's doing"}, {session.ChangeReasoning, "client", "the client's doing"},
		{session.ChangeEdit, "client", "the client's doing"}, {session.ChangeRemoval, "client", "the client's doing"},
		{session.ChangeModel, "client", "the client's doing"}, {session.ChangeWire, "client", "the client's doing"},
		{session.ChangeUnknown, "client", "the client's doing"}, {session.ChangeFold, "holdfast", "Holdfast's doing"},
		{session.ChangeNudge, "holdfast", "Holdfast's doing"}, {session.ChangeLifetime, "time", "time went by"},
	} {
		v := &turnView{side: "diff", turn: session.TurnView{ID: 7, Bytes: session.TurnBytes{In: 900, Out: 1000, PrefixSame: 400},
			Change: &session.FirstChange{Offset: 1234, JSONPath: "$.messages[4]", Old: "old <b>", New: "new & text", Cause: c.cause, By: c.by}}}
		var out strings.Builder
		if err := turnPage(v).Render(context.Background(), &out); err != nil {
			t.Fatal(err)
		}
		_, card, _ := strings.Cut(out.String(), `id="t-change"`)
		card, _, _ = strings.Cut(card, "</section>")
		card = strings.ReplaceAll(card, "&#39;", "'")
		for _, want := range []string{">" + c.cause + "<", c.says, "$.messages[4]", "1,234", "<del>old &lt;b&gt;</del>", "<ins>new &amp; text</ins>", "600 B of 1000 B"} {
			if !strings.Contains(card, want) {
				t.Errorf("%s: the card does not say %q:\n%s", c.cause, want, card)
			}
		}
	}
}

func TestBlocksOfEveryWire(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"anthropic":      {`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ok"},{"type":"tool_use","name":"Read","input":{"p":1}}]}`, "reasoning: hm|text: ok|call Read: {\n  \"p\": 1\n}"},
		"tool result":    {`{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "result: a\nb"},
		"chat":           {`{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"sh","arguments":"{\"c\":\"ls\"}"}}]}`, "call sh: {\n  \"c\": \"ls\"\n}"},
		"chat tool":      {`{"role":"tool","content":"done"}`, "result: done"},
		"responses call": {`{"type":"function_call","name":"sh","arguments":"{}"}`, "call sh: {}"},
		"responses out":  {`{"type":"function_call_output","output":"done"}`, "result: done"},
		"google":         {`{"role":"model","parts":[{"text":"hi"},{"functionCall":{"name":"f","args":{}}}]}`, "text: hi|call f: {}"},
		"unknown part":   {`{"role":"user","content":[{"type":"new","x":1}]}`, "data: {\n  \"type\": \"new\",\n  \"x\": 1\n}"},
		"not JSON":       {`hello`, "data: hello"},
	} {
		var got []string
		for _, b := range blocksOf([]byte(c.raw)) {
			got = append(got, strings.TrimSuffix(b.Kind+" "+b.Name, " ")+": "+b.Text)
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s: %q, want %q", name, s, c.want)
		}
	}
}

func TestEventsWithTimes(t *testing.T) {
	body := "event: a\ndata: 1\n\nevent: b\ndata: {}\n\n"
	var marks []byte
	for _, m := range [][2]uint64{{18, 5}, {19, 40}} {
		marks = binary.AppendUvarint(binary.AppendUvarint(marks, m[0]), m[1])
	}
	got := eventsOf([]byte(body), marks)
	if len(got) != 2 || got[0] != (event{"a", "1", 5}) || got[1] != (event{"b", "{}", 45}) {
		t.Errorf("%+v", got)
	}
	if e := eventsOf([]byte(body), nil); e[0].Ms != -1 {
		t.Errorf("without marks an event ended after %d ms", e[0].Ms)
	}
	if e := eventsOf([]byte(`{"id":1}`), nil); e != nil {
		t.Errorf("a plain reply has events: %v", e)
	}
}

// A curl line can be pasted: the body comes out of the shell as it went in.
func TestCurl(t *testing.T) {
	line := curlOf("http://127.0.0.1:4153", session.TurnView{ID: 3, WireOut: "anthropic"}, []byte(`{"a":"it's"}`))
	for _, want := range []string{"'http://127.0.0.1:4153/v1/messages'", "$ANTHROPIC_API_KEY", `'{"a":"it'\''s"}'`} {
		if !strings.Contains(line, want) {
			t.Errorf("%s lacks %s", line, want)
		}
	}
	if long := curlOf("http://x", session.TurnView{ID: 3}, make([]byte, inlineCurl+1)); !strings.Contains(long, "@turn-3-outbound.json") {
		t.Error(long)
	}
}

func TestTree(t *testing.T) {
	v := func(id, parent string) session.SessionView { return session.SessionView{ID: id, Parent: parent} }
	var got []string
	for _, e := range tree([]session.SessionView{v("b", "a"), v("c", ""), v("a", ""), v("d", "b"), v("e", "gone"), v("x", "y"), v("y", "x")}) {
		got = append(got, strings.Repeat("-", e.depth)+e.ID)
	}
	if s := strings.Join(got, " "); s != "c a -b --d e x -y" {
		t.Error(s)
	}
}
