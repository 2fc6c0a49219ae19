package config

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/core/usage"
)

// Size is a number of bytes, written <digits>KiB, MiB, GiB or TiB.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var sizeUnits = [...]struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// ParseSize reads the one spelling a size has.
func ParseSize(s string) (Size, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || int64(n) > int64(1<<63-1)/int64(u.size) {
			break
		}
		return Size(n) * u.size, nil
	}
	return 0, fmt.Errorf("%q is not a size", s)
}

// String writes the largest unit that divides the size.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 {
			return fmt.Sprint(int64(s/u.size), u.name)
		}
	}
	return fmt.Sprint(int64(s/KiB), "KiB")
}

// Bytes is the size as the rest of the program counts it.
func (s Size) Bytes() usage.Bytes { return usage.Bytes(s) }

// UnmarshalText reads a size from the file.
func (s *Size) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSize(string(b))
	return err
}

// MarshalText writes a size for JSON readers.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
