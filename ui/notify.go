package ui

import (
	"fmt"
	"time"
)

// Topic is a kind of notification; each has a switch in the settings.
type Topic string

// The topics.
const (
	TopicDegrade     Topic = "degrade"
	TopicBreaker     Topic = "breaker"
	TopicLowSpace    Topic = "low_space"
	TopicConfig      Topic = "config"
	TopicEngine      Topic = "engine"
	TopicUndecrypted Topic = "undecrypted"
)

// Event is something that may be worth a notification. About is what it is
// about (a session, an engine, a host name), so that the same news is told once.
type Event struct {
	Topic Topic
	About string
	What  string // one clause about it, "" for none
	// Lasting trouble does not mend by itself.
	Lasting bool
}

// Notice is a notification: what happened, and what it means or what to do.
type Notice struct {
	Topic       Topic
	Title, Body string
	Opens       Command // what a click does
}

// Limits of notifications. One topic speaks at most every topicPause, all of
// them together noticesPerHour times in an hour.
const (
	topicPause     = 5 * time.Minute
	noticesPerHour = 6
)

// aboutMemory is how many subjects the notifier remembers, so that a year of
// sessions does not collect; the oldest are forgotten together.
const aboutMemory = 1000

// Notifier decides which events become notices. The zero value is ready; it is
// for one goroutine.
type Notifier struct {
	told   map[Event]bool // by topic and subject
	last   map[Topic]time.Time
	recent []time.Time // of the last hour, oldest first
}

// Next is the notice for an event at a time, if it is to be made. An event that
// is not told because of a limit may be told when it comes again.
func (n *Notifier) Next(now time.Time, e Event, on func(Topic) bool) (Notice, bool) {
	if n.told == nil || len(n.told) >= aboutMemory {
		n.told = map[Event]bool{}
	}
	if n.last == nil {
		n.last = map[Topic]time.Time{}
	}
	for len(n.recent) > 0 && now.Sub(n.recent[0]) >= time.Hour {
		n.recent = n.recent[1:]
	}
	key := Event{Topic: e.Topic, About: e.About}
	last, spoke := n.last[e.Topic]
	if !on(e.Topic) || n.told[key] || len(n.recent) >= noticesPerHour || spoke && now.Sub(last) < topicPause {
		return Notice{}, false
	}
	n.told[key], n.last[e.Topic], n.recent = true, now, append(n.recent, now)
	return notice(e), true
}

// Over says that the subject of an event is in order again, so that it will be
// told of anew.
func (n *Notifier) Over(t Topic, about string) { delete(n.told, Event{Topic: t, About: about}) }

// notice is the text of an event.
func notice(e Event) Notice {
	out := Notice{Topic: e.Topic, Opens: Command{OpenPage, pageHome}}
	switch e.Topic {
	case TopicDegrade:
		out.Title, out.Body = "A session stepped down", "A doubt came up"+because(e.What)+", so a safer path served it. Nothing was lost."
		out.Opens.Arg = "/ui/degrades"
	case TopicBreaker:
		out.Title, out.Body = "A session is held on the full path", "It had several faults in a row; Holdfast tries again by itself. Nothing was lost."
		out.Opens.Arg = "/ui/degrades"
	case TopicLowSpace:
		out.Title, out.Body = "The disk is almost full", fmt.Sprintf("Sessions go on, but Holdfast may have to drop old history%s. Free some space.", because(e.What))
	case TopicConfig:
		out.Title, out.Body = "config.toml has a mistake", "The last good settings stay in force"+because(e.What)+". Correct the file; it is taken up at once."
		out.Opens.Arg = "/ui/settings"
	case TopicEngine:
		out.Title, out.Body = "The local engine died and was started again", "The next request reads its prompt anew unless the disk cache has it"+because(e.What)+"."
		out.Opens.Arg = pageCache
		if e.Lasting {
			out.Title, out.Body = "The local engine is not started again", "It ended too often"+because(e.What)+". Its requests fail until Holdfast is restarted; doctor says more."
		}
	case TopicUndecrypted:
		out.Title, out.Body = "An agent connected, but its traffic stays closed", "It was passed on as it is"+because(e.What)+". Point its base URL at Holdfast instead."
	}
	return out
}

func because(what string) string {
	if what == "" {
		return ""
	}
	return " (" + what + ")"
}
