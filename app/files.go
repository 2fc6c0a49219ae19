package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"holdfast/core/guard"
	"holdfast/storage/durable"
)

// writeFile replaces a file of the owner's alone, so that a reader sees the old
// bytes or the new ones, also after a power cut.
func writeFile(name string, data []byte) error { return durable.WriteFile(name, data, 0o600) }

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
