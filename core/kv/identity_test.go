package kv

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"holdfast/core/content"
)

// Every field of State changes the identity and is the one field a mismatch
// names: a field that is added to the struct and forgotten here is found.
func TestEveryFieldOfAStateIsInItsIdentity(t *testing.T) {
	base := testState()
	seen := map[StateID]string{base.Identity().ID(): "base"}
	tags := map[string]bool{}
	for _, path := range leaves(reflect.TypeFor[State](), nil) {
		changed := base
		change(reflect.ValueOf(&changed).Elem().FieldByIndex(path))
		name := reflect.TypeFor[State]().FieldByIndex(path).Name
		id := changed.Identity()
		if other, ok := seen[id.ID()]; ok {
			t.Errorf("changing %s gives the identity of %s", name, other)
		}
		seen[id.ID()] = name
		names := base.Identity().Differs(id)
		if len(names) != 1 {
			t.Errorf("changing %s names %q", name, names)
			continue
		}
		tags[names[0]] = true
	}
	if len(tags) != len(base.Identity().Fields) {
		t.Errorf("%d of %d fields are reached", len(tags), len(base.Identity().Fields))
	}
}

// leaves are the paths of the fields that are not structs of fields.
func leaves(t reflect.Type, at []int) (out [][]int) {
	for i := range t.NumField() {
		path := append(slices.Clone(at), i)
		if t.Field(i).Type.Kind() == reflect.Struct {
			out = append(out, leaves(t.Field(i).Type, path)...)
			continue
		}
		out = append(out, path)
	}
	return out
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() ^ 1)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint((v.Uint() + 1) % 3)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// Values cannot move from field to field, and nothing equals something absent.
func TestFieldsDoNotAlias(t *testing.T) {
	a, b := testState(), testState()
	a.CacheK, a.CacheV = "q8_0", "f16"
	b.CacheK, b.CacheV = "f16", "q8_0"
	if a.Identity().ID() == b.Identity().ID() {
		t.Error("K and V types may be swapped")
	}
	a, b = testState(), testState()
	a.RoPE.FreqBase, b.RoPE.FreqScale = "1", "1"
	if got := a.Identity().Differs(b.Identity()); !slices.Equal(got, []string{"rope-freq-base", "rope-freq-scale"}) {
		t.Errorf("named %q", got)
	}
	a, b = testState(), testState()
	a.SWAFull, b.SWAFull = Unset, Off
	if a.Identity().ID() == b.Identity().ID() {
		t.Error("unknown equals off")
	}
}

func TestModelIdentity(t *testing.T) {
	lora := []Adapter{{named("one"), 1}, {named("two"), 0.5}}
	base := Model{Weights: named("weights"), LoRA: lora}
	identity := func(m Model) ModelIdentity {
		t.Helper()
		id, err := m.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	same := base
	same.LoRA = []Adapter{lora[1], lora[0]}
	if identity(base) != identity(same) {
		t.Error("the order of adapters counts")
	}
	for name, m := range map[string]Model{
		"other weights": {Weights: named("other"), LoRA: lora},
		"no adapters":   {Weights: named("weights")},
		"as control":    {Weights: named("weights"), Control: lora},
		"other scale":   {Weights: named("weights"), LoRA: []Adapter{lora[0], {named("two"), 0.25}}},
		"a projector":   {Weights: named("weights"), LoRA: lora, MMProj: named("p")},
	} {
		if identity(m) == identity(base) {
			t.Errorf("%s: the same identity", name)
		}
	}
	if _, err := (Model{LoRA: lora}).Identity(); !errors.Is(err, ErrNoWeights) {
		t.Errorf("without weights: %v", err)
	}
}

func TestParseModelIdentity(t *testing.T) {
	id := ModelIdentity(named("m"))
	for in, want := range map[string]error{
		id.String(): nil, "  " + id.String() + "\n": nil, "": ErrBlankIdentity, " \t": ErrBlankIdentity,
		content.ID(id).String(): ErrUnknownIdentity, id.String()[:20]: ErrUnknownIdentity, "blake3:" + id.String(): ErrUnknownIdentity,
		"BLAKE3:" + content.ID(id).String(): ErrUnknownIdentity, "blake3:" + string(make([]byte, 64)): ErrUnknownIdentity,
	} {
		got, err := ParseModelIdentity(in)
		if !errors.Is(err, want) || err == nil && got != id {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	var back ModelIdentity
	text, _ := id.MarshalText()
	if err := back.UnmarshalText(text); err != nil || back != id {
		t.Errorf("the text does not come back: %v", err)
	}
}

// Chain keys: a prefix's key depends on every token before it, on its length and
// on the state, and on nothing after it.
func TestChain(t *testing.T) {
	id := testState().Identity().ID()
	tokens := conversation("a", 5*BlockTokens+10)
	keys := id.Chain(tokens)
	if len(keys) != 5 {
		t.Fatalf("%d keys of 5 blocks", len(keys))
	}
	if got := id.Chain(tokens[:3*BlockTokens]); !slices.Equal(got, keys[:3]) {
		t.Error("a shorter prefix has other keys")
	}
	changed := slices.Clone(tokens)
	changed[BlockTokens]++
	for k, key := range id.Chain(changed) {
		if (key == keys[k]) != (k == 0) {
			t.Errorf("block %d after a change in block 1", k)
		}
	}
	other := testState()
	other.CacheV = "q8_0"
	if other.Identity().ID().Chain(tokens)[0] == keys[0] {
		t.Error("another state has the same keys")
	}
}

func TestCodec(t *testing.T) {
	for name, c := range map[string]Codec{
		"none": {}, "a name only": {Name: "raw"}, "other version": {Name: "raw", Version: 2, Class: Exact},
		"lossy raw": {Name: "raw", Version: 1, Class: Lossy}, "calibrated": {Name: "raw", Version: 1, Class: Exact, Calibration: named("c")},
		"reserved": {Name: "cachegen", Version: 1, Class: Lossy, Calibration: named("c")},
	} {
		if err := c.Check(); !errors.Is(err, ErrCodec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Raw().Check(); err != nil {
		t.Error(err)
	}
}
