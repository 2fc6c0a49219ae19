package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/session"
	"holdfast/web/api"
)

func (c *cli) statusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Is it on, what passed, what it decided", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error {
			data, err := b.call(ctx, http.MethodGet, "/hf/v1/status", nil)
			if err != nil {
				return err
			}
			if c.json {
				_, err := c.out.Write(data)
				return err
			}
			var s api.Status
			if err := json.Unmarshal(data, &s); err != nil {
				return err
			}
			settings, _, err := c.offlineSettings()
			base := "http://" + b.runtime.Addr
			if err == nil {
				base = b.base(settings.Current())
			}
			return table(c.out, statusRows(s, base, b.runtime))
		})
	})
	return c.withJSON(cmd)
}

// statusRows is what a person reads of a status.
func statusRows(s api.Status, base string, r Runtime) [][]string {
	rows := [][]string{
		{"holdfast", s.Version + ", up " + (time.Duration(s.UptimeS) * time.Second).String() + ", process " + strconv.Itoa(r.PID)},
		{"proxy", base},
		{"inspector", "http://" + r.Inspector},
		{"state", stateText(s)},
		{"rollout", rolloutText(s.Rollout)},
		{"compared", comparedText(s.Rollout.Evidence)},
		{"model calls", fmt.Sprintf("%s seen, %d in flight, %d failed recently", count(s.Traffic.Seen), s.Traffic.InFlight, s.Traffic.FailedRecent)},
		{"passed on", countsText(s.Traffic.Skipped)},
		{"gates", countsText(s.Chain.Gates)},
		{"commit", commitText(s)},
		{"ledger", fmt.Sprintf("%s of %s, %s", bytesText(s.Ledger.Bytes), bytesText(s.Ledger.BudgetBytes), plural(s.Ledger.Sessions, "session"))},
		{"memory", bytesText(s.MemoryBytes)},
	}
	for _, g := range s.Rollout.Evidence.ByGroup {
		if g.State != "" && g.State != "ok" {
			rows = append(rows, []string{"held", fmt.Sprintf("%s on %s is %s after %d faults in %d turns; holdfast rollout on lets it go", g.Signal, g.Wire, g.State, g.Faults, g.Turns)})
		}
	}
	if s.ConfigError != "" {
		rows = append(rows, []string{"settings", "the file is broken, the last good ones are in force: " + s.ConfigError})
	}
	return rows
}

// rolloutText leaves the share out where it decides nothing.
func rolloutText(r api.RolloutStatus) string {
	if r.Mode == "off" {
		return "off"
	}
	return fmt.Sprintf("%s, %v %% of sessions", r.Mode, r.Percent)
}

func commitText(s api.Status) string {
	if s.Chain.CommitMs.P95 == 0 {
		return "none since the start"
	}
	return fmt.Sprintf("%.2f ms p50, %.2f ms p95", s.Chain.CommitMs.P50, s.Chain.CommitMs.P95)
}

func stateText(s api.Status) string {
	if s.Bypass {
		return "bypassed: everything goes out untouched (holdfast bypass off ends it)"
	}
	return "working"
}

func comparedText(e session.Evidence) string {
	if e.Turns == 0 {
		return "no turns yet"
	}
	var drift int64
	for _, n := range e.Drift {
		drift += n
	}
	return fmt.Sprintf("%s: %s byte-equal, %s drift, %s different", plural(e.Turns, "turn"), count(e.ByteEqual), count(drift), count(e.Differences))
}

// countsText lists what is not zero.
func countsText(m map[string]int64) string {
	var parts []string
	for k, n := range m {
		if n != 0 {
			parts = append(parts, count(n)+" "+strings.ReplaceAll(k, "_", " "))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (c *cli) bypassCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "bypass on|off", Short: "Send everything untouched, or stop doing so", ValidArgs: []string{"on", "off"},
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		Long: "With bypass on, every request goes out exactly as it came, from the next one on.\nIt stays so across restarts until it is turned off. Where sessions have grown past\ntheir model's window, it asks first: without their folds they would be refused.",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error {
			if err := c.setBypass(ctx, b, args[0] == "on", yes); err != nil {
				return err
			}
			said := "Bypass is off: sessions are recorded and served as the rollout says."
			if args[0] == "on" {
				said = "Bypass is on: from the next request everything goes out untouched."
			}
			_, err := fmt.Fprintln(c.out, said)
			return err
		})
	})
	return cmd
}

// setBypass turns the switch, and asks where sessions would be refused for it.
func (c *cli) setBypass(ctx context.Context, b *backend, on, yes bool) error {
	put := func(confirm bool) error {
		_, err := b.call(ctx, http.MethodPut, "/hf/v1/bypass", map[string]bool{"on": on, "confirm": confirm})
		return err
	}
	err := put(yes)
	var f *Fault
	if !errors.As(err, &f) || f.Problem != "past_window" {
		return err
	}
	if err := c.confirm(false, f.What+"\nBypass all the same?"); err != nil {
		return err
	}
	return put(true)
}

func (c *cli) rolloutCommand() *cobra.Command {
	var percent float64
	cmd := &cobra.Command{
		Use: "rollout off|shadow|on", Short: "Choose what serves sessions", ValidArgs: []string{"off", "shadow", "on"},
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		Long: "off: the client's own list is served, no snapshot rows are written.\n" +
			"shadow: rows are written and compared after each reply; the client's own list is served.\n" +
			"on: sessions with an id are served from their rows; any doubt steps down.",
	}
	cmd.Flags().Float64Var(&percent, "percent", 0, "share of sessions that may be served from rows, 0 to 100")
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		body := map[string]any{"mode": args[0]}
		if cmd.Flags().Changed("percent") {
			body["percent"] = percent
		}
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error {
			data, err := b.call(ctx, http.MethodPut, "/hf/v1/rollout", body)
			if err != nil {
				return err
			}
			var now api.RolloutStatus
			if err := json.Unmarshal(data, &now); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.out, "Rollout is %s, from the next turn on.\n", strings.Replace(rolloutText(now), ",", " for", 1))
			return err
		})
	})
	return cmd
}
