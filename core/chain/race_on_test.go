//go:build race

package chain_test

// raced thins what is played many times over: the race detector, ten times as
// slow, sees nothing new in the repetition. The plain run plays all.
const raced = true
