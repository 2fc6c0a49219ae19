package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misuse is the fault of a command line that no command's own code has seen:
// words and flags that do not fit cmd, which is as far as the line was understood.
func misuse(cmd *cobra.Command, err error) *Fault {
	f := &Fault{Code: exitUsage, What: flagText(err), Hint: cmd.CommandPath() + " --help says more"}
	if strings.Contains(cmd.Use, "--") { // the flag was meant for an agent
		f.Hint = "usage: " + usageLine(cmd)
	}
	args := cmd.Flags().Args()
	switch {
	case cmd.ValidateArgs(args) == nil: // it was a flag, or a group without its command
	case cmd.HasSubCommands():
		f.What, f.Hint = unknownCommand(cmd, args[0])
	default:
		f.What, f.Hint = wrongWords(cmd, args), "usage: "+usageLine(cmd)
	}
	return f
}

// unknownCommand names the commands that were perhaps meant.
func unknownCommand(parent *cobra.Command, word string) (what, hint string) {
	what = fmt.Sprintf("unknown command %q", word)
	if parent.HasParent() {
		what += " of " + words(parent)
	}
	hint = parent.CommandPath() + " --help lists the commands"
	parent.SuggestionsMinimumDistance = 2 // letters
	if near := parent.SuggestionsFor(word); len(near) > 0 {
		for i := range near {
			near[i] = parent.CommandPath() + " " + near[i]
		}
		hint = "did you mean " + listed(near) + "?"
	}
	return what, hint
}

// wrongWords says which word is missing or too much.
func wrongWords(cmd *cobra.Command, args []string) string {
	wanted := strings.Fields(cmd.Use)[1:]
	needed := slices.IndexFunc(wanted, func(w string) bool { return strings.HasPrefix(w, "[") })
	if needed < 0 {
		needed = len(wanted)
	}
	if len(args) < needed {
		return words(cmd) + " wants " + strings.Join(wanted[len(args):needed], " ")
	}
	extra := args[min(len(wanted), len(args)-1)]
	if len(args) <= len(wanted) && len(cmd.ValidArgs) > 0 {
		extra = args[0]
	}
	return fmt.Sprintf("%s does not take %q", words(cmd), extra)
}

// words is how a command is called, without the program's name.
func words(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func usageLine(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

// flagText is the text of an error about flags, without the names of Go's own
// functions.
func flagText(err error) string {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	kinds := map[string]string{"int": "a whole number", "float64": "a number", "bool": "true or false"}
	return fmt.Sprintf("--%s does not take %q, it wants %s", wrong.GetFlag().Name, wrong.GetValue(), kinds[wrong.GetFlag().Value.Type()])
}

// listed joins alternatives as a sentence has them.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// helpCommand is cobra's, but for a command that there is not it says so.
func (c *cli) helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Say more about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				c.begun = true
				what, hint := unknownCommand(of, rest[0])
				return &Fault{Code: exitUsage, What: what, Hint: hint}
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		}}
}
