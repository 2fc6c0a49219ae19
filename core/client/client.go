// Package client is the table of agents that can be pointed at Holdfast: how
// each is told where its model is, for one run (environment and flags), for a
// person who copies one line, and for good (an edit of the agent's own settings
// that is undone to the byte). It is text in, text out; the tray, first run,
// `holdfast run` and `holdfast plugin` all speak from this one table.
//
// An agent that was already pointed somewhere keeps going there: its old base
// URL is carried behind /via/, so only the way changes, not the upstream.
package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Agent is one row of the table.
type Agent struct {
	ID      string
	Name    string
	Program string // on the search path, "" for a library
	vars    []place
	args    func(at func(place) string) []string
	file    func(at func(place) string) (name, text string) // handed over behind fileFlag
	env     func(at func(place) string) []string            // beyond vars
	config  *Config
}

// place is where a base URL is kept, and the path it has below the proxy.
type place struct{ name, path string }

const fileFlag = "--extension"

// All returns the table in the order it is shown.
func All() []Agent {
	return []Agent{claude(), codex(), opencode(), pi(), gemini(), qwen(), copilot(), openAISDK(), anthropicSDK()}
}

// Find returns one row.
func Find(id string) (Agent, bool) {
	all := All()
	i := slices.IndexFunc(all, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		return Agent{}, false
	}
	return all[i], true
}

func claude() Agent {
	v := place{"ANTHROPIC_BASE_URL", ""}
	return Agent{ID: "claude", Name: "Claude Code", Program: "claude", vars: []place{v},
		config: &Config{Folder: ".claude", FolderVar: "CLAUDE_CONFIG_DIR", File: "settings.json", format: jsonFile{},
			places: []place{{"env." + v.name, v.path}}}}
}

func codex() Agent {
	v := place{"openai_base_url", "/v1"}
	return Agent{ID: "codex", Name: "Codex", Program: "codex",
		args: func(at func(place) string) []string { return []string{"-c", fmt.Sprintf("%s=%q", v.name, at(v))} },
		config: &Config{Folder: ".codex", FolderVar: "CODEX_HOME", File: "config.toml", format: lines{tables: true},
			places: []place{v}}}
}

// families are the providers that opencode and pi know by the same names.
func families(prefix, suffix string) []place {
	return []place{{prefix + "anthropic" + suffix, "/v1"}, {prefix + "openai" + suffix, "/v1"}, {prefix + "google" + suffix, "/v1beta"}}
}

func opencode() Agent {
	places := families("provider.", ".options.baseURL")
	return Agent{ID: "opencode", Name: "opencode", Program: "opencode",
		env: func(at func(place) string) []string {
			text, err := jsonFile{}.apply(nil, values(places, at))
			if err != nil {
				panic("client: internal error: " + err.Error())
			}
			return []string{"OPENCODE_CONFIG_CONTENT=" + compact(text)}
		},
		config: &Config{Folder: ".config/opencode", FolderVar: "OPENCODE_CONFIG_DIR", File: "opencode.json", format: jsonFile{}, places: places}}
}

// pi's client for Anthropic adds /v1 itself.
func pi() Agent {
	places := families("providers.", ".baseUrl")
	places[0].path = ""
	return Agent{ID: "pi", Name: "pi", Program: "pi",
		file: func(at func(place) string) (name, text string) {
			urls := map[string]string{}
			for _, p := range places {
				urls[strings.Split(p.name, ".")[1]] = at(p)
			}
			list, _ := json.Marshal(urls) // strings always encode
			return "holdfast-for-pi.mjs", "// Written by holdfast run pi.\nconst urls = " + string(list) +
				"\nexport default (pi) => {\n\tfor (const [name, baseUrl] of Object.entries(urls)) pi.registerProvider(name, { baseUrl })\n}\n"
		},
		config: &Config{Folder: ".pi/agent", FolderVar: "PI_CODING_AGENT_DIR", File: "models.json", format: jsonFile{}, places: places}}
}

