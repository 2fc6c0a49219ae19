package fold

import (
	"fmt"

	"holdfast/core/usage"
)

// Nudge asks the model to fold. It is put at the end of this request only,
// never stored or hashed; where it goes is the wire's affair.
type Nudge struct {
	// Text is empty when the model is not asked; Reason then says what really
	// stood in the way, and else what made us ask.
	Text   string
	Reason string
	// Bill is what folding everything offered would save and cost; its Unit is
	// empty where that cannot be reckoned.
	Bill usage.Bill
}

// The reasons of a nudge, and of one that was not given.
const (
	ReasonGrowth    = "growth"
	ReasonTier2     = "tier 1 folds have piled up"
	ReasonTier3     = "tier 2 folds have piled up"
	ReasonPressure  = "pressure"
	ReasonEmergency = "emergency"

	HeldQuiet   = "has not grown enough"
	HeldForced  = "the request forces a tool"
	HeldPlace   = "the request ends where no reminder can stand"
	HeldOut     = "held out to measure without folds"
	HeldUnarmed = "the session has no tools"
	HeldNothing = "nothing can be folded"
	HeldFew     = "too little can be folded"
	HeldCost    = "a fold would cost more than it saves"
	HeldRent    = "a fold has not earned its cost yet"
	HeldUnknown = "no price is known for the model"
)

// The sizes of the nudge rules: the least growth between two nudges, the share
// of the step it is, and how much more folds must weigh than messages before
// they are folded again.
const (
	minFloor   usage.Tokens = 20_000
	floorShare float64      = 0.45
	tierFactor float64      = 1.5
	// maxNudge is the size of a nudge's text in tokens, ranges and all.
	maxNudge usage.Tokens = 1_500
)

// floor is the growth below which the model is left alone.
func (l *Limits) floor() usage.Tokens {
	return min(l.Growth, max(minFloor, usage.Tokens(floorShare*float64(l.Growth))))
}

// asker carries one decision.
type asker struct {
	c     *chooser
	rh    Rhythm
	lim   *Limits
	count usage.Tokens
	level string // ReasonPressure, ReasonEmergency or ""
	tails []usage.Tokens
	reads []int
}

// ask decides whether the model is asked to fold, and for what.
func ask(p *picture, rh Rhythm, lim *Limits) (Rhythm, *Nudge) {
	count := countOf(p, rh, lim.Frame).Tokens
	if count < rh.Baseline-lim.Growth {
		rh.Baseline, rh.Shown, rh.TierShown = count, 0, [2]usage.Tokens{}
	}
	a := &asker{rh: rh, lim: lim, count: count, level: lim.level(count)}
	if held := a.held(p); held != "" {
		return rh, &Nudge{Reason: held}
	}
	a.tails, a.reads = p.tails(), p.reads()
	if soon := a.soon(p); soon != nil {
		return rh, soon
	}
	a.c = newChooser(p, lim, 0)
	n := a.pick()
	return a.rh, n
}

// level says how full the window is.
func (l *Limits) level(count usage.Tokens) string {
	switch {
	case count >= l.at(l.Emergency):
		return ReasonEmergency
	case count >= l.at(l.Pressure):
		return ReasonPressure
	}
	return ""
}

// held are the reasons not to ask that need no look at the list.
func (a *asker) held(p *picture) string {
	switch {
	case !p.st.Armed:
		return HeldUnarmed
	case a.lim.Forced:
		return HeldForced
	case !p.listens():
		return HeldPlace
	case a.lim.HeldOut:
		return HeldOut
	case a.level == "" && a.grown(a.rh.Shown) < a.lim.floor():
		return HeldQuiet
	}
	return ""
}

// grown is the growth since a nudge at count shown, or since the last fold.
func (a *asker) grown(shown usage.Tokens) usage.Tokens {
	if shown > 0 {
		return a.count - shown
	}
	return a.count - a.rh.Baseline
}

// menu is what may be folded now: messages, and the folds of tier 1 and 2.
type menu struct {
	messages, tier1, tier2 []Offer
	mass, one, two         usage.Tokens
}

func (c *chooser) menu() (m menu) {
	m.messages = c.offers()
	m.mass = total(m.messages)
	m.tier1, m.one = c.tierOffers(1)
	m.tier2, m.two = c.tierOffers(2)
	return m
}

