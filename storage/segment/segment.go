// Package segment keeps blocks and the manifests that name them in one folder:
//
//	root.json      format and hash; its presence makes the folder ours
//	lock           held by the one process that has the store open
//	CACHEDIR.TAG   tells backup programs to pass by
//	note           one small opaque record of the owner (recency, counters)
//	packs/         immutable files of blocks, one per spill, named by the digest
//	               of their own index, which ends the file
//	manifests/     opaque records, one per saved state, named by their key
//	quarantine/    what was found damaged, at most 64 MiB in 16 objects
//
// It knows bytes and IDs and nothing else: what a manifest means, and which
// blocks are still wanted, its caller says.
//
// A pack is written under a temporary name, synced, renamed, and its folder
// synced; only then are its blocks known. A manifest is written the same way
// after the packs it names, so a stop at any moment leaves garbage at worst:
// temporary files, which Open removes, and packs no manifest names, which Sweep
// removes. Nothing else is ever rewritten in place.
//
// No block is hashed when the store opens; each is, every time it is read.
package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holdfast/core/content"
	"holdfast/storage/durable"
)

// The folders and files of a root.
const (
	packDir       = "packs"
	manifestDir   = "manifests"
	quarantineDir = "quarantine"
	rootFile      = "root.json"
	lockName      = "lock"
	tagFile       = "CACHEDIR.TAG"
	noteFile      = "note"
	packExt       = ".pack"
	manifestExt   = ".manifest"
)

// cacheTag is what https://bford.info/cachedir/ asks for.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds a cache of Holdfast. It can be rebuilt; backups may leave it out.\n"

// format is the version of the layout; a root of another one is not opened.
const format = 1

// header is root.json.
type header struct {
	Format int    `json:"format"`
	Hash   string `json:"hash"`
}

// Options are the store's neighbours.
type Options struct {
	FS durable.FS // nil is the machine's own
}

// Store is one open root. Its methods may be called at the same time; calls
// that change it take turns.
type Store struct {
	root  string
	fs    durable.FS
	lock  *os.File
	swept int // temporary files removed by Open

	// writing serialises everything that changes files.
	writing sync.Mutex

	mu        sync.RWMutex // guards what follows; never held over I/O
	packs     map[content.ID]*pack
	index     map[content.ID]place   // where to read a block
	spare     map[content.ID][]place // further copies of it
	manifests map[content.ID]int64   // sizes
	used      Usage
	stray     map[string]int64 // files that could not be removed, by path
	staged    map[string]bool  // files being written, by path
}

// Usage is what lies below the root, in bytes.
type Usage struct {
	Packs, Manifests, Quarantine int64
	Other                        int64 // root.json, tag, note, and strays
	Quarantined                  int   // objects in quarantine
}

// Total is all of it.
func (u Usage) Total() int64 { return u.Packs + u.Manifests + u.Quarantine + u.Other }

