package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	"holdfast/core/guard"
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

// doorLife is how long a door file may lie around; the code in it is dead by
// then.
const doorLife = time.Minute

// door is the page that signs a browser in. It is a file, so its own script may
// run; without scripts the button does the same.
func door() *template.Template {
	return template.Must(template.New("door").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<title>Holdfast</title>
<form method="post" action="{{.Post}}"><input type="hidden" name="code" value="{{.Code}}"><input type="hidden" name="next" value="{{.Page}}">
<button>Open the inspector</button></form>
<script>document.forms[0].submit()</script></html>
`))
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

// doorFolder is where a browser can read a file of ours. Browsers in snaps see
// no hidden folders, so where snaps are in use it is the downloads folder.
func doorFolder(p Paths) string {
	if home, err := os.UserHomeDir(); err == nil && runtime.GOOS == "linux" {
		if _, err := os.Stat(filepath.Join(home, "snap")); err == nil && xdg.UserDirs.Download != "" {
			return xdg.UserDirs.Download
		}
	}
	return p.State
}

const doorName = "holdfast-open-"

func writeDoor(folder string, code api.LoginCode, page string) (file string, err error) {
	sweepDoors(folder, time.Now())
	var text strings.Builder
	if err := door().Execute(&text, struct{ Post, Code, Page string }{code.Post, code.Code, page}); err != nil {
		return "", err
	}
	file = filepath.Join(folder, doorName+guard.NewSecret()[:16]+".html")
	return file, writeFile(file, []byte(text.String()))
}

// sweepDoors removes the files whose codes are dead.
func sweepDoors(folder string, now time.Time) {
	old, _ := filepath.Glob(filepath.Join(folder, doorName+"*.html")) // the pattern is sound
	for _, file := range old {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > doorLife {
			os.Remove(file) // a file that stays holds nothing that works
		}
	}
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
	if err != nil && len(out) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed", name)
	}
	return err
}
