//go:build !unix

package engine

import "os"

// look is what an open file looks like from outside; without inodes, size and
// time have to do.
func look(f *os.File) (known, error) {
	st, err := f.Stat()
	if err != nil {
		return known{}, err
	}
	return known{Size: st.Size(), MTime: st.ModTime().UnixNano()}, nil
}

// ours cannot be asked here; the folders used are each user's own.
func ours(os.FileInfo) bool { return true }

// shared cannot be asked here either: the modes of Windows are made up, and
// every folder looks open to all by them.
func shared(os.FileInfo) bool { return false }
