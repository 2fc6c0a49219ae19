//go:build unix

package segment

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow makes opening a link fail.
const noFollow = unix.O_NOFOLLOW

// tryLock takes a lock that the kernel drops when the process dies.
func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrOwned
	}
	return err
}

// restrict closes a folder to everybody else.
func restrict(dir string) error { return os.Chmod(dir, 0o700) }

// Free is the space a user without privileges may still fill.
func (s *Store) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
