package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/assets"
	"holdfast/core/session"
)

// text is a menu as a person sees it.
func text(items []Item, depth int) string {
	var b strings.Builder
	for _, it := range items {
		mark := ""
		switch {
		case it.Hidden:
			continue
		case it.Separator:
			it.Label = "---"
		case it.Checked:
			mark = " [x]"
		case it.Check:
			mark = " [ ]"
		}
		if it.Disabled {
			mark += " (disabled)"
		}
		fmt.Fprintf(&b, "%s%s%s\n%s", strings.Repeat("  ", depth), it.Label, mark, text(it.Items, depth+1))
	}
	return b.String()
}

func full() Snapshot {
	return Snapshot{
		Mode: "shadow", Doubts: []string{"The two paths differed in compared turns"}, AtLogin: true,
		KV:      KV{Mode: "fixed", State: "active", Used: 12<<30 + 5<<28, Budget: 32 << 30, Engine: true},
		Clients: []Client{{"claude", "Claude Code"}, {"codex", "Codex"}},
		Recent:  []Recent{{"s1", "Port the parser\nto Go"}, {"s2", ""}, {"s3", strings.Repeat("long ", 20)}},
	}
}

const fullMenu = `Holdfast: idle (disabled)
---
Open inspector
---
Serve from snapshots (not advised yet)
  The two paths differed in compared turns (disabled)
  ---
  Look at the evidence
  Turn on anyway
Bypass (send everything untouched) [ ]
Disk KV cache: active, 13 GiB of 32 GiB
  Off [ ]
  Auto [ ]
  Prune to 85 %
  Open budgets
---
Copy base URL for
  Claude Code
  Codex
Recent sessions
  Port the parser to Go
  s2
  long long long long long long long long long lo…
---
Start at login [x]
Check setup
Quit
`

func TestMenu(t *testing.T) {
	if got := text(Menu(full()), 0); got != fullMenu {
		t.Errorf("the menu:\n%s", got)
	}
}

// keys lists the keys of a menu in order.
func keys(items []Item) (out []string) {
	for _, it := range items {
		out = append(append(out, it.Key), keys(it.Items)...)
	}
	return out
}

// TestMenuKeysAreSteady: a menu is changed in place, so every snapshot has the
// same keys in the same order, each once.
func TestMenuKeysAreSteady(t *testing.T) {
	want := keys(Menu(Snapshot{}))
	many := full()
	many.Mode, many.Bypass, many.Trouble = "on", true, ConfigBroken
	for range 20 {
		many.Clients = append(many.Clients, Client{"x", "X"})
		many.Recent = append(many.Recent, Recent{"x", "X"})
		many.Doubts = append(many.Doubts, "doubt")
	}
	for _, s := range []Snapshot{full(), many} {
		if got := keys(Menu(s)); !slices.Equal(got, want) {
			t.Errorf("keys %q, want %q", got, want)
		}
	}
	slices.Sort(want)
	if len(slices.Compact(slices.Clone(want))) != len(want) {
		t.Errorf("a key twice in %q", want)
	}
}

func find(items []Item, key string) Item {
	for _, it := range items {
		if it.Key == key {
			return it
		}
		if sub := find(it.Items, key); sub.Key != "" {
			return sub
		}
	}
	return Item{}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		s     Snapshot
		state State
		line  string
	}{
		{Snapshot{}, Idle, "Holdfast: idle"},
		{Snapshot{Busy: true}, Working, "Holdfast: working"},
		{Snapshot{Busy: true, Trouble: BreakerOpen}, Degraded, "Holdfast: degraded, a session is held on the full path"},
		{Snapshot{Trouble: ConfigBroken}, Degraded, "Holdfast: degraded, config.toml has a mistake"},
		{Snapshot{Trouble: LowSpace}, Degraded, "Holdfast: degraded, the disk is almost full"},
		{Snapshot{Trouble: KVDegraded}, Degraded, "Holdfast: degraded, the disk KV cache is not serving"},
		{Snapshot{Trouble: LowSpace, Bypass: true, Busy: true}, Bypassed, "Holdfast: bypassed"},
	} {
		if StateOf(c.s) != c.state || StatusLine(c.s) != c.line {
			t.Errorf("%+v is %v, %q", c.s, StateOf(c.s), StatusLine(c.s))
		}
	}
}

// TestServeAsks is the rollout flag: it asks while there are doubts, and only
// on the way on.
func TestServeAsks(t *testing.T) {
	doubts := []string{"No turn has been compared yet"}
	for _, c := range []struct {
		mode           string
		doubts         []string
		asks, checked  bool
		does, anywayIs string
	}{
		{"shadow", nil, false, false, "on", ""},
		{"off", nil, false, false, "on", ""},
		{"on", nil, false, true, "shadow", ""},
		{"shadow", doubts, true, false, "", "on"},
		{"off", doubts, true, false, "", "on"},
		{"on", doubts, false, true, "shadow", ""},
	} {
		m := Menu(Snapshot{Mode: c.mode, Doubts: c.doubts})
		serve, ask, anyway := find(m, "serve"), find(m, "ask"), find(m, "anyway")
		if ask.Hidden == c.asks || serve.Hidden != c.asks || serve.Checked != c.checked {
			t.Errorf("%s with %q: serve %+v, ask %+v", c.mode, c.doubts, serve, ask)
		}
		if !c.asks && serve.Does != (Command{SetRollout, c.does}) || c.asks && anyway.Does != (Command{SetRollout, c.anywayIs}) {
			t.Errorf("%s with %q does %+v or %+v", c.mode, c.doubts, serve.Does, anyway.Does)
		}
	}
}

