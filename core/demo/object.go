package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
)

// object is a JSON object whose members keep their order: replies are compared
// byte for byte.
type object []member

type member struct {
	key   string
	value any
}

// with is o with members added.
func (o object) with(more ...member) object { return append(o[:len(o):len(o)], more...) }

// mustEncode writes values made of objects, lists, strings and numbers, without
// the HTML escapes no provider sends; anything else is a mistake in this
// package. Objects and raw JSON are written straight through: a long history
// is encoded anew for every turn.
func mustEncode(v any) []byte {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, m := range v {
			comma(b, i)
			write(b, m.key)
			b.WriteByte(':')
			write(b, m.value)
		}
		b.WriteByte('}')
	case []object:
		writeList(b, v)
	case []any:
		writeList(b, v)
	case json.RawMessage:
		b.Write(v)
	default:
		writePlain(b, v)
	}
}

func writeList[T any](b *bytes.Buffer, list []T) {
	b.WriteByte('[')
	for i, v := range list {
		comma(b, i)
		write(b, v)
	}
	b.WriteByte(']')
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// writePlain is for values that hold no object.
func writePlain(b *bytes.Buffer, v any) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
}

// hashOf derives the n-th hash of a request.
func hashOf(seed []byte, n int) [sha256.Size]byte {
	var num [8]byte
	binary.LittleEndian.PutUint64(num[:], uint64(n))
	h := sha256.New()
	h.Write(seed)
	h.Write(num[:])
	return [sha256.Size]byte(h.Sum(nil))
}
