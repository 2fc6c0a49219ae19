package fold

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// The tests of this file are named after the reports they answer: P.. are those
// of systems like this one, C.. the public complaints about the background
// system. Each has its twin: the guard does not fire on ordinary traffic.

// P8: boundaries were wrong when a fold was resolved on an already folded view.
func TestP8_BoundariesAreThoseOfTheWholeList(t *testing.T) {
	k := started(t, 20)
	k.fold("m1", "m20")
	k.fold("m21", "m30")
	if got := k.st.Block(2).Elems; got[0] != elementOf(k, 21) || len(got) != 10 {
		t.Errorf("m21–m30 folded elements %v after an earlier fold", got)
	}
}

func elementOf(k *talk, ref int64) int64 {
	i := slices.IndexFunc(k.elems, func(e Element) bool { return e.Ref == ref })
	return k.elems[i].N
}

// P9, C68: the one-off cost of a fold is known before and shown after.
func TestP9_C68_CostIsToldBeforehand(t *testing.T) {
	k := stories(t, "growth")
	_, _, n := k.turn(exact(truthful(k)))
	if n.Text == "" || n.Bill.Cost <= 0 || n.Bill.Saved <= n.Bill.Cost {
		t.Errorf("asked with the bill %+v", n.Bill)
	}
	k.fold("m1", "m60")
	if b := k.st.Block(1).Projected; b.Cost <= 0 || b.Unit != usage.UnitMicros {
		t.Errorf("the block keeps %+v", b)
	}
}

// P10: an urgent nudge at 22–44 % of the window burnt the cache for nothing.
func TestP10_NotUrgentBelowPressure(t *testing.T) {
	for _, c := range []struct {
		percent int
		want    string
	}{{22, ""}, {44, ""}, {74, ""}, {76, ReasonPressure}, {94, ReasonPressure}, {96, ReasonEmergency}} {
		l := Limits{Window: 100_000}.filled()
		if got := l.level(usage.Tokens(c.percent) * 1_000); got != c.want {
			t.Errorf("at %d %%: %q, want %q", c.percent, got, c.want)
		}
	}
}

// P10: below pressure the bill decides; a session near its end is left alone.
func TestP10_NotWhenItDoesNotPay(t *testing.T) {
	k := stories(t, "growth")
	k.lim.Terms.Price.Cached = 0.001 // reading is all but free: nothing to save
	if _, _, n := k.turn(exact(truthful(k))); n.Text != "" || n.Reason != HeldCost || n.Bill.Pays() {
		t.Errorf("asked %q for %q, bill %+v", n.Text, n.Reason, n.Bill)
	}
	k.lim.Economics = false
	if _, _, n := k.turn(exact(truthful(k))); n.Text == "" {
		t.Errorf("with the gate off: %q", n.Reason)
	}
}

// P17, C12: the window is what was declared; an overflow never shrinks it.
func TestP17_C12_WindowIsNotLearned(t *testing.T) {
	k := started(t, 20)
	k.lim.Window = 100_000
	k.rh = k.rh.Overflow()
	k.turn(exact(20_000))
	if _, _, n := k.turn(exact(20_000)); n.Reason != HeldQuiet {
		t.Errorf("after an overflow the next turn is %q", n.Reason)
	}
}

// P18: an overflow that the figures did not see arms one emergency, once.
func TestP18_OverflowFoldsOnce(t *testing.T) {
	k := started(t, 40)
	k.lim.Window = 100_000
	if _, events, _ := k.turn(exact(25_000)); events != nil {
		t.Fatalf("ordinary traffic: %v", events)
	}
	k.rh = k.rh.Overflow()
	_, events, _ := k.turn(usage.Usage{})
	if len(events) == 0 {
		t.Fatal("nothing was done about the overflow")
	}
	if _, events, _ = k.turn(usage.Usage{}); len(events) != 0 {
		t.Errorf("a second time: %v", events)
	}
}

// P18, C35: room for the reply is kept where it shares the window.
func TestP18_C35_ReserveCounts(t *testing.T) {
	l := Limits{Window: 100_000, Reserve: 32_000}.filled()
	if got := l.level(55_000); got != ReasonPressure {
		t.Errorf("55,000 of 68,000 usable tokens: %q", got)
	}
}

