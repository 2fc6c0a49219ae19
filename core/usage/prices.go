package usage

import (
	"math"
	"strings"
)

// PricesAsOf is the day the bundled table was last compared with the public
// price pages. The figures are list prices: what an account really pays
// (batch, fast mode, an hour of cache lifetime, a subscription, a region) may
// differ, so costs are shown with this date.
const PricesAsOf = "2026-11-29"

// Currency is the currency of every price in the table.
const Currency = "USD"

// Price is what one family of models costs, in Currency per million tokens.
// Write is the price of a cache entry that lives five minutes; where a
// provider does not charge for writing it equals Input.
type Price struct {
	Input, Cached, Write, Output float64
	// LongFrom is the prompt size (all input classes) above which the whole
	// call is billed at the Long multiples; 0 for one price at every size.
	LongFrom Tokens
	// LongInput multiplies Input, Cached and Write, LongOutput multiplies Output.
	LongInput, LongOutput float64
}

// Micros is the cost of u in millionths of Currency, rounded to the nearest.
func (p Price) Micros(u Usage) int64 {
	in, out := 1.0, 1.0
	if p.LongFrom > 0 && u.Total() > p.LongFrom {
		in, out = p.LongInput, p.LongOutput
	}
	// A price per million tokens is the same number in millionths per token.
	read := float64(u.Input)*p.Input + float64(u.Cached)*p.Cached + float64(u.CacheWrite)*p.Write
	return int64(math.Round(read*in + float64(u.Output)*p.Output*out))
}

// PriceOf returns the list price of a model. An unknown model has none: a
// wrong price is worse than an empty cell.
func PriceOf(model string) (Price, bool) { return lookup(priceTable(), model) }

// Cost is the list-price cost of u in millionths of Currency; ok is false for
// a model the table does not know.
func Cost(model string, u Usage) (micros int64, ok bool) {
	p, ok := PriceOf(model)
	if !ok {
		return 0, false
	}
	return p.Micros(u), true
}

// flat prices every prompt size alike.
func flat(input, cached, write, output float64) Price {
	return Price{Input: input, Cached: cached, Write: write, Output: output}
}

// above272k is the long-context tariff of the models with a million-token
// window on the OpenAI price page.
func above272k(input, cached, write, output float64) Price {
	p := flat(input, cached, write, output)
	p.LongFrom, p.LongInput, p.LongOutput = 272_000, 2, 1.5
	return p
}

// haiku55 bills prompts above 100,000 tokens at five times every price.
func haiku55() Price {
	p := flat(0.10, 0.01, 0.125, 0.50)
	p.LongFrom, p.LongInput, p.LongOutput = 100_000, 5, 5
	return p
}

