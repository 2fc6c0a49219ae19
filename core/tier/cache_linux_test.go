package tier

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache takes a file out of the page cache.
func dropCache(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
