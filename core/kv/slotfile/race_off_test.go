//go:build !race

package slotfile

// raced is explained in race_on_test.go.
const raced = false
