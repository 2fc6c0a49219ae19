package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holdfast/core/guard"
)

// writeFile replaces a file so that a reader sees the old bytes or the new
// ones, also after a power cut: temporary name, write, sync, rename, sync the
// folder. The temporary file does not outlive a failure.
func writeFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// syncDir makes a rename durable where folders can be synced. The file is
// already in place and whole; what is at stake is only which of two good
// versions a power cut leaves.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// readOptional reads a file that need not be there.
func readOptional(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// loadToken reads the token of the inspector, making it at first. A token that
// others could read is as good as none, so its mode is put right.
func loadToken(name string) (string, error) {
	data, err := readOptional(name)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) >= 64 { // 256 bits in hex
		return token, os.Chmod(name, 0o600)
	}
	token = guard.NewSecret()
	if err := writeFile(name, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("writing the token: %w", err)
	}
	return token, nil
}