func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		e    session.Evidence
		want string
	}{
		{session.Evidence{}, "No turn has been compared yet"},
		{session.Evidence{Turns: 9, ByteEqual: 9}, ""},
		{session.Evidence{Turns: 9, ByteEqual: 4, Drift: map[string]int64{"marker": 5}}, ""},
		{session.Evidence{Turns: 9, Differences: 1}, "The two paths differed in compared turns"},
		{session.Evidence{Turns: 9, Faults: 1, ByGroup: []session.GroupEvidence{{State: "ok"}, {State: "held in shadow"}}},
			"Turns of some sessions had to step down; Some kinds of clients are held in shadow"},
	} {
		if got := strings.Join(Doubts(c.e), "; "); got != c.want {
			t.Errorf("%+v: %q", c.e, got)
		}
	}
}

func TestCacheText(t *testing.T) {
	for _, c := range []struct {
		kv   KV
		want string
	}{
		{KV{Mode: "off", State: "off"}, "off"},
		{KV{Mode: "off", State: ""}, "off"},
		{KV{Mode: "auto", State: "off", Engine: true}, "auto after a restart"},
		{KV{Mode: "auto", State: "off"}, "auto, but no route has a local engine"},
		{KV{Mode: "off", State: "active", Engine: true}, "off after a restart"},
		{KV{Mode: "auto", State: "active", Engine: true}, "active"},
		{KV{Mode: "fixed", State: "active", Used: 3 << 20, Budget: 1 << 30, Engine: true}, "active, 3.0 MiB of 1.0 GiB"},
		{KV{Mode: "fixed", State: "active", Used: 250 << 20, Budget: 1000 << 30, Engine: true}, "active, 250 MiB of 1.0 TiB"},
		{KV{Mode: "fixed", State: "read_only_low_space", Engine: true}, "reading only, the disk is almost full"},
		{KV{Mode: "fixed", State: "pruning_to_budget", Used: 1 << 30, Budget: 11 << 30, Engine: true}, "pruning, 1.0 GiB of 11 GiB"},
	} {
		if got := cacheText(c.kv); got != c.want {
			t.Errorf("%+v: %q, want %q", c.kv, got, c.want)
		}
	}
}

func TestEveryIconIsThere(t *testing.T) {
	for _, s := range []State{Idle, Working, Degraded, Bypassed} {
		for _, b := range []Bar{LightBar, DarkBar, AnyBar} {
			for _, ext := range []string{"png", "ico"} {
				if len(assets.Icon(IconName(s, b, ext))) < 200 {
					t.Errorf("%s is empty", IconName(s, b, ext))
				}
			}
		}
		if len(assets.Icon(IconName(s, "template", "png"))) < 200 {
			t.Errorf("no template of %s", s)
		}
	}
}

func TestNotifier(t *testing.T) {
	all := func(Topic) bool { return true }
	at := time.Unix(1_000_000, 0)
	var n Notifier
	first, ok := n.Next(at, Event{Topic: TopicDegrade, About: "s1", What: "R2, hash"}, all)
	if !ok || first.Title != "A session stepped down" || !strings.Contains(first.Body, "(R2, hash)") || first.Opens.Arg != "/ui/degrades" {
		t.Fatalf("%+v %v", first, ok)
	}
	for _, c := range []struct {
		after time.Duration
		e     Event
		on    func(Topic) bool
		want  bool
		why   string
	}{
		{time.Hour, Event{Topic: TopicDegrade, About: "s1", What: "R3"}, all, false, "told of this session already"},
		{time.Minute, Event{Topic: TopicDegrade, About: "s2", What: ""}, all, false, "the topic spoke a minute ago"},
		{time.Minute, Event{Topic: TopicConfig, About: "x", What: ""}, all, true, "another topic"},
		{topicPause, Event{Topic: TopicDegrade, About: "s2", What: ""}, func(t Topic) bool { return t != TopicDegrade }, false, "switched off"},
		{topicPause, Event{Topic: TopicDegrade, About: "s2", What: ""}, all, true, "a new session after the pause"},
	} {
		if _, ok := n.Next(at.Add(c.after), c.e, c.on); ok != c.want {
			t.Errorf("%+v after %v: told %v: %s", c.e, c.after, ok, c.why)
		}
	}
}

func TestNotifierIsBounded(t *testing.T) {
	var n Notifier
	told := 0
	for i := range 5000 { // an hour of one new session every 0.72 s
		if _, ok := n.Next(time.Unix(0, 0).Add(time.Duration(i)*720*time.Millisecond), Event{Topic: TopicDegrade, About: fmt.Sprint(i), What: ""}, func(Topic) bool { return true }); ok {
			told++
		}
	}
	if told != noticesPerHour || len(n.told) > aboutMemory || len(n.recent) > noticesPerHour {
		t.Errorf("%d notices in an hour, %d subjects kept", told, len(n.told))
	}
	n.Over(TopicDegrade, "0")
	if _, ok := n.Next(time.Unix(7200, 0), Event{Topic: TopicDegrade, About: "0", What: ""}, func(Topic) bool { return true }); !ok {
		t.Error("what was in order again is not told anew")
	}
}

func TestEveryTopicHasItsText(t *testing.T) {
	for _, topic := range []Topic{TopicDegrade, TopicBreaker, TopicLowSpace, TopicConfig, TopicEngine, TopicUndecrypted} {
		if n := notice(Event{Topic: topic}); n.Title == "" || n.Body == "" || n.Opens.Kind != OpenPage {
			t.Errorf("%s: %+v", topic, n)
		}
	}
	if n := notice(Event{Topic: TopicEngine, Lasting: true}); !strings.Contains(n.Title, "not started again") {
		t.Errorf("an engine that is given up: %+v", n)
	}
}
