// Package durable writes files that survive a power cut whole: after WriteFile
// returns, the file holds the new bytes; if the machine stops before, it holds
// the old ones. There is no state between.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// FS is the part of a file system that durable writing needs: the seam at which
// tests fail and cut off single steps.
type FS interface {
	// Create makes a new file; one that exists is an error.
	Create(name string, perm fs.FileMode) (File, error)
	// Rename replaces newname in one step.
	Rename(oldname, newname string) error
	Remove(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
}

// File is one being written.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// OS is the machine's own file system.
type OS struct{}

// Create uses O_EXCL, so it never writes through a link left in the way. The
// mode is set again after the umask had its say; on Windows, which has none, a
// file that is the owner's alone gets a list of its own before anything is in
// it.
func (OS) Create(name string, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	switch {
	case runtime.GOOS != "windows":
		err = f.Chmod(perm)
	case perm&0o077 == 0:
		err = Private(name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, nil
}

// Rename is the system's own.
func (OS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Remove is the system's own.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir does nothing on Windows: folders cannot be opened for it there, and
// NTFS journals its names itself.
func (OS) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteFile replaces the file at path with data, durably.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return WriteFileIn(OS{}, path, data, perm)
}

// WriteFileIn is WriteFile on any file system.
//
// The steps, and what a power cut after each leaves:
//
//	create a file of another name in the same folder   old bytes, perhaps a stray file
//	write all of data into it                          the same
//	sync it                                            the same: the new bytes are on disk, unnamed
//	rename it over path                                old or new bytes, each whole
//	sync the folder                                    new bytes
//
// Rename comes after the sync of the bytes: the other way round a cut could
// leave the name on an empty file.
func WriteFileIn(fsys FS, path string, data []byte, perm fs.FileMode) error {
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", base, rand.Uint32()))
	err := fill(fsys, temp, data, perm)
	if err == nil {
		if err = fsys.Rename(temp, path); err == nil {
			err = fsys.SyncDir(filepath.Clean(filepath.Join(dir, ".")))
		}
	}
	if err != nil {
		// The stray file is harmless: it may be gone already, or renamed.
		_ = fsys.Remove(temp)
		return fmt.Errorf("durable: write %s: %w", path, err)
	}
	return nil
}

func fill(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.Create(name, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
