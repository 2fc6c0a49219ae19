// Package settings is the page of every setting: its value, where it comes from
// and when a change counts; with the rollout, the bypass and the lines that
// point clients here.
package settings

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"holdfast/core/config"
	"holdfast/web/layout"
)

// Source is what this page reads.
type Source interface {
	// Config returns the settings in force, their file, and what is wrong with it.
	Config() (*config.Config, string, error)
}

// Pages makes this page.
type Pages struct {
	Source Source
	Form   func() string
}

// model is the view model.
type model struct {
	form   string
	path   string
	broken string
	saved  string // the key that was just changed
	mode   string
	bypass bool
	groups []group
}

// group is the settings of one table of the file.
type group struct {
	id, name, about string
	fields          []config.Field
}

// Settings is the page.
func (p *Pages) Settings(r *http.Request) (layout.Page, error) {
	return p.page(r.URL.Query().Get("saved")), nil
}

func (p *Pages) page(saved string) layout.Page {
	c, path, broken := p.Source.Config()
	m := model{form: p.Form(), path: path, saved: saved, mode: string(c.Rollout.Mode), bypass: c.Bypass, groups: groups(c.Fields())}
	if broken != nil {
		m.broken = broken.Error()
	}
	return layout.Page{Title: "Settings", Section: "settings", Body: page(m)}
}

// groups gathers the fields by their table, in the order of the file.
func groups(fields []config.Field) (out []group) {
	at := map[string]int{}
	for _, f := range fields {
		id, _, nested := strings.Cut(f.Key, ".")
		if !nested {
			id = "general"
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			out = append(out, group{id: id, name: tables()[id][0], about: tables()[id][1]})
			if out[i].name == "" {
				out[i].name = id
			}
		}
		out[i].fields = append(out[i].fields, f)
	}
	return out
}

// tables are the tables of the file with what a person should know of each.
func tables() map[string][2]string {
	return map[string][2]string{
		"general": {"General", "Where Holdfast listens, how much it logs, and the kill switch."},
		"rollout": {"Rollout", "Which sessions are served from their rows, and how often both paths are compared."},
		"fold":    {"Folding", "When the model is asked to fold spent history, and what is left alone."},
		"ledger":  {"Ledger", "How much disk the conversations may take."},
		"routes":  {"Routes", "The upstreams. A bare path such as /v1/messages goes to the route that is the default of its family; /r/NAME/… to any."},
		"engine":  {"Engines", "Local engines that Holdfast starts, watches and stops."},
		"kv":      {"Disk KV cache", "Whether a local engine's state is kept on disk, and within which bounds."},
		"mitm":    {"Interception", "For clients that cannot be pointed elsewhere. Off as shipped."},
		"web":     {"Web", "Who may speak to the listeners."},
		"notify":  {"Notices", "What the desktop tells you about."},
	}
}

// input is what a field is typed into.
func input(f config.Field) string {
	switch reflect.ValueOf(f.Value).Kind() {
	case reflect.Bool:
		return "switch"
	case reflect.Float64, reflect.Int, reflect.Int64:
		if _, size := f.Value.(config.Size); !size {
			return "number"
		}
	}
	if len(choices(f.Key)) > 0 {
		return "choice"
	}
	return "text"
}

// choices are the values of a setting that has only a few.
func choices(key string) []string {
	return map[string][]string{
		"rollout.mode": {"off", "shadow", "on"},
		"log_level":    {"debug", "info", "warn", "error"},
		"kv.disk.mode": {"off", "auto", "fixed"},
	}[key]
}

// text is a value as it is typed.
func text(f config.Field) string {
	if s, ok := f.Value.(config.Size); ok {
		return s.String()
	}
	if reflect.ValueOf(f.Value).Kind() == reflect.String {
		return reflect.ValueOf(f.Value).String()
	}
	return f.Literal()
}

// locked says why a setting cannot be changed here, "" when it can: something
// stronger than the file decides it, or it needs the token.
func locked(f config.Field) string {
	switch {
	case f.Source == config.FromEnv:
		return "an environment variable decides this"
	case f.Source == config.FromFlag:
		return "a flag of this start decides this"
	case config.Starts(f.Key):
		return "it decides which program runs, so no browser may change it: holdfast config set " + f.Key + " …"
	}
	return ""
}

