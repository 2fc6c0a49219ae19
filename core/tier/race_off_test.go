//go:build !race

package tier

// cutEvery thins the crash table.
const cutEvery = 1
