package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// serving are the flags of serve and of the bare command.
type serving struct {
	addr, inspector, level string
	iKnow                  bool
	hidden                 bool // started at login, or by run: nothing opens by itself
}

func (f *serving) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "addr", "", "proxy address, port 0 for a free one (default 127.0.0.1:4153)")
	cmd.Flags().StringVar(&f.inspector, "inspector-addr", "", "inspector address (default 127.0.0.1:4154)")
	cmd.Flags().StringVar(&f.level, "log-level", "", "debug, info, warn or error")
	cmd.Flags().BoolVar(&f.iKnow, "i-know", false, "allow addresses that other machines can reach; needs web.proxy_secret")
}

func (f *serving) options(c *cli) (AppOptions, error) {
	paths, err := pathsFrom(c.getenv)
	flags := map[string]string{}
	for key, v := range map[string]string{"addr": f.addr, "inspector_addr": f.inspector, "log_level": f.level} {
		if v != "" {
			flags[key] = v
		}
	}
	return AppOptions{Paths: paths, Env: c.getenv, Flags: flags, Console: c.err, IKnow: f.iKnow}, err
}

func (c *cli) serveCommand() *cobra.Command {
	var f serving
	cmd := &cobra.Command{
		Use: "serve", Short: "Run proxy and inspector until stopped", Args: cobra.NoArgs,
		Long: "Runs the proxy and the inspector. Point the base URL of an agent at the printed proxy address.\n" +
			"SIGTERM or Ctrl-C lets replies under way end, for at most 10 seconds.",
	}
	f.register(cmd)
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		o, err := f.options(c)
		if err != nil {
			return err
		}
		return c.serve(ctx, o)
	})
	return cmd
}

// bare makes the root command run the program: the desktop where this build has
// one, else the same as serve.
func (c *cli) bare(root *cobra.Command) {
	var f serving
	f.register(root)
	root.Flags().BoolVar(&f.hidden, "hidden", false, "started at login: open nothing by itself")
	root.Flags().Lookup("hidden").Hidden = true
	root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = c.do(func(ctx context.Context, _ []string) error {
		o, err := f.options(c)
		if err != nil {
			return err
		}
		return c.desktop(ctx, o, f.hidden)
	})
}

func (c *cli) serve(ctx context.Context, o AppOptions) error {
	a, err := Open(ctx, o)
	if err != nil {
		return err
	}
	c.printServing(a)
	return errors.Join(a.Run(ctx), a.Close())
}

// printServing tells the terminal where things are and what to do next.
func (c *cli) printServing(a *App) {
	fmt.Fprintf(c.out, "proxy      %s\ninspector  http://%s\nnext       holdfast run claude, or another agent; holdfast open shows what it does\n",
		a.BaseURL(), a.Inspector)
}
