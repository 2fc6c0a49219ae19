package ui

import (
	"fmt"
	"math"
	"unicode"
)

// Item is one line of the menu. Key names it for good: the keys of a menu and
// their order are the same for every snapshot, so that what draws it can change
// a line in place.
type Item struct {
	Key       string
	Label     string
	Separator bool
	Check     bool // it is on or off; Checked says which
	Checked   bool
	Disabled  bool
	Hidden    bool
	Does      Command
	Items     []Item // a submenu
}

// Paths of the inspector that the menu opens.
const (
	pageHome     = "/ui/"
	pageCache    = "/ui/cache"
	pageSessions = "/ui/sessions/"
)

// recentLines is how many sessions the menu offers.
const recentLines = 5

// Menu is the menu of a snapshot. No label holds a counter or a clock: a menu
// that changes under the pointer is no menu.
func Menu(s Snapshot) []Item {
	return []Item{
		{Key: "status", Label: StatusLine(s), Disabled: true},
		{Key: "sep1", Separator: true},
		{Key: "open", Label: "Open inspector", Does: Command{OpenPage, pageHome}},
		{Key: "sep2", Separator: true},
		serve(s),
		ask(s),
		{Key: "bypass", Label: "Bypass (send everything untouched)", Check: true, Checked: s.Bypass, Does: toggle(SetBypass, s.Bypass)},
		cache(s.KV),
		{Key: "sep3", Separator: true},
		clients(s.Clients),
		recent(s.Recent),
		{Key: "sep4", Separator: true},
		{Key: "login", Label: "Start at login", Check: true, Checked: s.AtLogin, Does: toggle(SetAtLogin, s.AtLogin)},
		{Key: "doctor", Label: "Check setup", Does: Command{Kind: Doctor}},
		{Key: "quit", Label: "Quit", Does: Command{Kind: Quit}},
	}
}

// StatusLine is the first line of the menu and the tooltip of the icon.
func StatusLine(s Snapshot) string {
	line := "Holdfast: " + StateOf(s).String()
	if StateOf(s) == Degraded {
		line += ", " + troubleText(s.Trouble)
	}
	return line
}

func troubleText(t Trouble) string {
	return [...]string{
		Fine:         "",
		KVDegraded:   "the disk KV cache is not serving",
		BreakerOpen:  "a session is held on the full path",
		LowSpace:     "the disk is almost full",
		ConfigBroken: "config.toml has a mistake",
	}[t]
}

// toggle is the command that turns a switch the other way.
func toggle(k Kind, on bool) Command {
	if on {
		return Command{k, "off"}
	}
	return Command{k, "on"}
}

// mustAsk reports whether turning the snapshots on wants a second thought.
func mustAsk(s Snapshot) bool { return s.Mode != "on" && len(s.Doubts) > 0 }

const serveLabel = "Serve from snapshots"

// serve is the rollout flag, shadow or on; off is for the settings page.
func serve(s Snapshot) Item {
	it := Item{Key: "serve", Label: serveLabel, Check: true, Checked: s.Mode == "on", Hidden: mustAsk(s), Does: Command{SetRollout, "on"}}
	if s.Mode == "on" {
		it.Does.Arg = "shadow"
	}
	return it
}

// doubtLines is how many reasons the menu can give.
const doubtLines = 4

// ask stands in for serve while the evidence is not clean: it says why, and
// turning on takes a second click.
func ask(s Snapshot) Item {
	it := Item{Key: "ask", Label: serveLabel + " (not advised yet)", Hidden: !mustAsk(s)}
	for i := range doubtLines {
		line := Item{Key: fmt.Sprint("doubt", i), Disabled: true, Hidden: i >= len(s.Doubts)}
		if !line.Hidden {
			line.Label = s.Doubts[i]
		}
		it.Items = append(it.Items, line)
	}
	it.Items = append(it.Items,
		Item{Key: "sep-ask", Separator: true},
		Item{Key: "evidence", Label: "Look at the evidence", Does: Command{OpenPage, pageHome}},
		Item{Key: "anyway", Label: "Turn on anyway", Does: Command{SetRollout, "on"}})
	return it
}

func cache(k KV) Item {
	mode := func(key, label, mode string) Item {
		return Item{Key: key, Label: label, Check: true, Checked: k.Mode == mode, Does: Command{SetKV, mode}}
	}
	return Item{Key: "kv", Label: "Disk KV cache: " + cacheText(k), Items: []Item{
		mode("kv-off", "Off", "off"),
		mode("kv-auto", "Auto", "auto"),
		{Key: "kv-prune", Label: "Prune to 85 %", Disabled: k.Budget == 0, Does: Command{Kind: PruneKV}},
		{Key: "kv-open", Label: "Open budgets", Does: Command{OpenPage, pageCache}},
	}}
}

// cacheText is state and fill of the tier.
func cacheText(k KV) string {
	running := k.State != "" && k.State != "off"
	switch {
	case k.Mode != "off" && !k.Engine:
		return k.Mode + ", but no route has a local engine"
	case k.Mode == "off" && running:
		return "off after a restart"
	case k.Mode != "off" && !running:
		return k.Mode + " after a restart"
	case !running:
		return "off"
	case k.Budget == 0:
		return stateText(k.State)
	}
	return stateText(k.State) + ", " + sizeText(k.Used) + " of " + sizeText(k.Budget)
}

func stateText(state string) string {
	switch state {
	case "read_only_low_space":
		return "reading only, the disk is almost full"
	case "pruning_to_budget":
		return "pruning"
	}
	return state
}

// sizeText rounds to two digits, so that a label seldom changes.
func sizeText(n int64) string {
	f, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= 1000 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f %s", math.Round(f/10)*10, units[0])
	case f >= 10:
		return fmt.Sprintf("%.0f %s", f, units[0])
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// clientLines is how many agents the menu has room for.
const clientLines = 12

func clients(list []Client) Item {
	it := Item{Key: "copy", Label: "Copy base URL for"}
	for i := range clientLines {
		line := Item{Key: fmt.Sprint("copy", i), Hidden: i >= len(list)}
		if !line.Hidden {
			line.Label, line.Does = list[i].Name, Command{CopyLine, list[i].ID}
		}
		it.Items = append(it.Items, line)
	}
	return it
}

func recent(list []Recent) Item {
	it := Item{Key: "recent", Label: "Recent sessions", Items: []Item{
		{Key: "recent-none", Label: "None yet", Disabled: true, Hidden: len(list) > 0},
	}}
	for i := range recentLines {
		line := Item{Key: fmt.Sprint("recent", i), Hidden: i >= len(list)}
		if !line.Hidden {
			line.Label, line.Does = title(list[i]), Command{OpenPage, pageSessions + list[i].ID}
		}
		it.Items = append(it.Items, line)
	}
	return it
}

// titleRunes is how much of a title a menu shows.
const titleRunes = 48

// title is a session's name on one short line: it comes from a conversation,
// so what is not printable is left out.
func title(r Recent) string {
	var out []rune
	for _, c := range r.Title {
		if unicode.IsSpace(c) {
			c = ' '
		}
		if unicode.IsPrint(c) {
			out = append(out, c)
		}
		if len(out) > titleRunes {
			return string(out[:titleRunes-1]) + "…"
		}
	}
	if len(out) == 0 {
		return r.ID
	}
	return string(out)
}
