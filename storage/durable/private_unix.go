//go:build !windows

package durable

import (
	"fmt"
	"io/fs"
	"os"
)

// Private closes a file or folder to everybody but the user we run as.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o600)
	if info.IsDir() {
		perm = 0o700
	}
	return os.Chmod(path, perm)
}

// Others says who else may read or change a file or folder, "" for nobody. Root
// may do everything and is not counted.
func Others(path string) (who string, err error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return "", err
	}
	return fmt.Sprintf("mode %o", info.Mode().Perm()), nil
}
