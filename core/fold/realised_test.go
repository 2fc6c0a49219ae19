package fold

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"holdfast/core/usage"
)

// provider bills a view as a provider with a cache does: what is as in the
// request before is read, the rest written.
type provider struct{ before []string }

func (p *provider) report(k *talk) usage.Usage {
	u, same := usage.Usage{Source: usage.Exact}, true
	pic := newPicture(k.elems, &k.st)
	var now []string
	for i := range k.elems {
		w := pic.weight(i)
		if w == 0 {
			continue
		}
		now = append(now, fmt.Sprint(pic.carrier(i), k.elems[i].N))
		if at := len(now) - 1; same && at < len(p.before) && p.before[at] == now[at] {
			u.Cached += w
		} else {
			same = false
			u.CacheWrite += w
		}
	}
	p.before = now
	return u
}

// What a fold brings over the turns it was reckoned for is within 15 % of what
// was projected, in the median over random sessions.
func TestRealisedMeetsProjected(t *testing.T) {
	rng := seeded(t, 7)
	var ratios []float64
	for range 25 {
		k := newTalk(t).system("s").user("go").rounds(100+rng.IntN(60), 1_500+rng.IntN(2_500)).tail()
		k.lim = Limits{Window: 1_000_000, Terms: priced(20)}
		p := &provider{}
		k.rh = k.rh.Report(p.report(k)) // the round in which the call is made
		last := 100 + rng.IntN(100)
		k.fold("m1", Ref{Number: int64(last)}.String())
		for range usage.DefaultTurns {
			u := p.report(k)
			k.rh = k.rh.Report(u).Book(u, k.lim.Terms)
			k.rounds(1, 200+rng.IntN(1_500))
		}
		b, a := k.st.Block(1), k.rh.Accounts[1]
		ratios = append(ratios, float64(a.Bill.Net())/float64(b.Projected.Net()))
	}
	slices.Sort(ratios)
	if m := ratios[len(ratios)/2]; math.Abs(m-1) > 0.15 {
		t.Errorf("the median is %.2f of projected: %.2f", m, ratios)
	}
}
