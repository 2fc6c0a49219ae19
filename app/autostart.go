//go:build !headless

package main

import (
	"fmt"
	"html"
	"strings"
)

// appID is our name in the files of desktops.
const appID = "app.holdfast.Holdfast"

// desktopEntry starts the program when its owner logs in to a desktop that
// follows freedesktop.org. TryExec lets the entry fall silent when the program
// is gone.
func desktopEntry(exe string) string {
	return fmt.Sprintf(`[Desktop Entry]
Type=Application
Name=Holdfast
Comment=Keeps long coding-agent sessions small, stable and resumable
Exec=%s --hidden
TryExec=%s
Icon=%s
Terminal=false
NoDisplay=true
X-GNOME-Autostart-enabled=true
`, quoteExec(exe), strings.ReplaceAll(exe, `\`, `\\`), appID)
}

// quoteExec quotes one argument of an Exec line: once for the argument, once
// more for a string of a desktop entry.
func quoteExec(s string) string {
	r := strings.NewReplacer(`\`, `\\\\`, `"`, `\\"`, "`", "\\\\`", "$", `\\$`, "%", "%%")
	return `"` + r.Replace(s) + `"`
}

// launchAgent is the same for macOS.
func launchAgent(exe string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
	<key>Label</key><string>` + appID + `</string>
	<key>ProgramArguments</key><array><string>` + html.EscapeString(exe) + `</string><string>--hidden</string></array>
	<key>RunAtLoad</key><true/>
	<key>ProcessType</key><string>Interactive</string>
</dict></plist>
`
}

// runValue is the command of the Run key of Windows.
func runValue(exe string) string { return `"` + exe + `" --hidden` }

// forgetLogin is for the end of an installation.
func (c *cli) forgetLogin() error { return setAtLogin(c.getenv, false) }
