package fold

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// nested is a conversation with b1 and b2 inside b3, and b4 on its own.
func nested(t *testing.T) *talk {
	k := started(t, 40)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	k.fold("b1", "b2")
	k.fold("m41", "m60")
	return k
}

// align carries a change of the list and returns the kinds and blocks of its
// events.
func (k *talk) align(ch Change) (told []string) {
	st, events := Align(k.elems, ch, k.st)
	k.st = st
	for _, e := range events {
		told = append(told, string(e.Kind)+" "+blockRef(e.Block))
	}
	return told
}

// cut drops the elements from ref on and rewinds them.
func (k *talk) cut(ref int64) (gone []Element, told []string) {
	at := slices.IndexFunc(k.elems, func(e Element) bool { return e.Ref == ref })
	gone = slices.Clone(k.elems[at:])
	k.elems = slices.Clone(k.elems[:at])
	var ns []int64
	for _, e := range gone {
		ns = append(ns, e.N)
	}
	return gone, k.align(Change{Rewound: ns})
}

// A rewind into a fold unfolds it; it returns with all its elements.
func TestRewindUnfolds(t *testing.T) {
	k := nested(t)
	gone, told := k.cut(51)
	if !slices.Equal(told, []string{"unfold b4"}) || !slices.Equal(carriers(View(k.elems, k.st)), []int64{3}) {
		t.Fatalf("a rewind into b4: %v, view %v", told, carriers(View(k.elems, k.st)))
	}
	k.elems = append(k.elems, gone[:4]...)
	if told := k.align(Change{}); len(told) != 0 {
		t.Errorf("some of b4's elements are back: %v", told)
	}
	k.elems = append(k.elems, gone[4:]...)
	if told := k.align(Change{}); !slices.Equal(told, []string{"fold b4"}) {
		t.Errorf("all of b4's elements are back: %v", told)
	}
	if _, told := k.cut(61); len(told) != 0 {
		t.Errorf("a rewind behind every fold: %v", told)
	}
}

// A rewind into a fold of folds frees those it does not touch.
func TestRewindFreesChildren(t *testing.T) {
	k := nested(t)
	gone, told := k.cut(31)
	if want := []string{"unfold b4", "unfold b3", "fold b1"}; !slices.Equal(told, want) {
		t.Fatalf("a rewind into b2, inside b3: %v, want %v", told, want)
	}
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{1}) {
		t.Errorf("carriers %v", got)
	}
	k.elems = append(k.elems, gone...)
	if want := []string{"fold b2", "fold b3", "fold b4"}; !slices.Equal(k.align(Change{}), want) {
		t.Errorf("back again: carriers %v", carriers(View(k.elems, k.st)))
	}
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("carriers %v", got)
	}
}

// C48: after a rewind and another way on, the old fold does not come back.
func TestC48_AnotherWayOn(t *testing.T) {
	k := nested(t)
	k.cut(51)
	k.rounds(10, 2_000).tail()
	k.align(Change{})
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{3}) {
		t.Errorf("carriers %v", got)
	}
	if out := k.fold("m41", "m50"); out.Blocks[0] != 5 {
		t.Errorf("the next block is b%d", out.Blocks[0])
	}
}

// A replaced element keeps its place inside its fold.
func TestReplaceInsideAFold(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 10 {
		k.says(words("a step", 2_000))
	}
	k.tail()
	k.fold("m1", "m6")
	old := k.elems[4]
	k.elems[4] = k.element(message("assistant", part("text", "another step")))
	k.align(Change{Replaced: map[int64]int64{old.N: k.elems[4].N}})
	b := k.st.Block(1)
	if b.Status != Active || !has(b.Elems, k.elems[4].N) || has(b.Elems, old.N) {
		t.Errorf("b1 is %+v", b)
	}
	if got := len(View(k.elems, k.st)); got != len(k.elems)-5 {
		t.Errorf("%d places", got)
	}
}

// An element the client drops leaves its fold alone; at a re-stamp the fold
// dies, and what it had consumed whole stands for itself.
func TestC29_C61_DroppedElements(t *testing.T) {
	k := nested(t)
	n := k.st.Block(2).Elems[0]
	k.elems = slices.DeleteFunc(slices.Clone(k.elems), func(e Element) bool { return e.N == n || e.N == n+1 })
	if told := k.align(Change{}); len(told) != 0 || !slices.Equal(carriers(View(k.elems, k.st)), []int64{3, 4}) {
		t.Fatalf("dropped: %v", told)
	}
	if told := k.align(Change{Restamp: true}); !slices.Equal(told, []string{"unfold b3", "fold b1"}) {
		t.Fatalf("re-stamped: %v", told)
	}
	if k.st.Block(3).Status != Dead || k.st.Block(2).Status != Dead || !slices.Equal(carriers(View(k.elems, k.st)), []int64{1, 4}) {
		t.Errorf("b2 %q, b3 %q", k.st.Block(2).Status, k.st.Block(3).Status)
	}
}

