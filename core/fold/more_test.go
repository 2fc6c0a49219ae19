package fold

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// What was hidden with an exchange that is rewound is seen again once it goes
// with another.
func TestHiddenReasoningComesBack(t *testing.T) {
	k := newTalk(t).system("s").user("go").thinks("hm").call("read", "{}").result("x")
	k.st, _ = HideElements(k.elems, k.st, []int64{4})
	if len(k.st.Hidden) != 3 {
		t.Fatalf("hidden %v", k.st.Hidden)
	}
	k.elems = k.elems[:3]
	k.align(Change{Rewound: []int64{4, 5}})
	k.call("write", "{}").result("y")
	if told := k.align(Change{}); !slices.Equal(told, []string{"unfold b0"}) || !has(shownNumbers(View(k.elems, k.st)), 3) {
		t.Errorf("%v, shown %v", told, shownNumbers(View(k.elems, k.st)))
	}
}

// A fold whose elements are folded otherwise by now does not come back with
// them.
func TestComingBackTooLate(t *testing.T) {
	k := nested(t)
	gone, _ := k.cut(51)
	k.tail()
	k.fold("m41", "m50")
	k.cut(87)
	k.elems = append(k.elems, gone...)
	if told := k.align(Change{}); len(told) != 0 {
		t.Errorf("%v", told)
	}
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{3, 5}) {
		t.Errorf("carriers %v", got)
	}
}

// Two ranges of one call never fold the same element, also where the first had
// to grow into the second.
func TestRangesOfACallAreDisjoint(t *testing.T) {
	k := started(t, 20)
	out := k.run(ToolCompress, ranges("m1", "m7", "m8", "m20"))
	if len(out.Blocks) != 2 {
		t.Fatal(out.Result)
	}
	if a, b := k.st.Block(1), k.st.Block(2); a.To != "m00008" || b.From != "m00009" {
		t.Errorf("%s–%s and %s–%s", a.From, a.To, b.From, b.To)
	}
}

// The view shows the first user element whatever a state says.
func TestFirstUserIsShownAnyway(t *testing.T) {
	k := newTalk(t).system("s").user("go").rounds(3, 2_000).user("then this").rounds(6, 2_000).tail()
	k.fold("m1", "m16")
	elems := append(slices.Clone(k.elems[:1]), k.elems[2:]...)
	if !has(shownNumbers(View(elems, k.st)), elems[7].N) {
		t.Error("it is covered")
	}
}

// The end of the conversation is protected by size as well as by number.
func TestLastTokensAreProtected(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 40 {
		k.says(words("a short remark", 1_200))
	}
	k.user("and now?")
	k.fold("m1", "m40")
	b := k.st.Block(1)
	kept := 40 - len(b.Elems)
	if kept != 16 { // 16 of 300 tokens each, and the last request
		t.Errorf("%d remarks are kept", kept)
	}
}

// Old ranges whose fold would have much written anew are not offered when the
// rest pays better without them.
func TestOldRangesAreLeftOutWhenTheyCost(t *testing.T) {
	k := newTalk(t).system("s").user("go").rounds(3, 2_000)
	for range 15 {
		k.call("keep_me", "{}").result(words("x", 20_000))
	}
	k.rounds(60, 4_000).tail()
	k.lim = Limits{Window: 300_000, Terms: priced(20), Economics: true, Protect: []string{"keep*"}}
	_, _, n := k.turn(exact(truthful(k)))
	if n.Reason != ReasonGrowth || strings.Contains(n.Text, "\nm00001") || !strings.Contains(n.Text, "\nm00037") {
		t.Errorf("%s:\n%s", n.Reason, n.Text)
	}
	k.lim.Terms.Turns = 2_000
	k.rh = Rhythm{}
	if _, _, n := k.turn(exact(truthful(k))); !strings.Contains(n.Text, "\nm00001") {
		t.Errorf("with turns enough to earn it:\n%s", n.Text)
	}
}

// Folds are offered for folding again with their own cadence, and under
// pressure when they have most to give.
func TestFoldsOfFolds(t *testing.T) {
	k := stories(t, "folds")
	if _, _, n := k.turn(exact(10_000)); n.Reason != ReasonTier2 {
		t.Fatalf("first: %q", n.Reason)
	}
	k.rh.Shown = 0
	if _, _, n := k.turn(exact(10_100)); n.Reason == ReasonTier2 {
		t.Errorf("again at once: %q", n.Reason)
	}
	for i := int64(1); i < 16; i += 2 {
		k.fold(blockRef(i), blockRef(i+1))
	}
	k.lim.Window = 12_000
	if _, _, n := k.turn(exact(10_800)); n.Reason != ReasonPressure || !strings.Contains(n.Text, "b17–b24") {
		t.Errorf("under pressure: %q\n%s", n.Reason, n.Text)
	}
	k.lim = Limits{Window: 200_000, Growth: 400}
	k.rh.Baseline, k.rh.Shown = 0, 0
	if _, _, n := k.turn(exact(10_000)); n.Reason != ReasonTier3 {
		t.Errorf("folds of tier 2: %q", n.Reason)
	}
}