// P19, C11, C66: failures say so, are the same whatever the order of keys, and
// the same one twice is cut short; a call that now succeeds is not.
func TestP19_C11_C66_FailuresAreVisibleAndBounded(t *testing.T) {
	k := started(t, 20)
	first := k.run(ToolCompress, ranges("m1", "m2"))
	if !first.Failed || first.Stuck || !strings.HasPrefix(first.Result, "FAILED") || len(first.Events) != 0 {
		t.Fatalf("the first time: %+v", first)
	}
	second := k.run(ToolCompress, strings.Replace(ranges("m1", "m2"), "{", "{ ", 1))
	if !second.Stuck || len(second.Result) >= len(first.Result) {
		t.Errorf("the second time: %+v", second)
	}
	if other := k.run(ToolCompress, ranges("m1", "m3")); other.Stuck {
		t.Errorf("another failing call: %+v", other)
	}
	late := k.run(ToolCompress, ranges("m44", "m47"))
	if !late.Failed {
		t.Fatalf("a protected range: %s", late.Result)
	}
	k.tail().tail()
	if now := k.run(ToolCompress, ranges("m44", "m47")); now.Failed {
		t.Errorf("the same call, now that it may: %s", now.Result)
	}
}

// P32, P20: a nudge that is not given names what really stood in the way.
func TestP32_P20_HeldForTheRealReason(t *testing.T) {
	full := func() *talk { k := stories(t, "pressure"); return k }
	for name, c := range map[string]struct {
		change func(*talk)
		want   string
	}{
		"asked":      {func(k *talk) {}, ReasonPressure},
		"forced":     {func(k *talk) { k.lim.Forced = true }, HeldForced},
		"held out":   {func(k *talk) { k.lim.HeldOut = true }, HeldOut},
		"unarmed":    {func(k *talk) { k.st = NewState() }, HeldUnarmed},
		"protected":  {func(k *talk) { k.lim.Protect = []string{"READ"} }, HeldNothing},
		"not grown":  {func(k *talk) { k.lim.Window = 200_000 }, ReasonGrowthOrQuiet},
		"no prices":  {func(k *talk) { k.lim = Limits{Window: 400_000, Growth: 20_000, Economics: true} }, HeldUnknown},
		"too little": {func(k *talk) { k.lim = Limits{Window: 400_000, Growth: 40_000} }, HeldFew},
	} {
		k := full()
		c.change(k)
		_, _, n := k.turn(exact(truthful(k)))
		if !strings.HasPrefix(n.Reason, c.want) && c.want != ReasonGrowthOrQuiet {
			t.Errorf("%s: %q, want %q", name, n.Reason, c.want)
		}
		if asked := c.want == ReasonPressure; asked != (n.Text != "") {
			t.Errorf("%s: asked %q", name, n.Text)
		}
	}
}

// ReasonGrowthOrQuiet stands for any reason not to ask in the table above.
const ReasonGrowthOrQuiet = "any"

// P35, C49: tools are the same bytes every time, in the same order, plain
// objects in every shape.
func TestP35_C49_ToolsAreConstant(t *testing.T) {
	for _, shape := range []Shape{ShapeAnthropic, ShapeChat, ShapeResponses, ShapeGoogle} {
		first := ToolsJSON(shape, "")
		if !reflect.DeepEqual(first, ToolsJSON(shape, "")) || len(first) != 4 {
			t.Errorf("%s: tools differ", shape)
		}
		for _, tool := range first {
			if !json.Valid(tool) {
				t.Errorf("%s: %s is no JSON", shape, tool)
			}
			for _, bad := range []string{"oneOf", "anyOf", "allOf", "enum", "$ref"} {
				if strings.Contains(string(tool), bad) {
					t.Errorf("%s has %s", tool, bad)
				}
			}
		}
	}
}

// P35: armed once, always armed; the suffix stays.
func TestP35_ArmingIsSticky(t *testing.T) {
	st := Arm(NewState(), false, nil)
	if st.Armed || st.Structure != 0 {
		t.Fatalf("a session without tools: %+v", st)
	}
	st = Arm(st, true, []string{"bash", "hf_status", "hf_status_2"})
	if !st.Armed || st.Suffix != "_3" {
		t.Fatalf("a clash of names: %+v", st)
	}
	same := Arm(st, false, nil)
	if !reflect.DeepEqual(same, st) {
		t.Errorf("the next request: %+v", same)
	}
	if !st.Owns("hf_search_3") || st.Owns("hf_search") || st.Owns("bash") {
		t.Error("ours are told apart from the client's by the suffix")
	}
}

