//go:build !race

package fold

// raced says that the race detector runs, which takes ten times as long.
const raced = false
