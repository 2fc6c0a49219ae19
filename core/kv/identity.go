package kv

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"holdfast/core/content"
)

// Errors of identities. ErrNoWeights closes the tier for a model; the other two
// are a person's mistake.
var (
	ErrNoWeights       = errors.New("kv: the digest of the model's weights is not known, so its states cannot be told from another model's")
	ErrBlankIdentity   = errors.New("kv: a model identity is needed, and a blank one would mean every model")
	ErrUnknownIdentity = errors.New("kv: not a model identity; it reads blake3: and 64 hexadecimal digits, as kv status lists them")
)

// ModelIdentity says which model as a whole computed a state.
type ModelIdentity content.ID

// prefix of every printed identity: the algorithm.
const identityPrefix = "blake3:"

func (m ModelIdentity) String() string { return identityPrefix + content.ID(m).String() }

// MarshalText writes the printed form, for JSON.
func (m ModelIdentity) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the printed form.
func (m *ModelIdentity) UnmarshalText(b []byte) (err error) {
	*m, err = ParseModelIdentity(string(b))
	return err
}

// ParseModelIdentity reads what String writes. Space around it is forgiven, a
// blank or partial identity is not: it would match more than was meant.
func ParseModelIdentity(s string) (ModelIdentity, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return ModelIdentity{}, ErrBlankIdentity
	}
	digits, ok := strings.CutPrefix(s, identityPrefix)
	if !ok {
		return ModelIdentity{}, ErrUnknownIdentity
	}
	id, err := content.Parse(digits)
	if err != nil || digits != id.String() {
		return ModelIdentity{}, ErrUnknownIdentity
	}
	return ModelIdentity(id), nil
}

// Adapter is a LoRA or control vector applied to a model.
type Adapter struct {
	Digest content.ID // of the file's bytes
	Scale  float64
}

// Model is what a model is made of. Names and paths are left out on purpose: a
// renamed file is the same model, a replaced one is not.
type Model struct {
	Weights content.ID // of the GGUF's bytes; required
	LoRA    []Adapter  // in any order
	Control []Adapter  // control vectors, in any order
	MMProj  content.ID // zero when there is none
}

// Identity digests the model's parts.
func (m Model) Identity() (ModelIdentity, error) {
	if m.Weights.IsZero() {
		return ModelIdentity{}, ErrNoWeights
	}
	fields := []fieldValue{
		{"weights", m.Weights[:]},
		{"lora", adapters(m.LoRA)},
		{"control", adapters(m.Control)},
		{"mmproj", present(m.MMProj)},
	}
	return ModelIdentity(digestFields("holdfast kv model 1", fields)), nil
}

func present(id content.ID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// adapters is nil for none, and the same bytes for the same set in any order.
func adapters(list []Adapter) []byte {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Adapter) int {
		return cmp.Or(slices.Compare(a.Digest[:], b.Digest[:]), cmp.Compare(a.Scale, b.Scale))
	})
	var out []byte
	for _, a := range sorted {
		out = append(out, a.Digest[:]...)
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(a.Scale))
	}
	return out
}

// Switch is a setting that may be on, off, or not known to be either.
type Switch uint8

// The values of a Switch; Unset is hashed as absent, unlike Off.
const (
	Unset Switch = iota
	Off
	On
)

func (s Switch) String() string { return [...]string{"", "off", "on"}[min(s, On)] }

// RoPE are overrides of the model's own position encoding, as the engine was
// told them; "" is absent.
type RoPE struct {
	Scaling, FreqBase, FreqScale                                        string
	YarnOrigContext, YarnExt, YarnAttention, YarnBetaSlow, YarnBetaFast string
}

// State is everything beside the tokens that decides what the bytes of a state
// are and mean. Paths, ports, pids, slots and display names are not in it:
// they change between runs and would make every restart a miss.
type State struct {
	Model          ModelIdentity
	Engine         string // "llama-server"
	Build          string // as the engine reports it
	Version        uint32 // of the engine's state format
	CacheK, CacheV string // "f16", "q8_0", …
	FlashAttention Switch
	RoPE           RoPE
	SWAFull        Switch
	UnifiedKV      Switch
	Context        Tokens // per slot, resolved to a number; never "auto"
	ByteOrder      string // "little"
}

