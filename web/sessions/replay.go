package sessions

import (
	"fmt"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Reply is what came back when a turn was sent again.
type Reply struct {
	Status int
	Ms     float64
	Text   string
	Fault  string // why there is none, "" when there is
}

// Endpoint is the path of a turn's wire.
func Endpoint(t session.TurnView) string {
	path, _ := endpoint(t)
	return path
}

// Replayed shows the reply to a turn that was sent again.
func (p *Pages) Replayed(t session.TurnView, route string, r Reply) layout.Page {
	return layout.Page{Title: fmt.Sprintf("Turn %d sent again", t.ID), Section: "sessions", Body: replayPage(t, route, r),
		Crumbs: []layout.Link{{Text: "Sessions", URL: "/ui/sessions"}, {Text: fmt.Sprintf("Turn %d", t.ID), URL: fmt.Sprintf("/ui/turns/%d", t.ID)}}}
}

func replayTone(status int) string {
	if status >= 400 {
		return layout.Bad
	}
	return layout.Good
}
