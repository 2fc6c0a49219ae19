package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/client"
)

func (c *cli) runCommand() *cobra.Command {
	var names []string
	for _, a := range client.All() {
		if a.Program != "" {
			names = append(names, a.ID)
		}
	}
	cmd := &cobra.Command{
		Use: "run <" + strings.Join(names, "|") + "> [args]", Short: "Start an agent that is pointed here, changing none of its files",
		Long: "Starts Holdfast if it does not run, and the agent with its base URL set by environment or flags.\n" +
			"An agent that was pointed elsewhere still gets there, through Holdfast. Exits with the agent's own code.",
		ValidArgs: names, Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().SetInterspersed(false) // what follows the agent's name is the agent's
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		agent, ok := client.Find(args[0])
		if !ok || agent.Program == "" {
			return &Fault{Code: exitUsage, What: "there is no agent named " + args[0], Hint: "it is one of " + strings.Join(names, ", ")}
		}
		rest := args[1:]
		if len(rest) > 0 && rest[0] == "--" { // before the agent's own, as other starters want it
			rest = rest[1:]
		}
		return c.runAgent(ctx, agent, rest)
	})
	return cmd
}

func (c *cli) runAgent(ctx context.Context, agent client.Agent, args []string) error {
	program, err := exec.LookPath(agent.Program)
	if err != nil {
		return &Fault{Code: exitFailed, What: agent.Program + " is not on the search path", Err: err,
			Hint: "install " + agent.Name + " first; Holdfast does not bring it"}
	}
	if agent.ID == "copilot" && c.getenv("COPILOT_PROVIDER_BASE_URL") == "" && c.getenv("COPILOT_PROVIDER_API_KEY") == "" {
		return &Fault{Code: exitRefused, What: "Copilot CLI with a GitHub login cannot be pointed elsewhere",
			Hint: "set COPILOT_PROVIDER_API_KEY, COPILOT_PROVIDER_TYPE and COPILOT_MODEL for a provider of your own"}
	}
	b, err := c.startOrReuse(ctx)
	if err != nil {
		return err
	}
	settings, _, err := c.offlineSettings()
	if err != nil {
		return err
	}
	cmd, err := c.agentCommand(program, agent.Launch(b.base(settings.Current()), c.getenv), args, b.paths)
	if err != nil {
		return err
	}
	return c.forward(agent, cmd)
}

// agentCommand is the agent's own program, on this terminal.
func (c *cli) agentCommand(program string, l client.Launch, args []string, p Paths) (*exec.Cmd, error) {
	before := slices.Clone(l.Args)
	if l.FileName != "" {
		file := filepath.Join(p.State, l.FileName)
		if err := writeFile(file, []byte(l.FileText)); err != nil {
			return nil, err
		}
		before = append(before, l.FileFlag, file)
	}
	cmd := exec.Command(program, append(before, args...)...) // not bound to ctx: Ctrl-C is the agent's to handle
	cmd.Env = append(os.Environ(), l.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	return cmd, nil
}

// forward runs the agent and makes its exit code ours.
func (c *cli) forward(agent client.Agent, cmd *exec.Cmd) error {
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		code := exit.ExitCode()
		if code < 0 { // by a signal; shells add its number to 128, which we do not learn everywhere
			code = 128
		}
		return &Fault{Code: code}
	}
	return &Fault{Code: exitFailed, What: agent.Name + " could not be started", Err: err, Hint: "start it without Holdfast to see whether it works"}
}

// withTray is the program that has the tray: on Windows it is one beside the
// command line, elsewhere the same.
func withTray(self string) string {
	beside := filepath.Join(filepath.Dir(self), "HoldfastTray.exe")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	return self
}

// startTime is how long a fresh Holdfast may take until it answers.
const startTime = 20 * time.Second

// startOrReuse connects to the running Holdfast, or starts one that stays.
func (c *cli) startOrReuse(ctx context.Context) (*backend, error) {
	b, err := c.running(ctx)
	var f *Fault
	if err == nil || !errors.As(err, &f) || f.Code != exitNotRunning {
		return b, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(withTray(self), "--hidden")
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, &Fault{Code: exitFailed, What: "Holdfast could not be started", Err: err, Hint: "start it with holdfast serve"}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		if b, err := c.running(ctx); err == nil {
			fmt.Fprintf(c.err, "holdfast: started, process %d; holdfast quit stops it\n", b.runtime.PID)
			return b, nil
		}
		select {
		case err := <-ended:
			if err == nil { // another one was faster, and it handed over
				ended = nil
				continue
			}
			return nil, &Fault{Code: exitFailed, What: "Holdfast ended as soon as it was started", Err: err, Hint: "run holdfast serve to see why"}
		case <-ctx.Done():
			return nil, &Fault{Code: exitFailed, What: "Holdfast was started and does not answer", Err: ctx.Err(), Hint: "run holdfast doctor"}
		case <-time.After(20 * time.Millisecond):
		}
	}
}
