package engine

import (
	"fmt"
	"os"
	"path/filepath"
)

// Model is what a generated model looks like. The same Model gives the same
// bytes on every machine, so its digest may stand in a report.
type Model struct {
	Name string
	// Arch is llama, qwen2vl (three-part positions), cohere2 (sliding window),
	// lfm2 (convolution and attention blocks in turn) or mamba (no attention).
	Arch                                 string
	Layers, Width, Inner, Heads, KVHeads int
	Vocab                                int // tokens
	Context                              int // trained context, tokens
	Window                               int // sliding window, tokens
	Seed                                 uint64
	RopeBase                             float32
}

// attentionEvery is how often a hybrid model has an attention block.
const attentionEvery = 2

// tiny is a model of a million weights: a forward pass of a test's prompt takes
// a fraction of a second on one slow core.
func tiny(name string) Model {
	return Model{Name: name, Arch: "llama", Layers: 4, Width: 128, Inner: 384, Heads: 4, KVHeads: 2,
		Vocab: 2048, Context: 8192, Seed: 1, RopeBase: 10_000}
}

// Models are all models the tests use, smallest first. Those that differ from
// tiny in one value only make files that the engine cannot tell apart.
func Models() []Model {
	kinds := map[string]string{"mrope": "qwen2vl", "hybrid": "lfm2", "recurrent": "mamba"}
	models := []Model{tiny("tiny")}
	for _, name := range []string{"mrope", "hybrid", "recurrent"} {
		m := tiny(name)
		m.Arch = kinds[name]
		models = append(models, m)
	}
	window, weights, rope, agent := tiny("window"), tiny("weights"), tiny("rope"), tiny("agent")
	window.Arch, window.Window = "cohere2", 64
	weights.Seed = 2
	rope.RopeBase = 500_000
	// agent reads the long first request of a coding agent on two slow cores.
	agent.Layers, agent.Width, agent.Inner, agent.Heads, agent.KVHeads = 2, 64, 128, 2, 1
	agent.Vocab, agent.Context = 8192, 65_536
	return append(models, window, weights, rope, agent)
}

// Bench is the model of the measurements: 32 KiB of attention state a token,
// like a small real model, and some 240 million weights.
func Bench() Model {
	return Model{Name: "bench", Arch: "llama", Layers: 16, Width: 1024, Inner: 3584, Heads: 16, KVHeads: 8,
		Vocab: 8192, Context: 32_768, Seed: 1, RopeBase: 10_000}
}

// File is where a model lies in the cache folder.
func File(cache, name string) string { return filepath.Join(cache, "engine", "models", name+".gguf") }

// Make writes the model into the cache folder unless it is there. A file under
// its final name is always whole.
func Make(cache string, m Model) error {
	file := File(cache, m.Name)
	stamp := fmt.Sprintf("%d %+v\n", generation, m)
	if have, err := os.ReadFile(file + ".stamp"); err == nil && string(have) == stamp {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := write(file+".new", m); err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	return os.WriteFile(file+".stamp", []byte(stamp), 0o644)
}

// generation is raised when the generator writes other bytes for the same Model.
const generation = 1
