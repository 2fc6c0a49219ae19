// Package config is the settings struct with its defaults, the reading and
// checking of config.toml, and the per-field source. It is values in, values
// out: finding, watching and writing the file is the program's business.
//
// A setting is named by its dotted key in config.toml ("rollout.mode"). Each
// comes from the default, the file, the environment or a flag, the later ones
// winning field by field, and remembers which it was.
package config

import (
	"maps"

	"holdfast/core/usage"
)

// Config is every setting. It is a value: layers return changed copies, and
// nobody writes to the maps and slices of one they were handed.
//
// The tag effect:"restart" marks what a running process cannot take up;
// everything else is live.
type Config struct {
	Addr          string `toml:"addr" effect:"restart"`
	InspectorAddr string `toml:"inspector_addr" effect:"restart"`
	LogLevel      string `toml:"log_level"`
	// Bypass sends everything untouched. It lives in the file so that the
	// switch survives a restart.
	Bypass  bool              `toml:"bypass"`
	Rollout Rollout           `toml:"rollout"`
	Fold    Fold              `toml:"fold"`
	Ledger  Ledger            `toml:"ledger"`
	Routes  map[string]Route  `toml:"routes"`
	Engine  map[string]Engine `toml:"engine"`
	KV      KV                `toml:"kv"`
	MITM    MITM              `toml:"mitm"`
	Web     Web               `toml:"web"`
	Notify  Notify            `toml:"notify"`

	// sources names the layer of every field that is not a default.
	sources map[string]Source
}

// RolloutMode is the rollout flag.
type RolloutMode string

// The rollout modes: no snapshot rows are written; rows are written and the
// full path serves; rows serve.
const (
	Off    RolloutMode = "off"
	Shadow RolloutMode = "shadow"
	On     RolloutMode = "on"
)

// Rollout chooses which sessions the snapshot path serves.
type Rollout struct {
	Mode RolloutMode `toml:"mode"`
	// Percent of sessions that may take the snapshot path, TripwirePercent of
	// their turns that are compared with the full path.
	Percent         float64 `toml:"percent"`
	TripwirePercent float64 `toml:"tripwire_percent"`
}

// Fold is when the kernel asks for folds, and what it leaves alone. Percentages
// are of the model's window.
type Fold struct {
	// Enabled offers the model our tools, so that it may fold its history. Off is
	// the kill switch: from the next turn on nothing is added to any request, save
	// in sessions that hold folds, which keep them and are not asked for more.
	Enabled          bool    `toml:"enabled"`
	WindowPercent    float64 `toml:"window_percent"`
	EmergencyPercent float64 `toml:"emergency_percent"`
	// GrowthTokens must have been read again and again before a session's first
	// fold; with Economics off it is the step of growth at which folds are asked.
	GrowthTokens   usage.Tokens `toml:"growth_tokens"`
	Economics      bool         `toml:"economics"`
	HoldoutPercent float64      `toml:"holdout_percent"`
	MarkerLine     bool         `toml:"marker_line"`
	ProtectTools   []string     `toml:"protect_tools"`
}

// Ledger is the disk budget of the ledger.
type Ledger struct {
	Budget Size `toml:"budget"`
}

// Family is one of the four API families.
type Family string

// The families; each is also the name of its wire.
const (
	Anthropic Family = "anthropic"
	OpenAI    Family = "openai"
	Responses Family = "responses"
	Google    Family = "google"
)

// Families are all families in the order they are shown.
func Families() []Family { return []Family{Anthropic, OpenAI, Responses, Google} }

// Route is one upstream, addressed as /r/<name>/….
type Route struct {
	URL string `toml:"url"`
	// DefaultFor are the families whose bare paths (/v1/messages …) come here.
	DefaultFor []Family `toml:"default_for"`
	// Wire overrides the family told by the request path; "" for none.
	Wire   Family `toml:"wire"`
	Engine string `toml:"engine"` // "llamacpp" enables the KV tier, "" for none
	// SlotDir must equal the engine's own --slot-save-path.
	SlotDir string `toml:"slot_dir"`
	// Stateful routes keep the conversation themselves and get only new items.
	Stateful bool `toml:"stateful"`
	// StrictRoles routes refuse roles and orders that others take.
	StrictRoles bool         `toml:"strict_roles"`
	Window      usage.Tokens `toml:"window"` // 0 asks the bundled table
	Proxy       string       `toml:"proxy"`  // HTTP proxy towards the upstream, "" for none
	// KeyEnv is the environment variable that holds a key for replay; client
	// keys are never stored.
	KeyEnv string `toml:"key_env"`
}

