package content

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The digests are the published BLAKE3 test vectors: the ledger's names must
// mean the same to any other program.
func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"":         "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
		"\x00":     "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
		"\x00\x01": "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63",
	} {
		if got := Of([]byte(in)).String(); got != want {
			t.Errorf("Of(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	want := Of([]byte("bytes"))
	got, err := Parse(want.String())
	if err != nil || got != want {
		t.Errorf("Parse(String) = %v, %v, want %v", got, err, want)
	}
	for name, bad := range map[string]string{
		"empty":     "",
		"short":     want.String()[:63],
		"long":      want.String() + "0",
		"not hex":   strings.Repeat("g", 64),
		"multibyte": strings.Repeat("é", 32),
	} {
		if id, err := Parse(bad); err == nil || !id.IsZero() {
			t.Errorf("%s: Parse = %v, %v, want the zero ID and an error", name, id, err)
		}
	}
}

func TestFromBytes(t *testing.T) {
	want := Of([]byte("bytes"))
	raw, _ := hex.DecodeString(want.String())
	got, err := FromBytes(raw)
	if err != nil || got != want {
		t.Errorf("FromBytes = %v, %v, want %v", got, err, want)
	}
	for _, n := range []int{0, 31, 33} {
		if id, err := FromBytes(make([]byte, n)); err == nil || !id.IsZero() {
			t.Errorf("FromBytes of %d bytes = %v, %v, want the zero ID and an error", n, id, err)
		}
	}
}

func TestIsZero(t *testing.T) {
	if !(ID{}).IsZero() || Of(nil).IsZero() {
		t.Error("only the zero ID is zero; the ID of no bytes is not")
	}
}
