// Package seed says where the random tests begin. A change lands on what its
// test run has played, so one commit has to play the same programs wherever it
// is tested, and the next commit others: `go run ./build test` sets the seed
// from the tree it tests, `go run ./build nightly` leaves it open.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Env repeats a run: a whole number of up to 64 bits, decimal.
const Env = "HOLDFAST_SEED"

// Of is the seed of one test, printed for a failure to be played again.
func Of(t testing.TB) uint64 {
	t.Helper()
	s, err := of(os.Getenv(Env))
	if err != nil {
		t.Fatalf("%s: %v; it takes a whole number, or nothing for a new seed each run", Env, err)
	}
	t.Logf("seed %d (%s repeats it)", s, Env)
	return s
}

func of(set string) (uint64, error) {
	if set == "" {
		return rand.Uint64() >> 16, nil // room to count on from it
	}
	return strconv.ParseUint(set, 10, 64)
}
