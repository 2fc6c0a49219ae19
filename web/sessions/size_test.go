//go:build !race

package sessions

// randomLedgers is how many conversations the map is held against.
const randomLedgers = 200
