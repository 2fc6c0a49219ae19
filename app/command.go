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
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return c.complain(cmd, err)
}

// complain prints an error of a command and chooses the exit code.
func (c *cli) complain(cmd *cobra.Command, err error) int {
	var f *Fault
	switch {
	case errors.As(err, &f):
	case !c.begun:
		f = misuse(cmd, err)
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
		Long: "A local proxy that keeps long coding-agent sessions small, stable and resumable.\n\n" +
			"holdfast run claude starts it and an agent; holdfast open shows what it does.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version(),
	}
	root.SetVersionTemplate(versionLine() + "\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(c.helpCommand())
	c.bare(root)
	together := func(title string, cmds ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, cmd := range cmds {
			cmd.GroupID = title
		}
		root.AddCommand(cmds...)
	}
	together("Run it", c.serveCommand(), c.runCommand(), c.pluginCommand(), c.quitCommand(), c.demoCommand())
	together("Look at it", c.openCommand(), c.statusCommand(), c.sessionsCommand(), c.doctorCommand(), c.mcpCommand())
	together("Change what it does", c.rolloutCommand(), c.bypassCommand(), c.kvCommand(), c.configCommand(), c.uninstallCommand())
	root.AddCommand(c.versionCommand(), c.manCommand())
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
	g := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, DisableFlagsInUseLine: true, RunE: func(cmd *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return fmt.Errorf("%s wants %s", words(cmd), listed(names))
	}}
	g.AddCommand(cmds...)
	return g
}
