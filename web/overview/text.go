package overview

import (
	"fmt"

	"holdfast/core/session"
	"holdfast/web/layout"
)

func failedTone(n int64) string {
	if n > 0 {
		return layout.Bad
	}
	return ""
}

func degradeTone(c session.DegradeCounts) string {
	if c.Total > 0 {
		return layout.Warn
	}
	return ""
}

func total(m map[string]int64) (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// costSays is what folding did to the bill so far.
func costSays(m model) string {
	switch saved := m.sum.Saved; {
	case m.sum.Totals.Turns == 0:
		return "no finished turn yet"
	case saved > 0:
		return fmt.Sprintf("folding took %s off the bill", layout.Percent(layout.Share(saved, direct(m.sum))))
	case saved < 0:
		return "the folds so far have not earned back what they cost yet"
	}
	return "nothing is folded: both are the same, at list price"
}

func lastHit(m model) string {
	h := m.hits()
	if len(h) == 0 {
		return "–"
	}
	return layout.Percent(h[len(h)-1] / 100)
}

func skipWords(k string) string {
	return map[string]string{
		"passthrough": "not a model call, or bypass", "verbatim": "could not be held", "side": "side calls",
		"off": "rollout off", "unsigned": "no session id", "restamping": "rows being made anew",
	}[k] + otherWords(k)
}

// otherWords is a reason without words of its own.
func otherWords(k string) string {
	switch k {
	case "passthrough", "verbatim", "side", "off", "unsigned", "restamping":
		return ""
	}
	return layout.Words(k)
}

func modeWord(mode string) string {
	switch mode {
	case "on":
		return "Serve from snapshots"
	case "shadow":
		return "Shadow"
	}
	return "Off"
}

func rolloutSays(m model) string {
	if m.Bypass {
		return "Bypass is on, so the rollout waits: every request is sent untouched."
	}
	switch m.Mode {
	case "on":
		return fmt.Sprintf("Sessions with an id (%s %% of them) are served from their rows. Any doubt steps down to the complete request.", figure(m.Percent))
	case "shadow":
		return "Rows are written and both paths are compared after each reply. Your client's own list is what is sent."
	}
	return "No rows are written. Your client's own list is what is sent."
}

func figure(f float64) string { return fmt.Sprintf("%g", f) }

func evidenceWord(m model) string {
	switch {
	case m.Evidence.Turns == 0:
		return "no evidence yet"
	case m.clean():
		return "clean"
	}
	return "not clean"
}

func evidenceTone(m model) string {
	switch {
	case m.Evidence.Turns == 0:
		return layout.Quiet
	case m.clean():
		return layout.Good
	}
	return layout.Warn
}

// groupWord is how a group of sessions fares.
func groupWord(state string, faults int64) string {
	if faults > 0 && (state == "" || state == "ok") {
		return "served, with faults"
	}
	return layout.Or(state, "ok")
}

func groupTone(state string, faults int64) string {
	if faults == 0 && (state == "" || state == "ok") {
		return layout.Good
	}
	return layout.Warn
}