func total(offers []Offer) (n usage.Tokens) {
	for _, o := range offers {
		n += o.Tokens
	}
	return n
}

// pick chooses what to ask for, and whether.
func (a *asker) pick() *Nudge {
	m := a.c.menu()
	switch {
	case m.mass+m.one+m.two == 0:
		return &Nudge{Reason: HeldNothing + ": " + a.c.blocked()}
	case a.level != "":
		return a.pressed(m)
	case a.lim.Economics:
		return a.earned(m)
	}
	return a.stepped(m)
}

// stepped asks at every step of growth: for messages first, then for the folds
// of a tier that outweigh all that lies below it.
func (a *asker) stepped(m menu) *Nudge {
	heavy := usage.Tokens(tierFactor * float64(a.lim.Growth))
	switch {
	case m.mass >= a.lim.Growth:
		return a.say(ReasonGrowth, m.messages, a.bill(m.messages))
	case m.one >= heavy && m.one > m.mass && a.grown(a.rh.TierShown[0]) >= a.lim.floor():
		return a.say(ReasonTier2, m.tier1, a.bill(m.tier1))
	case m.two >= heavy && m.two > m.one && m.two > m.mass && a.grown(a.rh.TierShown[1]) >= a.lim.floor():
		return a.say(ReasonTier3, m.tier2, a.bill(m.tier2))
	}
	return tooFew(m.mass, a.lim.Growth)
}

func tooFew(have, want usage.Tokens) *Nudge {
	return &Nudge{Reason: fmt.Sprintf("%s: %s tokens, %s are wanted", HeldFew, comma(have), comma(want))}
}

// The size a summary is expected to have: an eighth of what it replaces, within
// bounds, and the artifact list.
const (
	summaryShare                 = 8
	minExpected     usage.Tokens = 185
	maxExpected     usage.Tokens = 2_000
	expectArtifacts usage.Tokens = 400
)

func expectedSummary(n usage.Tokens) usage.Tokens {
	return min(maxExpected, max(minExpected, n/summaryShare))
}

// bill is what folding the offers as one range would save and cost.
func (a *asker) bill(offers []Offer) usage.Bill {
	if len(offers) == 0 || !a.lim.Terms.Known() {
		return usage.Bill{}
	}
	all := total(offers)
	summary := expectedSummary(all)
	gone := all - summary - expectArtifacts
	return a.lim.Terms.Project(usage.Change{Gone: gone, Summary: summary, Round: a.count,
		After: max(0, a.tails[offers[0].lo]-gone)})
}

// gains reports whether folding so many tokens takes anything off the prompt.
func gains(n usage.Tokens) bool { return n > expectedSummary(n)+expectArtifacts }

// say words the nudge and notes that it was shown.
func (a *asker) say(reason string, offers []Offer, bill usage.Bill) *Nudge {
	a.rh.Shown = a.count
	var text string
	full := int(a.count * 100 / a.lim.usable())
	switch size, window := comma(a.count), comma(a.lim.usable()); reason {
	case ReasonTier2:
		a.rh.TierShown[0] = a.count
		text = fmt.Sprintf(nudgeTier, comma(total(offers)))
	case ReasonTier3:
		a.rh.TierShown[1] = a.count
		text = fmt.Sprintf(nudgeTier, comma(total(offers)))
	case ReasonPressure:
		text = fmt.Sprintf(nudgePressure, full, size, window)
	case ReasonEmergency:
		text = fmt.Sprintf(nudgeEmergency, full, size, window)
	default:
		text = fmt.Sprintf(nudgeGrowth, size, window)
	}
	return &Nudge{Text: withOffers(text, offers), Reason: reason, Bill: bill}
}

// withOffers adds as many ranges, oldest first, as a nudge may hold.
func withOffers(text string, offers []Offer) string {
	for k, o := range offers {
		line := fmt.Sprintf(nudgeLine, span(o.From, o.To), comma(o.Tokens), o.First)
		more := fmt.Sprintf(nudgeMore, len(offers)-k)
		if EstimateText(text+line+more) > maxNudge {
			return text + more
		}
		text += line
	}
	return text
}
