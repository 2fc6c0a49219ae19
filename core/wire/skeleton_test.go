package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/content"
)

func TestSkeletonProperty(t *testing.T) {
	r := seeded(t)
	for range 3000 {
		b := mustCut(t, randomBody(r))
		if built, _ := rebuild(t, b); !bytes.Equal(built, b.Raw) {
			t.Fatalf("built %s\nfrom  %s", built, b.Raw)
		}
	}
}

// A skeleton is kept per turn, so its size may not follow the conversation.
func TestSkeletonIsSmall(t *testing.T) {
	frame := `{"model":"claude-opus-4-5-20251101","messages":[%s],"system":[{"type":"text","text":"` + strings.Repeat("You are. ", 50) +
		`"}],"tools":[{"name":"` + strings.Repeat("x", 90) + `"}],"metadata":{"user_id":"` + strings.Repeat("u", 150) +
		`"},"max_tokens":32000,"thinking":{"type":"adaptive"},"context_management":{"edits":[{"type":"x","keep":"all"}]},` +
		`"output_config":{"effort":"high"},"stream":true}`
	message := `{"role":"user","content":"x"}`
	for _, n := range []int{1, 2, 5000} {
		b := mustCut(t, fmt.Sprintf(frame, strings.Repeat(message+",", n-1)+message))
		built, stored := rebuild(t, b)
		if !bytes.Equal(built, b.Raw) {
			t.Fatalf("%d elements: not the same bytes", n)
		}
		if len(stored) >= 300 {
			t.Errorf("%d elements: %d bytes stored, want under 300", n, len(stored))
		}
	}
}

func TestSkeletonFields(t *testing.T) {
	long := `"` + strings.Repeat("s", inlineMax) + `"`
	b := mustCut(t, `{"model":"m", "sys\u0074em" :`+long+`,"messages":[1]}`)
	s, blobs := SkeletonOf(b)
	if len(blobs) != 1 || blobs[0].Name != "system" || string(blobs[0].Raw) != long || blobs[0].ID != content.Of(blobs[0].Raw) {
		t.Errorf("blobs = %+v, want system alone", blobs)
	}
	want := []FieldHash{{"model", content.Of([]byte(`"m"`))}, {"system", content.Of([]byte(long))}}
	if got := s.FieldHashes(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("hashes = %v, want %v", got, want)
	}
}

func TestSkeletonOwnsItsBytes(t *testing.T) {
	raw := []byte(`{"model":"m","messages":[1, 2]}`)
	b, err := Cut(raw, "messages")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := SkeletonOf(b)
	before, _ := s.MarshalBinary()
	clear(raw)
	if after, _ := s.MarshalBinary(); !bytes.Equal(before, after) {
		t.Error("the skeleton changed with the body's buffer")
	}
}

func TestBuildRefuses(t *testing.T) {
	s, blobs := SkeletonOf(mustCut(t, `{"x":"`+strings.Repeat("x", 100)+`","messages":[1,2]}`))
	none := func(content.ID) ([]byte, error) { return nil, nil }
	if _, err := s.Build(none, make([][]byte, 3)); !errors.Is(err, ErrSkeleton) {
		t.Errorf("three elements for two places: %v", err)
	}
	lost := errors.New("lost")
	var asked content.ID
	fail := func(id content.ID) ([]byte, error) { asked = id; return nil, lost }
	if _, err := s.Build(fail, make([][]byte, 2)); !errors.Is(err, lost) || asked != blobs[0].ID {
		t.Errorf("a lost field: %v, asked for %v", err, asked)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	list := bone{lead: []byte(`{"messages":`), kind: boneList}
	sep := run{1, []byte(",")}
	for name, s := range map[string]Skeleton{
		"no list":             {tail: []byte("{}")},
		"two lists":           {fields: []bone{list, list}},
		"too few separators":  {fields: []bone{list}, elements: 3, separators: []run{sep}},
		"too many separators": {fields: []bone{list}, elements: 2, separators: []run{sep, sep}},
		"none of a separator": {fields: []bone{list}, elements: 2, separators: []run{sep, {0, nil}}},
		"unknown kind":        {fields: []bone{list, {kind: 9}}},
	} {
		stored, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Skeleton).UnmarshalBinary(stored); !errors.Is(err, ErrSkeleton) {
			t.Errorf("%s: %v, want ErrSkeleton", name, err)
		}
	}
	good, _ := Skeleton{fields: []bone{list}, elements: 2, separators: []run{sep}}.MarshalBinary()
	for n := range good {
		if err := new(Skeleton).UnmarshalBinary(good[:n]); !errors.Is(err, ErrSkeleton) {
			t.Errorf("%d of %d bytes: %v, want ErrSkeleton", n, len(good), err)
		}
	}
}

// Damaged bytes are refused or give some skeleton; they never panic, and what
// is refused leaves the receiver alone.
func FuzzSkeleton(f *testing.F) {
	for _, raw := range []string{`{"messages":[]}`, `{"a":1,"messages":[1,2 ,3],"b":"` + strings.Repeat("x", 80) + `"}`} {
		b, _ := Cut([]byte(raw), "messages")
		s, _ := SkeletonOf(b)
		stored, _ := s.MarshalBinary()
		f.Add(stored)
		f.Add(stored[:len(stored)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Skeleton
		if err := s.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrSkeleton) || s.elements != 0 || s.fields != nil {
				t.Fatalf("%v, skeleton %+v", err, s)
			}
			return
		}
		s.FieldHashes()
		if s.elements < 1<<16 {
			value := func(content.ID) ([]byte, error) { return []byte("1"), nil }
			if _, err := s.Build(value, make([][]byte, s.elements)); err != nil {
				t.Fatal(err)
			}
		}
		again, err := s.MarshalBinary()
		var back Skeleton
		if err != nil || back.UnmarshalBinary(again) != nil || fmt.Sprint(back) != fmt.Sprint(s) {
			t.Fatalf("does not survive storing again: %+v", s)
		}
	})
}
