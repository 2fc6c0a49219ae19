package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/core/client"
)

// uninstallCommand undoes what this person asked Holdfast to do elsewhere, and
// leaves settings and data alone. Packages call it before they go.
func (c *cli) uninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Undo what was set up outside Holdfast's own folders", Args: cobra.NoArgs,
		Long: "Gives every connected agent its settings back and ends the start at login. Conversations\n" +
			"and settings stay; the folders that hold them are printed.",
	}
	cmd.RunE = c.do(func(context.Context, []string) error {
		a, err := c.agents()
		if err != nil {
			return err
		}
		paths, err := pathsFrom(c.getenv)
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
		if err := errors.Join(errs...); err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, "Nothing of Holdfast is set up elsewhere. Conversations and settings stay until you delete "+strings.Join(paths.folders(), " "))
		return err
	})
	return cmd
}