func sourceTone(s config.Source) string {
	switch s {
	case config.FromFile:
		return "brand"
	case config.FromEnv, config.FromFlag:
		return layout.Warn
	}
	return layout.Quiet
}

// about says what a setting does.
func about(key string) string {
	if p := strings.Split(key, "."); len(p) == 3 && (p[0] == "routes" || p[0] == "engine") {
		key = p[0] + ".*." + p[2]
	}
	return map[string]string{
		"addr": "where agents send their requests", "inspector_addr": "where these pages are", "bypass": "send everything untouched",
		"log_level": "how much the log says; never prompts or keys", "rollout.mode": "off, shadow (compare only) or on",
		"rollout.percent": "of sessions that may be served from rows", "rollout.tripwire_percent": "of their turns compared with the full path",
		"fold.enabled": "offer the model the tools to fold its history", "fold.window_percent": "of the window: ask for a fold",
		"fold.emergency_percent": "of the window: one fold is made for the model", "fold.growth_tokens": "read again and again before a session's first fold; without economics, tokens between two reminders",
		"fold.economics": "ask only when a fold pays for itself", "fold.holdout_percent": "of folds skipped, to measure what they save",
		"fold.marker_line": "a line where something was folded", "fold.protect_tools": "tools whose results are never folded",
		"ledger.budget": "disk the conversations may take",
		"routes.*.url":  "the upstream's address", "routes.*.default_for": "families whose bare paths go here", "routes.*.engine": "llamacpp: the disk KV cache may serve it",
		"routes.*.slot_dir": "the engine's --slot-save-path, the same folder", "routes.*.wire": "its family, where the path does not tell", "routes.*.stateful": "the upstream keeps conversations",
		"routes.*.strict_roles": "roles must alternate", "routes.*.window": "tokens; 0 for the model's own", "routes.*.proxy": "an HTTP proxy on the way", "routes.*.key_env": "the variable with its key, for replay only",
		"engine.*.model": "the GGUF file it loads", "engine.*.command": "the program that is run", "engine.*.slots": "conversations it holds at once", "engine.*.context": "tokens of all its slots together",
		"kv.disk.mode": "off, auto (a share of what is free) or fixed", "kv.disk.directory": "where the states lie; empty for Holdfast's own folder",
		"kv.disk.budget": "counts in mode fixed only", "kv.disk.reserve": "free space left for everybody else",
		"kv.disk.min_tokens": "shorter prompts are not stored", "kv.disk.daily_write_cap": "bytes written per day at most, against wear",
		"mitm.enabled": "decrypt the listed hosts for clients that trust our root", "mitm.domains": "the hosts, and no other",
		"web.allowed_origins": "web pages that may call the proxy", "web.proxy_secret": "ask for a secret in every proxied path",
		"notify.degrade": "first step down of a session", "notify.low_space": "the disk is nearly full",
		"notify.breaker": "a session is held on the full path", "notify.config": "config.toml cannot be read",
		"notify.engine": "a local engine ended", "notify.undecrypted": "an agent whose traffic stays closed",
	}[key]
}

// Checked is the answer to a value as it is typed.
type Checked struct{ Key, Problem string }

// Check judges a value against the settings in force without changing anything.
func Check(file []byte, key, value string) Checked {
	_, err := config.Set(file, key, value)
	if err != nil {
		return Checked{key, err.Error()}
	}
	return Checked{key, ""}
}

func fieldID(key string) string { return "f-" + strings.NewReplacer(".", "-", "_", "-").Replace(key) }

func savedText(key string, gs []group) string {
	for _, g := range gs {
		for _, f := range g.fields {
			if f.Key == key {
				if f.Effect == config.Restart {
					return fmt.Sprintf("%s is saved as %s and counts after a restart.", key, f.Literal())
				}
				return fmt.Sprintf("%s is %s now.", key, f.Literal())
			}
		}
	}
	return key + " is saved."
}

// routeOf is the route whose address a setting is, "" for any other.
func routeOf(key string) string {
	name, ok := strings.CutPrefix(key, "routes.")
	name, url := strings.CutSuffix(name, ".url")
	if !ok || !url {
		return ""
	}
	return name
}
