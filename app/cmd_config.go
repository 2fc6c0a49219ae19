package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/web/api"
)

func (c *cli) configCommand() *cobra.Command {
	return group("config", "The settings", c.configShow(), c.configSet(), c.configPath())
}

// settingsView is what the running process uses, or what one would use.
func (c *cli) settingsView(ctx context.Context) (v api.ConfigView, err error) {
	b, err := c.running(ctx)
	var f *Fault
	if errors.As(err, &f) && f.Code == exitNotRunning {
		s, _, err := c.offlineSettings()
		if err != nil {
			return v, err
		}
		return api.NewConfigView(s.Config()), nil
	}
	return v, with(b, err, func(b *backend) error { return b.get(ctx, "/hf/v1/config", &v) })
}

func (c *cli) configShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show", Short: "Every setting with its value and where it comes from", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		v, err := c.settingsView(ctx)
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON(v)
		}
		rows := [][]string{{"KEY", "VALUE", "SOURCE", "EFFECT"}}
		for _, f := range v.Fields {
			rows = append(rows, []string{f.Key, valueText(f.Value), string(f.Source), string(f.Effect)})
		}
		if err := table(c.out, rows); err != nil || v.Error == "" {
			return err
		}
		_, err = fmt.Fprintf(c.out, "\nThe file is broken, these are the last good settings: %s\n", v.Error)
		return err
	})
	return c.withJSON(cmd)
}

// valueText is a value as it came through JSON, or as config.Field holds it.
func valueText(v any) string {
	switch r := reflect.ValueOf(v); {
	case !r.IsValid(), r.Kind() == reflect.Slice && r.Len() == 0, r.Kind() == reflect.String && r.Len() == 0:
		return "(none)"
	case r.Kind() == reflect.Slice:
		items := make([]string, r.Len())
		for i := range items {
			items[i] = fmt.Sprint(r.Index(i).Interface())
		}
		return strings.Join(items, ", ")
	}
	return fmt.Sprint(v)
}

func (c *cli) configSet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change one setting in config.toml", Args: cobra.ExactArgs(2),
		Long:    "Changes one setting and keeps the rest of the file, comments included. A running\nHoldfast takes it up at once, unless the setting needs a restart.",
		Example: "  holdfast config set ledger.budget 4GiB\n  holdfast config set web.allowed_origins http://localhost:3000,http://127.0.0.1:5173",
	}
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		values := map[string]string{args[0]: args[1]}
		b, err := c.running(ctx)
		var f *Fault
		if errors.As(err, &f) && f.Code == exitNotRunning {
			return c.setOffline(ctx, values)
		}
		return with(b, err, func(b *backend) error {
			if _, err := b.call(ctx, http.MethodPut, "/hf/v1/config", values); err != nil {
				return err
			}
			s, _, err := c.offlineSettings()
			if err != nil {
				return err
			}
			said := "Set; the running Holdfast uses it."
			if len(api.Restart(s.Current(), values)) > 0 {
				said = "Set; restart Holdfast to use it."
			}
			_, err = fmt.Fprintln(c.out, said)
			return err
		})
	})
	return cmd
}

func (c *cli) setOffline(ctx context.Context, values map[string]string) error {
	s, paths, err := c.offlineSettings()
	if err != nil {
		return err
	}
	if err := paths.make(); err != nil {
		return err
	}
	if err := s.Change(ctx, values); err != nil {
		if errors.Is(err, api.ErrOverridden) {
			return &Fault{Code: exitRefused, What: err.Error(), Hint: "unset it there first"}
		}
		var f *Fault
		if errors.As(err, &f) {
			return f
		}
		return &Fault{Code: exitRefused, What: err.Error(), Hint: "nothing was changed; holdfast config show lists the settings"}
	}
	_, err = fmt.Fprintln(c.out, "Set; the next start uses it.")
	return err
}

func (c *cli) configPath() *cobra.Command {
	cmd := &cobra.Command{Use: "path", Short: "Where config.toml is", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(context.Context, []string) error {
		paths, err := pathsFrom(c.getenv)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, paths.configFile())
		return err
	})
	return cmd
}
