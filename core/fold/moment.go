package fold

import (
	"holdfast/core/chat"
	"holdfast/core/usage"
)

// settleTurns is how often a message has been read before it counts as worked
// through; sweepFrom how many carriers stand before the next fold takes them in:
// each is read again on every turn, and each time one is retold it loses some.
const (
	settleTurns = 8
	sweepFrom   = 2
)

// Under pressure a fold that frees less than a third of the window waits until
// two thirds of the way to the emergency are gone: in a small window it costs as
// much as one that frees twice that.
const (
	worthwhile = 1.0 / 3
	lastCall   = 2.0 / 3
)

// between is the mark that lies so far on the way from pressure to emergency.
func (l *Limits) between(share float64) usage.Tokens {
	return l.at(l.Pressure + share*(l.Emergency-l.Pressure))
}

// reads says how often the model has read each place: once for every reply that
// came after it.
func (p *picture) reads() []int {
	out, n := make([]int, len(p.elems)), 0
	for i := len(p.elems) - 1; i >= 0; i-- {
		out[i] = n
		if p.replied(i) {
			n++
		}
	}
	return out
}

// replied reports whether a reply begins at place i: on some wires it is several
// elements.
func (p *picture) replied(i int) bool {
	return p.elems[i].Role == chat.Assistant && (i == 0 || p.elems[i-1].Role != chat.Assistant)
}

// soon says, from the sizes alone, that it is too soon whatever may be offered:
// the offers need not be made out then. Nil when it may be time.
func (a *asker) soon(p *picture) *Nudge {
	if a.level != "" || !a.lim.Economics || !a.lim.Terms.Known() {
		return nil
	}
	var settled, read usage.Tokens
	for i, n := range a.reads {
		if p.shown(i) {
			read += p.tokens(i) * usage.Tokens(n)
			if n >= settleTurns {
				settled += p.tokens(i)
			}
		}
	}
	least := a.lim.Terms.Project(usage.Change{Summary: minExpected, Round: a.count}).Cost
	switch {
	case len(p.anchor) == 0 && settled < a.lim.Growth:
		return tooFew(settled, a.lim.Growth)
	case a.lim.Terms.Rent(read) < least:
		return &Nudge{Reason: HeldRent}
	}
	return nil
}

// earned asks once the rent paid for what is offered has reached what folding it
// costs, and only if it will pay.
func (a *asker) earned(m menu) *Nudge {
	switch settled := a.settled(m.messages); {
	case !a.lim.Terms.Known():
		return &Nudge{Reason: HeldUnknown}
	case len(a.c.p.anchor) == 0 && settled < a.lim.Growth:
		return tooFew(settled, a.lim.Growth)
	}
	offers, bill := a.cheapest(a.sweep(m.messages))
	switch {
	case !bill.Pays():
		return &Nudge{Reason: HeldCost, Bill: bill}
	case a.rent(offers) < bill.Cost:
		return &Nudge{Reason: HeldRent, Bill: bill}
	}
	return a.say(ReasonGrowth, offers, bill)
}

// cheapest leaves out the oldest ranges where the rest pays better without them:
// a fold breaks the cached prefix at its first place.
func (a *asker) cheapest(offers []Offer) ([]Offer, usage.Bill) {
	best, from := a.bill(offers), 0
	for k := 1; k < len(offers); k++ {
		if b := a.bill(offers[k:]); b.Net() > best.Net() && total(offers[k:]) >= a.lim.floor() {
			best, from = b, k
		}
	}
	return offers[from:], best
}

// each calls f for every place of the offers that still stands as it came.
func (a *asker) each(offers []Offer, f func(i int)) {
	for _, o := range offers {
		for i := o.lo; i <= o.hi; i++ {
			if a.c.p.shown(i) {
				f(i)
			}
		}
	}
}

// settled are the offered tokens that have been read settleTurns times.
func (a *asker) settled(offers []Offer) (n usage.Tokens) {
	a.each(offers, func(i int) {
		if a.reads[i] >= settleTurns {
			n += a.c.p.tokens(i)
		}
	})
	return n
}

// rent is what reading the offered messages again and again has cost.
func (a *asker) rent(offers []Offer) int64 {
	var read usage.Tokens
	a.each(offers, func(i int) { read += a.c.p.tokens(i) * usage.Tokens(a.reads[i]) })
	return a.lim.Terms.Rent(read)
}

// sweep lets the first range begin at the first carrier, so that earlier folds
// go into the new one. Left to pile up they cost a third of what folding saves.
func (a *asker) sweep(offers []Offer) []Offer {
	p, carriers := a.c.p, Offer{lo: -1}
	n := 0
	for i := range p.elems {
		id := p.carrier(i)
		if id == 0 || len(offers) == 0 || i > offers[len(offers)-1].hi {
			continue
		}
		b := p.st.Block(id)
		if n++; n == 1 {
			carriers.lo, carriers.From, carriers.First = i, blockRef(id), b.Topic
		}
		carriers.Elements += b.Count
		carriers.Tokens += b.Carrier
	}
	if n < sweepFrom {
		return offers
	}
	return carriers.through(offers)
}

// through is a range from o on that takes in all of the offers.
func (o Offer) through(offers []Offer) []Offer {
	for _, next := range offers {
		o.Elements += next.Elements
		o.Tokens += next.Tokens
	}
	last := offers[len(offers)-1]
	o.lo, o.hi, o.To = min(o.lo, offers[0].lo), last.hi, last.To
	if o.lo == offers[0].lo {
		o.From, o.First = offers[0].From, offers[0].First
	}
	return []Offer{o}
}

// pressed asks for what would free most; the bill does not count now. Folds that
// free little wait: in a small window each costs as much as a large one.
func (a *asker) pressed(m menu) *Nudge {
	best := a.sweep(m.messages)
	if m.one > total(best) {
		best = m.tier1
	}
	if m.two > total(best) {
		best = m.tier2
	}
	enough := usage.Tokens(worthwhile * float64(a.lim.usable()))
	if a.level == ReasonPressure && total(best) < enough && a.count < a.lim.between(lastCall) {
		return tooFew(total(best), enough)
	}
	return a.say(a.level, best, a.bill(best))
}
