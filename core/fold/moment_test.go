package fold

import (
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/usage"
)

// paced is a session of n tool rounds in a large window, at list prices.
func paced(t *testing.T, n int) *talk {
	k := started(t, n)
	k.lim = Limits{Window: 400_000, Terms: priced(20), Economics: true}
	return k
}

// The first fold of a session waits until the growth step has been read again
// and again, however much has come in by then.
func TestFirstFoldWaitsUntilItIsRead(t *testing.T) {
	k := newTalk(t).system("s").user("go").rounds(2, 120_000).tail()
	k.lim = Limits{Window: 400_000, Terms: priced(200), Economics: true}
	if _, _, n := k.turn(exact(truthful(k))); !strings.HasPrefix(n.Reason, HeldFew) {
		t.Errorf("60,000 tokens just read: %q", n.Reason)
	}
	k.rounds(settleTurns, 200)
	if _, _, n := k.turn(exact(truthful(k))); n.Reason != ReasonGrowth {
		t.Errorf("read %d times more: %q", settleTurns, n.Reason)
	}
}

// A stretch is offered once it has been read for as much as its fold will cost,
// and not on the turns before.
func TestRentIsPaidFirst(t *testing.T) {
	k := paced(t, 60)
	k.lim.Growth = 1_000
	k.lim.Terms.Price.Write, k.lim.Terms.Turns = 50, 2_000 // a dear cache makes a dear fold
	asked := -1
	for i := range 60 {
		_, _, n := k.turn(exact(truthful(k)))
		if n.Text != "" {
			asked = i
			break
		}
		if n.Reason != HeldRent {
			t.Fatalf("turn %d: %q", i, n.Reason)
		}
		k.rounds(1, 200)
	}
	c := newChooser(newPicture(k.elems, &k.st), &k.lim, 0)
	a := &asker{c: c, lim: &k.lim, count: truthful(k), tails: c.p.tails(), reads: c.p.reads()}
	if rent, cost := a.rent(c.offers()), a.bill(c.offers()).Cost; asked < 1 || rent < cost || rent > 2*cost {
		t.Errorf("asked on turn %d, with a rent of %d and a cost of %d", asked, rent, cost)
	}
}

// Reads count the replies after a place, however many elements one takes.
func TestReads(t *testing.T) {
	k := newTalk(t).user("go").thinks("hm").says("one").call("read", "{}").result("x").says("two").user("more")
	want := []int{2, 1, 1, 1, 1, 0, 0}
	got := newPicture(k.elems, &k.st).reads()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("reads are %v, want %v", got, want)
			break
		}
	}
}

// From the second carrier on, carriers go into the next fold; one alone does not.
func TestCarriersAreSwept(t *testing.T) {
	k := paced(t, 300)
	k.lim.Growth = 1_000
	k.fold("m1", "m40")
	k.rh.Baseline = 0
	if _, _, n := k.turn(exact(truthful(k))); !strings.Contains(n.Text, "\nm00041") || strings.Contains(n.Text, "b1") {
		t.Errorf("with one carrier:\n%s (%s)", n.Text, n.Reason)
	}
	k.fold("m41", "m80")
	k.rh.Baseline = 0
	_, _, n := k.turn(exact(truthful(k)))
	from, to, ok := strings.Cut(n.Text[strings.LastIndex(n.Text, "\n")+1:], "–")
	if from != "b1" || !ok {
		t.Fatalf("with two:\n%s (%s)", n.Text, n.Reason)
	}
	k.fold(from, to[:6])
	if b := k.st.Block(3); len(b.Children) != 2 || b.Tier != 2 {
		t.Errorf("b3 is %+v", b)
	}
}

// A block at the end of a range goes with it, whatever tiers lie between; one of
// a higher tier in the middle stays.
func TestEndsAreConsumed(t *testing.T) {
	k := started(t, 100)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	k.fold("b1", "b2") // b3, tier 2
	k.fold("m41", "m60")
	k.fold("m61", "m80")
	k.fold("b4", "m90") // b6, tier 2
	k.fold("m91", "m110")
	k.fold("b3", "b7")
	if b := k.st.Block(8); len(b.Children) != 3 || b.Tier != 3 {
		t.Errorf("b3–b7 became %+v", b)
	}
	k.fold("m111", "m130")
	k.fold("m131", "m150")
	if b := k.st.Block(10); b.Tier != 1 || k.st.Block(8).Status != Active {
		t.Errorf("%+v", b)
	}
}

// Under pressure a small fold waits for the last call, and no longer.
func TestSmallFoldsWaitUnderPressure(t *testing.T) {
	k := newTalk(t).system(words("rules", 60_000)).user("go").rounds(14, 2_000).tail()
	k.lim = Limits{Window: 32_000}
	for _, c := range []struct {
		used usage.Tokens
		want string
	}{{25_000, HeldFew}, {28_000, HeldFew}, {28_600, ReasonPressure}, {31_000, ReasonEmergency}} {
		k.rh = Rhythm{}
		if _, _, n := k.turn(exact(c.used)); !strings.HasPrefix(n.Reason, c.want) {
			t.Errorf("at %d of 32,000: %q, want %q", c.used, n.Reason, c.want)
		}
	}
}

