package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/core/client"
)

// uninstallCommand is for packages: it undoes what this person asked Holdfast
// to do elsewhere, and leaves settings and data alone.
func (c *cli) uninstallCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "uninstall", Short: "Undo what was set up outside Holdfast's own folders", Args: cobra.NoArgs, Hidden: true}
	cmd.RunE = c.do(func(context.Context, []string) error {
		a, err := c.agents()
		if err != nil {
			return err
		}
		errs := []error{c.forgetLogin()}
		for _, agent := range client.All() {
			if _, err := os.Stat(a.recordFile(agent.ID)); err != nil {
				continue
			}
			v, err := a.Disconnect(agent.ID)
			errs = append(errs, err)
			if err == nil {
				fmt.Fprintf(c.out, "%s: %s\n", v.Name, v.Note)
			}
		}
		return errors.Join(errs...)
	})
	return cmd
}