// P43: answers of our own tools are never shortened, however large.
func TestP43_OwnAnswersAreExempt(t *testing.T) {
	for tool, want := range map[string]int{ToolDecompress: 0, "read": 1} {
		k := newTalk(t).system("s").user("go")
		k.call(tool, "{}").result(words("x", 40_000))
		k.tail()
		k.lim.Window = 15_000
		k.turn(exact(truthful(k)))
		if len(k.st.Overlays) != want {
			t.Errorf("%s: %d overlays, want %d", tool, len(k.st.Overlays), want)
		}
	}
}

// P82: threshold, keep-list and the last request are the user's to set, with
// defaults.
func TestP82_SettingsHaveDefaults(t *testing.T) {
	l := Limits{}.filled()
	if l.Pressure != 75 || l.Emergency != 95 || l.Growth != 50_000 || l.Window != usage.DefaultWindow || l.floor() != 22_500 {
		t.Errorf("defaults: %+v, floor %d", l, l.floor())
	}
	set := Limits{Pressure: 50, Emergency: 80, Growth: 30_000, Window: 10}.filled()
	if set.Pressure != 50 || set.Emergency != 80 || set.floor() != 20_000 || set.Window != 10 {
		t.Errorf("set: %+v", set)
	}
}

// P82: the latest request of the user stays, however long ago it was.
func TestP82_LatestRequestStays(t *testing.T) {
	k := newTalk(t).system("s").user("first").rounds(5, 2_000).user("do the other thing").rounds(30, 2_000)
	k.fold("m1", "m40")
	n := elementOf(k, 11)
	if !has(shownNumbers(View(k.elems, k.st)), n) {
		t.Error("the latest request was folded")
	}
	k.user("and one more").rounds(10, 2_000)
	out := k.run(ToolCompress, ranges("b1", "m60"))
	if has(shownNumbers(View(k.elems, k.st)), n) {
		t.Errorf("an older request stayed: %s", out.Result)
	}
}

// C1: nothing of a nudge reaches the view or the state.
func TestC1_NudgesAreNotStored(t *testing.T) {
	k := stories(t, "pressure")
	sealed, _ := k.st.Seal()
	view, _, n := k.turn(exact(truthful(k)))
	again, _ := k.st.Seal()
	if n.Text == "" || !Plain(view, k.elems) || string(sealed) != string(again) {
		t.Errorf("a nudge changed the view or the state: %s", again)
	}
}

// C6: reasoning folds with its companion and never without.
func TestC6_ReasoningStaysWithItsCompanion(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 10 {
		k.thinks("hm").call("read", "{}").result(words("x", 2_000))
	}
	k.tail()
	k.fold("m2", "m10") // m1 is the thought of the call m2, m12 the result of m11
	if got := k.st.Block(1); got.From != "m00001" || got.To != "m00012" {
		t.Errorf("m2–m10 became %s–%s", got.From, got.To)
	}
}

// C38: what hf_decompress returns is bounded, whatever is behind a fold.
func TestC38_DecompressIsPaged(t *testing.T) {
	k := newTalk(t).system("s").user("go").rounds(1, 95_000).tail()
	k.fold("m1", "m2")
	whole := ""
	for page := 1; ; page++ {
		out := k.run(ToolDecompress, fmt.Sprintf(`{"blockId":"b1","page":%d}`, page))
		if out.Failed {
			break
		}
		if n := len([]rune(out.Result)); n > pageChars+200 {
			t.Errorf("page %d has %d characters", page, n)
		}
		_, text, _ := strings.Cut(out.Result, "\n")
		if i := strings.LastIndex(text, "\n[page "); i >= 0 {
			text = text[:i]
		}
		whole += text
	}
	if !strings.Contains(whole, k.msgs[4].Parts[0].Text) {
		t.Error("the pages together are not the original")
	}
}

