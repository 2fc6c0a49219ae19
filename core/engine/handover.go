package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/core/content"
)

// Handover makes the private folder for one home's slot files, on a RAM file
// system where the machine has one: what is in it is read once and removed. It
// has the same name at every start, so that files left by a crash, which can be
// turned back into text, are gone with the next one.
func Handover(home string) (dir string, err error) {
	sum := content.Of([]byte(home)).String()[:16]
	for _, base := range []string{"/dev/shm", os.TempDir()} {
		if st, err := os.Stat(base); err != nil || !st.IsDir() {
			continue
		}
		dir = filepath.Join(base, fmt.Sprintf("holdfast-slots-%d-%s", os.Getuid(), sum))
		if err = private(dir); err == nil {
			return dir, clearFolder(dir)
		}
	}
	return "", fmt.Errorf("engine: no place for slot files: %w", err)
}

// private makes dir, or takes it when it is a folder that is ours alone: the
// places for such folders can be written to by everybody.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, os.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() || !ours(st) || shared(st) {
		return fmt.Errorf("%s is there already and is not ours alone", dir)
	}
	return nil
}

func clearFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ErrHandover refuses a folder that others can read.
var ErrHandover = errors.New("engine: the slot folder can be read by other users; states can be turned back into text")

// CheckHandover wants the folder of an attached engine to exist and be private.
func CheckHandover(dir string) error {
	if !filepath.IsAbs(dir) {
		return errors.New("engine: slot_dir must be an absolute path, equal to the engine's --slot-save-path")
	}
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("engine: slot_dir: %w", err)
	}
	if !st.IsDir() {
		return errors.New("engine: slot_dir is not a folder")
	}
	if shared(st) {
		return fmt.Errorf("%w: chmod 700 %s", ErrHandover, dir)
	}
	return nil
}
