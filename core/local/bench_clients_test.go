//go:build bench

package local

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"holdfast/core/kv"
	"holdfast/core/tier"
)

// rounds is how often off and on take turns, so that neither has the better half
// of the machine's day.
const rounds = 2

// clients compares one, four and eight clients with the tier off and on, in
// turns: with it nothing is computed that would not be without.
func (b *kvBench) clients() {
	for _, n := range []int{1, 4, 8} {
		got := map[bool]*load{false: {}, true: {}}
		for range rounds {
			for _, on := range []bool{false, true} {
				h, name := b.without(b.settings), "off"
				if on {
					h.close()
					h, name = open(b.t, b.home(), b.settings), "on"
				}
				got[on].add(b.talks(h, fmt.Sprintf("%d clients, %s", n, name), n, 3, 400))
				h.close()
			}
		}
		off, on := got[false], got[true]
		b.figure(fmt.Sprintf("%d clients", n), map[string]any{"off": off.figures(), "on": on.figures()})
		b.gate(fmt.Sprintf("%d clients, tokens computed", n), "no more than off", fmt.Sprintf("%d, off %d", on.computed, off.computed), on.computed <= off.computed)
		ratio := on.sum() / max(off.sum(), 1)
		b.gate(fmt.Sprintf("%d clients, time to first token to off", n), "1.05", fmt.Sprintf("%.2f", ratio), ratio <= 1.05)
	}
}

// load is what some clients saw.
type load struct {
	first, gaps      []float64
	computed, prompt int64
}

func (l *load) add(all []sample) {
	for _, s := range all {
		l.first, l.gaps = append(l.first, s.FirstMs), append(l.gaps, s.Gaps...)
		l.computed, l.prompt = l.computed+s.Prompt-s.Cached, l.prompt+s.Prompt
	}
}

func (l *load) sum() (ms float64) {
	for _, v := range l.first {
		ms += v
	}
	return ms
}

func (l *load) figures() map[string]any {
	return map[string]any{"first_ms_p50": median(l.first), "first_ms_p95": quantile(l.first, 0.95), "first_ms_max": quantile(l.first, 1),
		"gap_ms_p50": median(l.gaps), "gap_ms_p99": quantile(l.gaps, 0.99), "prompt_tokens": l.prompt, "computed_tokens": l.computed}
}

// latency measures what the tier costs who needs nothing from it: a prompt that
// its slot holds already, and a client that is given tokens while another
// conversation is saved.
func (b *kvBench) latency() {
	h := open(b.t, b.home(), b.settings)
	defer h.close()
	b.tax(h)
	b.besideSaves(h)
}

// tax repeats a prompt on one engine, with and without the tier in turns.
func (b *kvBench) tax(h *house) {
	o := h.driver.o
	o.Tier = nil
	plain := &house{t: b.t, driver: New(o)}
	defer plain.driver.Close()
	talk := []map[string]any{say("user", prose(b.words(1000), 3))}
	edited := []map[string]any{say("user", talk[0]["content"].(string)+"now")}
	b.ask(h, "warm hit, first", 1, talk)
	var on, off, tax, rendered, placing []float64
	for range 40 {
		h.settled()
		without := b.ask(plain, "warm hit, off", 1, talk).FirstMs
		with := b.ask(h, "warm hit, on", 1, talk)
		off, on, tax, placing = append(off, without), append(on, with.FirstMs), append(tax, with.FirstMs-without), append(placing, with.Receipt.Ms)
	}
	for i := range 20 { // another text each time: it must be rendered to find its slot
		h.settled()
		rendered = append(rendered, b.ask(h, "warm hit, rendered", 1, [][]map[string]any{talk, edited}[i%2]).Receipt.Ms)
	}
	b.figure("warm_hit_ms", map[string]any{"off_p50": median(off), "on_p50": median(on), "tax_p50": median(tax), "tax_p95": quantile(tax, 0.95),
		"placing_p50": median(placing), "placing_rendered_p50": median(rendered)})
	b.gate("warm-hit tax", "2 ms", fmt.Sprintf("%.2f ms", median(tax)), median(tax) <= 2)
}

