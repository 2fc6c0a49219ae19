package engine

import (
	"encoding/binary"
	"strconv"

	"holdfast/core/kv"
)

// Settings are how a managed engine is started. The zero value of a field is
// the engine's own default.
type Settings struct {
	Command, Model string
	Slots          int
	// Context of one slot, in tokens; 0 takes the model's own.
	Context kv.Tokens
	// CacheK and CacheV are the types of the state's rows; f16 when empty.
	CacheK, CacheV string
	// NoFlash turns flash attention off; it is fixed either way, never automatic,
	// since it decides the layout of the state.
	NoFlash bool
	Threads int
	// MicroBatch is the number of tokens computed at once. Batches are as long: in
	// one of several everything else, a decoding slot, a save, a request, waits.
	MicroBatch int
	RoPE       kv.RoPE
}

// Defaults: one conversation and one side request at a time, and the engine's
// usual micro-batch, written down since it decides the rounding of results.
const (
	defaultSlots      = 2
	defaultMicroBatch = 512
)

// Normal fills in what is not set.
func (s Settings) Normal() Settings {
	if s.Command == "" {
		s.Command = "llama-server"
	}
	if s.Slots <= 0 {
		s.Slots = defaultSlots
	}
	if s.MicroBatch <= 0 {
		s.MicroBatch = defaultMicroBatch
	}
	if s.CacheK == "" {
		s.CacheK = "f16"
	}
	if s.CacheV == "" {
		s.CacheV = "f16"
	}
	return s
}

// Args is the command line. Own streams and no RAM cache, or every new request
// would empty the idle slots; no reuse by shifting, which changes rows in place.
func (s Settings) Args(handover string) []string {
	flash := "on"
	if s.NoFlash {
		flash = "off"
	}
	a := []string{
		"-m", s.Model, "--host", "127.0.0.1", "--port", "0", "--no-ui",
		"-np", strconv.Itoa(s.Slots), "-no-kvu", "--cache-ram", "0", "--cache-reuse", "0", "-fa", flash,
		"-ctk", s.CacheK, "-ctv", s.CacheV, "-ub", strconv.Itoa(s.MicroBatch), "-b", strconv.Itoa(s.MicroBatch), "-c", strconv.FormatInt(int64(s.Context)*int64(s.Slots), 10),
		"--slot-save-path", handover,
	}
	if s.Threads > 0 {
		a = append(a, "-t", strconv.Itoa(s.Threads))
	}
	return append(a, ropeArgs(s.RoPE)...)
}

func ropeArgs(r kv.RoPE) (args []string) {
	for _, f := range [][2]string{
		{"--rope-scaling", r.Scaling}, {"--rope-freq-base", r.FreqBase}, {"--rope-freq-scale", r.FreqScale},
		{"--yarn-orig-ctx", r.YarnOrigContext}, {"--yarn-ext-factor", r.YarnExt}, {"--yarn-attn-factor", r.YarnAttention},
		{"--yarn-beta-slow", r.YarnBetaSlow}, {"--yarn-beta-fast", r.YarnBetaFast},
	} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	return args
}

// StateVersion is the version of the engine's slot files.
const StateVersion = 4

// State is what decides the bytes of this engine's states. The context is the
// engine's resolved number, so that "auto" means the same after a restart.
func (s Settings) State(model kv.ModelIdentity, p Props) kv.State {
	flash := kv.On
	if s.NoFlash {
		flash = kv.Off
	}
	return kv.State{
		Model: model, Engine: "llama-server", Build: p.Build, Version: StateVersion,
		CacheK: s.CacheK, CacheV: s.CacheV, FlashAttention: flash, RoPE: s.RoPE, SWAFull: kv.Off, UnifiedKV: kv.Off,
		Context: p.Defaults.Context, ByteOrder: ByteOrder(),
	}
}

// ByteOrder is this machine's, in which the engine writes its states.
func ByteOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little"
	}
	return "big"
}
