package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// scratch is a folder that is removed again by plain steps: TempDir clears with
// a call that wine 8 lacks.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "durable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		files, err := os.ReadDir(dir)
		for _, f := range files {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
		if err = errors.Join(err, os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(scratch(t), "token")
	for _, want := range []string{"first", "second, longer", ""} {
		if err := WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	if who, err := Others(path); err != nil || who != "" {
		t.Fatalf("open to %s, %v; want nobody", who, err)
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Fatalf("stray files: %v", names)
	}
}

// TestPrivate: what others may use is told, and closed; on Windows under wine
// too, which `go run ./build nightly` has.
func TestPrivate(t *testing.T) {
	dir := scratch(t)
	file := filepath.Join(dir, "ledger")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		open(t, path)
		if who, err := Others(path); err != nil || who == "" {
			t.Errorf("%s is open to all, told is %q, %v", path, who, err)
		}
		if err := Private(path); err != nil {
			t.Fatal(err)
		}
		if who, err := Others(path); err != nil || who != "" {
			t.Errorf("%s is closed, told is %q, %v", path, who, err)
		}
	}
	written := filepath.Join(dir, "token")
	if err := WriteFile(written, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if who, err := Others(written); err != nil || who != "" {
		t.Errorf("a written file is told to be open to %q, %v", who, err)
	}
	for _, act := range []func(string) error{Private, func(p string) error { _, err := Others(p); return err }} {
		if err := act(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want ErrNotExist", err)
		}
	}
}

func TestWriteFileWithoutFolder(t *testing.T) {
	err := WriteFile(filepath.Join(t.TempDir(), "none", "token"), nil, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want ErrNotExist", err)
	}
}

// steps is a file system that remembers what was done and what of it a power
// cut would leave: data that was synced, names whose folder was.
type steps struct {
	log    []string
	failAt int               // index of the step that fails, -1 for none
	names  map[string]*entry // durable names
	live   map[string]*entry
}

type entry struct {
	written, synced []byte
}

var errStep = errors.New("planted")

func newSteps(failAt int) *steps {
	old := &entry{[]byte("old"), []byte("old")}
	return &steps{failAt: failAt, names: map[string]*entry{"/d/f": old}, live: map[string]*entry{"/d/f": old}}
}

func (s *steps) step(name string) error {
	s.log = append(s.log, name)
	if len(s.log)-1 == s.failAt {
		return errStep
	}
	return nil
}

func (s *steps) Create(name string, _ fs.FileMode) (File, error) {
	if err := s.step("create"); err != nil {
		return nil, err
	}
	if s.live[name] != nil {
		return nil, fs.ErrExist
	}
	s.live[name] = &entry{}
	return &stepFile{s, s.live[name]}, nil
}

func (s *steps) Rename(oldname, newname string) error {
	if err := s.step("rename"); err != nil {
		return err
	}
	s.live[newname] = s.live[oldname]
	delete(s.live, oldname)
	return nil
}

func (s *steps) Remove(name string) error {
	delete(s.live, name)
	return nil
}

func (s *steps) SyncDir(string) error {
	if err := s.step("sync dir"); err != nil {
		return err
	}
	s.names = map[string]*entry{}
	for n, e := range s.live {
		s.names[n] = e
	}
	return nil
}

type stepFile struct {
	s *steps
	e *entry
}

func (f *stepFile) Write(p []byte) (int, error) {
	if err := f.s.step("write"); err != nil {
		return 0, err
	}
	f.e.written = append(f.e.written, p...)
	return len(p), nil
}

func (f *stepFile) Sync() error {
	if err := f.s.step("sync"); err != nil {
		return err
	}
	f.e.synced = bytes.Clone(f.e.written)
	return nil
}

func (f *stepFile) Close() error { return f.s.step("close") }

// TestEveryStep fails each step in turn: the file is the old one or the new
// one, for whoever looks now and for whoever looks after a power cut.
func TestEveryStep(t *testing.T) {
	whole := newSteps(-1)
	if err := WriteFileIn(whole, "/d/f", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if want := []string{"create", "write", "sync", "close", "rename", "sync dir"}; !slices.Equal(whole.log, want) {
		t.Fatalf("steps %v, want %v", whole.log, want)
	}
	if got := string(whole.names["/d/f"].synced); got != "new" {
		t.Fatalf("after a power cut the file holds %q, want new", got)
	}
	for i, name := range whole.log {
		t.Run(fmt.Sprintf("%d %s fails", i, name), func(t *testing.T) {
			s := newSteps(i)
			if err := WriteFileIn(s, "/d/f", []byte("new"), 0o600); !errors.Is(err, errStep) {
				t.Fatalf("got %v, want the planted error", err)
			}
			if got := string(s.live["/d/f"].written); got != "old" && (got != "new" || name != "sync dir") {
				t.Errorf("the file holds %q", got)
			}
			if got := string(s.names["/d/f"].synced); got != "old" {
				t.Errorf("after a power cut the file holds %q, want old", got)
			}
			if len(s.live) != 1 {
				t.Errorf("stray files: %v", s.live)
			}
		})
	}
}

// TestCutAfterRename: the bytes are durable before the name is.
func TestCutAfterRename(t *testing.T) {
	s := newSteps(5)
	_ = WriteFileIn(s, "/d/f", []byte("new"), 0o600)
	if got := string(s.live["/d/f"].synced); got != "new" {
		t.Fatalf("the renamed file has %q on disk, want new", got)
	}
}
