package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/storage/durable"
	"holdfast/web/api"
)

// Check is the finding of one thing doctor looked at.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"` // ok, warn or fail
	What  string `json:"what"`
	Hint  string `json:"hint,omitempty"`
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, State: "ok", What: fmt.Sprintf(format, args...)}
}

func warn(name, hint, format string, args ...any) Check {
	return Check{Name: name, State: "warn", What: fmt.Sprintf(format, args...), Hint: hint}
}

func fail(name, hint, format string, args ...any) Check {
	return Check{Name: name, State: "fail", What: fmt.Sprintf(format, args...), Hint: hint}
}

func (c *cli) doctorCommand() *cobra.Command {
	var bundle string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the setup, say what is wrong and what to do", Args: cobra.NoArgs,
		Long: "Looks at folders, permissions, settings, ports, the lock, the ledger, disk space, routes\n" +
			"and the clock. Sends nothing anywhere.",
	}
	cmd.Flags().StringVar(&bundle, "bundle", "", "also write a redacted zip for a bug report to this file")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		paths, err := pathsFrom(c.getenv)
		if err != nil {
			return err
		}
		d := &doctor{cli: c, paths: paths}
		checks := d.examine(ctx)
		if bundle != "" {
			err = d.bundle(ctx, bundle, checks)
		}
		if d.backend != nil {
			err = errors.Join(err, d.backend.close())
		}
		if err != nil {
			return err
		}
		return c.report(checks, bundle)
	})
	return c.withJSON(cmd)
}

// report prints the findings; a failed check fails the command.
func (c *cli) report(checks []Check, bundle string) error {
	failed := 0
	rows := [][]string{}
	for _, ch := range checks {
		if ch.State == "fail" {
			failed++
		}
		rows = append(rows, []string{ch.State, ch.Name, ch.What})
		if ch.Hint != "" {
			rows = append(rows, []string{"", "", "-> " + ch.Hint})
		}
	}
	var err error
	if c.json {
		err = c.printJSON(checks)
	} else if err = table(c.out, rows); err == nil && bundle != "" {
		_, err = fmt.Fprintf(c.out, "\nThe bundle %s holds settings, status, the end of the log and a list of sessions without titles; no bodies and no keys.\n", bundle)
	}
	if failed > 0 {
		err = errors.Join(err, &Fault{Code: exitFailed, What: fmt.Sprintf("%d of %d checks failed", failed, len(checks)), Hint: "each failed line says what to do"})
	}
	return err
}

// doctor looks at one home.
type doctor struct {
	*cli
	paths    Paths
	runtime  Runtime
	running  bool
	settings *Settings // nil when the file is broken
	backend  *backend  // nil when the ledger cannot be asked
}

// examine runs the checks in the order in which one explains the next.
func (d *doctor) examine(ctx context.Context) []Check {
	d.runtime, d.running = findRunning(ctx, d.paths)
	checks := d.folders()
	checks = append(checks, d.config(), d.process())
	if d.settings != nil {
		checks = append(checks, d.ports(), d.routes(), d.reach())
	}
	checks = append(checks, d.space(), d.clock())
	return append(checks, d.ledger(ctx)...)
}

// folders checks that they are there and nobody else's to read.
func (d *doctor) folders() (out []Check) {
	seen := map[string]bool{}
	for _, dir := range []string{d.paths.Config, d.paths.Data, d.paths.State} {
		if !seen[dir] {
			seen[dir] = true
			out = append(out, private("folder", dir))
		}
	}
	for _, file := range []string{d.paths.tokenFile(), d.paths.ledgerFile()} {
		if _, err := os.Stat(file); err == nil {
			out = append(out, private("file", file))
		}
	}
	return out
}

