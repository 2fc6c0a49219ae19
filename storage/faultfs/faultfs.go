// Package faultfs is a file system for tests that fails, fills up or stops at
// one step of its choosing, and shows what a machine that stopped there would
// find on its disk.
//
// It works on a real folder and notes beside it what of that folder is durable:
// bytes that were synced, names whose folder was. Three things may be left by a
// stop, and a store must survive each (Left): nothing that was not synced, all
// of it, or the cruel middle: names without their bytes.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"holdfast/storage/durable"
)

// Kind is what happens at the chosen step.
type Kind int

// The kinds.
const (
	// Fail returns ErrPlanted and does nothing.
	Fail Kind = iota
	// FailDone does the step and returns ErrPlanted all the same.
	FailDone
	// NoSpace writes half of what it should and returns ENOSPC; from then on
	// nothing can be created or written.
	NoSpace
	// CrashBefore stops the machine before the step, CrashAfter after it: every
	// later step returns ErrCrashed and does nothing.
	CrashBefore
	CrashAfter
)

func (k Kind) String() string {
	return [...]string{"error", "error once done", "disk full", "crash before", "crash after"}[k]
}

// Kinds are all kinds, for tables.
func Kinds() []Kind { return []Kind{Fail, FailDone, NoSpace, CrashBefore, CrashAfter} }

// KindsAt are the kinds that say something new at step k of a table that visits
// every step: stopping before one is stopping after the one before it.
func KindsAt(k int) []Kind {
	if k == 0 {
		return Kinds()
	}
	return []Kind{Fail, FailDone, NoSpace, CrashAfter}
}

// Left is what a stop leaves on the disk.
type Left int

// The three.
const (
	Synced Left = iota // names and bytes as last synced
	All                // everything, synced or not
	Names              // every name, but of its file the synced bytes only
)

func (l Left) String() string { return [...]string{"synced", "all", "names"}[l] }

// Lefts are all three, for tables.
func Lefts() []Left { return []Left{Synced, All, Names} }

// What a step returns.
var (
	ErrPlanted = errors.New("faultfs: planted error")
	ErrCrashed = errors.New("faultfs: the machine has stopped")
)

// FS is the folder below root with one fault. It implements durable.FS.
type FS struct {
	root, shadow string
	real         durable.OS

	mu    sync.Mutex // guards the rest; steps pass one at a time
	armed bool
	at    int
	kind  Kind
	steps []string // since Arm
	full  bool
	dead  bool
	made  int              // inodes so far, for their names
	live  map[string]*node // by full path
	kept  map[string]*node // the same, as of the last sync of each folder
}

// node is one file, whatever it is called. The shadow is a second link to it,
// so that its bytes outlive the removal of its name.
type node struct {
	shadow       string
	size, synced int64
}

// New takes what is below root as durable.
func New(root string) (*FS, error) {
	shadow, err := os.MkdirTemp(filepath.Dir(root), "shadow")
	if err != nil {
		return nil, err
	}
	f := &FS{root: root, shadow: shadow, live: map[string]*node{}, kept: map[string]*node{}}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n, err := f.adopt(name)
		f.live[name], f.kept[name] = n, n
		return err
	})
	return f, err
}

// adopt links a file into the shadow; its bytes so far count as synced.
func (f *FS) adopt(name string) (*node, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	n := &node{shadow: filepath.Join(f.shadow, fmt.Sprint(f.made)), size: info.Size(), synced: info.Size()}
	f.made++
	return n, os.Link(name, n.shadow)
}

// Arm makes the fault happen at step at, counted from now and from 0; a
// negative one only counts.
func (f *FS) Arm(at int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.kind, f.steps, f.full, f.dead = true, at, kind, nil, false, false
}

// Disarm ends fault and fullness, and returns the steps since Arm.
func (f *FS) Disarm() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.full = false, false
	return f.steps
}

