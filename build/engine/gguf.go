package engine

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// The types of GGUF values and of tensors that are used here.
const (
	valU32, valI32, valF32, valBool, valString, valArray = 4, 5, 6, 7, 8, 9
	tensorF32, tensorF16                                 = 0, 1
)

// align is where tensors begin, in bytes; the format's default.
const align = 32

// entry is one key of the header.
type entry struct {
	key string
	val any
}

// tensor is one weight matrix, made row by row while it is written.
type tensor struct {
	name string
	dims []int // fastest first
	half bool  // float16, else float32
	row  func(row int, dst []float32)
}

func (t *tensor) count() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

func (t *tensor) typ() uint32 {
	if t.half {
		return tensorF16
	}
	return tensorF32
}

func (t *tensor) size() int {
	if t.half {
		return t.count() * 2
	}
	return t.count() * 4
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// appendValue writes a value behind its type.
func appendValue(b []byte, v any) []byte {
	le := binary.LittleEndian
	array := func(of uint32, n int) {
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, valArray), of), uint64(n))
	}
	switch v := v.(type) {
	case uint32:
		return le.AppendUint32(le.AppendUint32(b, valU32), v)
	case float32:
		return le.AppendUint32(le.AppendUint32(b, valF32), math.Float32bits(v))
	case bool:
		b = le.AppendUint32(b, valBool)
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case string:
		return appendString(le.AppendUint32(b, valString), v)
	case []string:
		array(valString, len(v))
		for _, s := range v {
			b = appendString(b, s)
		}
		return b
	case []int32:
		array(valI32, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
		return b
	}
	panic(fmt.Sprintf("no GGUF value for a %T", v))
}

// header is everything in front of the tensors, padded.
func header(entries []entry, tensors []tensor) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("GGUF"), 3)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(entries)))
	for _, e := range entries {
		b = appendValue(appendString(b, e.key), e.val)
	}
	at := 0
	for i := range tensors {
		t := &tensors[i]
		b = le.AppendUint32(appendString(b, t.name), uint32(len(t.dims)))
		for _, d := range t.dims {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint64(le.AppendUint32(b, t.typ()), uint64(at))
		at += padded(t.size())
	}
	return append(b, make([]byte, padded(len(b))-len(b))...)
}

func padded(n int) int { return (n + align - 1) / align * align }

// write writes a whole model file.
func write(file string, m Model) (err error) {
	v := learn(m.Vocab)
	tensors := layout(m, v)
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(header(metadata(m, v), tensors))
	for i := range tensors {
		writeTensor(w, &tensors[i])
	}
	if err := w.Flush(); err != nil { // holds the first error of all writes
		f.Close()
		return err
	}
	return f.Close()
}

func writeTensor(w *bufio.Writer, t *tensor) {
	row := make([]float32, t.dims[0])
	buf := make([]byte, 0, 4*len(row))
	for r := range t.count() / len(row) {
		t.row(r, row)
		buf = buf[:0]
		for _, x := range row {
			if t.half {
				buf = binary.LittleEndian.AppendUint16(buf, half(x))
			} else {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
			}
		}
		w.Write(buf)
	}
	w.Write(make([]byte, padded(t.size())-t.size()))
}

// half is the float16 next to x; weights are finite and below 65504. What is
// too small for a normal float16 becomes zero.
func half(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, exp, mant := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-127+15, bits&0x7fffff
	if exp <= 0 {
		return sign
	}
	h := uint32(exp)<<10 | mant>>13
	if mant&0x1fff > 0x1000 || mant&0x1fff == 0x1000 && h&1 == 1 {
		h++
	}
	return sign | uint16(h)
}