func private(name, path string) Check {
	who, err := durable.Others(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ok(name, "%s will be made at the first start", path)
	case err != nil:
		return fail(name, "make it readable for the user that runs Holdfast", "%s: %v", path, err)
	case who != "":
		return fail(name, closing(path), "%s can be read by others (%s)", path, who)
	}
	return ok(name, "%s is yours alone", path)
}

// closing is how a person closes a file or folder to others.
func closing(path string) string {
	if runtime.GOOS != "windows" {
		return "chmod go= " + path
	}
	rights := "F"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		rights = "(OI)(CI)F" // what is in it too
	}
	return `icacls "` + path + `" /inheritance:r /grant:r "%USERNAME%:` + rights + `"`
}

func (d *doctor) config() Check {
	s, err := loadSettings(d.paths.configFile(), d.getenv, nil)
	var f *Fault
	if errors.As(err, &f) {
		if d.running {
			f.Hint += "; until then the running Holdfast keeps the last good settings"
		}
		return fail("settings", f.Hint, "%v", f)
	}
	d.settings = s
	n := 0
	c := s.Current()
	for _, field := range c.Fields() {
		if field.Source != config.FromDefault {
			n++
		}
	}
	return ok("settings", "%s is valid, %d settings are not the defaults", s.path, n)
}

func (d *doctor) process() Check {
	if d.running {
		return ok("process", "process %d serves %s and %s", d.runtime.PID, d.runtime.Addr, d.runtime.Inspector)
	}
	lock, err := lockData(d.paths)
	switch {
	case errors.Is(err, errLocked):
		return fail("process", "look for a Holdfast that hangs, or a command that is still at work", "the data folder is locked, but nothing answers")
	case errors.Is(err, os.ErrNotExist):
		return ok("process", "nothing runs, and nothing ran here yet")
	case err != nil:
		return fail("process", lockFault(d.paths, err).Hint, "%v", err)
	}
	lock.Close()
	return ok("process", "nothing runs; start it with holdfast serve")
}

// ports checks that the configured addresses are free, or ours.
func (d *doctor) ports() Check {
	c := d.settings.Current()
	for key, addr := range map[string]string{"addr": c.Addr, "inspector_addr": c.InspectorAddr} {
		if d.running && (addr == d.runtime.Addr || addr == d.runtime.Inspector) {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fail("ports", "set "+key+" to a free port, or stop the other program", "%v", err)
		}
		l.Close()
	}
	return ok("ports", "%s and %s can be used", c.Addr, c.InspectorAddr)
}

// routes names families without a route; the URLs are checked when the settings
// are read.
func (d *doctor) routes() Check {
	c := d.settings.Current()
	for _, f := range config.Families() {
		if _, _, found := c.RouteFor(f); !found {
			return warn("routes", fmt.Sprintf("put %q into the default_for of a route", f), "bare %s paths go nowhere", f)
		}
	}
	return ok("routes", "%d routes, every family has its default", len(c.Routes))
}

// reach looks at who else could use the listeners.
func (d *doctor) reach() Check {
	c := d.settings.Current()
	for _, addr := range []string{c.Addr, c.InspectorAddr} {
		if guard.CheckBind(addr) != nil {
			return warn("reach", "use 127.0.0.1 unless you mean it", "%s can be reached from other machines", addr)
		}
	}
	if !c.Web.ProxySecret && otherUsers() {
		return warn("reach", "holdfast config set web.proxy_secret true, then point clients at the URL of holdfast status",
			"other users of this machine can send traffic through the proxy (with their own keys)")
	}
	return ok("reach", "only this machine reaches the listeners")
}

// otherUsers guesses whether people share this machine: more than one folder
// under /home.
func otherUsers() bool {
	homes, err := os.ReadDir("/home")
	return err == nil && len(homes) > 1
}

// lowSpace is when a person is warned: a ledger that cannot grow loses history.
const lowSpace = 1 << 30

