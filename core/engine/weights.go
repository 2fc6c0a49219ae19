package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/zeebo/blake3"

	"holdfast/core/content"
)

// Weights names model files by their bytes. A digest is worked out once per
// file and remembered by path, size, time and inode, in a file of its own, so
// that a 30 GB model is read once and not at every start.
type Weights struct {
	file string

	mu    sync.Mutex
	known map[string]known
}

// known is one remembered digest with what the file looked like then.
type known struct {
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime"` // unix ns
	Inode  uint64 `json:"inode"`
	Digest string `json:"digest"`
}

// OpenWeights reads what is remembered in file. A file that cannot be read is
// one without memories.
func OpenWeights(file string) *Weights {
	w := &Weights{file: file, known: map[string]known{}}
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &w.known) != nil {
		w.known = map[string]known{}
	}
	return w
}

// Of is the digest of a model file.
func (w *Weights) Of(path string) (content.ID, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return content.ID{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.Open(path)
	if err != nil {
		return content.ID{}, fmt.Errorf("engine: the model file: %w", err)
	}
	defer f.Close()
	before, err := look(f)
	if err != nil {
		return content.ID{}, err
	}
	if k, ok := w.known[path]; ok {
		id, err := content.Parse(k.Digest)
		k.Digest = ""
		if err == nil && k == before {
			return id, nil
		}
	}
	id, err := digest(f)
	if err != nil {
		return content.ID{}, fmt.Errorf("engine: reading the model file: %w", err)
	}
	if after, err := look(f); err != nil || after != before {
		return content.ID{}, errors.Join(errChanging, err)
	}
	before.Digest = id.String()
	w.known[path] = before
	return id, w.save()
}

// errChanging refuses a model that is still being written.
var errChanging = errors.New("engine: the model file changed while it was read")

// Known reports whether the digest of a file is remembered under that name; Of
// finds out whether it still holds.
func (w *Weights) Known(path string) bool {
	path, err := filepath.Abs(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.known[path]
	return ok && err == nil
}

func digest(f *os.File) (id content.ID, err error) {
	h := blake3.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 1<<20)); err != nil {
		return id, err
	}
	h.Digest().Read(id[:])
	return id, nil
}

// save writes the memory whole under another name first.
func (w *Weights) save() error {
	data, err := json.MarshalIndent(w.known, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.file+".new", data, 0o600); err != nil {
		return fmt.Errorf("engine: remembering a model's digest: %w", err)
	}
	return os.Rename(w.file+".new", w.file)
}
