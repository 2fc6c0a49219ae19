//go:build !race

package ledger

// cutEvery is 1: every statement is cut at.
const cutEvery = 1