func gemini() Agent {
	v := place{"GOOGLE_GEMINI_BASE_URL", ""}
	return Agent{ID: "gemini", Name: "Gemini CLI", Program: "gemini", vars: []place{v},
		config: &Config{Folder: ".gemini", File: ".env", format: lines{}, places: []place{v}}}
}

func qwen() Agent {
	v := place{"OPENAI_BASE_URL", "/v1"}
	return Agent{ID: "qwen", Name: "Qwen Code", Program: "qwen", vars: []place{v},
		config: &Config{Folder: ".qwen", File: ".env", format: lines{}, places: []place{v}}}
}

// copilot can only be pointed elsewhere with a key of one's own, and only by
// its environment.
func copilot() Agent {
	return Agent{ID: "copilot", Name: "Copilot CLI", Program: "copilot", vars: []place{{"COPILOT_PROVIDER_BASE_URL", "/v1"}}}
}

func openAISDK() Agent {
	return Agent{ID: "openai-sdk", Name: "OpenAI SDK", vars: []place{{"OPENAI_BASE_URL", "/v1"}}}
}

func anthropicSDK() Agent {
	return Agent{ID: "anthropic-sdk", Name: "Anthropic SDK", vars: []place{{"ANTHROPIC_BASE_URL", ""}}}
}

// Setup is what a person is shown and copies.
type Setup struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Base string `json:"base"` // the base URL alone
	Line string `json:"line"` // the one line that points the agent here
	Into string `json:"into"` // where the line goes
}

// Shell is how a line sets a variable.
type Shell int

// The shells.
const (
	POSIX Shell = iota
	PowerShell
)

// Setup is the line for an agent. Base is our proxy's URL.
func (a Agent) Setup(base string, sh Shell) Setup {
	at := func(p place) string { return base + p.path }
	s := Setup{ID: a.ID, Name: a.Name, Base: base, Into: "a terminal, before it starts"}
	switch {
	case len(a.vars) > 0:
		s.Base = at(a.vars[0])
		s.Line = sh.set(a.vars[0].name, s.Base)
	case a.args != nil:
		s.Base = at(a.config.places[0])
		s.Line = a.Program + " " + sh.quote(a.args(at))
		s.Into = "a terminal, to start it"
	default:
		text, err := a.config.format.apply(nil, values(a.config.places, at))
		if err != nil {
			panic("client: internal error: " + err.Error())
		}
		s.Line, s.Into = compact(text), "~/"+a.config.Folder+"/"+a.config.File
	}
	return s
}

func (sh Shell) set(name, value string) string {
	if sh == PowerShell {
		return fmt.Sprintf("$env:%s = \"%s\"", name, value)
	}
	return "export " + name + "=" + value
}

// quote writes arguments so that either shell hands them on as they are; ours
// hold no single quotes.
func (Shell) quote(args []string) string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.ContainsAny(arg, "\"{} ") {
			out[i] = "'" + arg + "'"
		}
	}
	return strings.Join(out, " ")
}

// Launch is what one run of an agent is started with.
type Launch struct {
	Env  []string
	Args []string // before the person's own
	// FileName and FileText are a file the agent reads; its path goes behind
	// FileFlag. Empty for none.
	FileName, FileText, FileFlag string
}

// Launch points one run at base. Getenv is the environment the agent would
// have had; what it names already is reached through us.
func (a Agent) Launch(base string, getenv func(string) string) Launch {
	at := func(p place) string { return Via(base, p.path, getenv(p.name)) }
	var l Launch
	for _, v := range a.vars {
		l.Env = append(l.Env, v.name+"="+at(v))
	}
	if a.env != nil {
		l.Env = append(l.Env, a.env(at)...)
	}
	if a.args != nil {
		l.Args = a.args(at)
	}
	if a.file != nil {
		l.FileName, l.FileText = a.file(at)
		l.FileFlag = fileFlag
	}
	return l
}

// Via is the base URL that leads through base: to the default route at path,
// or to the upstream an agent was pointed at before.
func Via(base, path, before string) string {
	switch {
	case strings.HasPrefix(before, base):
		return before
	case strings.HasPrefix(before, "http://") || strings.HasPrefix(before, "https://"):
		return base + "/via/" + before
	}
	return base + path
}