// values is the order and the names of an identity's fields: the names are what
// a mismatch is shown with. Both are part of the format.
func (s State) values() []fieldValue {
	text := func(tag, v string) fieldValue { return fieldValue{tag, []byte(v)} }
	number := func(tag string, v uint64) fieldValue {
		if v == 0 {
			return fieldValue{tag, nil}
		}
		return fieldValue{tag, []byte(strconv.FormatUint(v, 10))}
	}
	return []fieldValue{
		{"model", s.Model[:]},
		text("engine", s.Engine), text("build", s.Build), number("state-version", uint64(s.Version)),
		text("cache-type-k", s.CacheK), text("cache-type-v", s.CacheV), text("flash-attn", s.FlashAttention.String()),
		text("rope-scaling", s.RoPE.Scaling), text("rope-freq-base", s.RoPE.FreqBase), text("rope-freq-scale", s.RoPE.FreqScale),
		text("yarn-orig-ctx", s.RoPE.YarnOrigContext), text("yarn-ext-factor", s.RoPE.YarnExt), text("yarn-attn-factor", s.RoPE.YarnAttention),
		text("yarn-beta-slow", s.RoPE.YarnBetaSlow), text("yarn-beta-fast", s.RoPE.YarnBetaFast),
		text("swa-full", s.SWAFull.String()), text("kv-unified", s.UnifiedKV.String()),
		number("ctx-size", uint64(s.Context)), text("byte-order", s.ByteOrder),
	}
}

// Identity digests the state's fields one by one and as a whole.
func (s State) Identity() StateIdentity {
	var id StateIdentity
	for _, v := range s.values() {
		id.Fields = append(id.Fields, FieldDigest{v.tag, v.digest()})
	}
	return id
}

// StateIdentity answers "may these bytes be imported here?". It keeps a digest
// per field, so that two identities that differ can say in what.
type StateIdentity struct {
	Fields []FieldDigest
}

// FieldDigest is one field of a StateIdentity: its name, and its value digested.
type FieldDigest struct {
	Tag    string
	Digest content.ID
}

// ID is the digest of all fields: what chain keys and claims are made of.
func (s StateIdentity) ID() StateID {
	b := []byte("holdfast kv state 1\x00")
	for _, f := range s.Fields {
		b = appendText(b, f.Tag)
		b = append(b, f.Digest[:]...)
	}
	return StateID(content.Of(b))
}

// StateID is a StateIdentity in 32 bytes.
type StateID content.ID

func (id StateID) String() string { return identityPrefix + content.ID(id).String() }

// MarshalText writes the printed form, for JSON.
func (id StateID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Differs names the fields in which s and t differ, in the order of s.
func (s StateIdentity) Differs(t StateIdentity) []string {
	var names []string
	for _, f := range s.Fields {
		if !slices.Contains(t.Fields, f) {
			names = append(names, f.Tag)
		}
	}
	for _, f := range t.Fields {
		same := func(g FieldDigest) bool { return g.Tag == f.Tag }
		if !slices.ContainsFunc(s.Fields, same) {
			names = append(names, f.Tag)
		}
	}
	return names
}

// fieldValue is one tagged input of an identity; an empty value is absent.
type fieldValue struct {
	tag   string
	value []byte
}

// digest covers the tag, whether there is a value, its length and its bytes, so
// that no two fields can stand for each other.
func (f fieldValue) digest() content.ID {
	b := appendText(nil, f.tag)
	if len(f.value) == 0 {
		return content.Of(append(b, 0))
	}
	b = append(b, 1)
	return content.Of(appendText(b, string(f.value)))
}

func digestFields(domain string, fields []fieldValue) content.ID {
	b := appendText(nil, domain)
	for _, f := range fields {
		d := f.digest()
		b = append(appendText(b, f.tag), d[:]...)
	}
	return content.Of(b)
}

// appendText writes a length and the bytes it counts.
func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// NextKey extends the chain key of a prefix by the next 64 tokens. The first
// block's previous key is the zero key.
func (id StateID) NextKey(prev ChainKey, block []Token) ChainKey {
	var buf [len(id) + len(prev) + 4*BlockTokens]byte
	b := append(append(buf[:0], id[:]...), prev[:]...)
	for _, t := range block {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return ChainKey(content.Of(b))
}

// Chain returns the chain keys of every whole block of tokens.
func (id StateID) Chain(tokens []Token) []ChainKey {
	keys := make([]ChainKey, 0, len(tokens)/BlockTokens)
	var key ChainKey
	for block := range slices.Chunk(tokens, BlockTokens) {
		if len(block) < BlockTokens {
			break
		}
		key = id.NextKey(key, block)
		keys = append(keys, key)
	}
	return keys
}

// Class says whether a codec gives back the bytes it was given.
type Class uint8

// The classes of codecs. A lossy state never answers an exact lookup.
const (
	Exact Class = iota + 1
	Lossy
)

// Codec says how stored bytes stand for the engine's. Every manifest names one;
// none is ever assumed, or stripping the name would turn packed bytes into raw.
type Codec struct {
	Name        string
	Version     uint32
	Class       Class
	Calibration content.ID // of a lossy codec; zero for an exact one
}

// Raw is the only codec there is: the engine's bytes as they are.
func Raw() Codec { return Codec{Name: "raw", Version: 1, Class: Exact} }

// ErrCodec refuses a codec that this program does not read.
var ErrCodec = errors.New("kv: unknown codec")

// Check refuses every codec but raw, before a byte of its data is read.
func (c Codec) Check() error {
	if c == Raw() {
		return nil
	}
	return fmt.Errorf("%w: %q version %d", ErrCodec, c.Name, c.Version)
}