// C21: a fold is credited until the next report, so nothing is folded twice on
// stale usage.
func TestC21_FoldsAreCredited(t *testing.T) {
	k := stories(t, "growth")
	k.turn(exact(70_000))
	before := CountOf(k.elems, &k.st, k.rh, 0).Tokens
	k.fold("m1", "m200")
	gone := k.st.Block(1).Tokens - k.st.Block(1).Carrier
	if after := CountOf(k.elems, &k.st, k.rh, 0); before != 70_000 || after.Tokens != before-gone || after.Estimated {
		t.Errorf("70,000 less %d is %+v", gone, after)
	}
	if _, _, n := k.turn(usage.Usage{}); n.Text != "" {
		t.Errorf("asked again on the old report: %s", n.Reason)
	}
	k.rh = k.rh.Report(exact(21_000))
	if got := CountOf(k.elems, &k.st, k.rh, 0).Tokens; got != 21_000 {
		t.Errorf("the new report says 21,000, the count %d", got)
	}
}

// C26: a long history seen for the first time is estimated, and asked about.
func TestC26_ResumedHistoryIsSeen(t *testing.T) {
	k := stories(t, "growth")
	n := CountOf(k.elems, &k.st, k.rh, 5_000)
	if !n.Estimated || n.Tokens < 65_000 {
		t.Fatalf("before any report: %+v", n)
	}
	if _, _, nudge := k.turn(usage.Usage{}); nudge.Text == "" {
		t.Errorf("not asked: %s", nudge.Reason)
	}
}

// C27, C37: every range that is offered is one that hf_compress takes.
func TestC27_C37_OffersAreTaken(t *testing.T) {
	for seed := range uint64(15) {
		p := newProgram(t, seeded(t, seed))
		for range 25 {
			p.step()
		}
		st := p.st
		c := newChooser(newPicture(p.elems, &st), &p.lim, p.nextRef)
		for _, o := range c.offers() {
			p.st = st
			if out := p.run(ToolCompress, ranges(o.From, o.To)); out.Failed {
				t.Errorf("offered %s–%s: %s", o.From, o.To, out.Result)
			}
		}
	}
}

// C28: refs are read in any spelling, and the end of their numbers is a state,
// not a fault.
func TestC28_Refs(t *testing.T) {
	for said, want := range map[string]string{"m12": "m00012", "M00012": "m00012", " [m0000012] ": "m00012", "b3": "b3", "B003": "b3", "`b3`": "b3"} {
		if r, ok := ParseRef(said); !ok || r.String() != want {
			t.Errorf("%q is read as %v", said, r)
		}
	}
	for _, bad := range []string{"", "m", "b0", "m00000", "12", "mm1", "m1x", "m-1", "m99999999999999999999", "all"} {
		if r, ok := ParseRef(bad); ok {
			t.Errorf("%q is read as %v", bad, r)
		}
	}
}

func TestC28_WithoutARefItIsServed(t *testing.T) {
	k := started(t, 20)
	for i := range k.elems {
		if k.elems[i].Ref > 30 {
			k.elems[i].Ref = 0
		}
	}
	k.fold("m1", "m30")
	if view := View(k.elems, k.st); len(view) != len(k.elems)-29 {
		t.Errorf("%d places for %d elements", len(view), len(k.elems))
	}
	if out := k.run(ToolStatus, `{"view":"messages"}`); strings.Contains(out.Result, "m00000") {
		t.Errorf("an element without a ref is named:\n%s", out.Result)
	}
}

// C30: reading a fold leaves no trace.
func TestC30_DecompressChangesNothing(t *testing.T) {
	k := started(t, 20)
	k.fold("m1", "m20")
	st, rh := k.st, k.rh
	for _, args := range []string{`{"blockId":"b1"}`, `{"blockId":"b1","full":true,"page":2}`} {
		out := k.run(ToolDecompress, args)
		if out.Failed || len(out.Events) != 0 || !reflect.DeepEqual(k.st, st) || !reflect.DeepEqual(k.rh, rh) {
			t.Errorf("%s changed something: %+v", args, out)
		}
	}
}

// C41: a window that the fixed part alone fills is a dead end, not a loop.
func TestC41_DeadEndIsQuiet(t *testing.T) {
	k := newTalk(t).system(words("rules", 60_000)).user("hello").says("hi").user("and now?")
	k.lim.Window = 16_000
	for range 3 {
		view, events, n := k.turn(exact(15_900))
		if len(events) != 0 || n.Text != "" || !strings.HasPrefix(n.Reason, HeldNothing) || !Plain(view, k.elems) {
			t.Errorf("%d events, %q for %q", len(events), n.Text, n.Reason)
		}
	}
}

