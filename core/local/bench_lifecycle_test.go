//go:build bench

package local

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/usage"
)

// identical is how many requests come at once in a wave.
const identical = 100

// lifecycle walks a store through everything that happens to it. What the engine
// answers without a tier comes first: with one it must be the same.
func (b *kvBench) lifecycle() {
	talk := []map[string]any{say("user", prose(b.words(500), 1))}
	grown := append(slices.Clone(talk), say("assistant", "It stands."), say("user", prose(b.words(300), 2)))
	off := b.without(b.settings)
	want := []string{b.ask(off, "off", 8, talk).Text, b.ask(off, "off", 8, grown).Text}
	off.close()

	where := b.home()
	b.growth(where, talk, grown, want)
	h := open(b.t, where, b.settings)
	r := b.ask(h, "restart", 8, grown)
	a := h.tier.Status().Activity
	b.gate("restart restores", "disk, 1 fill, bytes read", fmt.Sprintf("%s, %d fills, %d bytes", r.Receipt.Source, a.Fills, a.BytesRead),
		r.Receipt.Source == usage.FromDisk && a.Fills == 1 && a.BytesRead > 0)
	b.gate("output after a restart", want[1], r.Text, r.Text == want[1])
	h.close()
	h = open(b.t, where, b.settings)
	b.waves(h, grown, want[1])
	b.owners(h)
	b.lowSpace(h)
	h.close()
}

// growth fills an empty store and repeats a prompt in the same process.
func (b *kvBench) growth(where home, talk, grown []map[string]any, want []string) {
	h := open(b.t, where, b.settings)
	defer h.close()
	got := []string{b.ask(h, "empty root", 8, talk).Text}
	h.settled()
	first := h.tier.Status().Activity
	got = append(got, b.ask(h, "growth", 8, grown).Text)
	h.settled()
	second := h.tier.Status().Activity
	b.gate("empty root and growth write", "a write each", fmt.Sprintf("%d, then %d writes", first.Writes, second.Writes-first.Writes), first.Writes > 0 && second.Writes > first.Writes)
	b.gate("output with the tier is the one without", "equal", fmt.Sprintf("%q", got), slices.Equal(got, want))
	b.ask(h, "same-process repeat", 8, grown)
	a := h.tier.Status().Activity
	b.gate("same-process repeat reads nothing", "0 fills, 0 bytes", fmt.Sprintf("%d fills, %d bytes", a.Fills, a.BytesRead), a.Fills == 0 && a.BytesRead == 0)
}

// waves send one prompt many times at once: one that is stored, and after a clear
// one that nobody has seen.
func (b *kvBench) waves(h *house, stored []map[string]any, want string) {
	texts := b.wave(h, "identical fill wave", 8, stored)
	h.settled()
	a := h.tier.Status().Activity
	b.gate("identical fill wave", "1 fill, 0 writes", fmt.Sprintf("%d fills, %d writes", a.Fills, a.Writes), a.Fills == 1 && a.Writes == 0)
	b.gate("identical fill wave, output", "all as without the tier", fmt.Sprintf("%d texts", len(texts)), len(texts) == 1 && texts[0] == want)
	cleared, err := h.tier.Clear(context.Background(), nil, false)
	if err != nil {
		b.t.Error(err)
	}
	b.figure("cleared", cleared)
	texts = b.wave(h, "identical record wave", 4, []map[string]any{say("user", prose(b.words(400), 7))})
	h.settled()
	c := h.tier.Status().Activity
	// The slots still hold what was cleared from the disk; saving it again is no
	// write of the wave.
	b.gate("identical record wave", "1 write of its own", fmt.Sprint(b.writesOf(h, 400)), b.writesOf(h, 400) == 1)
	b.figure("record_wave", map[string]any{"writes": c.Writes - a.Writes, "texts": len(texts)})
}

// writesOf counts the stored states of the wave's length, in tokens.
func (b *kvBench) writesOf(h *house, tokens int) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.kept {
		if k.Tokens > tokens/2 && k.Tokens < tokens+2*int(kv.BlockTokens) {
			n++
		}
	}
	return n
}

