package segment

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// A store that is just being closed by the process that opens it again gets
// this long to let go.
const (
	lockTries = 20
	lockPause = 5 * time.Millisecond
)

// takeLock makes and locks the lock file, which stays when the lock goes.
func takeLock(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && linked(info) {
		return nil, refuseLink(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, &Error{Op: "lock", Path: path, What: "the lock cannot be made", Err: err, Hint: "make the folder writable"}
	}
	for range lockTries {
		if err = tryLock(f); !errors.Is(err, ErrOwned) {
			break
		}
		time.Sleep(lockPause)
	}
	if err == nil {
		return f, nil
	}
	if errors.Is(err, ErrOwned) {
		err = &Error{Op: "lock", Path: path, What: "the cache is used by another Holdfast", Err: err,
			Hint: "use that one; this one goes on without a cache on disk"}
	}
	return nil, errors.Join(err, f.Close())
}

// open opens one of the store's files for reading; a link in its place fails.
func open(path string) (*os.File, error) {
	if noFollow == 0 {
		if info, err := os.Lstat(path); err == nil && linked(info) {
			return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("a link")}
		}
	}
	return os.OpenFile(path, os.O_RDONLY|noFollow, 0)
}
