package usage

import "slices"

// DefaultTurns and MinTurns are the remaining turns expected of a session
// without history, and the fewest ever assumed.
const (
	DefaultTurns = 20
	MinTurns     = 3
)

// RemainingTurns is the median of what was left, after turn number at, of past
// sessions that got that far; lengths are their turns.
func RemainingTurns(lengths []int, at int) float64 {
	var left []int
	for _, n := range lengths {
		if n > at {
			left = append(left, n-at)
		}
	}
	if len(left) == 0 {
		return DefaultTurns
	}
	slices.Sort(left)
	median := float64(left[len(left)/2])
	if len(left)%2 == 0 {
		median = (median + float64(left[len(left)/2-1])) / 2
	}
	return max(MinTurns, median)
}

// Rates are a local engine's speeds in tokens per second. What it has cached
// costs it nothing to read again.
type Rates struct {
	Prefill, Decode float64
}

// AssumedRates are the speeds of a local engine that were not measured: those of
// a middling laptop. What a fold is decided on is their ratio, which differs
// little between machines.
func AssumedRates() Rates { return Rates{Prefill: 400, Decode: 25} }

// Filled takes what was not measured from the assumed rates, kept in their
// ratio to what was.
func (r Rates) Filled() Rates {
	assumed := AssumedRates()
	switch {
	case r.Prefill <= 0 && r.Decode <= 0:
		return assumed
	case r.Prefill <= 0:
		r.Prefill = r.Decode * assumed.Prefill / assumed.Decode
	case r.Decode <= 0:
		r.Decode = r.Prefill * assumed.Decode / assumed.Prefill
	}
	return r
}

// Terms are what a fold is reckoned with: the model's prices, or a local
// engine's speeds, and how long the session is expected to go on.
type Terms struct {
	Price Price
	// Priced is false for a model without a known price.
	Priced bool
	// Local replaces Price where Prefill is not 0.
	Local Rates
	// Turns is the number of turns still expected; 0 stands for DefaultTurns.
	Turns float64
	// Lapse is the share of turns that find the provider's cache gone.
	Lapse float64
}

// Change is a fold as the bill sees it, in tokens.
type Change struct {
	// Gone leaves the prompt: what is folded less the carrier in its place.
	Gone Tokens
	// After stands behind the first folded place, carrier included: it is written
	// to the cache anew.
	After Tokens
	// Summary is the output the fold takes.
	Summary Tokens
	// Round is what the private round of the call reads once more from cache.
	Round Tokens
}

// Bill is what a fold saves and costs: millionths of Currency, or milliseconds
// of a local engine's work.
type Bill struct {
	Saved int64  `json:"saved"`
	Cost  int64  `json:"cost"`
	Unit  string `json:"unit,omitempty"`
}

// Units of a Bill.
const (
	UnitMicros = "usd_micros"
	UnitMillis = "ms"
)

// Pays reports whether the fold lowers the bill.
func (b Bill) Pays() bool { return b.Saved > b.Cost }

// Net is what is left of the saving.
func (b Bill) Net() int64 { return b.Saved - b.Cost }

// Known reports whether a fold can be reckoned at all.
func (t Terms) Known() bool { return t.Priced || t.Local.Prefill > 0 }

// rates are the costs of one token in the bill's unit: read from cache, written
// to it, and put out.
func (t Terms) rates() (read, write, out float64, unit string) {
	if t.Local.Prefill > 0 {
		if t.Local.Decode > 0 {
			out = 1000 / t.Local.Decode
		}
		return 0, 1000 / t.Local.Prefill, out, UnitMillis
	}
	return t.Price.Cached, t.Price.Write, t.Price.Output, UnitMicros
}

// perTurn is the cost of keeping one token in the prompt for one more turn.
func (t Terms) perTurn() float64 {
	read, write, _, _ := t.rates()
	return read*(1-t.Lapse) + write*t.Lapse
}

// Rent is what it cost, in the unit of a Bill, to read n tokens again that had
// been read before.
func (t Terms) Rent(n Tokens) int64 { return int64(float64(n) * t.perTurn()) }

// Project is what a fold is expected to save and cost: what is gone is not read
// on any of the remaining turns, what stands after it is written once more.
func (t Terms) Project(c Change) Bill {
	read, write, out, unit := t.rates()
	turns := t.Turns
	if turns == 0 {
		turns = DefaultTurns
	}
	return Bill{
		Saved: int64(float64(c.Gone) * t.perTurn() * max(MinTurns, turns)),
		Cost:  int64(float64(c.After)*(write-read) + float64(c.Summary)*out + float64(c.Round)*read),
		Unit:  unit,
	}
}

// Account follows what a fold really saved and cost. The zero Account of a
// change has seen no turn.
type Account struct {
	Change
	Turns int64 `json:"turns"`
	Bill  Bill  `json:"bill"`
}

// Turn books one exact report: the first bears the cost, each adds the price of
// what it did not have to read, at the price class it read the rest at.
func (a Account) Turn(t Terms, u Usage) Account {
	read, write, out, unit := t.rates()
	a.Bill.Unit = unit
	anew := u.Input + u.CacheWrite
	if a.Turns == 0 {
		a.Bill.Cost = int64(float64(min(a.After, anew))*(write-read) + float64(a.Summary)*out + float64(a.Round)*read)
	}
	rate := read
	if u.Cached == 0 { // the cache had lapsed: all of it would have been written
		rate = write
	}
	a.Turns++
	a.Bill.Saved += int64(float64(a.Gone) * rate)
	return a
}
