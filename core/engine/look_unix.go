//go:build unix

package engine

import (
	"os"
	"syscall"
)

// look is what an open file looks like from outside.
func look(f *os.File) (known, error) {
	st, err := f.Stat()
	if err != nil {
		return known{}, err
	}
	k := known{Size: st.Size(), MTime: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		k.Inode = uint64(sys.Ino)
	}
	return k, nil
}

// ours says whether a file belongs to us.
func ours(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// shared says whether others may use a folder.
func shared(st os.FileInfo) bool { return st.Mode().Perm()&0o077 != 0 }
