package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"holdfast/core/content"
)

// Skeleton is a body without its elements and without its large fields: what is
// left to store once both are kept by hash. Build gives the exact bytes back.
type Skeleton struct {
	fields []bone
	tail   []byte
	// head and foot stand inside the list's brackets, around the elements.
	head, foot []byte
	elements   int
	separators []run
}

// bone is one top-level member. lead is everything between the value before it
// and its own: comma, key, colon, white space.
type bone struct {
	lead []byte
	kind byte
	// value is set for inline fields, id for those kept by hash.
	value []byte
	id    content.ID
}

const (
	boneInline byte = iota
	boneHashed
	boneList
)

// run is the same separator n times over.
type run struct {
	n   int
	sep []byte
}

// FieldBlob is a top-level value that is stored apart, by its hash. Raw points
// into the body.
type FieldBlob struct {
	Name string
	ID   content.ID
	Raw  []byte
}

// FieldHash names a top-level value by what it says, for change reports.
type FieldHash struct {
	Name string
	ID   content.ID
}

// inlineMax is the longest value kept in the skeleton itself: twice what its
// hash would take.
const inlineMax = 64

// ErrSkeleton says that bytes are not a stored skeleton, or not the skeleton
// of as many elements as given.
var ErrSkeleton = errors.New("wire: skeleton does not fit")

// SkeletonOf takes a body apart. The blobs are the fields that Build will ask
// for; the skeleton owns its bytes.
func SkeletonOf(b *Body) (Skeleton, []FieldBlob) {
	s := Skeleton{elements: len(b.Elements)}
	var blobs []FieldBlob
	from := 0
	for _, f := range b.Fields {
		bn := bone{lead: bytes.Clone(b.Raw[from:f.Value.Start])}
		value := f.Value.Of(b.Raw)
		switch {
		case f.Value == b.List:
			bn.kind = boneList
		case len(value) > inlineMax:
			bn.kind, bn.id = boneHashed, content.Of(value)
			blobs = append(blobs, FieldBlob{f.Name, bn.id, value})
		default:
			bn.value = bytes.Clone(value)
		}
		s.fields = append(s.fields, bn)
		from = f.Value.End
	}
	s.tail = bytes.Clone(b.Raw[from:])
	s.list(b)
	return s, blobs
}

func (s *Skeleton) list(b *Body) {
	if len(b.Elements) == 0 {
		s.head = bytes.Clone(b.Raw[b.List.Start+1 : b.List.End-1])
		return
	}
	s.head = bytes.Clone(b.Raw[b.List.Start+1 : b.Elements[0].Start])
	for i := 1; i < len(b.Elements); i++ {
		sep := b.Raw[b.Elements[i-1].End:b.Elements[i].Start]
		if last := len(s.separators) - 1; last >= 0 && bytes.Equal(s.separators[last].sep, sep) {
			s.separators[last].n++
			continue
		}
		s.separators = append(s.separators, run{1, bytes.Clone(sep)})
	}
	s.foot = bytes.Clone(b.Raw[b.Elements[len(b.Elements)-1].End : b.List.End-1])
}

// Elements is how many elements Build needs.
func (s Skeleton) Elements() int { return s.elements }

// FieldHashes gives name and hash of every top-level value but the list, in
// the order of the body.
func (s Skeleton) FieldHashes() []FieldHash {
	var out []FieldHash
	for _, bn := range s.fields {
		switch bn.kind {
		case boneInline:
			out = append(out, FieldHash{bn.name(), content.Of(bn.value)})
		case boneHashed:
			out = append(out, FieldHash{bn.name(), bn.id})
		}
	}
	return out
}

func (bn bone) name() string {
	sc := scanner{b: bn.lead, i: max(bytes.IndexByte(bn.lead, '"'), 0)}
	name, _, _ := sc.key()
	return name
}

// Build gives back the body: field fetches a stored value, elems are the
// elements in order. Errors of field are returned as they are.
func (s Skeleton) Build(field func(content.ID) ([]byte, error), elems [][]byte) ([]byte, error) {
	if len(elems) != s.elements {
		return nil, fmt.Errorf("%w: %d elements for %d places", ErrSkeleton, len(elems), s.elements)
	}
	var out []byte
	for _, bn := range s.fields {
		out = append(out, bn.lead...)
		switch bn.kind {
		case boneInline:
			out = append(out, bn.value...)
		case boneList:
			out = s.appendList(out, elems)
		case boneHashed:
			value, err := field(bn.id)
			if err != nil {
				return nil, err
			}
			out = append(out, value...)
		}
	}
	return append(out, s.tail...), nil
}

func (s Skeleton) appendList(out []byte, elems [][]byte) []byte {
	out = append(append(out, '['), s.head...)
	runs, left := s.separators, 0
	if len(runs) > 0 {
		left = runs[0].n
	}
	for i, e := range elems {
		if i > 0 {
			if left == 0 {
				runs = runs[1:]
				left = runs[0].n
			}
			out = append(out, runs[0].sep...)
			left--
		}
		out = append(out, e...)
	}
	return append(append(out, s.foot...), ']')
}

