package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/core/guard"
	"holdfast/web/api"
)

func (c *cli) pluginCommand() *cobra.Command {
	change := func(use, short string, do func(*agents, string) (api.ClientView, error)) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
		cmd.RunE = c.do(func(_ context.Context, args []string) error {
			a, err := c.agents()
			if err != nil {
				return err
			}
			v, err := do(a, args[0])
			if err != nil {
				return asFault(err)
			}
			return c.printClient(v)
		})
		return c.withJSON(cmd)
	}
	return group("plugin", "Connect agents by their own settings, and undo it",
		c.pluginListCommand(),
		change("install <agent>", "Point an agent's settings at Holdfast; what they held is kept", (*agents).Connect),
		change("remove <agent>", "Give an agent its settings back, to the byte", (*agents).Disconnect))
}

func (c *cli) pluginListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Which agents are here, and which are connected", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(context.Context, []string) error {
		a, err := c.agents()
		if err != nil {
			return err
		}
		list, err := a.List()
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON(map[string]any{"clients": list})
		}
		rows := [][]string{{"AGENT", "NAME", "STATE", "SETTINGS"}}
		for _, v := range list {
			rows = append(rows, []string{v.ID, v.Name, clientState(v), v.File})
		}
		return table(c.out, rows)
	})
	return c.withJSON(cmd)
}

func clientState(v api.ClientView) string {
	switch {
	case v.Connected:
		return "connected"
	case v.Installed:
		return "installed"
	case v.File == "":
		return "by environment only"
	}
	return "not found"
}

func (c *cli) printClient(v api.ClientView) error {
	if c.json {
		return c.printJSON(v)
	}
	_, err := fmt.Fprintf(c.out, "%s: %s\n  %s\n", v.Name, v.File, v.Note)
	return err
}

// agents are those of the person at this terminal. Nothing needs to run: the
// address is the one in use, or else the one of the settings.
func (c *cli) agents() (*agents, error) {
	s, paths, err := c.offlineSettings()
	if err != nil {
		return nil, err
	}
	r, ok := readRuntime(paths)
	if !ok {
		r.Addr = s.Current().Addr
	}
	token := ""
	if s.Current().Web.ProxySecret {
		if err := paths.make(); err != nil {
			return nil, err
		}
		if token, err = loadToken(paths.tokenFile()); err != nil {
			return nil, err
		}
	}
	return &agents{paths: paths, getenv: c.getenv, base: func() string { return baseURL(r, s.Current(), token) }}, nil
}

// asFault is what a person at a terminal reads of a problem.
func asFault(err error) error {
	var p *guard.Problem
	if errors.As(err, &p) {
		return &Fault{Code: exitRefused, What: p.Title, Hint: p.Hint}
	}
	return err
}
