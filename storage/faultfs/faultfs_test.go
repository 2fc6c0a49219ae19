package faultfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/storage/durable"
)

// lab is a folder with one durable file.
func lab(t *testing.T) (*FS, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.MkdirAll(filepath.Join(root, "d"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "d", "f"), []byte("old"), 0o600))
	f, err := New(root)
	must(t, err)
	return f, root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// look is the content of a file below a clone, "-" for none.
func look(t *testing.T, f *FS, left Left, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	must(t, f.Clone(dir, left))
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(data)
}

// TestClone: what each step of a durable write leaves, for each way to stop.
func TestClone(t *testing.T) {
	want := map[string][3]string{ // of d/f: synced, all, names
		"create d/temp": {"old", "old", "old"},
		"write d/temp":  {"old", "old", "old"},
		"sync d/temp":   {"old", "old", "old"},
		"close d/temp":  {"old", "old", "old"},
		"rename d/f":    {"old", "new", "new"},
		"sync d":        {"new", "new", "new"},
	}
	for k := range len(want) {
		f, root := lab(t)
		f.Arm(k, CrashAfter)
		err := durable.WriteFileIn(f, filepath.Join(root, "d", "f"), []byte("new"), 0o600)
		steps := f.Disarm()
		if !errors.Is(err, ErrCrashed) || len(steps) != k+1 {
			t.Fatalf("step %d: %v after %q", k, err, steps)
		}
		for i, left := range Lefts() {
			if got := look(t, f, left, "d/f"); got != want[steps[k]][i] {
				t.Errorf("crash after %q leaves %q with %v, want %q", steps[k], got, left, want[steps[k]][i])
			}
		}
	}
}

// TestCloneNames: a name may be durable before its bytes are.
func TestCloneNames(t *testing.T) {
	f, root := lab(t)
	h, err := f.Create(filepath.Join(root, "d", "g"), 0o600)
	must(t, err)
	_, err = h.Write([]byte("half"))
	must(t, err)
	for i, want := range []string{"-", "half", ""} {
		if got := look(t, f, Lefts()[i], "d/g"); got != want {
			t.Errorf("%v leaves %q, want %q", Lefts()[i], got, want)
		}
	}
	must(t, h.Close())
}

// TestRemoveOutlived: bytes whose name is gone come back while the folder is
// not synced.
func TestRemoveOutlived(t *testing.T) {
	f, root := lab(t)
	must(t, f.Remove(filepath.Join(root, "d", "f")))
	if got := look(t, f, Synced, "d/f"); got != "old" {
		t.Errorf("before the sync %q, want old", got)
	}
	must(t, f.SyncDir(filepath.Join(root, "d")))
	if got := look(t, f, Synced, "d/f"); got != "-" {
		t.Errorf("after the sync %q, want nothing", got)
	}
}

func TestFaults(t *testing.T) {
	for _, kind := range Kinds() {
		for k := range 6 {
			f, root := lab(t)
			path := filepath.Join(root, "d", "f")
			f.Arm(k, kind)
			err := durable.WriteFileIn(f, path, []byte("new"), 0o600)
			steps := f.Disarm()
			want := map[Kind]error{Fail: ErrPlanted, FailDone: ErrPlanted, NoSpace: syscall.ENOSPC, CrashBefore: ErrCrashed, CrashAfter: ErrCrashed}[kind]
			if !errors.Is(err, want) {
				t.Errorf("%v at %d (%q): got %v", kind, k, steps, err)
			}
			got, err := os.ReadFile(path)
			must(t, err)
			done := kind == FailDone || kind == CrashAfter
			landed := strings.HasPrefix(steps[k], "sync d") && !strings.Contains(steps[k], "temp") || steps[k] == "rename d/f" && done
			if (string(got) == "new") != landed {
				t.Errorf("%v at %q: the file holds %q", kind, steps[k], got)
			}
		}
	}
}

// TestNoSpaceStays: a full disk stays full for new bytes, and lets go of old ones.
func TestNoSpaceStays(t *testing.T) {
	f, root := lab(t)
	f.Arm(1, NoSpace)
	if err := durable.WriteFileIn(f, filepath.Join(root, "d", "g"), []byte("1234"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := f.Create(filepath.Join(root, "d", "h"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Remove(filepath.Join(root, "d", "f")))
	f.Disarm()
	must(t, durable.WriteFileIn(f, filepath.Join(root, "d", "g"), []byte("1234"), 0o600))
}
