package fold

import (
	"reflect"
	"slices"
	"testing"

	"holdfast/core/usage"
)

// The largest results go first, and no more of them than is needed.
func TestLargestResultsFirst(t *testing.T) {
	k := newTalk(t).system("s").user("go")
	for _, n := range []int{10_000, 60_000, 20_000, 40_000} {
		k.rounds(1, n)
	}
	k.tail()
	k.lim.Window = 36_000
	_, events, _ := k.turn(usage.Usage{})
	var cut []int64
	for _, e := range events {
		if e.Kind != Overlay || len(e.Cores) != 1 || len(e.Keys) != 1 {
			t.Fatalf("event %+v", e)
		}
		cut = append(cut, e.Elems...)
	}
	if want := []int64{elementOf(k, 4)}; !slices.Equal(cut, want) {
		t.Errorf("cut %v, want %v", cut, want)
	}
	if n := ahead(newPicture(k.elems, &k.st), k.rh, 0); n > k.lim.Window*95/100 {
		t.Errorf("still %d tokens", n)
	}
}

// Messages are left out before the folds the model wrote.
func TestElisionSparesFolds(t *testing.T) {
	k := started(t, 60)
	k.fold("m1", "m20")
	k.lim.Window = 24_000
	_, events, _ := k.turn(usage.Usage{})
	if got := carriers(View(k.elems, k.st)); !slices.Equal(got, []int64{1, 2}) || !k.st.Block(2).Elided || len(events) != 1 {
		t.Errorf("carriers %v, %d events", got, len(events))
	}
}

// A survival step is the same every time and leaves nothing behind when it is
// undone.
func TestElisionIsDeterministicAndReversible(t *testing.T) {
	k := stories(t, "flood")
	before := View(k.elems, k.st)
	view, st, rh, events, _ := Rewrite(k.elems, k.st, k.rh, k.lim, usage.Usage{})
	again, st2, rh2, events2, _ := Rewrite(k.elems, k.st, k.rh, k.lim, usage.Usage{})
	if !reflect.DeepEqual(view, again) || !reflect.DeepEqual(st, st2) || !reflect.DeepEqual(rh, rh2) || !reflect.DeepEqual(events, events2) {
		t.Error("two runs differ")
	}
	for i := range st.Blocks {
		st, _ = Undo(k.elems, st, st.Blocks[i].ID)
	}
	for _, o := range slices.Clone(st.Overlays) {
		st, _ = Restore(k.elems, st, o.Elem)
	}
	if !reflect.DeepEqual(View(k.elems, st), before) {
		t.Error("undone, the view is another one")
	}
}

// The next turn after an emergency is an ordinary one.
func TestEmergencyGivesRoom(t *testing.T) {
	k := stories(t, "flood")
	k.turn(usage.Usage{})
	k.says("go on")
	if _, events, _ := k.turn(exact(truthful(k))); len(events) != 0 {
		t.Errorf("again: %d events", len(events))
	}
}

// One giant result just arrived: the last report knows nothing of it, and it
// lies in the protected tail; it is cut all the same, because it must fit.
func TestGiantInTheTail(t *testing.T) {
	k := started(t, 20)
	k.lim.Window = 40_000
	k.turn(exact(truthful(k)))
	k.rh = k.rh.Report(exact(truthful(k)))
	k.rounds(1, 200_000)
	_, events, _ := k.turn(usage.Usage{})
	if len(events) == 0 || newPicture(k.elems, &k.st).size() > k.lim.Window {
		t.Errorf("%d events, %d tokens", len(events), newPicture(k.elems, &k.st).size())
	}
}

// A list the client made short itself is no emergency, whatever the last report
// said.
func TestClientCompactionIsNoEmergency(t *testing.T) {
	k := stories(t, "growth")
	k.lim.Window = 70_000
	k.turn(exact(60_000))
	k.rh = k.rh.Report(exact(69_000))
	k.elems = append(slices.Clone(k.elems[:2]), k.elems[200:]...)
	_, events, n := k.turn(usage.Usage{})
	if len(events) != 0 || n.Reason == ReasonEmergency || n.Reason == ReasonPressure {
		t.Errorf("%d events, %q", len(events), n.Reason)
	}
	if c := CountOf(k.elems, &k.st, k.rh, 0); !c.Estimated || c.Tokens > 30_000 {
		t.Errorf("the count is %+v", c)
	}
}

// A result is cut to its two ends around a marker; a short one is left.
func TestShorten(t *testing.T) {
	o := Shortened{Head: 3, Tail: 2}
	if got := Shorten("あいうえおかきくけこ", o, 7); got[:9] != "あいう" || got[len(got)-6:] != "けこ" {
		t.Errorf("got %q", got)
	}
	if got := Shorten("abcde", o, 7); got != "abcde" {
		t.Errorf("got %q", got)
	}
}

// What a session costs the kernel each turn.
func BenchmarkRewrite(b *testing.B) {
	for name, rounds := range map[string]int{"800": 400, "5000": 2_500} {
		b.Run(name, func(b *testing.B) {
			k := started(b, rounds)
			for i := int64(1); i < int64(rounds); i += 20 {
				k.fold(Ref{Number: i}.String(), Ref{Number: i + 19}.String())
			}
			k.lim.Window = 1 << 30
			for b.Loop() {
				Rewrite(k.elems, k.st, k.rh, k.lim, usage.Usage{})
			}
		})
	}
}