// besideSaves times the tokens of a client, in turns without and with one save of
// another conversation beside it.
func (b *kvBench) besideSaves(h *house) {
	seconds, err := strconv.Atoi(env("HOLDFAST_BENCH_SECONDS", "60"))
	if err != nil {
		b.t.Fatal(err)
	}
	stretch := time.Duration(seconds) * time.Second
	b.askAs(h, "neighbour", "stall, neighbour", 1, []map[string]any{say("user", prose(b.words(1500), 5))})
	h.settled()
	if err := h.driver.flushSlot(context.Background(), h.identified(), b.neighbour(h.identified())); err != nil {
		b.t.Fatal(err) // its last rows would be saved in the middle, at rest
	}
	b.longestStall(h, max(stretch/10, 3*time.Second)) // a save becomes due within a second
	var quiet, busy []float64
	for range rounds {
		quiet = append(quiet, b.decode(h, "p99, no save", stretch, nil)...)
		busy = append(busy, b.decode(h, "p99, a save", stretch, func() { b.forgetStored(h) })...)
	}
	p99 := quantile(busy, 0.99) / max(quantile(quiet, 0.99), 0.001)
	b.figure("gaps", map[string]any{"p50_ms": median(quiet), "p99_ms": quantile(quiet, 0.99), "p99_with_save_ms": quantile(busy, 0.99),
		"gaps": len(quiet), "gaps_with_save": len(busy)})
	b.gate("p99 gap between tokens with a save to without", "1.05", fmt.Sprintf("%.3f", p99), p99 <= 1.05)
}

// saves is how many saves the longest stall of a client is taken from: one gap of
// one of them can be the host's as well as ours, so the median over all counts,
// and the worst stands beside it.
const saves = 12

// longestStall takes the longest gap between tokens in short stretches, in turns without
// and with one save, less the usual gap.
func (b *kvBench) longestStall(h *house, short time.Duration) {
	own, size := b.ownSave(h)
	var without, with []float64
	longest := func(gaps []float64) float64 { return quantile(gaps, 1) - median(gaps) }
	before := len(h.saved())
	for range saves {
		without = append(without, longest(b.decode(h, "stall, no save", short, nil)))
		with = append(with, longest(b.decode(h, "stall, a save", short, func() { b.forgetStored(h) })))
	}
	var megabytes float64
	kept := h.saved()[before:]
	for _, k := range kept {
		megabytes += float64(k.Pack) / 1e6 / float64(len(kept))
	}
	b.figure("stall", map[string]any{"own_save_ms": own, "state_mb": float64(size) / 1e6, "spilled_mb": megabytes, "saves": len(kept),
		"longest_ms": with, "longest_without_ms": without, "p50_ms": median(with), "worst_ms": quantile(with, 1),
		"p50_without_ms": median(without), "worst_without_ms": quantile(without, 1), "p50_ms_per_mb": median(with) / max(megabytes, 0.001)})
	b.gate("saves beside the client", fmt.Sprint(saves), fmt.Sprintf("%d of %.1f MB", len(kept), megabytes), len(kept) >= saves)
	b.gate("longest stall to the engine's own save, median of the saves", "2.0x", fmt.Sprintf("%.2fx (%.1f of %.1f ms; worst %.2fx, without a save %.2fx and %.2fx)",
		median(with)/own, median(with), own, quantile(with, 1)/own, median(without)/own, quantile(without, 1)/own), median(with) <= 2*own)
}

// ownSave is what the engine takes for saving the neighbour's slot while nothing
// else happens, in milliseconds and bytes.
func (b *kvBench) ownSave(h *house) (took float64, size kv.Bytes) {
	l := h.identified()
	var all []float64
	for range 5 {
		path, saved, err := save(context.Background(), l.client, h.hand, b.neighbour(l))
		if err != nil {
			b.t.Fatal(err)
		}
		all, size = append(all, ms(saved.Took())), saved.Bytes
		if err := os.Remove(path); err != nil {
			b.t.Fatal(err)
		}
	}
	return median(all), size
}

// neighbour is the slot whose conversation is saved.
func (b *kvBench) neighbour(l *life) int {
	for i := range l.slots.list {
		if s, ok := l.slots.peek(i); ok && s.convo == "neighbour" {
			return i
		}
	}
	b.t.Fatal("the neighbour has no slot")
	return 0
}

// forgetStored empties the store, so that what the idle slot holds is saved again
// within a moment.
func (b *kvBench) forgetStored(h *house) {
	if _, err := h.tier.Clear(context.Background(), nil, false); err != nil {
		b.t.Error(err)
	}
}

// decode has one client generate for so long and gives the gaps between its
// tokens; meanwhile runs a third into it.
func (b *kvBench) decode(h *house, phase string, d time.Duration, meanwhile func()) []float64 {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if meanwhile != nil {
		defer time.AfterFunc(d/3, meanwhile).Stop()
	}
	end := time.Now().Add(d)
	var gaps []float64
	for i := 0; time.Now().Before(end); i++ {
		s := b.askAs(h, "decoding", phase, decoded, []map[string]any{say("user", "Tell me of the harbour.")})
		gaps = append(gaps, s.Gaps...)
		if s.Error != "" || ctx.Err() != nil {
			break
		}
	}
	return gaps
}

// decoded is how many tokens a reply has: few enough to end a stretch near its
// time.
const decoded = 200

// saved copies what was kept so far.
func (h *house) saved() []tier.Spilled {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]tier.Spilled{}, h.kept...)
}
