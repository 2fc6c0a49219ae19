package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever keeps the program from starting, its fault names the file and says
// what helps; doctor says the same.
func TestOpenSaysWhatHelps(t *testing.T) {
	folder := func(name string) func(Paths) error {
		return func(p Paths) error { return os.MkdirAll(filepath.Join(p.Data, name), 0o700) }
	}
	for name, c := range map[string]struct {
		spoil func(Paths) error
		hint  string // of both; DATA is the folder
		check string // doctor's, empty where it looks at something else
	}{
		"a folder for a token":    {folder("token"), "DATA/token readable", ""},
		"a folder for settings":   {folder("config.toml"), "make DATA/config.toml readable", "settings"},
		"a folder for a lock":     {folder("lock"), "DATA/lock writable", "process"},
		"a folder for a ledger":   {folder("ledger.db"), "DATA/ledger.db", "ledger"},
		"a ledger that is a note": {func(p Paths) error { return writeFile(p.ledgerFile(), []byte("milk, bread")) }, "move DATA/ledger.db away", "ledger"},
		"settings that are words": {func(p Paths) error { return writeFile(p.configFile(), []byte("milk, bread")) }, "correct DATA/config.toml", "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := Paths{dir, dir, dir}
			if err := c.spoil(p); err != nil {
				t.Fatal(err)
			}
			hint := strings.ReplaceAll(filepath.FromSlash(c.hint), "DATA", dir)
			a, err := Open(t.Context(), AppOptions{Paths: p, Flags: map[string]string{"addr": "127.0.0.1:0", "inspector_addr": "127.0.0.1:0"}})
			if err == nil {
				t.Fatal("it opened", a.Close())
			}
			var f *Fault
			if !errors.As(err, &f) || !strings.Contains(f.Hint, hint) {
				t.Errorf("%#v of %v, want %q in its hint", f, err, hint)
			}
			if c.check != "" {
				d := &doctor{cli: &cli{stdio: stdio{getenv: func(k string) string { return map[string]string{"HOLDFAST_HOME": dir}[k] }}}, paths: p}
				found := slices.ContainsFunc(d.examine(t.Context()), func(ch Check) bool {
					return ch.Name == c.check && ch.State == "fail" && strings.Contains(ch.Hint, hint)
				})
				if !found {
					t.Errorf("doctor does not say %q of the %s", hint, c.check)
				}
			}
		})
	}
}