func (d *doctor) space() Check {
	free, err := freeBytes(d.paths.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ok("disk", "the data folder is not made yet")
	case err != nil:
		return warn("disk", "", "free space is unknown: %v", err)
	case free < lowSpace:
		return warn("disk", "free some space, or lower ledger.budget", "only %s are free where the ledger is", bytesText(free))
	}
	return ok("disk", "%s are free where the ledger is", bytesText(free))
}

// clock catches a machine that lost its time: rows would sort wrong.
func (d *doctor) clock() Check {
	now := time.Now()
	if now.Year() < 2026 {
		return fail("clock", "set the clock", "it is %s here", now.Format(time.DateTime))
	}
	if info, err := os.Stat(d.paths.ledgerFile()); err == nil && info.ModTime().After(now.Add(time.Hour)) {
		return warn("clock", "set the clock", "the ledger was written in the future (%s)", info.ModTime().Format(time.DateTime))
	}
	return ok("clock", "%s", now.Format(time.DateTime))
}

// ledger asks the running process, or opens the file.
func (d *doctor) ledger(ctx context.Context) []Check {
	if d.settings == nil && !d.running {
		return []Check{warn("ledger", "correct the settings first", "not looked at")}
	}
	b, err := d.either(ctx)
	if err != nil {
		if _, statErr := os.Stat(d.paths.ledgerFile()); errors.Is(statErr, os.ErrNotExist) {
			return []Check{ok("ledger", "none yet; it is made at the first start")}
		}
		hint := "see " + d.paths.logFile()
		var f *Fault
		if errors.As(err, &f) {
			hint = f.Hint
		}
		return []Check{fail("ledger", hint, "%v", err)}
	}
	d.backend = b
	var s api.Status
	if err := b.get(ctx, "/hf/v1/status", &s); err != nil {
		return []Check{fail("ledger", "see "+d.paths.logFile(), "%v", err)}
	}
	if d.settings == nil { // said already, of the file itself
		s.ConfigError = ""
	}
	size := ok("ledger", "%s of %s, %s", bytesText(s.Ledger.Bytes), bytesText(s.Ledger.BudgetBytes), plural(s.Ledger.Sessions, "session"))
	return append([]Check{size, d.quick(ctx)}, told(s)...)
}

// told repeats what a status says of trouble.
func told(s api.Status) (out []Check) {
	if s.ConfigError != "" {
		out = append(out, fail("settings", "correct the file; it is taken up at once", "the running Holdfast uses the last good settings: %s", s.ConfigError))
	}
	if s.Bypass {
		out = append(out, warn("bypass", "holdfast bypass off", "everything goes out untouched and is recorded by size and hash only"))
	}
	if n := s.Rollout.Evidence.Differences; n > 0 {
		out = append(out, warn("evidence", "keep the rollout in shadow; holdfast sessions verify checks the ledgers", "%d of %d compared turns differed", n, s.Rollout.Evidence.Turns))
	}
	return out
}

// quick checks the newest session from end to end; the whole ledger is what
// sessions verify is for.
func (d *doctor) quick(ctx context.Context) Check {
	var list api.SessionList
	if err := d.backend.get(ctx, "/hf/v1/sessions?size=1", &list); err != nil {
		return fail("verify", "see "+d.paths.logFile(), "%v", err)
	}
	if len(list.Sessions) == 0 {
		return ok("verify", "no session to check")
	}
	id := list.Sessions[0].ID
	data, err := d.backend.call(ctx, http.MethodPost, sessionPath(id, "/verify"), nil)
	if err != nil {
		return fail("verify", "see "+d.paths.logFile(), "%v", err)
	}
	var v api.Verification
	if err := json.Unmarshal(data, &v); err != nil || !v.Sound {
		return fail("verify", "holdfast sessions verify checks them all", "the newest session is not sound: %v", v.Faults)
	}
	return ok("verify", "the newest session is sound: %s, %s", plural(int64(v.Rows), "row"), plural(int64(v.Turns), "turn"))
}
