//go:build !headless && !windows

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"holdfast/storage/durable"
)

// loginFile is the file that starts us at login, and what stands in it.
func loginFile(getenv func(string) string) (file, text string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	home := getenv("HOME")
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "LaunchAgents", appID+".plist"), launchAgent(exe), nil
	}
	config := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "autostart", appID+".desktop"), desktopEntry(exe), nil
}

// atLogin reports whether we are started at login.
func atLogin(getenv func(string) string) bool {
	file, _, err := loginFile(getenv)
	if err != nil {
		return false
	}
	text, err := os.ReadFile(file)
	return err == nil && !strings.Contains(string(text), "Hidden=true")
}

// setAtLogin writes or removes the file.
func setAtLogin(getenv func(string) string, on bool) error {
	file, text, err := loginFile(getenv)
	if err != nil {
		return err
	}
	if !on {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(file, []byte(text), 0o644)
}
