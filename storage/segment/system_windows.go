package segment

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"

	"holdfast/storage/durable"
)

// noFollow has no meaning here; links are refused by what they look like.
const noFollow = 0

// tryLock takes a lock that the kernel drops when the process dies. A lock held
// elsewhere has an error number of its own here.
func tryLock(f *os.File) error {
	const one = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), one, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrOwned
	}
	return err
}

// restrict closes a folder to everybody else; what is made in it inherits that.
func restrict(dir string) error { return durable.Private(dir) }

// remote reports a network drive.
func remote(dir string) (name string, far bool) {
	vol, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return "", false
	}
	return "a network drive", windows.GetDriveType(vol) == windows.DRIVE_REMOTE
}

// Free is the space a user without privileges may still fill.
func (s *Store) Free() (int64, error) {
	name, err := windows.UTF16PtrFromString(s.root)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}
