package usage

import (
	"testing"
	"time"
)

func TestCost(t *testing.T) {
	million := Usage{Input: 1_000_000, Cached: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}
	small := Usage{Input: 100, Cached: 50_000, CacheWrite: 2_000, Output: 700}
	for _, c := range []struct {
		model  string
		use    Usage
		micros int64
		ok     bool
	}{
		{"claude-opus-5-5", million, 29_200_000, true},
		{"claude-opus-5", million, 36_750_000, true},
		{"claude-opus-4-5-20251101", small, 500 + 25_000 + 12_500 + 17_500, true},
		{"claude-opus-4-5[1m]", Usage{Input: 1}, 5, true},
		{"anthropic/claude-opus-4.5", Usage{Input: 1}, 5, true},
		{"claude-sonnet-4-20250514", Usage{Output: 1}, 15, true},
		{"claude-haiku-4-5@20251001", Usage{Output: 2}, 10, true},
		{"claude-3-5-haiku-latest", Usage{Input: 10}, 8, true},
		{"gpt-5-2025-08-07", Usage{Cached: 1000}, 125, true},
		{"openai/gpt-4o-mini", Usage{Input: 100}, 15, true},
		{"gpt-5-nano", Usage{Cached: 100}, 1, true}, // 0.5 millionths round up

		// The long-context tariff starts behind the threshold and counts every
		// input class.
		{"gpt-6-sol", Usage{Input: 2000, Cached: 270_000}, 4000 + 54_000, true},
		{"gpt-6-sol", Usage{Input: 2001, Cached: 270_000, Output: 10}, 8004 + 108_000 + 150, true},
		{"claude-haiku-5-5", Usage{Input: 100_000, Output: 1000}, 10_000 + 500, true},
		{"claude-haiku-5-5", Usage{Input: 100_001, Output: 1000}, 50_001 + 2500, true},

		// Other models are not priced by their relatives.
		{"gpt-5-pro", small, 0, false},
		{"gpt-5.9", small, 0, false},
		{"claude-opus-4-9", small, 0, false},
		{"claude-opus", small, 0, false},
		{"llama-3.3-70b", small, 0, false},
		{"20250101", small, 0, false},
		{"", small, 0, false},
	} {
		micros, ok := Cost(c.model, c.use)
		if micros != c.micros || ok != c.ok {
			t.Errorf("Cost(%q, %+v) = %d, %v; want %d, %v", c.model, c.use, micros, ok, c.micros, c.ok)
		}
	}
}

// A slip of the pen in the table shows as a family that breaks the order every
// provider keeps: reading the cache is cheapest, writing it costs at least a
// plain read, output costs most.
func TestPriceTableIsOrdered(t *testing.T) {
	for name, p := range priceTable() {
		if !(0 < p.Cached && p.Cached < p.Input && p.Input <= p.Write && p.Write < p.Output) {
			t.Errorf("%s: %+v", name, p)
		}
		if got, ok := PriceOf(name); !ok || got != p {
			t.Errorf("PriceOf(%q) does not find its own entry", name)
		}
	}
	if _, err := time.Parse(time.DateOnly, PricesAsOf); err != nil {
		t.Error(err)
	}
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		model string
		want  Tokens
	}{
		{"claude-opus-5-5", 1_000_000},
		{"claude-sonnet-4-6-20260217", 1_000_000},
		{"claude-opus-4-5-20251101", DefaultWindow},
		{"claude-haiku-4-5", DefaultWindow},
		{"gpt-5-codex", 400_000},
		{"gpt-6.1-sol", 1_050_000},
		{"gpt-4o-2024-08-06", 128_000},
		{"something-else", DefaultWindow},
	} {
		if got := Window(c.model); got != c.want {
			t.Errorf("Window(%q) = %d, want %d", c.model, got, c.want)
		}
	}
}

// Each class of tokens has its own price: a cache read is never billed as input.
func TestP72_P66_P45_ClassesAreBilledApart(t *testing.T) {
	u := Usage{Input: 1_000, Cached: 100_000, CacheWrite: 2_000, Output: 500}
	p := Price{Input: 3, Cached: 0.3, Write: 3.75, Output: 15}
	if got, want := p.Micros(u), int64(3_000+30_000+7_500+7_500); got != want {
		t.Errorf("%d millionths, want %d", got, want)
	}
	parts := p.Micros(Usage{Input: u.Input}) + p.Micros(Usage{Cached: u.Cached}) + p.Micros(Usage{CacheWrite: u.CacheWrite}) + p.Micros(Usage{Output: u.Output})
	if got := p.Micros(u); got != parts {
		t.Errorf("the whole is %d, its parts are %d", got, parts)
	}
	if sum := u.Add(u); p.Micros(sum) != 2*p.Micros(u) || sum.Total() != 2*u.Total() {
		t.Errorf("twice it is %+v", sum)
	}
	if _, ok := Cost("a-model-nobody-knows", u); ok {
		t.Error("an unknown model has a price")
	}
}
