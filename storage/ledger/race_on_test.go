//go:build race

package ledger

// cutEvery thins the crash cases under the race detector, which costs tenfold:
// it looks for unordered access, which every case has alike. The plain run cuts
// at every statement.
const cutEvery = 9