// step counts one and says whether to do it and what to return.
func (f *FS) step(what, name string) (do bool, err error) {
	if f.dead {
		return false, ErrCrashed
	}
	if f.full && (what == "create" || what == "write") {
		return false, syscall.ENOSPC
	}
	if !f.armed {
		return true, nil
	}
	f.steps = append(f.steps, what+" "+f.short(name))
	if len(f.steps)-1 != f.at {
		return true, nil
	}
	switch f.kind {
	case Fail:
		return false, ErrPlanted
	case FailDone:
		return true, ErrPlanted
	case NoSpace:
		f.full = true
		return false, syscall.ENOSPC
	case CrashBefore:
		f.dead = true
		return false, ErrCrashed
	}
	f.dead = true
	return true, ErrCrashed
}

// short is a name for people: the folder, and what kind of file it is.
func (f *FS) short(name string) string {
	rel, err := filepath.Rel(f.root, name)
	if err != nil || rel == "." {
		return "root"
	}
	dir, base := filepath.Split(filepath.ToSlash(rel))
	switch {
	case strings.HasSuffix(base, ".tmp"):
		base = "temp"
	case len(base) >= 64:
		base = "file"
	}
	return dir + base
}

// Create makes a new file.
func (f *FS) Create(name string, perm fs.FileMode) (durable.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do, planted := f.step("create", name)
	if !do {
		return nil, planted
	}
	file, err := f.real.Create(name, perm)
	if err != nil {
		return nil, err
	}
	n, err := f.adopt(name)
	if err = errors.Join(err, planted); err != nil {
		f.live[name] = n
		return nil, errors.Join(err, file.Close())
	}
	f.live[name] = n
	return &handle{f, n, name, file}, nil
}

// Rename replaces newname in one step.
func (f *FS) Rename(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do, planted := f.step("rename", newname)
	if !do {
		return planted
	}
	if err := f.real.Rename(oldname, newname); err != nil {
		return err
	}
	f.live[newname] = f.live[oldname]
	delete(f.live, oldname)
	return planted
}

// Remove takes a name away.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do, planted := f.step("remove", name)
	if !do {
		return planted
	}
	if err := f.real.Remove(name); err != nil {
		return err
	}
	delete(f.live, name)
	return planted
}

// SyncDir makes the names of one folder durable.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do, planted := f.step("sync", name)
	if !do {
		return planted
	}
	name = filepath.Clean(name)
	for p := range f.kept {
		if filepath.Dir(p) == name {
			delete(f.kept, p)
		}
	}
	for p, n := range f.live {
		if filepath.Dir(p) == name {
			f.kept[p] = n
		}
	}
	return planted
}

// handle is one file being written.
type handle struct {
	f    *FS
	n    *node
	name string
	file durable.File
}

func (h *handle) Write(p []byte) (int, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	do, planted := h.f.step("write", h.name)
	if !do {
		if errors.Is(planted, syscall.ENOSPC) {
			p = p[:len(p)/2]
		} else {
			p = nil
		}
	}
	n, err := h.file.Write(p)
	h.n.size += int64(n)
	return n, errors.Join(planted, err)
}

func (h *handle) Sync() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	do, planted := h.f.step("sync", h.name)
	if !do {
		return planted
	}
	h.n.synced = h.n.size
	return planted
}

// Close always closes: a file left open would tell on the test, not the store.
func (h *handle) Close() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	_, planted := h.f.step("close", h.name)
	return errors.Join(planted, h.file.Close())
}

// Clone writes to dir, which must not exist, what a stop at this moment leaves.
func (f *FS) Clone(dir string, left Left) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.cloneFolders(dir); err != nil {
		return err
	}
	names := f.live
	if left == Synced {
		names = f.kept
	}
	for name, n := range names {
		size := n.synced
		if left == All {
			size = n.size
		}
		rel, err := filepath.Rel(f.root, name)
		if err != nil {
			return err
		}
		if err := copyStart(filepath.Join(dir, rel), n.shadow, size); err != nil {
			return err
		}
	}
	return nil
}

func (f *FS) cloneFolders(dir string) error {
	return filepath.WalkDir(f.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(f.root, name)
		if err != nil {
			return err
		}
		return os.Mkdir(filepath.Join(dir, rel), 0o700)
	})
}

// copyStart copies the first size bytes of a file.
func copyStart(to, from string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, size)
	return errors.Join(err, out.Close())
}
