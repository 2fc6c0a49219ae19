//go:build headless

package main

import (
	"context"

	"github.com/spf13/cobra"
)

// desktop is serve where this build has none.
func (c *cli) desktop(ctx context.Context, o AppOptions, _ bool) error { return c.serve(ctx, o) }

func (c *cli) desktopCommands() []*cobra.Command { return nil }

// forgetLogin has nothing to do: only the tray offers to start at login.
func (c *cli) forgetLogin() error { return nil }
