package tier

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropCache takes a file out of the page cache, and looks whether it is: the
// kernel takes the request for advice, and a share it kept would flatter a fill.
func dropCache(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	cached, pages, err := resident(f, int(info.Size()))
	if err == nil && cached*100 > pages {
		err = fmt.Errorf("%d of %d pages of %s are still in memory", cached, pages, name)
	}
	return err
}

// resident asks mincore how many pages of a file are in memory.
func resident(f *os.File, size int) (cached, pages int, err error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Munmap(data)
	seen := make([]byte, (size+os.Getpagesize()-1)/os.Getpagesize())
	_, _, no := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(size), uintptr(unsafe.Pointer(&seen[0])))
	if no != 0 {
		return 0, 0, no
	}
	for _, s := range seen {
		cached += int(s & 1)
	}
	return cached, len(seen), nil
}