// wave gives the different texts that came.
func (b *kvBench) wave(h *house, phase string, n int, messages []map[string]any) []string {
	texts := make([]string, identical)
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() { texts[i] = b.ask(h, phase, n, messages).Text })
	}
	all.Wait()
	slices.Sort(texts)
	return slices.Compact(texts)
}

// owners clears and prunes under traffic and times the status meanwhile, then
// clears until nothing is left.
func (b *kvBench) owners(h *house) {
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var slowest time.Duration
	target, rounds := kv.Bytes(0), 0
	work.Go(func() {
		for ; ctx.Err() == nil; rounds++ {
			if _, err := h.tier.Prune(ctx, tier.PruneRequest{Target: &target}); err != nil && ctx.Err() == nil {
				b.t.Errorf("prune: %v", err)
			}
			if _, err := h.tier.Clear(ctx, nil, false); err != nil && ctx.Err() == nil {
				b.t.Errorf("clear: %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	work.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			h.tier.Status()
			slowest = max(slowest, time.Since(began))
			time.Sleep(5 * time.Millisecond)
		}
	})
	b.talks(h, "prune and clear under traffic", 4, 3, 200)
	stop()
	work.Wait()
	b.gate("status under prune and clear", "100 ms", fmt.Sprintf("%.1f ms", ms(slowest)), slowest < 100*time.Millisecond)
	h.settled()
	left := b.emptied(h)
	b.gate("cleared until empty", "0 files", fmt.Sprintf("%d files, %d rounds under traffic", left, rounds), left == 0 && rounds > 0)
}

// emptied clears until nothing is left: what idle slots hold may be saved again
// in between.
func (b *kvBench) emptied(h *house) (left int) {
	for range 10 {
		if _, err := h.tier.Clear(context.Background(), nil, false); err != nil {
			b.t.Error(err)
		}
		files, err := filepath.Glob(filepath.Join(h.home.dir, "kv", "*s", "*"))
		if err != nil {
			b.t.Error(err)
		}
		if left = len(files); left == 0 {
			break
		}
	}
	return left
}

// lowSpace asks for more reserve than the disk has, and gives it back.
func (b *kvBench) lowSpace(h *house) {
	l := limits()
	l.Reserve = 1 << 60
	if err := h.tier.SetLimits(context.Background(), l); err != nil {
		b.t.Log(err) // it says that there is no room
	}
	before := h.tier.Status().Activity.Writes
	b.ask(h, "low space", 4, []map[string]any{say("user", prose(b.words(400), 31))})
	h.settled()
	low := h.tier.Status()
	b.gate("low space writes nothing", "0 writes, "+string(kv.StateReadOnlyLowSpace), fmt.Sprintf("%d writes, %s", low.Activity.Writes-before, low.Effective.State),
		low.Activity.Writes == before && low.Effective.State == kv.StateReadOnlyLowSpace)
	if err := h.tier.SetLimits(context.Background(), limits()); err != nil {
		b.t.Error(err)
	}
	b.ask(h, "low space over", 4, []map[string]any{say("user", prose(b.words(400), 32))})
	h.settled()
	over := h.tier.Status()
	b.gate("low space recovers", "active, a write", fmt.Sprintf("%s, %d writes", over.Effective.State, over.Activity.Writes-before),
		over.Effective.State == kv.StateActive && over.Activity.Writes > before)
}

// talks has n clients talk at once, each in a conversation of its own that begins
// with so many tokens.
func (b *kvBench) talks(h *house, phase string, n, turns, tokens int) (out []sample) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			talk := []map[string]any{say("user", prose(b.words(tokens), 40+i))}
			for turn := range turns {
				r := b.askAs(h, fmt.Sprintf("%s %d", phase, i), phase, 4, talk)
				mu.Lock()
				out = append(out, r)
				mu.Unlock()
				talk = append(talk, say("assistant", "It stands."), say("user", prose(b.words(60), 40+i+turn)))
			}
		})
	}
	all.Wait()
	return out
}
