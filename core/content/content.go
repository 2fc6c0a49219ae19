// Package content names bytes by what they are: a 256-bit BLAKE3 digest.
//
// It is a package of its own because core and storage must share one named
// type; an [32]byte of each would not satisfy the other's interfaces.
package content

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// ID is the BLAKE3-256 digest of some bytes. The zero ID names nothing.
type ID [32]byte

// Of returns the ID of b.
func Of(b []byte) ID { return blake3.Sum256(b) }

// Parse reads the 64 hexadecimal digits that String writes.
func Parse(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("content: an ID has %d hexadecimal digits, got %d", 2*len(id), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("content: %w", err)
	}
	return id, nil
}

// FromBytes reads an ID from its 32 raw bytes, as a database column holds them.
func FromBytes(b []byte) (ID, error) {
	var id ID
	if len(b) != len(id) {
		return ID{}, fmt.Errorf("content: an ID has %d bytes, got %d", len(id), len(b))
	}
	copy(id[:], b)
	return id, nil
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// MismatchError says that stored bytes are not those their ID names: they were
// damaged, and whatever needs them must do without.
type MismatchError struct{ ID ID }

func (e *MismatchError) Error() string {
	return "content: the stored bytes are not those of " + e.ID.String()
}
