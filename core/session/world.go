// Package session knows who is talking and what of a conversation is new:
// worlds, branches, alignment, the gates and homes as pure data, the values of
// the ledger and the interface its storage satisfies.
//
// Everything here is a function of its arguments. A conversation is recognised
// exactly or not at all; there is no similarity anywhere.
//
// Readers of the ledger, each with the lane it uses: the chain (State), status
// (Evidence), session pages, search and export (views), verify (State plus
// blobs), replay (turn records).
package session

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/blake3"
)

// Mode says how elements of a world are told apart.
type Mode string

// The modes of identity.
const (
	Cohort   Mode = "cohort"   // the host sends an id with every element
	Degraded Mode = "degraded" // order is the identity, keys confirm it
	Unsigned Mode = "unsigned" // no signal at all: exact extension or a ledger of its own
)

// MainLane is the lane of the conversation itself, subagents have their own.
const MainLane = "main"

// World is one conversation as the host names it. SessRaw is the host's own
// id: whole, never trimmed, lower-cased or hashed.
type World struct {
	Signal  string `json:"signal"`
	SessRaw string `json:"sess_raw"`
	Lane    string `json:"lane"`
}

// Signed reports whether the host named the conversation.
func (w World) Signed() bool { return w.Signal != "" }

// Buckets is the resolution of the rollout percentage: hundredths of a percent.
const Buckets = 10_000

// Bucket is the sticky place of a world in the rollout: the first 8 bytes of
// BLAKE3(salt‖sess_raw) modulo Buckets.
func Bucket(salt []byte, sessRaw string) int {
	h := blake3.New()
	h.Write(salt)
	h.WriteString(sessRaw)
	var b [8]byte
	h.Digest().Read(b[:])
	return int(binary.BigEndian.Uint64(b[:]) % Buckets)
}

// Member reports whether a bucket lies inside a percentage of 0 to 100, taken
// to the nearest bucket: as a float 0.07 % of all buckets is more than seven.
func Member(bucket int, percent float64) bool {
	return bucket < int(math.Round(percent*Buckets/100))
}
