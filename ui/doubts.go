package ui

import "holdfast/core/session"

// groupOK is the state of a group that nothing holds back.
const groupOK = "ok"

// Doubts are the reasons not to serve from snapshots yet, in words without
// numbers: the inspector has those.
func Doubts(e session.Evidence) (why []string) {
	if e.Turns == 0 {
		return []string{"No turn has been compared yet"}
	}
	if e.Differences > 0 {
		why = append(why, "The two paths differed in compared turns")
	}
	if e.Faults > 0 {
		why = append(why, "Turns of some sessions had to step down")
	}
	for _, g := range e.ByGroup {
		if g.State != "" && g.State != groupOK {
			return append(why, "Some kinds of clients are held in shadow")
		}
	}
	return why
}
