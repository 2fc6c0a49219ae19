//go:build race

package tier

// The race detector looks for races, and a part of the long tests has all of
// them: every twelfth step of the crash table, a quarter of the rest.
const (
	cutEvery = 12
	thin     = 4
	share    = 3 // a fifth of fifty turns would not hold one conversation
)
