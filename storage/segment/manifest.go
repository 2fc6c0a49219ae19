package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"

	"holdfast/core/content"
	"holdfast/storage/durable"
)

// maxManifest bounds what is read as one: a million tokens with their blocks
// are 5 MiB.
const maxManifest = 64 << 20

// tempName is a name nobody else uses; files called so are garbage at Open.
func tempName(of string) string { return fmt.Sprintf(".%s.%016x.tmp", of, rand.Uint64()) }

// PutManifest stores a record under its key. When it returns nil the record is
// durable: this is the commit point of what it names. A record of that key is
// replaced.
func (s *Store) PutManifest(key content.ID, data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	path := s.manifestPath(key)
	if err := durable.WriteFileIn(s.fs, path, data, 0o600); err != nil {
		return errors.Join(fmt.Errorf("segment: manifest: %w", err), s.settle(key))
	}
	s.clearStray(path)
	s.setManifest(key, int64(len(data)))
	return nil
}

// settle takes a record whose writing failed away: an error after the rename
// says nothing about what would be there after a power cut.
func (s *Store) settle(key content.ID) error {
	s.setManifest(key, -1)
	return errors.Join(s.discard(s.manifestPath(key)), s.discardTemps(manifestDir))
}

// discardTemps removes the temporary files that a failed write left.
func (s *Store) discardTemps(dir string) error {
	entries, err := os.ReadDir(s.path(dir))
	for _, e := range entries {
		if isTemp(e.Name()) {
			err = errors.Join(err, s.discard(s.path(dir, e.Name())))
		}
	}
	return err
}

// setManifest notes the size of a record, -1 for none.
func (s *Store) setManifest(key content.ID, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Manifests -= s.manifests[key]
	delete(s.manifests, key)
	if size >= 0 {
		s.manifests[key] = size
		s.used.Manifests += size
	}
}

// Manifest reads one record.
func (s *Store) Manifest(key content.ID) ([]byte, error) { return readSmall(s.manifestPath(key)) }

// readSmall reads a whole file through no link.
func readSmall(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return nil, fmt.Errorf("segment: %s: %d bytes are too many", path, info.Size())
	}
	data := make([]byte, info.Size())
	_, err = f.ReadAt(data, 0)
	return data, err
}

// Manifests lists the keys there are, in no order.
func (s *Store) Manifests() []content.ID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := make([]content.ID, 0, len(s.manifests))
	for k := range s.manifests {
		keys = append(keys, k)
	}
	return keys
}

// ManifestSize is what a record takes, 0 when there is none.
func (s *Store) ManifestSize(key content.ID) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.manifests[key]
}

// DropManifest deletes a record. Its blocks stay until Sweep, which also makes
// the deletion durable.
func (s *Store) DropManifest(key content.ID) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.setManifest(key, -1)
	_, err := s.remove(s.manifestPath(key))
	return err
}

// Note returns the owner's record, empty when there is none.
func (s *Store) Note() ([]byte, error) {
	data, err := readSmall(s.path(noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// SetNote replaces the owner's record. The old one stands until the new one is
// durable, so for a moment both take room.
func (s *Store) SetNote(data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	old := fileSize(s.path(noteFile))
	err := durable.WriteFileIn(s.fs, s.path(noteFile), data, 0o600)
	s.mu.Lock()
	s.used.Other += fileSize(s.path(noteFile)) - old
	s.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("segment: note: %w", err), s.discardTemps("."))
	}
	return nil
}

// fileSize is 0 for a file that is not there.
func fileSize(name string) int64 {
	info, err := os.Lstat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}
