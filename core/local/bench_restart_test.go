//go:build bench

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/usage"
)

// restart fills turn by turn, restarts, restores exactly once, repeats warm, and
// computes the same prompt from nothing.
func (b *kvBench) restart() {
	where, talk := b.home(), b.talk
	h := open(b.t, where, b.settings)
	for i := 2; i <= len(talk); i += 2 {
		b.ask(h, "fill", 32, talk[:i])
	}
	want := b.ask(h, "resident", 32, talk)
	h.close()
	began := time.Now()
	h = open(b.t, where, b.settings)
	ready := time.Since(began)
	eligible := h.stableTokens(talk)
	got := b.ask(h, "restore", 32, talk)
	fills := h.tier.Status().Activity.Fills
	var warm []float64
	for range 5 {
		warm = append(warm, b.ask(h, "warm", 32, talk).FirstMs)
	}
	h.close()
	h = open(b.t, b.home(), b.settings)
	cold := b.ask(h, "cold", 32, talk)
	h.close()
	ratio, share := cold.FirstMs/got.FirstMs, float64(got.Receipt.Restored)/float64(min(eligible, kv.Tokens(got.Prompt-1)))
	b.figure("first_ms", map[string]any{"cold": cold.FirstMs, "restored": got.FirstMs, "resident": want.FirstMs, "warm_p50": median(warm)})
	b.figure("tokens", map[string]any{"prompt": got.Prompt, "eligible": eligible, "restored": got.Receipt.Restored})
	b.figure("ready_s", ready.Seconds())
	b.gate("length of the prompt", fmt.Sprintf("%d tokens", b.tokens), fmt.Sprintf("%d tokens", got.Prompt), got.Prompt >= int64(b.tokens))
	b.gate("restored from disk", "disk, one fill", fmt.Sprintf("%s, %d fills", got.Receipt.Source, fills), got.Receipt.Source == usage.FromDisk && fills == 1)
	b.gate("faster to first token", "10.0x", fmt.Sprintf("%.1fx", ratio), ratio >= 10)
	b.gate("share of the eligible prefix", "98.0 %", fmt.Sprintf("%.1f %%", 100*share), share >= 0.98)
	b.gate("output equal to the uninterrupted run", "equal", fmt.Sprint(got.Text == want.Text), got.Text == want.Text)
}

// amplification grows conversations by unaligned turns. One engine serves all of
// them: finding out what it can do is no part of this.
func (b *kvBench) amplification() {
	s := b.settings
	s.Slots, s.Context = 1, amplifiedContext
	where := b.home()
	b.figure("engine_arguments", s.Normal().Args("SLOTS"))
	turns, err := strconv.Atoi(env("HOLDFAST_BENCH_TURNS", "20"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, tokens := range []int{50, 300, 1000} {
		b.amplified(where, s, turns, tokens)
		if err := os.RemoveAll(filepath.Join(where.dir, "kv")); err != nil {
			b.t.Fatal(err)
		}
	}
}

// amplifiedContext holds twenty turns of a thousand tokens and some, and is what
// the models of the measurements were made for.
const amplifiedContext = 32_768

func (b *kvBench) amplified(where home, s engine.Settings, turns, tokens int) {
	h := open(b.t, where, s)
	talk := []map[string]any{say("system", "You keep the log of a harbour.")}
	var length int64
	for i := range turns {
		talk = append(talk, say("user", prose(b.words(tokens)+i%3, i)))
		r := b.ask(h, fmt.Sprintf("turns of %d", tokens), 3, talk)
		talk = append(talk, say("assistant", r.Text))
		length = r.Prompt
		h.settled()
	}
	h.close()
	worst, sum := 0.0, tier.Spilled{}
	for _, k := range h.kept {
		sum.Payload, sum.Storable, sum.Record, sum.Pack = sum.Payload+k.Payload, sum.Storable+k.Storable, sum.Record+k.Record, sum.Pack+k.Pack
		sum.Tokens = max(sum.Tokens, k.Tokens)
		if k.Storable > 0 {
			worst = max(worst, float64(k.Payload)/float64(k.Storable))
		}
	}
	total := float64(sum.Payload) / float64(max(sum.Storable, 1))
	perToken := float64(sum.Storable) / float64(max(sum.Tokens, 1))
	written := float64(sum.Pack) / max(perToken*float64(length), 1)
	name := fmt.Sprintf("%d turns of %d tokens", turns, tokens)
	b.figure(name, map[string]any{"spills": len(h.kept), "payload": sum.Payload, "storable": sum.Storable, "packs": sum.Pack,
		"manifests": sum.Record, "worst": worst, "cumulative": total,
		"prompt_tokens": length, "bytes_per_token": perToken, "packs_to_all_new_rows": written})
	b.gate(name+", worst spill", "1.10", fmt.Sprintf("%.3f", worst), worst <= 1.10 && len(h.kept) > 0)
	b.gate(name+", cumulative", "1.05", fmt.Sprintf("%.3f", total), total <= 1.05 && len(h.kept) > 0)
	b.gate(name+", packs to all new rows", "1.05", fmt.Sprintf("%.3f", written), written <= 1.05 && len(h.kept) > 0)
}
