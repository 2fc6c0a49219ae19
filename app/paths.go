package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/adrg/xdg"

	"holdfast/storage/durable"
)

// Paths are the folders of one instance. HOLDFAST_HOME makes them one.
type Paths struct{ Config, Data, State string }

// pathsFrom reads the environment.
func pathsFrom(getenv func(string) string) (Paths, error) {
	home := getenv("HOLDFAST_HOME")
	if home == "" {
		return Paths{
			filepath.Join(xdg.ConfigHome, "holdfast"),
			filepath.Join(xdg.DataHome, "holdfast"),
			filepath.Join(xdg.StateHome, "holdfast"),
		}, nil
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return Paths{}, fmt.Errorf("HOLDFAST_HOME: %w", err)
	}
	return Paths{abs, abs, abs}, nil
}

func (p Paths) configFile() string  { return filepath.Join(p.Config, "config.toml") }
func (p Paths) ledgerFile() string  { return filepath.Join(p.Data, "ledger.db") }
func (p Paths) lockFile() string    { return filepath.Join(p.Data, "lock") }
func (p Paths) logFile() string     { return filepath.Join(p.State, "holdfast.log") }
func (p Paths) runtimeFile() string { return filepath.Join(p.State, "runtime.json") }
func (p Paths) tokenFile() string   { return filepath.Join(p.State, "token") }

// folders are the three, each once.
func (p Paths) folders() []string {
	all := []string{p.Config, p.Data, p.State}
	slices.Sort(all)
	return slices.Compact(all)
}

// make creates the folders, for the owner alone. One that is there already
// keeps its mode; doctor complains about an open one.
func (p Paths) make() error {
	for _, dir := range p.folders() {
		if err := makeFolder(dir); err != nil {
			return &Fault{Code: exitFailed, What: "the folder " + dir + " cannot be made", Err: err,
				Hint: "make it writable, or point HOLDFAST_HOME at another folder"}
		}
	}
	return nil
}

// makeFolder makes a folder that is not there. It is closed after, and not only
// by its mode, because Windows has none; nothing is in it yet.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), durable.Private(dir))
}
