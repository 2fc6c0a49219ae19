//go:build race

package slotfile

// raced thins what is tried at every byte: the race detector, ten times as slow,
// sees nothing new in the repetition. The plain run tries all.
const raced = true
