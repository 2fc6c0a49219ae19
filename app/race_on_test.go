//go:build race

package main

// raced leaves the scripts out whose names begin with "long_": the race
// detector is ten times as slow, and what they play is raced in core/chain.
const raced = true
