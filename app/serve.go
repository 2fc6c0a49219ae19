package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (c *cli) serveCommand() *cobra.Command {
	var addr, inspector, level string
	var iKnow bool
	cmd := &cobra.Command{
		Use: "serve", Short: "Run proxy and inspector until stopped", Args: cobra.NoArgs,
		Long: "Runs the proxy and the inspector. Point the base URL of an agent at the printed proxy address.\n" +
			"SIGTERM or Ctrl-C lets replies under way end, for at most 10 seconds.",
	}
	cmd.Flags().StringVar(&addr, "addr", "", "proxy address, port 0 for a free one (default 127.0.0.1:4153)")
	cmd.Flags().StringVar(&inspector, "inspector-addr", "", "inspector address (default 127.0.0.1:4154)")
	cmd.Flags().StringVar(&level, "log-level", "", "debug, info, warn or error")
	cmd.Flags().BoolVar(&iKnow, "i-know", false, "allow addresses that other machines can reach; needs web.proxy_secret")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		paths, err := pathsFrom(c.getenv)
		if err != nil {
			return err
		}
		flags := map[string]string{}
		for key, v := range map[string]string{"addr": addr, "inspector_addr": inspector, "log_level": level} {
			if v != "" {
				flags[key] = v
			}
		}
		return c.serve(ctx, AppOptions{Paths: paths, Env: c.getenv, Flags: flags, Console: c.err, IKnow: iKnow})
	})
	return cmd
}

func (c *cli) serve(ctx context.Context, o AppOptions) error {
	a, err := Open(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "proxy      %s\ninspector  http://%s\n", a.BaseURL(), a.Inspector)
	return errors.Join(a.Run(ctx), a.Close())
}