// C42: reversed ends are put right, and the model is told.
func TestC42_ReversedEnds(t *testing.T) {
	k := started(t, 20)
	out := k.fold("m20", "m1")
	if k.st.Block(1).From != "m00001" || !strings.Contains(out.Result, "wrong order") {
		t.Errorf("m20–m1: %s", out.Result)
	}
	if twin := k.fold("m21", "m30"); strings.Contains(twin.Result, "wrong order") {
		t.Errorf("m21–m30: %s", twin.Result)
	}
}

// C52: the same text twice is two elements; one of them may fold alone.
func TestC52_EqualElementsAreTwo(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 4 {
		k.says(words("the very same", 6_000))
	}
	k.tail()
	k.fold("m2", "m2")
	if got := k.st.Block(1).Elems; len(got) != 1 || got[0] != elementOf(k, 2) {
		t.Errorf("m2 folded %v", got)
	}
}

// C59: unknown, gone and folded refs are answered apart.
func TestC59_RefsAreAnsweredApart(t *testing.T) {
	k := started(t, 20)
	k.fold("m1", "m10")
	gone := k.elems[20]
	k.elems = slices.Delete(slices.Clone(k.elems), 20, 21)
	for ref, want := range map[string]string{
		"m09999": "is unknown", gone.ref(): "no longer part", "m00005": "already folded in b1", "b9": "is unknown", "m00030": "",
	} {
		out := k.run(ToolCompress, ranges(ref, "m00040"))
		if want == "" != !out.Failed || !strings.Contains(out.Result, want) {
			t.Errorf("%s: %s", ref, out.Result)
		}
	}
}

// C62: what the user marked stays, until the mark is lifted.
func TestC62_MarksAreDurable(t *testing.T) {
	k := started(t, 20)
	n := elementOf(k, 4)
	k.st = Keep(k.st, []int64{n}, true)
	k.fold("m1", "m20")
	shown := shownNumbers(View(k.elems, k.st))
	if !has(shown, n) || !has(shown, elementOf(k, 3)) || has(shown, elementOf(k, 5)) {
		t.Errorf("marked m4 with its call m3: %v", shown)
	}
	if st := Keep(k.st, []int64{n}, false); len(st.Kept) != 0 {
		t.Errorf("the mark is lifted, and %v stay", st.Kept)
	}
}

// C65: old refs inside consumed folds are taken for the fold that has them.
func TestC65_OldRefsSnapToTheirFold(t *testing.T) {
	k := started(t, 40)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	k.fold("b1", "b2")
	out := k.fold("m5", "m60")
	if b := k.st.Block(4); !slices.Equal(b.Children, []int64{3}) || !strings.Contains(out.Result, "m00005 lies inside b3") {
		t.Errorf("m5–m60: %+v\n%s", b, out.Result)
	}
}

// C3: one carrier for each block, and never the elements beside it.
func TestC3_OneCarrier(t *testing.T) {
	k := started(t, 40)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	k.fold("b1", "b2")
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{3}) {
		t.Errorf("carriers %v", got)
	}
}

// Tokens of a fold of folds are its children's carriers, not what these had
// replaced: nothing is counted twice.
func TestTiersDoNotCountTwice(t *testing.T) {
	k := started(t, 60)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	k.fold("b1", "m60")
	b1, b2, b3 := k.st.Block(1), k.st.Block(2), k.st.Block(3)
	var fresh usage.Tokens
	for _, n := range b3.Elems {
		fresh += k.elems[places(k.elems)[n]].Tokens
	}
	if b3.Tokens != b1.Carrier+b2.Carrier+fresh || b3.Tier != 2 || b3.Count != 60 || len(b3.Elems) != 20 {
		t.Errorf("b3 is %+v of %+v and %+v", b3, b1, b2)
	}
	raw, folded := newPicture(k.elems, new(State)).size(), newPicture(k.elems, &k.st).size()
	var saved usage.Tokens
	for i := range k.st.Blocks {
		saved += k.st.Blocks[i].Tokens - k.st.Blocks[i].Carrier
	}
	if raw-folded != saved {
		t.Errorf("the view lost %d tokens, the blocks say %d", raw-folded, saved)
	}
}

// Tiers end at 3.
func TestTiersEnd(t *testing.T) {
	k := started(t, 200)
	k.fold("m1", "m20")
	for i, to := range []string{"m40", "m60", "m80", "m100"} {
		k.fold(blockRef(int64(i+1)), to)
	}
	var tiers []int
	for i := range k.st.Blocks {
		tiers = append(tiers, k.st.Blocks[i].Tier)
	}
	if !slices.Equal(tiers, []int{1, 2, 3, 3, 3}) {
		t.Errorf("tiers %v", tiers)
	}
}

