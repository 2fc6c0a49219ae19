package main

import (
	"errors"
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

// closeLedger closes the ledger's file and its companions to others. SQLite gives
// the companions the mode of the file, but on Windows each has the list of its
// folder, which may be one that was there before us.
func closeLedger(p Paths) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := durable.Private(p.ledgerFile() + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// loadToken reads the token of the inspector, making it at first. A token that
// others could read is as good as none, so it is closed to them.
func loadToken(name string) (string, error) {
	data, err := readOptional(name)
	if err != nil {
		return "", &Fault{Code: exitFailed, What: "the inspector's token cannot be read", Err: err,
			Hint: "make " + name + " readable for the user that runs Holdfast, or delete it: a new one is made"}
	}
	token := strings.TrimSpace(string(data))
	if len(token) >= 64 { // 256 bits in hex
		return token, durable.Private(name)
	}
	token = guard.NewSecret()
	if err := writeFile(name, []byte(token+"\n")); err != nil {
		return "", &Fault{Code: exitFailed, What: "the inspector's token cannot be written", Err: err,
			Hint: "make the folder of " + name + " writable for the user that runs Holdfast"}
	}
	return token, nil
}
