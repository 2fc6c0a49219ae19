//go:build !race

package tier

// The long tests in full.
const (
	cutEvery = 1
	thin     = 1
	share    = 5 // the budget of the growth test is that part of the whole
)
