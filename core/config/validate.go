package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinLedgerBudget leaves room for a few sessions whole; below it the ledger
// would purge while it records.
const MinLedgerBudget = 16 * MiB

// MinReserve is the free space the KV tier may never go below.
const MinReserve = 1 * GiB

// MinDailyWriteCap holds the state of a short prompt; below it nothing would ever
// be written, and 0 must not read as "as much as you like".
const MinDailyWriteCap = 1 * MiB

// Validate checks every value and how they fit together.
func (c *Config) Validate() error {
	for _, check := range []func() error{
		c.checkTop, c.checkRollout, c.checkFold, c.checkRoutes, c.checkEngines, c.checkKV, c.checkWeb,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkTop() error {
	if err := checkAddr("addr", c.Addr); err != nil {
		return err
	}
	if err := checkAddr("inspector_addr", c.InspectorAddr); err != nil {
		return err
	}
	if c.Addr == c.InspectorAddr && !strings.HasSuffix(c.Addr, ":0") {
		return &Error{Key: "inspector_addr", What: "proxy and inspector cannot share an address"}
	}
	if err := oneOf("log_level", c.LogLevel, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	if c.Ledger.Budget < MinLedgerBudget {
		return &Error{Key: "ledger.budget", What: "must be at least " + MinLedgerBudget.String()}
	}
	return nil
}

// checkAddr accepts host:port; whether the host may be listened on is a matter
// of the guard.
func checkAddr(key, addr string) error {
	u, err := url.Parse("//" + addr)
	if err == nil && u.Host == addr && u.Hostname() != "" {
		if _, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			return nil
		}
	}
	return &Error{Key: key, What: fmt.Sprintf("%q is not an address", addr), Hint: `write "127.0.0.1:4153", port 0 for a free one`}
}

func (c *Config) checkRollout() error {
	if err := oneOf("rollout.mode", string(c.Rollout.Mode), "off", "shadow", "on"); err != nil {
		return err
	}
	return firstOf(
		percent("rollout.percent", c.Rollout.Percent, 0),
		percent("rollout.tripwire_percent", c.Rollout.TripwirePercent, 0),
	)
}

func (c *Config) checkFold() error {
	f := c.Fold
	switch {
	case f.EmergencyPercent <= f.WindowPercent:
		return &Error{Key: "fold.emergency_percent", What: "must be above fold.window_percent"}
	case f.GrowthTokens < 1000:
		return &Error{Key: "fold.growth_tokens", What: "must be at least 1000"}
	}
	return firstOf(
		percent("fold.window_percent", f.WindowPercent, 10),
		percent("fold.emergency_percent", f.EmergencyPercent, 10),
		percent("fold.holdout_percent", f.HoldoutPercent, 0),
	)
}

func percent(key string, v, least float64) error {
	if v >= least && v <= 100 {
		return nil
	}
	return &Error{Key: key, What: fmt.Sprintf("%v is not between %v and 100", v, least)}
}

// tableName is what can stand in a /r/<name>/ path and in a table header
// without quotes, variable the name of an environment variable.
var (
	tableName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (c *Config) checkRoutes() error {
	owner := map[Family]string{}
	for _, name := range slices.Sorted(mapKeys(c.Routes)) {
		key, r := "routes."+name, c.Routes[name]
		if !tableName.MatchString(name) {
			return &Error{Key: key, What: "a route's name is letters, digits, - and _ in lower case"}
		}
		if err := r.check(key); err != nil {
			return err
		}
		for _, f := range r.DefaultFor {
			if !slices.Contains(Families(), f) {
				return &Error{Key: key + ".default_for", What: fmt.Sprintf("%q is not a family", f), Hint: "one of anthropic, openai, responses, google"}
			}
			if owner[f] != "" {
				return &Error{Key: key + ".default_for", What: fmt.Sprintf("%s already goes to route %s", f, owner[f]), Hint: "a family has one default route"}
			}
			owner[f] = name
		}
	}
	return nil
}

func (r Route) check(key string) error {
	if err := checkURL(key+".url", r.URL, false); err != nil {
		return err
	}
	if err := checkURL(key+".proxy", r.Proxy, true); err != nil {
		return err
	}
	switch {
	case r.Wire != "" && !slices.Contains(Families(), r.Wire):
		return &Error{Key: key + ".wire", What: fmt.Sprintf("%q is not a wire", r.Wire), Hint: "one of anthropic, openai, responses, google"}
	case r.Engine != "" && r.Engine != "llamacpp":
		return &Error{Key: key + ".engine", What: fmt.Sprintf("%q is not an engine Holdfast knows", r.Engine), Hint: `"llamacpp", or leave it out`}
	case r.SlotDir != "" && !filepath.IsAbs(r.SlotDir):
		return &Error{Key: key + ".slot_dir", What: "must be an absolute path"}
	case r.Window < 0:
		return &Error{Key: key + ".window", What: "must not be negative"}
	case r.KeyEnv != "" && !variable.MatchString(r.KeyEnv):
		return &Error{Key: key + ".key_env", What: "wants the name of an environment variable, not the key itself"}
	}
	return nil
}

// checkURL accepts an absolute http(s) URL. Credentials in it are refused: the
// file is shown in the inspector and goes into support bundles.
func checkURL(key, s string, optional bool) error {
	if s == "" && optional {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &Error{Key: key, What: "is not a full URL", Hint: `such as "https://api.example.com"`}
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return &Error{Key: key, What: "must not carry a user, a query or a fragment", Hint: "keys belong to the client or to key_env"}
	}
	return nil
}

func (c *Config) checkEngines() error {
	for _, name := range slices.Sorted(mapKeys(c.Engine)) {
		key, e := "engine."+name, c.Engine[name]
		switch {
		case !tableName.MatchString(name):
			return &Error{Key: key, What: "an engine's name is letters, digits, - and _ in lower case"}
		case e.Slots < 0:
			return &Error{Key: key + ".slots", What: "must not be negative"}
		case e.Context < 0:
			return &Error{Key: key + ".context", What: "must not be negative"}
		}
	}
	return nil
}

func (c *Config) checkKV() error {
	d := c.KV.Disk
	if err := oneOf("kv.disk.mode", d.Mode, "off", "auto", "fixed"); err != nil {
		return err
	}
	switch {
	case d.Directory != "" && !filepath.IsAbs(d.Directory):
		return &Error{Key: "kv.disk.directory", What: "must be an absolute path"}
	case d.Reserve < MinReserve:
		return &Error{Key: "kv.disk.reserve", What: "must be at least " + MinReserve.String()}
	case d.Mode == "fixed" && d.Budget <= 0:
		return &Error{Key: "kv.disk.budget", What: "mode fixed needs a budget"}
	case d.MinTokens < 0:
		return &Error{Key: "kv.disk.min_tokens", What: "must not be negative"}
	case d.DailyWriteCap < MinDailyWriteCap:
		return &Error{Key: "kv.disk.daily_write_cap", What: "must be at least " + MinDailyWriteCap.String(), Hint: `to write nothing, set kv.disk.mode = "off"`}
	}
	return nil
}

func (c *Config) checkWeb() error {
	for _, o := range c.Web.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return &Error{Key: "web.allowed_origins", What: fmt.Sprintf("%q is not an origin", o), Hint: `such as "http://localhost:3000"; neither * nor null`}
		}
	}
	for _, d := range c.MITM.Domains {
		if d == "" || strings.ContainsAny(d, "/:*@ ") {
			return &Error{Key: "mitm.domains", What: fmt.Sprintf("%q is not a host name", d)}
		}
	}
	return nil
}

func oneOf(key, v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return &Error{Key: key, What: fmt.Sprintf("%q is not one of %s", v, strings.Join(allowed, ", "))}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