// A local engine's old results are shortened before the emergency, if that is
// enough; nothing else is touched then, and nothing at all elsewhere.
func TestLocalEnginesShortenEarly(t *testing.T) {
	speeds := usage.Terms{Local: usage.Rates{Prefill: 400, Decode: 25}}
	for name, c := range map[string]struct {
		terms usage.Terms
		large int
		small int
		cuts  int
	}{
		"large results":           {speeds, 5, 0, 1},
		"small results":           {speeds, 0, 50, 0},
		"one is not enough":       {speeds, 1, 50, 0},
		"a provider has a price":  {priced(20), 5, 0, 0},
		"one is enough for a few": {speeds, 1, 5, 1},
	} {
		k := newTalk(t).system("s").user("go").rounds(c.large, 20_000).rounds(c.small, 2_000).tail()
		k.lim = Limits{Terms: c.terms}.filled()
		k.lim.Window = truthful(k) * 100 / 87
		_, events, _ := k.turn(usage.Usage{})
		if len(k.st.Overlays) < c.cuts || c.cuts == 0 && len(events) > 0 || len(k.st.Blocks) > 0 {
			t.Errorf("%s: %d overlays, %d events", name, len(k.st.Overlays), len(events))
		}
	}
}

// The share of turns that found the cache gone is counted from the reports, and
// a lapsing cache makes holding dearer.
func TestLapsesAreCounted(t *testing.T) {
	var r Rhythm
	for i := range 8 {
		u := exact(50_000)
		if i%4 == 0 {
			u = usage.Usage{CacheWrite: 50_000, Source: usage.Exact}
		}
		r = r.Book(u, usage.Terms{})
	}
	if r.Turns != 8 || r.Lapsed != 1 {
		t.Errorf("%d of %d turns lapsed", r.Lapsed, r.Turns)
	}
	if got := r.lapse(usage.Terms{}).Lapse; got != 0.125 {
		t.Errorf("the share is %v", got)
	}
	if got := r.lapse(usage.Terms{Lapse: 0.5}).Lapse; got != 0.5 {
		t.Errorf("what is given became %v", got)
	}
}

// What would take no less than it replaces is not offered: two small folds under
// pressure were, again and again.
func TestNoGainIsNoOffer(t *testing.T) {
	k := started(t, 20)
	k.fold("m1", "m20")
	k.fold("m21", "m40")
	two := newChooser(newPicture(k.elems, &k.st), &k.lim, 0)
	if offers, _ := two.tierOffers(1); offers != nil {
		t.Errorf("two folds of %d and %d tokens are offered as %+v", k.st.Block(1).Carrier, k.st.Block(2).Carrier, offers)
	}
	many := stories(t, "folds")
	all := newChooser(newPicture(many.elems, &many.st), &many.lim, 0)
	if offers, n := all.tierOffers(1); len(offers) != 1 || n < 1_000 {
		t.Errorf("16 folds of %d tokens are offered as %+v", n, offers)
	}
}

// The protected tail is a share of a small window.
func TestTailFollowsTheWindow(t *testing.T) {
	for window, want := range map[usage.Tokens]usage.Tokens{32_000: 1_600, 100_000: 5_000, 200_000: 5_000} {
		l := Limits{Window: window}.filled()
		if got := l.recent(); got != want {
			t.Errorf("of %d tokens the last %d are protected, want %d", window, got, want)
		}
	}
}

// Where the request ends with what is no turn of the model's, nobody is asked,
// and the asking is not used up.
func TestNoPlaceForAReminder(t *testing.T) {
	ends := map[string]func(*talk){
		"a system text":        func(k *talk) { k.system("<available-skills>") },
		"a prefill":            func(k *talk) { k.says("Sure, ") },
		"the order to compact": func(k *talk) { k.add(&chat.Message{Role: chat.User, Type: "compaction_trigger"}) },
	}
	for name, end := range ends {
		k := stories(t, "pressure")
		end(k)
		if _, _, n := k.turn(exact(truthful(k))); n.Text != "" || n.Reason != HeldPlace || k.rh.Shown != 0 {
			t.Errorf("%s: %q for %q, shown at %d", name, n.Text, n.Reason, k.rh.Shown)
		}
		k.user("Go on.")
		if _, _, n := k.turn(exact(truthful(k))); n.Reason != ReasonPressure {
			t.Errorf("%s, and then the user: %q", name, n.Reason)
		}
	}
	k := stories(t, "pressure")
	k.says("taken away")
	k.elems[len(k.elems)-1].Removed = true
	if _, _, n := k.turn(exact(truthful(k))); n.Reason != ReasonPressure {
		t.Errorf("the client took the last element away: %q", n.Reason)
	}
}
