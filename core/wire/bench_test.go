package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chatBody is about size bytes of a coding session: long results full of
// escapes, short calls.
func chatBody(size int) []byte {
	code := strings.Repeat(`\tif err != nil {\n\t\treturn fmt.Errorf(\"open %q: %w\", name, err)\n\t}\n`, 30)
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":4096,"stream":true,"messages":[{"role":"user","content":"hello"}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"Reading file %d."},`+
			`{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"path":"/src/a_%d.go","limit":200}}]}`, i, i, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}]}`, i, code)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// denseBody is the worst case: hardly any text, brackets and short keys.
func denseBody(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"messages":[{}`)
	for b.Len() < size {
		fmt.Fprintf(&b, `,{"a":[%d,{"b":"%d"},null],"c":{"d":%d}}`, r.IntN(100), r.IntN(100), r.IntN(100))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkCut1MB(b *testing.B) {
	for name, body := range map[string][]byte{"chat": chatBody(1 << 20), "dense": denseBody(1 << 20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Cut(body, "messages"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStrict1MB(b *testing.B) {
	for name, body := range map[string][]byte{"chat": chatBody(1 << 20), "dense": denseBody(1 << 20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Strict(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanonical1MB(b *testing.B) {
	body := chatBody(1 << 20)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(body); err != nil {
			b.Fatal(err)
		}
	}
}
