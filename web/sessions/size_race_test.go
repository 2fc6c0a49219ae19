//go:build race

package sessions

// randomLedgers is thinned where the detector multiplies every step.
const randomLedgers = 25