// A message range over a fold leaves the fold standing.
func TestMessageRangeLeavesFoldsStanding(t *testing.T) {
	k := started(t, 40)
	k.fold("m11", "m20")
	k.fold("m1", "m40")
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{2, 1}) {
		t.Errorf("carriers %v", got)
	}
	if b := k.st.Block(2); len(b.Elems) != 30 || b.Tier != 1 || len(b.Children) != 0 {
		t.Errorf("b2 is %+v", b)
	}
}

// Never foldable: system and developer text, definitions, compaction items, the
// first user element.
func TestNeverFoldable(t *testing.T) {
	k := newTalk(t).system("s").user("first").rounds(4, 2_000)
	k.system("a later system text")
	k.add(&chat.Message{Role: chat.Developer, Parts: []chat.Part{{Kind: chat.Text, Text: "dev"}}})
	for _, typ := range []string{"additional_tools", "compaction"} {
		k.add(&chat.Message{Role: chat.User, Type: typ, Parts: []chat.Part{{Kind: chat.Opaque, Text: `{"type":"` + typ + `"}`}}})
	}
	k.add(message(chat.Assistant, chat.Part{Kind: chat.Opaque, Text: `{"content":"x","type":"compaction"}`}))
	fixed := k.numbers()[10:]
	k.rounds(4, 2_000).tail()
	k.fold("m1", "m20")
	shown := shownNumbers(View(k.elems, k.st))
	for _, n := range append(fixed, 1, 2) {
		if !has(shown, n) {
			t.Errorf("element %d was folded", n)
		}
	}
	if len(k.st.Block(1).Elems) != 16 {
		t.Errorf("folded %v", k.st.Block(1).Elems)
	}
}

// Calls that use one id again and again pair with their nearest.
func TestRepeatedCallIDs(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 20 {
		k.calls = 0
		k.call("read", "{}").result(words("x", 2_000))
	}
	k.tail()
	k.fold("m1", "m7")
	if b := k.st.Block(1); b.To != "m00008" || len(b.Elems) != 8 {
		t.Errorf("m1–m7 became %s–%s", b.From, b.To)
	}
}

// Calls without ids pair in order.
func TestCallsWithoutIDs(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 20 {
		k.add(message(chat.Assistant, chat.Part{Kind: chat.ToolCall, Tool: "a"}, chat.Part{Kind: chat.ToolCall, Tool: "b"}))
		k.add(message(chat.User, chat.Part{Kind: chat.ToolResult, Text: words("x", 1_000)}, chat.Part{Kind: chat.ToolResult, Text: words("y", 1_000)}))
	}
	k.tail()
	k.fold("m2", "m7")
	if b := k.st.Block(1); b.From != "m00001" || b.To != "m00008" {
		t.Errorf("m2–m7 became %s–%s", b.From, b.To)
	}
}

// A pair whose parts are more than 20 places apart is left alone, and said.
func TestWideningHasAnEnd(t *testing.T) {
	k := newTalk(t).system("s").user("go").call("agent", "{}")
	for range 30 {
		k.says(words("meanwhile", 1_000))
	}
	k.result("done").tail()
	out := k.fold("m1", "m8")
	if b := k.st.Block(1); b.From != "m00002" || !strings.Contains(out.Result, string(guardFar)) {
		t.Errorf("m1–m8 became %s–%s: %s", b.From, b.To, out.Result)
	}
}

// The arguments models really send.
func TestArgumentsAreReadTolerantly(t *testing.T) {
	one := fmt.Sprintf(`{"startId":"m1","endId":"m10","summary":%q}`, summary)
	for name, args := range map[string]string{
		"as asked":         `{"content":[` + one + `]}`,
		"one, no list":     `{"content":` + one + `}`,
		"flat":             one,
		"a string of JSON": fmt.Sprintf(`{"content":%q}`, "["+one+"]"),
		"all of it":        fmt.Sprintf("%q", `{"content":[`+one+`]}`),
		"other names":      strings.NewReplacer("startId", "startRef", "endId", "endRef").Replace(one),
		"snake case":       `{"content":[` + strings.NewReplacer("startId", "start_id", "endId", "end_id").Replace(one) + `]}`,
	} {
		k := started(t, 20)
		if out := k.run(ToolCompress, args); out.Failed || k.st.Block(1).To != "m00010" {
			t.Errorf("%s: %s", name, out.Result)
		}
	}
}

