//go:build !race

package tier

// The long tests in full.
const (
	cutEvery = 1
	thin     = 1
)