// Reasoning the client drops does not end a fold.
func TestDroppedReasoningLeavesTheFold(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for range 10 {
		k.thinks("hm").call("read", "{}").result(words("x", 2_000))
	}
	k.tail()
	k.fold("m1", "m12")
	k.elems = slices.DeleteFunc(slices.Clone(k.elems), func(e Element) bool { return e.thought() })
	if told := k.align(Change{Restamp: true}); len(told) != 0 || !slices.Equal(carriers(View(k.elems, k.st)), []int64{1}) {
		t.Errorf("thinking dropped: %v", told)
	}
}

// The first user element is live, also when another becomes it.
func TestFirstUserIsReleased(t *testing.T) {
	k := newTalk(t).system("s").user("go").rounds(3, 2_000).user("then this").rounds(6, 2_000).tail()
	k.fold("m1", "m16")
	k.elems = append(slices.Clone(k.elems[:1]), k.elems[2:]...)
	if told := k.align(Change{}); !slices.Equal(told, []string{"unfold b1"}) {
		t.Errorf("the first user element is gone: %v", told)
	}
	if !has(shownNumbers(View(k.elems, k.st)), k.elems[7].N) {
		t.Error("the new first user element is folded")
	}
}

// C39: a fork takes over exactly the folds whose elements it has, all of them
// and in order.
func TestC39_Adopt(t *testing.T) {
	k := nested(t)
	fork := newTalk(t)
	numbers := map[int64]int64{}
	fork.nextN = 1_000
	for i := range k.elems[:45] {
		e := fork.element(k.msgs[k.elems[i].N])
		numbers[k.elems[i].N] = e.N
		fork.elems = append(fork.elems, e)
	}
	st, given, events := Adopt(fork.elems, fork.st, k.st, numbers)
	if len(events) != 1 || events[0].Kind != Inherit || given[3] != 3 || given[4] != 0 {
		t.Fatalf("given %v, events %+v", given, events)
	}
	if got := carriers(View(fork.elems, st)); !slices.Equal(got, []int64{3}) {
		t.Errorf("carriers %v", got)
	}
	if st.Block(3).Body != k.st.Block(3).Body || st.Block(1).Status != Consumed || len(st.Effective(3)) != 40 {
		t.Errorf("b3 is %+v", st.Block(3))
	}
	fork.elems[10], fork.elems[12] = fork.elems[12], fork.elems[10]
	if same, _, events := Adopt(fork.elems, fork.st, k.st, numbers); events != nil || !reflect.DeepEqual(same, fork.st) {
		t.Errorf("out of order: %v", events)
	}
}

// Purged blocks say so, and only once.
func TestPurge(t *testing.T) {
	k := nested(t)
	st, events := PurgeBlocks(k.st, []int64{1, 9})
	if len(events) != 1 || events[0].Kind != Purge || len(events[0].Elems) != 20 || !st.Block(1).Gone || k.st.Block(1).Gone {
		t.Errorf("events %+v", events)
	}
	if _, events := PurgeBlocks(st, []int64{1}); events != nil {
		t.Errorf("again: %+v", events)
	}
}

// A fold that takes in one whose originals were deleted keeps its artifacts.
func TestPurgedChildKeepsItsArtifacts(t *testing.T) {
	k := started(t, 40)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	want := k.bodies[k.st.Block(1).Body].Artifacts
	k.st, _ = PurgeBlocks(k.st, []int64{1})
	for _, n := range k.st.Block(1).Elems {
		delete(k.msgs, n)
	}
	k.fold("b1", "b2")
	got := k.bodies[k.st.Block(3).Body].Artifacts
	for line := range strings.Lines(want) {
		if !strings.Contains(got, strings.TrimSpace(line)) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
	if want == "" {
		t.Error("nothing was there to keep")
	}
}

// What is undone by hand stays undone.
func TestUndo(t *testing.T) {
	k := nested(t)
	st, events := Undo(k.elems, k.st, 3)
	if len(events) != 3 || !slices.Equal(carriers(View(k.elems, st)), []int64{1, 2, 4}) {
		t.Errorf("%d events, carriers %v", len(events), carriers(View(k.elems, st)))
	}
	if again, events := Align(k.elems, Change{}, st); events != nil || !reflect.DeepEqual(again, st) {
		t.Errorf("it came back: %v", events)
	}
	if same, events := Undo(k.elems, k.st, 77); events != nil || !reflect.DeepEqual(same, k.st) {
		t.Errorf("an unknown block: %v", events)
	}
}

// Hiding takes whole exchanges, and nothing that must stay.
func TestHide(t *testing.T) {
	k := nested(t)
	n := elementOf(k, 61)
	st, events := HideElements(k.elems, k.st, []int64{n, 1, 2, elementOf(k, 5)})
	if len(events) != 1 || !slices.Equal(events[0].Elems, []int64{n, n + 1}) {
		t.Fatalf("events %+v", events)
	}
	shown := shownNumbers(View(k.elems, st))
	if has(shown, n) || has(shown, n+1) || !has(shown, 2) {
		t.Errorf("shown %v", shown)
	}
}

// Coverage tells the view in the ledger's words.
func TestCoverage(t *testing.T) {
	k := nested(t)
	got := Coverage(k.elems, k.st)
	if len(got) != 2 || got[0].Block != 3 || got[0].Anchor != elementOf(k, 1) || len(got[0].Elems) != 40 || !slices.Equal(got[0].Children, []int64{1, 2}) {
		t.Errorf("coverage %+v", got)
	}
}
