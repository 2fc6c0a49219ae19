package engine

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// small is a model that is made in a moment.
func small(change func(*Model)) Model {
	m := Model{Name: "small", Arch: "llama", Layers: 2, Width: 32, Inner: 64, Heads: 2, KVHeads: 1, Vocab: 300, Context: 64, Seed: 1, RopeBase: 10_000}
	change(&m)
	return m
}

func bytesOf(t *testing.T, m Model) []byte {
	t.Helper()
	cache := t.TempDir()
	if err := Make(cache, m); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(File(cache, m.Name))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "engine", "models", "*.new")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return data
}

// The same model has the same bytes, of the same length where one value
// differs: what the engine cannot tell apart must be told apart by us.
func TestModelsAreReproducible(t *testing.T) {
	one := bytesOf(t, small(func(*Model) {}))
	if !bytes.Equal(one, bytesOf(t, small(func(*Model) {}))) {
		t.Error("the same model has other bytes")
	}
	for name, change := range map[string]func(*Model){
		"seed": func(m *Model) { m.Seed = 2 },
		"rope": func(m *Model) { m.RopeBase = 500_000 },
	} {
		if other := bytesOf(t, small(change)); bytes.Equal(one, other) || len(one) != len(other) {
			t.Errorf("%s: %d bytes, equal %v", name, len(other), bytes.Equal(one, other))
		}
	}
	for _, arch := range []string{"qwen2vl", "cohere2", "lfm2", "mamba"} {
		if data := bytesOf(t, small(func(m *Model) { m.Arch, m.Window = arch, 16 })); !bytes.Contains(data[:2048], []byte(arch+".block_count")) {
			t.Errorf("%s is not named in its own header", arch)
		}
	}
}

func TestHalf(t *testing.T) {
	for x, want := range map[float32]uint16{0: 0, 1: 0x3c00, -2: 0xc000, 0.5: 0x3800, 65504: 0x7bff, 1.0 / 3: 0x3555, 1e-9: 0} {
		if got := half(x); got != want {
			t.Errorf("%v is %04x, want %04x", x, got, want)
		}
	}
	if half(float32(math.Copysign(0, -1))) != 0x8000 {
		t.Error("the sign of zero is lost")
	}
}

// Only printable text can be sampled, so that a reply never ends by chance.
func TestVocabulary(t *testing.T) {
	v := learn(1000)
	if len(v.tokens) != 1000 || len(v.merges) == 0 {
		t.Fatalf("%d tokens, %d merges", len(v.tokens), len(v.merges))
	}
	for _, special := range []string{"<|im_end|>", "<|begin|>"} {
		if v.printable(v.id[special]) {
			t.Errorf("%s can be sampled", special)
		}
	}
	again := learn(1000)
	for i := range v.tokens {
		if v.tokens[i] != again.tokens[i] {
			t.Fatalf("token %d is %q, then %q", i, v.tokens[i], again.tokens[i])
		}
	}
}