// Engine is a local engine that Holdfast starts, watches and stops.
type Engine struct {
	Model   string `toml:"model"`
	Command string `toml:"command"`
	Slots   int    `toml:"slots"`
	Context int    `toml:"context"` // tokens
}

// KV is the disk KV tier.
type KV struct {
	Disk KVDisk `toml:"disk"`
}

// KVDisk bounds the tier on disk. Budget counts in mode fixed only; Reserve is
// the free space left for everybody else.
type KVDisk struct {
	Mode          string       `toml:"mode" effect:"restart"`
	Directory     string       `toml:"directory" effect:"restart"`
	Budget        Size         `toml:"budget"`
	Reserve       Size         `toml:"reserve"`
	MinTokens     usage.Tokens `toml:"min_tokens"`
	DailyWriteCap Size         `toml:"daily_write_cap"`
}

// MITM is interception for clients that cannot be pointed elsewhere.
type MITM struct {
	Enabled bool     `toml:"enabled"`
	Domains []string `toml:"domains"`
}

// Web is who may speak to the listeners.
type Web struct {
	// AllowedOrigins, and only these, may call from a browser; they also get
	// CORS headers.
	AllowedOrigins []string `toml:"allowed_origins"`
	// ProxySecret asks for /p/<secret>/ before every proxied path.
	ProxySecret bool `toml:"proxy_secret"`
}

// Notify switches desktop notifications: a session stepped down, one is held
// on the full path, the disk is almost full, config.toml has a mistake, a local
// engine died, an agent's traffic stayed closed.
type Notify struct {
	Degrade     bool `toml:"degrade"`
	Breaker     bool `toml:"breaker"`
	LowSpace    bool `toml:"low_space"`
	Config      bool `toml:"config"`
	Engine      bool `toml:"engine"`
	Undecrypted bool `toml:"undecrypted"`
}

// Default is every setting as shipped.
func Default() Config {
	return Config{
		Addr:          "127.0.0.1:4153",
		InspectorAddr: "127.0.0.1:4154",
		LogLevel:      "info",
		Rollout:       Rollout{Mode: Shadow, Percent: 100, TripwirePercent: 1},
		Fold: Fold{
			Enabled:       true,
			WindowPercent: 75, EmergencyPercent: 95, GrowthTokens: 50_000,
			Economics: true, ProtectTools: []string{},
		},
		Ledger: Ledger{Budget: 2 * GiB},
		Routes: map[string]Route{
			"anthropic": {URL: "https://api.anthropic.com", DefaultFor: []Family{Anthropic}},
			"openai":    {URL: "https://api.openai.com", DefaultFor: []Family{OpenAI, Responses}},
			"google":    {URL: "https://generativelanguage.googleapis.com", DefaultFor: []Family{Google}},
		},
		KV: KV{Disk: KVDisk{
			Mode: "off", Budget: 32 * GiB, Reserve: 16 * GiB,
			MinTokens: 256, DailyWriteCap: 64 * GiB,
		}},
		MITM:   MITM{Domains: []string{}},
		Web:    Web{AllowedOrigins: []string{}},
		Notify: Notify{Degrade: true, Breaker: true, LowSpace: true, Config: true, Engine: true, Undecrypted: true},
	}
}

// RouteFor returns the route that is the default of a family.
func (c *Config) RouteFor(f Family) (name string, r Route, ok bool) {
	for name, r := range c.Routes {
		for _, d := range r.DefaultFor {
			if d == f {
				return name, r, true
			}
		}
	}
	return "", Route{}, false
}

// clone copies the maps, so that a layer can write to them.
func (c Config) clone() Config {
	c.Routes, c.Engine, c.sources = maps.Clone(c.Routes), maps.Clone(c.Engine), maps.Clone(c.sources)
	if c.sources == nil {
		c.sources = map[string]Source{}
	}
	return c
}
