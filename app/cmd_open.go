package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/web/api"
)

func (c *cli) openCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "open", Short: "Open the inspector in the browser, signed in", Args: cobra.NoArgs,
		Long: "Writes a local file that only you can read and opens it. The file posts a code that works once\n" +
			"and for a minute, so nothing secret stands in a URL, a process list or the browser's history.",
	}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error { return b.open(ctx, "/ui/") })
	})
	return cmd
}

// open shows a page of the inspector in the browser of this desktop.
func (b *backend) open(ctx context.Context, page string) error {
	data, err := b.call(ctx, http.MethodPost, "/hf/v1/login-codes", nil)
	if err != nil {
		return err
	}
	var code api.LoginCode
	if err := json.Unmarshal(data, &code); err != nil {
		return err
	}
	file, err := writeDoor(doorFolder(b.paths), code, page)
	if err != nil {
		return &Fault{Code: exitFailed, What: "the sign-in file cannot be written", Err: err, Hint: "make " + b.paths.State + " writable"}
	}
	if err := openFile(ctx, file); err != nil {
		return &Fault{Code: exitFailed, What: "no browser could be started", Err: err,
			Hint: "open this file in a browser within a minute: file://" + file}
	}
	return nil
}

// openFile hands a file to the program the desktop opens it with.
func openFile(ctx context.Context, file string) error {
	var name string
	var args []string
	switch runtime.GOOS {
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	case "darwin":
		name, args = "open", []string{file}
	default:
		name, args = "xdg-open", []string{file}
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); err != nil && said != "" {
		return fmt.Errorf("%w: %s", err, said) // xdg-open names every browser it did not find, one a line
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed", name)
	}
	return err
}