// Tools in each wire's shape, byte for byte: they are part of the prefix of
// every session.
func TestShapes(t *testing.T) {
	const file = "testdata/shapes.txtar"
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range ar.Files {
		var got strings.Builder
		for _, tool := range ToolsJSON(Shape(f.Name), "") {
			got.Write(tool)
			got.WriteByte('\n')
		}
		if f.Name == "paragraph" {
			got.Reset()
			got.WriteString(Paragraph + "\n")
		}
		if *update {
			ar.Files[i].Data = []byte(got.String())
		} else if got.String() != string(f.Data) {
			t.Errorf("%s is\n%swant\n%s", f.Name, got.String(), f.Data)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What nothing is known of is said, not made up.
func TestElisionNote(t *testing.T) {
	if got := elisionNote(nil, "", nil); got != "Nothing is known of them but their number." {
		t.Error(got)
	}
	if got := elisionNote([]string{"read ×2"}, "Please", []int64{1, 2}); got != "Began with: Please\nCalls: read ×2\nFolds inside: b1, b2" {
		t.Error(got)
	}
}

// Unknown tools and media are priced by what is known of them.
func TestDescribe(t *testing.T) {
	m := message("user", part("text", "look at  this\nplease"), part("media", words("base64", 4_000)))
	e := Describe(m)
	if e.Chars != 20 || e.First != "look at this please" || e.Cores[1].Tokens != mediaTokens || e.Tokens != mediaTokens+usage.EstimateBytes(len(m.Stripped)) {
		t.Errorf("%+v", e)
	}
}

// C34: a base64 payload is never counted as text, wherever it stands, nor shown
// as one.
func TestC34_PayloadsAreNoText(t *testing.T) {
	payload := strings.Repeat("QUJD", 40_000)
	block := `{"source":{"data":"` + payload + `","type":"base64"},"type":"image"}`
	m := message(chat.Tool, chat.Part{Kind: chat.ToolResult, CallID: "c1", Text: "a screenshot\n" + block})
	at := strings.Index(string(m.Stripped), payload)
	m.Media = []chat.Span{{Start: at, End: at + len(payload)}}
	e := Describe(m)
	if c := e.Cores[0]; c.Chars > 100 || c.Tokens < mediaTokens || c.Tokens > mediaTokens+50 || e.Tokens > mediaTokens+50 || e.Chars != c.Chars {
		t.Errorf("%d characters, %d tokens of %d", c.Chars, c.Tokens, e.Tokens)
	}
	if strings.Contains(e.First, "QUJD") {
		t.Errorf("it begins with %s", e.First)
	}
	k := newTalk(t).system("s").user("go").call("shot", "{}")
	k.add(m)
	k.rounds(4, 2_000).tail()
	k.fold("m1", "m8")
	if out := k.run(ToolDecompress, `{"blockId":"b1"}`); strings.Contains(out.Result, "QUJDQUJD") || !strings.Contains(out.Result, mediaWord) {
		t.Errorf("the fold is shown as %.300s", out.Result)
	}
	k.lim = Limits{Window: 4_000}
	k.turn(usage.Usage{})
	if slices.ContainsFunc(k.st.Overlays, func(o Shortened) bool { return k.msgs[o.Elem] == m }) {
		t.Errorf("an image is cut as if it were text: %+v", k.st.Overlays)
	}
}

// The last five of ten equal elements stay whatever their size, and so do all
// that lie within 5,000 tokens or a twentieth of the window. The tail that a view
// shows as protected is the one that folds leave alone.
func TestTailFrom(t *testing.T) {
	for _, c := range []struct {
		each, window usage.Tokens
		want         int
	}{{6_000, 200_000, 5}, {1_000, 200_000, 5}, {600, 200_000, 2}, {600, 0, 2}, {500, 200_000, 0}, {600, 8_000, 5}, {50, 8_000, 2}} {
		if got := TailFrom(slices.Repeat([]usage.Tokens{c.each}, 10), c.window); got != c.want {
			t.Errorf("of %d tokens each, window %d: from %d, want %d", c.each, c.window, got, c.want)
		}
	}
	for _, window := range []usage.Tokens{0, 8_000, 32_000, 200_000} {
		for rounds := range 12 {
			k := newTalk(t).system("s").user("go").rounds(rounds, 300+700*rounds)
			p := newPicture(k.elems, &k.st)
			lim := Limits{Window: window}.filled()
			guards, sizes := p.guards(&lim), make([]usage.Tokens, len(k.elems))
			for i := range sizes {
				sizes[i] = p.weight(i)
			}
			from := TailFrom(sizes, window)
			if i := slices.Index(guards[from:], free); i >= 0 {
				t.Errorf("window %d, %d rounds: %d may be folded, the tail is said to begin at %d", window, rounds, from+i, from)
			}
			if from > 0 && (guards[from-1] == guardRecent || guards[from-1] == guardTail) {
				t.Errorf("window %d, %d rounds: %d is protected, the tail is said to begin at %d", window, rounds, from-1, from)
			}
		}
	}
}
