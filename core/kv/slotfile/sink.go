package slotfile

import (
	"encoding/binary"
	"io"

	"holdfast/core/kv"
)

// sink writes headers in file order and leaves room for what comes later. It
// stays at its first error.
type sink struct {
	w   io.WriterAt
	at  int64
	err error
}

func (s *sink) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.WriteAt(b, s.at)
	}
	s.at += int64(len(b))
}

func (s *sink) skip(n int64) { s.at += n }

func (s *sink) words(list ...uint32) {
	b := make([]byte, 0, 4*len(list))
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	s.write(b)
}

func (s *sink) long(n int64) { s.words(uint32(n), uint32(n>>32)) }

// zeros writes the counts of empty streams.
func (s *sink) zeros(n uint32) {
	if n > 0 {
		s.write(make([]byte, 4*n))
	}
}

// head writes the file's fixed words and the token block.
func (s *sink) head(tokens []kv.Token) {
	b := make([]byte, 0, 4*(len(tokens)+7))
	for _, w := range []uint32{magicFile, Version, uint32(len(tokens) + fixedWords), 0xffffffff, 1, uint32(len(tokens))} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	s.write(binary.LittleEndian.AppendUint32(b, 0))
}

// cells writes the records of text tokens at positions 0…n−1.
func (s *sink) cells(tokens []kv.Token, extra int, slot uint32) {
	b := make([]byte, 0, len(tokens)*(cellBytes+extra))
	for i, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		b = binary.LittleEndian.AppendUint32(b, 1)
		if extra > 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(i))
			b = binary.LittleEndian.AppendUint32(b, uint32(i))
			b = binary.LittleEndian.AppendUint32(b, uint32(t))
		}
		b = binary.LittleEndian.AppendUint32(b, slot)
	}
	s.write(b)
}
