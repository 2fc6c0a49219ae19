package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand prints the manual page, made of the commands themselves, so that
// it cannot say something else than --help.
func (c *cli) manCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "man", Short: "Print the manual page", Args: cobra.NoArgs, Hidden: true}
	cmd.RunE = c.do(func(context.Context, []string) error {
		_, err := fmt.Fprint(c.out, manual(cmd.Root()))
		return err
	})
	return cmd
}

const manualEnd = `.SH FILES
.TP
.I ~/.config/holdfast/config.toml
Settings; watched while Holdfast runs.
.TP
.I ~/.local/share/holdfast/
The ledger, and what connected agents' settings held before.
.TP
.I ~/.local/state/holdfast/
Log, runtime.json, token.
.SH ENVIRONMENT
.B HOLDFAST_HOME
puts everything into one folder.
.SH EXIT STATUS
0 for success, 1 for a failure, 2 for wrong usage, 3 when Holdfast is not running, 4 for a refusal;
.B holdfast run
exits with the agent's own status.
`

// manual is the page of a command tree in roff.
func manual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH HOLDFAST 1 \"\" \"holdfast %s\" \"User commands\"\n.SH NAME\nholdfast \\- %s\n", roff(release), roff(strings.ToLower(root.Short[:1])+root.Short[1:]))
	b.WriteString(".SH SYNOPSIS\n.B holdfast\n.RI [ command ]\n.RI [ flags ]\n.SH DESCRIPTION\nWithout a command, Holdfast runs proxy and inspector, under a tray icon where there is a desktop.\n")
	manualFlags(&b, root)
	b.WriteString(".SH COMMANDS\n")
	manualCommands(&b, root)
	return b.String() + manualEnd
}

func manualCommands(b *strings.Builder, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if !cmd.HasSubCommands() {
			path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
			fmt.Fprintf(b, ".TP\n.B %s\n%s.\n", roff(strings.TrimSuffix(path, cmd.Name())+cmd.Use), roff(cmd.Short))
			if cmd.Long != "" {
				fmt.Fprintf(b, "%s\n", roff(cmd.Long))
			}
			manualFlags(b, cmd)
		}
		manualCommands(b, cmd)
	}
}

func manualFlags(b *strings.Builder, cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			fmt.Fprintf(b, ".RS\n.TP\n.B \\-\\-%s\n%s.\n.RE\n", roff(f.Name), roff(f.Usage))
		}
	})
}

// roff escapes what roff would read as its own.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", "\n.br\n").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