// maxFixed is what the fixed part may take, in tokens. Above 750 the replayed
// session late-giant, which is not folded, would cost more than 1 % more.
const maxFixed = 720

// The fixed part of every armed request fits its budget, in every shape.
func TestFixedPartIsSmall(t *testing.T) {
	for _, shape := range []Shape{ShapeAnthropic, ShapeChat, ShapeResponses, ShapeGoogle} {
		n := len(Paragraph)
		for _, tool := range ToolsJSON(shape, "_2") {
			n += len(tool) + 1
		}
		if got := usage.EstimateBytes(n); got > maxFixed {
			t.Errorf("%s: %d tokens", shape, got)
		}
	}
}

// A nudge never takes more than its share, however much there is to fold.
func TestNudgeIsBounded(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for i := range 300 {
		k.user(words(fmt.Sprintf("question %d about something long to say", i), 300))
		k.rounds(2, 3_000)
	}
	k.tail()
	k.lim.Window = 500_000
	k.lim.Pressure = 50
	_, _, n := k.turn(exact(truthful(k)))
	if got := EstimateText(n.Text); n.Text == "" || got > maxNudge || !strings.Contains(n.Text, "more: hf_status") {
		t.Errorf("a nudge of %d tokens: %s", got, n.Reason)
	}
}

// One source for every figure: what hf_status says is what the nudge and the
// blocks are reckoned with.
func TestC67_OneSourceOfFigures(t *testing.T) {
	k := stories(t, "pressure")
	k.turn(exact(33_000))
	k.rh = k.rh.Report(exact(33_000))
	k.fold("m1", "m40")
	b, count := k.st.Block(1), CountOf(k.elems, &k.st, k.rh, 0)
	status := k.run(ToolStatus, `{}`).Result
	for _, want := range []string{
		fmt.Sprintf("Context: %s of 40,000", comma(count.Tokens)),
		fmt.Sprintf("%s → %s tokens", comma(b.Tokens), comma(b.Carrier)),
		fmt.Sprintf("%s messages", comma(b.Count)),
	} {
		if !strings.Contains(status, want) {
			t.Errorf("%q is missing in\n%s", want, status)
		}
	}
	if count.Tokens != 33_000-(b.Tokens-b.Carrier) {
		t.Errorf("33,000 less %d is %d", b.Tokens-b.Carrier, count.Tokens)
	}
	c := newChooser(newPicture(k.elems, &k.st), &k.lim, 0)
	for _, o := range c.offers() {
		if line := fmt.Sprintf("%s · %s messages · %s tokens", span(o.From, o.To), comma(o.Elements), comma(o.Tokens)); !strings.Contains(status, line) {
			t.Errorf("%q is missing in\n%s", line, status)
		}
	}
}

// Media in a folded stretch are kept with their element, and said to be there.
func TestC47_MediaStayWithTheirElement(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	k.add(message(chat.User, part(chat.Text, "this drawing"), part(chat.Media, `{"source":"a picture"}`)))
	n := k.elems[2].N
	k.rounds(6, 2_000).tail()
	k.fold("m1", "m13")
	if need := k.session().Needs(ToolUse{Name: ToolDecompress, Args: []byte(`{"blockId":"b1"}`)}); !has(need.Elements, n) {
		t.Errorf("opening the fold needs %v", need.Elements)
	}
	out := k.run(ToolDecompress, `{"blockId":"b1"}`).Result
	if !strings.Contains(out, "this drawing\n"+mediaWord) || strings.Contains(out, "a picture") {
		t.Errorf("the fold is shown as %.300s", out)
	}
}

// Limits of every kind come from settings with defaults, none from the model's
// words or an error's.
func TestC51_SettingsAreArguments(t *testing.T) {
	k := stories(t, "growth")
	for _, text := range []string{"context window is 16000 tokens", "maximum context length is 8192"} {
		k.user(text)
	}
	st, rh := k.st, k.rh
	lim := k.lim
	k.turn(exact(truthful(k)))
	if !reflect.DeepEqual(k.lim, lim) || !reflect.DeepEqual(k.st, st) || k.rh.Overflowed != rh.Overflowed {
		t.Errorf("limits %+v became %+v", lim, k.lim)
	}
}
