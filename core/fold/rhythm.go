package fold

import (
	"encoding/json"
	"slices"

	"holdfast/core/content"
	"holdfast/core/usage"
)

// Rhythm is the rest of the kernel's memory: when it asked last, what the
// upstream reported, which calls failed. It is never sealed, because usage
// arrives after the seal, and losing it costs a nudge, never a fold.
type Rhythm struct {
	// Used is the upstream's last exact total, 0 before the first; Read is our own
	// estimate of the same request, and Sent that of the one in the air.
	Used usage.Tokens `json:"used,omitempty"`
	Read usage.Tokens `json:"read,omitempty"`
	Sent usage.Tokens `json:"sent,omitempty"`
	// Credit is what was folded since, and is still counted in Used.
	Credit usage.Tokens `json:"credit,omitempty"`
	// Baseline is the token count growth is measured from, Shown the count at
	// the last nudge, TierShown the same for nudges to fold folds of tier 1 and 2.
	Baseline  usage.Tokens    `json:"baseline,omitempty"`
	Shown     usage.Tokens    `json:"shown,omitempty"`
	TierShown [2]usage.Tokens `json:"tier_shown,omitzero"`
	// Overflowed arms one emergency fold after a real overflow error.
	Overflowed bool `json:"overflowed,omitempty"`
	// Failed are the last failing calls by the hash of name and arguments.
	Failed []string `json:"failed,omitempty"`
	// Turns are the turns booked, Lapsed those that found the provider's cache gone.
	Turns  int64 `json:"turns,omitempty"`
	Lapsed int64 `json:"lapsed,omitempty"`
	// Accounts are the realised figures of the blocks.
	Accounts map[int64]usage.Account `json:"accounts,omitempty"`
}

// failures is how many failing calls are remembered: a model that is stuck
// repeats one, or takes turns between two or three.
const failures = 8

// Text is the stored form.
func (r Rhythm) Text() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("fold: internal error: rhythm does not marshal: " + err.Error())
	}
	return b
}

// OpenRhythm reads the stored form; what cannot be read starts anew.
func OpenRhythm(b []byte) Rhythm {
	var r Rhythm
	if json.Unmarshal(b, &r) != nil {
		return Rhythm{}
	}
	return r
}

// Report takes in the exact report of a round. Credit ends with it, because it
// no longer counts what was folded before the round: report a round before its
// calls are run.
func (r Rhythm) Report(u usage.Usage) Rhythm {
	if u.Source != usage.Exact || u.Total() == 0 {
		return r
	}
	r.Used, r.Read, r.Credit = u.Total(), r.Sent, 0
	return r
}

// Book enters a turn's last round into the accounts of the blocks.
func (r Rhythm) Book(u usage.Usage, terms usage.Terms) Rhythm {
	if u.Source != usage.Exact || u.Total() == 0 {
		return r
	}
	if u.Cached == 0 && r.Turns > 0 { // the first has nothing to find
		r.Lapsed++
	}
	if r.Turns++; !terms.Known() {
		return r
	}
	accounts := make(map[int64]usage.Account, len(r.Accounts))
	for id, a := range r.Accounts {
		accounts[id] = a.Turn(terms, u)
	}
	if len(accounts) > 0 {
		r.Accounts = accounts
	}
	return r
}

// lapse fills in the share of turns that found the cache gone, where the terms
// do not say.
func (r Rhythm) lapse(t usage.Terms) usage.Terms {
	if t.Lapse == 0 && r.Turns > 0 {
		t.Lapse = float64(r.Lapsed) / float64(r.Turns)
	}
	return t
}

// Overflow arms one emergency fold: the upstream said that the request was too
// long. The window is not learned from it.
func (r Rhythm) Overflow() Rhythm {
	r.Overflowed = true
	return r
}

// folded credits what a fold took off the prompt and starts growth anew.
func (r Rhythm) folded(count, gone usage.Tokens) Rhythm {
	r.Credit += gone
	r.Sent = max(0, r.Sent-gone)
	r.Baseline = max(0, count-gone)
	r.Shown, r.TierShown, r.Failed = 0, [2]usage.Tokens{}, nil
	return r
}

// account opens the books of a block.
func (r Rhythm) account(id int64, c usage.Change) Rhythm {
	accounts := map[int64]usage.Account{id: {Change: c}}
	for old, a := range r.Accounts {
		accounts[old] = a
	}
	r.Accounts = accounts
	return r
}

// settle closes the books of blocks that no longer stand and opens those of
// blocks that do again.
func (r Rhythm) settle(st *State) Rhythm {
	accounts := make(map[int64]usage.Account, len(r.Accounts))
	for id, a := range r.Accounts {
		a.Gone = 0
		if b := st.Block(id); b != nil && (b.Status == Active || b.Status == Consumed) {
			a.Gone = b.Tokens - b.Carrier
		}
		accounts[id] = a
	}
	if len(accounts) > 0 {
		r.Accounts = accounts
	}
	return r
}

// again reports whether the same call failed before, and remembers it.
func (r Rhythm) again(name string, args []byte) (Rhythm, bool) {
	sum := content.Of(append([]byte(name+"\x00"), args...)).String()[:16]
	before := slices.Contains(r.Failed, sum)
	failed := slices.DeleteFunc(slices.Clone(r.Failed), func(s string) bool { return s == sum })
	failed = append(failed, sum)
	r.Failed = failed[max(0, len(failed)-failures):]
	return r, before
}

// Count is the size of the prompt.
type Count struct {
	Tokens usage.Tokens
	// Estimated says that no report has come yet.
	Estimated bool
}

// shrunk is how much of the request the client must have taken away itself
// before the last report no longer says anything.
const shrunk = 0.9

// CountOf is the last exact total less the credit of what was folded since. It
// is an estimate before the first report, and after the client took much of the
// list away. frame is the estimate of all that is no element.
func CountOf(elements []Element, st *State, r Rhythm, frame usage.Tokens) Count {
	return countOf(newPicture(elements, st), r, frame)
}

func countOf(p *picture, r Rhythm, frame usage.Tokens) Count {
	now := frame + p.size()
	if r.Used == 0 {
		return Count{Tokens: now, Estimated: true}
	}
	if float64(now) < shrunk*float64(r.Read-r.Credit) {
		return Count{Tokens: r.scaled(now), Estimated: true}
	}
	return Count{Tokens: max(0, r.Used-r.Credit)}
}

// scaled corrects an estimate by how far the last one was off.
func (r Rhythm) scaled(n usage.Tokens) usage.Tokens {
	if r.Used == 0 || r.Read == 0 {
		return n
	}
	off := float64(r.Used) / float64(r.Read)
	return usage.Tokens(float64(n) * min(4, max(0.25, off)))
}

// ahead estimates the request in the making, what came since the last report
// included. Survival is decided on it; a nudge is not.
func ahead(p *picture, r Rhythm, frame usage.Tokens) usage.Tokens {
	return r.scaled(frame + p.size())
}
