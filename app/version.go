package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of this source. Builds from a checkout add the commit.
const release = "0.1.0-dev"

// commit is set by the linker for packages, which are built without the
// checkout's own stamp; nothing else writes it.
var commit string

// version is the release with the commit the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" {
		return release + "+" + commit
	}
	if !ok {
		return release
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".modified"
		}
	}
	return release + rev + dirty
}

// versionLine is what a bug report needs of the program.
func versionLine() string {
	return fmt.Sprintf("holdfast %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (c *cli) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(context.Context, []string) error {
		if c.json {
			return c.printJSON(map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintln(c.out, versionLine())
		return err
	})
	return c.withJSON(cmd)
}
