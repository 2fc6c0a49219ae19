//go:build !headless && !(linux || freebsd || openbsd || netbsd)

package main

import (
	"context"

	"github.com/spf13/cobra"
)

// This desktop always has a tray, so no window stands in for it.

func (c *cli) desktopCommands() []*cobra.Command { return nil }

func (d *desk) openWindow(context.Context) {}
