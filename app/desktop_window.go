//go:build !headless && (linux || freebsd || openbsd || netbsd)

package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"holdfast/ui"
)

// desktopCommands are for our own use: the fall-back window is a process of its
// own, so that a graphics driver that fails takes nothing else with it.
func (c *cli) desktopCommands() []*cobra.Command {
	cmd := &cobra.Command{Use: "window", Short: "Show the small window that stands in for the tray", Args: cobra.NoArgs, Hidden: true}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error { return c.window(ctx, b) })
	})
	return []*cobra.Command{cmd}
}

// window shows the fall-back window until it is closed or Holdfast ends.
func (c *cli) window(ctx context.Context, b *backend) error {
	ctx, cancel := context.WithCancel(ctx)
	d := newDesk(b, c.getenv, nil)
	d.work.Go(func() { defer cancel(); d.follow(ctx) })
	ui.Window(ctx, ui.WindowOptions{Updates: d.updates, Do: func(cmd ui.Command) { d.do(ctx, cmd) }})
	cancel()
	d.work.Wait()
	return nil
}

// openWindow starts the window's process unless one is there. Its end is not
// waited for: it follows ours by itself when the event stream breaks.
func (d *desk) openWindow(ctx context.Context) {
	if !d.windowOpen.CompareAndSwap(false, true) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		d.log.Warn("the window could not be opened", "error", err)
		return
	}
	cmd := exec.CommandContext(ctx, self, "window")
	d.work.Go(func() {
		defer d.windowOpen.Store(false)
		if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
			d.log.Warn("the window ended", "error", err, "output", string(out))
		}
	})
}