// skeletonVersion is the first byte of the stored form. The form: fields, each
// with a kind byte; common leads shortened; then tail, head, foot, element
// count and separator runs. All lengths are uvarints.
const skeletonVersion = 1

// Flags of the kind byte. A compact lead is a comma (or the opening brace, for
// the first field), a quoted key and a colon; only the key between the quotes
// is stored, and of a known key only its number in knownKeys.
const (
	compactLead = 0x80
	knownLead   = 0x40
)

// knownKeys are stored as their index: new ones go at the end, none is moved.
func knownKeys() []string {
	return []string{
		"model", "messages", "system", "tools", "metadata", "max_tokens", "thinking", "context_management",
		"output_config", "stream", "temperature", "tool_choice", "stream_options", "max_completion_tokens",
		"reasoning_effort", "response_format", "parallel_tool_calls", "store", "top_p", "stop_sequences",
		"diagnostics", "safeguards", "input", "instructions", "include", "prompt_cache_key", "client_metadata",
		"text", "reasoning", "contents", "systemInstruction", "generationConfig", "toolConfig",
	}
}

// MarshalBinary writes the stored form.
func (s Skeleton) MarshalBinary() ([]byte, error) {
	out := []byte{skeletonVersion}
	out = binary.AppendUvarint(out, uint64(len(s.fields)))
	for i, bn := range s.fields {
		out = appendLead(out, bn, i)
		switch bn.kind {
		case boneInline:
			out = appendBytes(out, bn.value)
		case boneHashed:
			out = append(out, bn.id[:]...)
		}
	}
	out = appendBytes(appendBytes(appendBytes(out, s.tail), s.head), s.foot)
	out = binary.AppendUvarint(out, uint64(s.elements))
	for _, r := range s.separators {
		out = appendBytes(binary.AppendUvarint(out, uint64(r.n)), r.sep)
	}
	return out, nil
}

func appendLead(out []byte, bn bone, i int) []byte {
	key, ok := compactKey(bn.lead, i)
	if !ok {
		return appendBytes(append(out, bn.kind), bn.lead)
	}
	if known := slices.Index(knownKeys(), string(key)); known >= 0 {
		return append(out, bn.kind|knownLead, byte(known))
	}
	return appendBytes(append(out, bn.kind|compactLead), key)
}

func compactKey(lead []byte, i int) ([]byte, bool) {
	n := len(lead)
	if n < 4 || lead[0] != leadByte(i) || lead[1] != '"' || string(lead[n-2:]) != `":` {
		return nil, false
	}
	return lead[2 : n-2], true
}

func leadByte(i int) byte {
	if i == 0 {
		return '{'
	}
	return ','
}

func appendBytes(out, b []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

// UnmarshalBinary reads the stored form; it errs with ErrSkeleton on anything
// else and then leaves s alone.
func (s *Skeleton) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != skeletonVersion {
		return fmt.Errorf("%w: unknown version", ErrSkeleton)
	}
	r := boneReader{b: data[1:]}
	var got Skeleton
	lists := 0
	for i, n := 0, r.count(); i < n && !r.bad; i++ {
		bn := r.bone(i)
		if bn.kind == boneList {
			lists++
		}
		got.fields = append(got.fields, bn)
	}
	got.tail, got.head, got.foot = r.bytes(), r.bytes(), r.bytes()
	got.elements = r.count()
	separated := 0
	for len(r.b) > 0 && !r.bad {
		n := r.count()
		r.bad = r.bad || n == 0
		separated += n
		got.separators = append(got.separators, run{n, r.bytes()})
	}
	if r.bad || lists != 1 || separated != max(got.elements-1, 0) {
		return fmt.Errorf("%w: damaged", ErrSkeleton)
	}
	*s = got
	return nil
}

// boneReader reads the stored form; once bad it returns nothing.
type boneReader struct {
	b   []byte
	bad bool
}

// count reads a number; what is beyond 2^31 is damage.
func (r *boneReader) count() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n >= 1<<31 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *boneReader) bytes() []byte { return bytes.Clone(r.next(r.count())) }

func (r *boneReader) next(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *boneReader) byte() byte {
	if b := r.next(1); len(b) == 1 {
		return b[0]
	}
	return 0xFF
}

// bone reads the i-th field.
func (r *boneReader) bone(i int) bone {
	kind := r.byte()
	bn := bone{kind: kind &^ (compactLead | knownLead)}
	switch kind & (compactLead | knownLead) {
	case compactLead:
		bn.lead = wholeLead(string(r.bytes()), i)
	case knownLead:
		bn.lead = wholeLead(r.known(), i)
	default:
		bn.lead = r.bytes()
	}
	switch bn.kind {
	case boneInline:
		bn.value = r.bytes()
	case boneHashed:
		copy(bn.id[:], r.next(len(bn.id)))
	case boneList:
	default:
		r.bad = true
	}
	return bn
}

func (r *boneReader) known() string {
	keys, n := knownKeys(), int(r.byte())
	if n >= len(keys) {
		r.bad = true
		return ""
	}
	return keys[n]
}

func wholeLead(key string, i int) []byte { return fmt.Appendf(nil, "%c\"%s\":", leadByte(i), key) }
