package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"holdfast/core/content"
)

func isTemp(name string) bool { return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") }

// Swept is the number of temporary files that Open removed.
func (s *Store) Swept() int { return s.swept }

// load brings a root in order and reads what it holds: temporary files go,
// what does not belong or is not whole goes to quarantine, links are refused.
func (s *Store) load() error {
	packs, err := s.list(packDir, packExt)
	if err != nil {
		return err
	}
	manifests, err := s.list(manifestDir, manifestExt)
	if err != nil {
		return err
	}
	if _, err := s.list(quarantineDir, ""); err != nil {
		return err
	}
	if err := s.sweepTop(); err != nil {
		return err
	}
	if s.used, err = s.measure(); err != nil {
		return err
	}
	s.used.Packs, s.used.Manifests = 0, 0
	for _, key := range manifests {
		s.setManifest(key, fileSize(s.manifestPath(key)))
	}
	if err := s.loadPacks(packs); err != nil {
		return err
	}
	return s.trimQuarantine()
}

// list returns the IDs of the files in a folder.
func (s *Store) list(dir, ext string) (ids []content.ID, err error) {
	entries, err := os.ReadDir(s.path(dir))
	if err != nil {
		return nil, fmt.Errorf("segment: list %s: %w", dir, err)
	}
	for _, e := range entries {
		path := s.path(dir, e.Name())
		id, ok := named(e.Name(), ext)
		switch {
		case e.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0:
			return nil, refuseLink(path)
		case isTemp(e.Name()):
			err = s.sweepTemp(path)
		case dir == quarantineDir || ok && e.Type().IsRegular():
			ids = append(ids, id)
		case e.IsDir():
			return nil, &Error{Op: "open", Path: path, What: "there is a folder where files should be", Hint: "move it away"}
		default:
			err = s.isolate(path)
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// sweepTemp removes what a stop left half-written. The lock is held, so nobody
// is writing it.
func (s *Store) sweepTemp(path string) error {
	if err := s.fs.Remove(path); err != nil {
		return fmt.Errorf("segment: remove a temporary file: %w", err)
	}
	s.swept++
	return nil
}

// sweepTop does the same for the files at the top, which are few and named.
func (s *Store) sweepTop() error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
			return refuseLink(s.path(e.Name()))
		}
		if isTemp(e.Name()) {
			if err := s.sweepTemp(s.path(e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadPacks reads the indexes, several files at a time: it is the opening of
// files that takes the time of a start. Smaller packs are admitted first, so
// that of two copies the one that a compaction made is read and the one it was
// about to delete becomes garbage.
func (s *Store) loadPacks(ids []content.ID) error {
	packs, errs := make([]*pack, len(ids)), make([]error, len(ids))
	var workers sync.WaitGroup
	n := min(4, 2*runtime.GOMAXPROCS(0))
	for w := range n {
		workers.Go(func() {
			for i := w; i < len(ids); i += n {
				packs[i], errs[i] = readPack(s.packPath(ids[i]), ids[i])
			}
		})
	}
	workers.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, errPack):
			if err := s.isolate(s.packPath(ids[i])); err != nil {
				return err
			}
		default:
			return fmt.Errorf("segment: open pack: %w", err)
		}
	}
	packs = slices.DeleteFunc(packs, func(p *pack) bool { return p == nil })
	slices.SortFunc(packs, func(a, b *pack) int {
		return cmp.Or(cmp.Compare(a.size, b.size), slices.Compare(a.id[:], b.id[:]))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range packs {
		s.admit(p)
	}
	return nil
}

// The bounds of the quarantine: enough to look at what went wrong, never enough
// to matter.
const (
	quarantineBytes   = 64 << 20
	quarantineObjects = 16
)

// QuarantineManifest takes a record out of use and keeps it to be looked at.
func (s *Store) QuarantineManifest(key content.ID) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.setManifest(key, -1)
	return errors.Join(s.isolate(s.manifestPath(key)), s.trimQuarantine())
}

// isolate moves a file into quarantine. One that is larger than the quarantine,
// or cannot be moved, is deleted: it must not be taken for sound again. The
// caller has taken its bytes out of the class they were counted in.
func (s *Store) isolate(path string) error {
	if fileSize(path) > quarantineBytes {
		return s.discard(path)
	}
	to := s.path(quarantineDir, filepath.Base(path))
	_, missing := os.Lstat(to)
	before := fileSize(to)
	err := s.fs.Rename(path, to)
	if _, statErr := os.Lstat(path); err != nil && statErr == nil {
		return s.discard(path)
	}
	s.clearStray(path)
	info, err := os.Lstat(to)
	if err != nil {
		return nil // there was nothing to put aside
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Quarantine += info.Size() - before
	if missing != nil {
		s.used.Quarantined++
	}
	return nil
}

// trimQuarantine deletes the oldest objects beyond the bounds.
func (s *Store) trimQuarantine() error {
	entries, err := os.ReadDir(s.path(quarantineDir))
	if err != nil {
		return fmt.Errorf("segment: quarantine: %w", err)
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var total int64
	for i, info := range infos {
		if total += info.Size(); i >= quarantineObjects || total > quarantineBytes {
			total -= info.Size()
			if err := s.emptyOf(info); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) emptyOf(info fs.FileInfo) error {
	if err := s.fs.Remove(s.path(quarantineDir, info.Name())); err != nil {
		return fmt.Errorf("segment: quarantine: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Quarantine -= info.Size()
	s.used.Quarantined--
	return nil
}

// EmptyQuarantine deletes everything in it.
func (s *Store) EmptyQuarantine() (freed int64, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	entries, err := os.ReadDir(s.path(quarantineDir))
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil {
			continue // gone already
		}
		if one := s.emptyOf(info); one != nil {
			err = errors.Join(err, one)
			continue
		}
		freed += info.Size()
	}
	return freed, err
}

// Quarantined is what the quarantine holds.
func (s *Store) Quarantined() (objects int, size int64) {
	u := s.Usage()
	return u.Quarantined, u.Quarantine
}
