package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/kv"
	"holdfast/core/tier"
)

// tierOf opens the tier of a home with settings.
func tierOf(t *testing.T, home, toml string) *kvTier {
	t.Helper()
	return tierTelling(t, home, toml, func(string, any) {})
}

func tierTelling(t *testing.T, home, toml string, publish func(string, any)) *kvTier {
	t.Helper()
	p := Paths{home, home, home}
	if err := os.WriteFile(p.configFile(), []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(p.configFile(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := openTier(t.Context(), p, s, slog.New(slog.DiscardHandler), publish)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(context.Background()) })
	<-k.Ready()
	return k
}

func TestKVSettingsAreLive(t *testing.T) {
	home := t.TempDir()
	k := tierOf(t, home, "[kv.disk]\nmode = \"fixed\"\nbudget = \"64MiB\"\nreserve = \"1GiB\"\n")
	change := func(key, value string) error {
		err := k.settings.Change(t.Context(), map[string]string{key: value})
		k.follow(t.Context(), slog.New(slog.DiscardHandler))
		return err
	}
	if err := change("kv.disk.budget", "32MiB"); err != nil {
		t.Fatal(err)
	}
	if got := k.Status().Usage.BudgetBytes; got != kv.Bytes(32*config.MiB) {
		t.Errorf("the budget in force is %d", got)
	}
	t.Run("K53 a change that cannot be persisted is not made", func(t *testing.T) {
		// A folder in the place of the file cannot be replaced by one.
		file := filepath.Join(home, "config.toml")
		if err := os.Rename(file, file+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if change("kv.disk.budget", "16MiB") == nil {
			t.Fatal("the change was made")
		}
		s := k.Status()
		if s.Usage.BudgetBytes != kv.Bytes(32*config.MiB) || s.Configured.BudgetBytes != kv.Bytes(32*config.MiB) {
			t.Errorf("in force %d, configured %d", s.Usage.BudgetBytes, s.Configured.BudgetBytes)
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".away", file); err != nil {
			t.Fatal(err)
		}
	})
	if err := change("kv.disk.mode", "auto"); err != nil {
		t.Fatal(err)
	}
	s := k.Status()
	if len(s.Effective.PendingRestart) != 1 || s.Effective.PendingRestart[0] != "kv.disk.mode" || s.Usage.BudgetBytes != kv.Bytes(32*config.MiB) {
		t.Errorf("a mode that waits: %+v, budget %d", s.Effective, s.Usage.BudgetBytes)
	}
	if s.Configured.Sources["mode"] != "file" || s.Configured.Sources["directory"] != "default" {
		t.Errorf("sources %v", s.Configured.Sources)
	}
}

// TestKVOwnedElsewhere: a second Holdfast on one folder goes on without, and
// says so.
func TestKVOwnedElsewhere(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "kv")
	toml := "[kv.disk]\nmode = \"fixed\"\nbudget = \"64MiB\"\nreserve = \"1GiB\"\ndirectory = \"" + filepath.ToSlash(shared) + "\"\n"
	first, second := tierOf(t, t.TempDir(), toml), tierOf(t, t.TempDir(), toml)
	if s := first.Status().Effective; s.State != kv.StateActive {
		t.Errorf("the first is %+v", s)
	}
	if s := second.Status(); s.Effective.State != kv.StateDegraded || s.Effective.Reason != "owned_elsewhere" || s.Activity.LastError == "" {
		t.Errorf("the second is %+v, %q", s.Effective, s.Activity.LastError)
	}
}

// TestKVStateIsTold: every change of state is an event of the stream.
func TestKVStateIsTold(t *testing.T) {
	told := make(chan any, 9)
	k := tierTelling(t, t.TempDir(), "[kv.disk]\nmode = \"fixed\"\nbudget = \"64MiB\"\nreserve = \"1GiB\"\n", func(name string, v any) {
		if name != "kv.state" {
			t.Errorf("an event %q", name)
		}
		told <- v
	})
	if _, err := k.Clear(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []kv.TierState{kv.StateActive, kv.StatePruningToBudget, kv.StateActive} {
		got := (<-told).(tier.Transition)
		data, err := json.Marshal(got)
		if got.State != want || err != nil || !strings.Contains(string(data), `"state":"`+string(want)+`"`) {
			t.Errorf("%s, %v, want %s", data, err, want)
		}
	}
}
