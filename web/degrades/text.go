package degrades

import (
	"maps"
	"slices"

	"holdfast/core/session"
)

func sorted(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

// explain is what a person reads about a cause.
func explain(cause string) string { return session.Cause(cause).Explain() }

// name is what a session is called.
func name(v session.SessionView) string {
	if v.Title != "" {
		return v.Title
	}
	return v.ID
}

// phase is the state of a breaker in words.
func phase(b session.Breaker, now int64) string {
	if b.Phase(now) == session.BreakerProbe {
		return "the next turn tries the snapshot path again"
	}
	return "stays on the full path"
}

// short is the head of an id.
func short(id string) string {
	if len(id) > 14 {
		return id[:14] + "…"
	}
	return id
}

func statTone(gate string, n int64) string {
	if n == 0 {
		return ""
	}
	return gateTone(gate)
}