// Open takes the folder, making it where it is missing, removes what a stop
// left half-written, and reads the index of every pack.
func Open(dir string, o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = durable.OS{}
	}
	root, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{root: root, fs: o.FS, packs: map[content.ID]*pack{}, index: map[content.ID]place{},
		spare: map[content.ID][]place{}, manifests: map[content.ID]int64{}, stray: map[string]int64{}, staged: map[string]bool{}}
	if s.lock, err = takeLock(filepath.Join(root, lockName)); err != nil {
		return nil, err
	}
	if err := errors.Join(s.found(), s.load()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Root is the folder with every link resolved.
func (s *Store) Root() string { return s.root }

// Close gives the folder back.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// found writes the fixed files of a new root and checks those of an old one.
func (s *Store) found() error {
	data, err := os.ReadFile(s.path(rootFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.create()
	case err != nil:
		return &Error{Op: "open", Path: s.root, What: "the cache's description cannot be read", Err: err, Hint: "make it readable, or choose another kv.disk.directory"}
	}
	var h header
	if json.Unmarshal(data, &h) != nil || h != (header{format, "blake3-256"}) {
		return &Error{Op: "open", Path: s.root, What: "the cache there is damaged or of another version of Holdfast",
			Hint: "delete that folder, or choose another kv.disk.directory"}
	}
	return s.tag()
}

func (s *Store) create() error {
	data, err := json.Marshal(header{format, "blake3-256"})
	if err == nil {
		err = s.tag()
	}
	if err == nil {
		err = durable.WriteFileIn(s.fs, s.path(rootFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		return &Error{Op: "open", Path: s.root, What: "the cache cannot be started there", Err: err, Hint: "make the folder writable and see that the disk has room"}
	}
	return nil
}

func (s *Store) tag() error {
	if data, err := os.ReadFile(s.path(tagFile)); err == nil && string(data) == cacheTag {
		return nil
	}
	return durable.WriteFileIn(s.fs, s.path(tagFile), []byte(cacheTag), 0o600)
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

func (s *Store) packPath(id content.ID) string { return s.path(packDir, id.String()+packExt) }

func (s *Store) manifestPath(key content.ID) string {
	return s.path(manifestDir, key.String()+manifestExt)
}

// named reads the ID a file name stands for. Names are never joined to a path
// unless they are an ID and the one extension of their folder.
func named(name, ext string) (content.ID, bool) {
	hex, ok := strings.CutSuffix(name, ext)
	if !ok || strings.ToLower(hex) != hex {
		return content.ID{}, false
	}
	id, err := content.Parse(hex)
	return id, err == nil
}

// Usage returns the running totals.
func (s *Store) Usage() Usage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.used
}

// Used is the total of Usage.
func (s *Store) Used() int64 { return s.Usage().Total() }

// Rescan counts every file again and takes the result for the truth. It also
// tries again to remove what could not be removed before.
func (s *Store) Rescan() (int64, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.removeStrays()
	u, err := s.measure()
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = u
	return u.Total(), nil
}

// measure counts the files of a root, those being written aside. A file that
// vanishes meanwhile is gone.
func (s *Store) measure() (u Usage, err error) {
	s.mu.RLock()
	staged := maps.Clone(s.staged)
	s.mu.RUnlock()
	err = filepath.WalkDir(s.root, func(name string, d fs.DirEntry, err error) error {
		if staged[name] {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.root, name)
		u.count(rel, info.Size())
		return err
	})
	if err != nil {
		return u, fmt.Errorf("segment: counting %s: %w", s.root, err)
	}
	return u, nil
}

// count adds one file to the class its place gives it.
func (u *Usage) count(rel string, size int64) {
	dir, name := filepath.Split(rel)
	temp := strings.HasSuffix(name, ".tmp")
	switch filepath.Clean(dir) {
	case packDir:
		if !temp {
			u.Packs += size
			return
		}
	case manifestDir:
		if !temp {
			u.Manifests += size
			return
		}
	case quarantineDir:
		u.Quarantine += size
		u.Quarantined++
		return
	}
	u.Other += size
}

// discard removes a file that no longer counts for anything, durably: room that
// came back after a power cut would break the budget. What cannot be removed is
// counted as a stray until Rescan gets rid of it.
func (s *Store) discard(name string) error {
	gone, err := s.remove(name)
	if gone {
		return errors.Join(err, s.fs.SyncDir(filepath.Dir(name)))
	}
	return err
}

// remove is discard without the sync; gone says that a file was there and is not.
func (s *Store) remove(name string) (gone bool, err error) {
	err = s.fs.Remove(name)
	info, statErr := os.Lstat(name)
	if err == nil || errors.Is(statErr, fs.ErrNotExist) {
		s.clearStray(name)
		return !errors.Is(err, fs.ErrNotExist), nil // it went, whatever was said
	}
	if statErr == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used.Other += info.Size() - s.stray[name]
		s.stray[name] = info.Size()
	}
	return false, fmt.Errorf("segment: remove: %w", err)
}

// clearStray stops counting a file as a stray: it is gone, or something else has
// its name.
func (s *Store) clearStray(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Other -= s.stray[name]
	delete(s.stray, name)
}

// removeStrays tries again; the caller holds writing.
func (s *Store) removeStrays() {
	s.mu.Lock()
	strays := s.stray
	s.stray = map[string]int64{}
	for _, size := range strays {
		s.used.Other -= size
	}
	s.mu.Unlock()
	for name := range strays {
		// One that stays is a stray again, and counted.
		_ = s.discard(name)
	}
}
