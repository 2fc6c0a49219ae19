//go:build race

package tier

// cutEvery thins the crash table: the race detector looks for races, and every
// seventh step has all of them.
const cutEvery = 7