func priceTable() map[string]Price {
	return map[string]Price{
		"claude-fable-5-1":  flat(10, 0.25, 12.5, 50),
		"claude-mythos-5-1": flat(10, 0.25, 12.5, 50),
		"claude-fable-5":    flat(10, 1, 12.5, 50),
		"claude-mythos-5":   flat(10, 1, 12.5, 50),
		"claude-opus-5-5":   flat(4, 0.20, 5, 20),
		"claude-opus-5":     flat(5, 0.50, 6.25, 25),
		"claude-opus-4-8":   flat(5, 0.50, 6.25, 25),
		"claude-opus-4-7":   flat(5, 0.50, 6.25, 25),
		"claude-opus-4-6":   flat(5, 0.50, 6.25, 25),
		"claude-opus-4-5":   flat(5, 0.50, 6.25, 25),
		"claude-opus-4-1":   flat(15, 1.50, 18.75, 75),
		"claude-opus-4":     flat(15, 1.50, 18.75, 75),
		"claude-sonnet-5-5": flat(2, 0.10, 2.50, 10),
		"claude-sonnet-5":   flat(2, 0.20, 2.50, 10),
		"claude-sonnet-4-6": flat(3, 0.30, 3.75, 15),
		"claude-sonnet-4-5": flat(3, 0.30, 3.75, 15),
		"claude-sonnet-4":   flat(3, 0.30, 3.75, 15),
		"claude-haiku-5-5":  haiku55(),
		"claude-haiku-4-5":  flat(1, 0.10, 1.25, 5),
		"claude-3-5-haiku":  flat(0.80, 0.08, 1, 4),

		"gpt-6-astra":        above272k(10, 1, 12.5, 50),
		"gpt-6.1-sol":        above272k(2, 0.10, 2.5, 10),
		"gpt-6-sol":          above272k(2, 0.20, 2.5, 10),
		"gpt-6-luna":         above272k(0.10, 0.01, 0.125, 0.50),
		"gpt-5.6-sol":        above272k(4, 0.40, 5, 20),
		"gpt-5.6-terra":      above272k(2, 0.20, 2.5, 12),
		"gpt-5.6-luna":       above272k(0.20, 0.02, 0.25, 1.20),
		"gpt-5.5":            above272k(5, 0.50, 5, 30),
		"gpt-5.4":            above272k(2.5, 0.25, 2.5, 15),
		"gpt-5.4-mini":       flat(0.75, 0.075, 0.75, 4.5),
		"gpt-5.4-nano":       flat(0.20, 0.02, 0.20, 1.25),
		"gpt-5.3-codex":      flat(1.75, 0.175, 1.75, 14),
		"gpt-5.2":            flat(1.75, 0.175, 1.75, 14),
		"gpt-5.2-codex":      flat(1.75, 0.175, 1.75, 14),
		"gpt-5.1":            flat(1.25, 0.125, 1.25, 10),
		"gpt-5.1-codex":      flat(1.25, 0.125, 1.25, 10),
		"gpt-5.1-codex-max":  flat(1.25, 0.125, 1.25, 10),
		"gpt-5.1-codex-mini": flat(0.25, 0.025, 0.25, 2),
		"gpt-5":              flat(1.25, 0.125, 1.25, 10),
		"gpt-5-codex":        flat(1.25, 0.125, 1.25, 10),
		"gpt-5-mini":         flat(0.25, 0.025, 0.25, 2),
		"gpt-5-nano":         flat(0.05, 0.005, 0.05, 0.40),
		"gpt-4.1":            flat(2, 0.50, 2, 8),
		"gpt-4.1-mini":       flat(0.40, 0.10, 0.40, 1.60),
		"gpt-4.1-nano":       flat(0.10, 0.025, 0.10, 0.40),
		"gpt-4o":             flat(2.5, 1.25, 2.5, 10),
		"gpt-4o-mini":        flat(0.15, 0.075, 0.15, 0.60),
		"o3":                 flat(2, 0.50, 2, 8),
		"o4-mini":            flat(1.10, 0.275, 1.10, 4.40),
	}
}

// lookup finds the longest family name that a model id consists of, apart from
// a vendor before it and a date, "latest" or bracketed mode after it. A longer
// word after the name is another model ("gpt-5-pro" is not "gpt-5").
func lookup[V any](table map[string]V, model string) (v V, ok bool) {
	name := family(model)
	for end := len(name); end > 0; end = strings.LastIndexAny(name[:end], "-@") {
		if v, ok = table[name[:end]]; ok {
			return v, true
		}
		if !isStamp(name[strings.LastIndexAny(name[:end], "-@")+1 : end]) {
			break
		}
	}
	return v, false
}

// family is a model id without vendor and bracketed mode, in one spelling.
func family(model string) string {
	s := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	s, _, _ = strings.Cut(s, "[")
	if strings.HasPrefix(s, "claude") { // some routers write claude-opus-4.5
		s = strings.ReplaceAll(s, ".", "-")
	}
	return s
}

// isStamp reports whether a trailing word only pins a snapshot: "latest", a
// compact date, or a part of a dashed one. A version number has one digit.
func isStamp(word string) bool {
	if word == "latest" {
		return true
	}
	for _, c := range word {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(word) == 8 || len(word) == 4 || len(word) == 2
}
