package tier

import (
	"context"
	"errors"
	"slices"
	"testing"

	"holdfast/core/kv"
)

func TestSpillAndRestore(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 1000)
	out, err := l.spill(0, tokens)
	must(t, err)
	if out.Tokens != 960 || out.Payload != 15*32*kib {
		t.Errorf("spilled %+v", out)
	}
	l.exact()
	for _, c := range []struct {
		name   string
		tokens []kv.Token
		want   int
	}{
		{"K53 what was saved is found", tokens, 960},
		{"a longer prompt", append(talk(1, 1000), 1, 2, 3), 960},
		{"a shorter prompt", tokens[:500], 448},
		{"a prompt that leaves at 700", append(talk(1, 700), talk(2, 200)...), 640},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := l.restore(c.tokens)
			must(t, err)
			if h.Tokens != c.want {
				t.Errorf("restored %d tokens, want %d", h.Tokens, c.want)
			}
		})
	}
	if s := l.Status(); s.Activity.Fills != 4 || s.Activity.RestoresOK != 4 || s.Activity.Hits != 4 || s.Activity.Writes != 1 {
		t.Errorf("%+v", s.Activity)
	}
	l.exact()
}

func TestTailIsRestoredToTheLast(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 1000)
	_, err := l.spill(0, tokens)
	must(t, err)
	out, err := l.spill(0, tokens, func(r *Request) { r.Tail = true })
	must(t, err)
	if out.Tokens != 1000 || out.Payload != 40*512 {
		t.Errorf("the tail alone is new: %+v", out)
	}
	h, err := l.restore(append(tokens, 5))
	must(t, err)
	if h.Tokens != 1000 {
		t.Errorf("restored %d", h.Tokens)
	}
	if s := l.Status(); s.Usage.Manifests != 1 {
		t.Errorf("%d manifests: the older one is in the newer one", s.Usage.Manifests)
	}
	// Growing on leaves the tail behind.
	_, err = l.spill(0, append(tokens, talk(3, 400)...))
	must(t, err)
	l.exact()
	if s := l.Status(); s.Usage.Manifests != 1 || s.Usage.UniqueSegments != 21 {
		t.Errorf("%+v", s.Usage)
	}
}

func TestReopen(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 1000)
	_, err := l.spill(0, tokens)
	must(t, err)
	_, err = l.restore(tokens)
	must(t, err)
	must(t, l.Close(context.Background()))
	again := newLab(t, setup{dir: l.dir})
	t.Run("K61 KV51 the index is rebuilt at start", func(t *testing.T) {
		h, err := again.restore(tokens)
		must(t, err)
		if h.Tokens != 960 {
			t.Errorf("restored %d", h.Tokens)
		}
	})
	s := again.Status()
	if s.Usage.Manifests != 1 || s.Reconciliation.QuarantinedManifests != 0 || s.Reconciliation.RemovedOrphanBytes != 0 {
		t.Errorf("%+v %+v", s.Usage, s.Reconciliation)
	}
	again.exact()
}

func TestMisses(t *testing.T) {
	l := newLab(t, setup{limits: Limits{Budget: 64 * mib, Reserve: 1, MinTokens: 256}})
	tokens := talk(1, 1000)
	_, err := l.spill(0, tokens)
	must(t, err)
	short := Query{Model: model(1), State: state(1), Tokens: tokens[:200]}
	for _, c := range []struct {
		name string
		q    Query
		want kv.MissReason
	}{
		{"never seen", Query{Model: model(1), State: state(1), Tokens: talk(9, 900)}, kv.MissNeverSeen},
		{"below min_tokens", short, kv.MissBelowMinTokens},
		{"shares less than min_tokens", Query{Model: model(1), State: state(1), Tokens: append(talk(1, 150), talk(4, 500)...)}, kv.MissBelowMinTokens},
		{"KV30 resident is longer", Query{Model: model(1), State: state(1), Tokens: tokens, Resident: 970}, kv.MissResidentIsLonger},
		{"KV20 no digest of the weights", Query{State: state(1), Tokens: tokens}, kv.MissNoWeights},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := l.Status().Activity.Misses[c.want]
			if h := l.Lookup(c.q); h.Found() || h.Miss != c.want {
				t.Errorf("%+v", h)
			}
			if after := l.Status().Activity.Misses[c.want]; after != before+1 {
				t.Errorf("counted %d times", after-before)
			}
		})
	}
	t.Run("K15 K65 other settings of the same model", func(t *testing.T) {
		other := kv.State{Model: model(1), Engine: "llama-server", Build: "b1", Version: 4, CacheK: "q8_0", CacheV: "f16", Context: 8192, ByteOrder: "little"}.Identity()
		h := l.Lookup(Query{Model: model(1), State: other, Tokens: tokens})
		if h.Miss != kv.MissIdentity || len(h.Fields) != 2 || h.Fields[0] != "cache-type-k" || h.Fields[1] != "ctx-size" {
			t.Errorf("%+v", h)
		}
		if fields, at := l.Mismatch(); !slices.Equal(fields, h.Fields) || at.IsZero() {
			t.Errorf("remembered as %v at %v", fields, at)
		}
	})
	t.Run("KV30 a shorter resident prefix does not win", func(t *testing.T) {
		h := l.Lookup(Query{Model: model(1), State: state(1), Tokens: tokens, Resident: 200})
		if !h.Found() || h.Tokens != 960 {
			t.Errorf("%+v", h)
		}
		h.Release()
	})
	l.exact()
}

func TestOff(t *testing.T) {
	m, err := Open(context.Background(), Options{})
	must(t, err)
	if h := m.Lookup(Query{Model: model(1), State: state(1), Tokens: talk(1, 600)}); h.Miss != kv.MissTierOff {
		t.Errorf("%+v", h)
	}
	if err := m.Spill(Request{Model: model(1)}); !errors.Is(err, &Refusal{Reason: ReasonOff}) {
		t.Error(err)
	}
	if s := m.Status(); s.Effective.State != kv.StateOff || s.Inventory == nil {
		t.Errorf("%+v", s)
	}
	if _, err := m.Clear(context.Background(), nil, false); !errors.Is(err, ErrNotActive) {
		t.Error(err)
	}
	must(t, m.Close(context.Background()))
}
