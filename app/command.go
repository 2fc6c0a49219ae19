package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitNotRunning
	exitRefused
)

// stdio is the terminal and environment a command sees; tests hand in their own.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
}

// terminal reports whether a person can be asked.
func (s stdio) terminal() bool {
	f, ok := s.in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Fault is an error a person acts on: what happened with what it means, what to
// do, and the exit code.
type Fault struct {
	Code int
	What string
	Hint string
	Err  error // the cause, nil for none
	// Problem is the code of the API's refusal, "" where it was none.
	Problem string
}

func (f *Fault) Error() string {
	if f.Err != nil {
		return f.What + ": " + f.Err.Error()
	}
	return f.What
}

func (f *Fault) Unwrap() error { return f.Err }

// cli is what all commands share.
type cli struct {
	stdio
	json bool
	// begun is set once a command's own code runs: errors before that are ones
	// of usage.
	begun bool
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, io stdio) int {
	c := &cli{stdio: io}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	return c.complain(err)
}

// complain prints an error and chooses the exit code.
func (c *cli) complain(err error) int {
	var f *Fault
	switch {
	case errors.As(err, &f):
	case !c.begun:
		f = &Fault{Code: exitUsage, What: err.Error(), Hint: "holdfast --help lists the commands"}
	default:
		f = &Fault{Code: exitFailed, What: err.Error()}
	}
	if f.What == "" { // the exit code says it all
		return f.Code
	}
	fmt.Fprintf(c.err, "holdfast: %s\n", f.Error())
	if f.Hint != "" {
		fmt.Fprintf(c.err, "  %s\n", f.Hint)
	}
	return f.Code
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A local proxy that keeps long coding-agent sessions small, stable and resumable",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	c.bare(root)
	root.AddCommand(c.serveCommand(), c.demoCommand(), c.statusCommand(), c.openCommand(), c.runCommand(), c.sessionsCommand(), c.kvCommand(),
		c.bypassCommand(), c.rolloutCommand(), c.pluginCommand(), c.mcpCommand(), c.configCommand(), c.doctorCommand(), c.quitCommand(), c.versionCommand())
	root.AddCommand(c.manCommand(), c.uninstallCommand())
	root.AddCommand(c.desktopCommands()...)
	return root
}

// do wraps a command's own code, so that what cobra refuses before it is told
// apart from what fails in it.
func (c *cli) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.begun = true
		return f(cmd.Context(), args)
	}
}

// withJSON adds --json.
func (c *cli) withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON, as the HTTP API gives it")
	return cmd
}

// group is a command that only holds others.
func group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s wants one of its commands", cmd.Name())
	}}
	g.AddCommand(cmds...)
	return g
}
