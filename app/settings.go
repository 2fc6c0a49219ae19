package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/web/api"
)

// Settings is the configuration of a process: the layers, the values in force,
// and the file behind them. Values in force are only ever replaced by valid
// ones, so a broken file keeps the last good settings.
type Settings struct {
	path  string
	env   func(string) string
	flags map[string]string
	now   atomic.Pointer[config.Config]

	mu sync.Mutex // serialises readers of the file and writers of it; guards the rest
	// changed is told after every replacement and every failed reading; it must
	// not call back.
	changed func(now *config.Config, broken error)
	file    []byte // the text last looked at
	broken  error  // what is wrong with it
}

// loadSettings reads all layers. A broken file at start has no last good
// version to fall back on, so it is an error.
func loadSettings(path string, env func(string) string, flags map[string]string) (*Settings, error) {
	s := &Settings{path: path, env: env, flags: flags, changed: func(*config.Config, error) {}}
	data, err := readOptional(path)
	if err != nil {
		return nil, &Fault{Code: exitFailed, What: "the settings cannot be read", Err: err, Hint: "make " + path + " readable"}
	}
	c, err := s.layered(data)
	if err != nil {
		return nil, invalid(err, path, data, flags)
	}
	s.file = data
	s.now.Store(&c)
	return s, nil
}

// invalid is the fault of settings that cannot be used: what to do depends on
// the layer the value came from.
func invalid(err error, path string, file []byte, flags map[string]string) *Fault {
	f := &Fault{Code: exitFailed, What: "the settings are not valid", Err: err, Hint: "correct or unset the variable"}
	var e *config.Error
	if _, broken := config.Parse(file); broken != nil {
		f.Hint = "correct " + path + ", or move it away to run with the defaults"
	} else if errors.As(err, &e) && flags[e.Key] != "" {
		f.What, f.Hint, f.Code = "a flag is not valid", "holdfast serve --help lists the flags", exitUsage
	}
	return f
}

func (s *Settings) layered(file []byte) (config.Config, error) {
	return config.Load(config.Layers{File: file, Env: s.env, Flags: s.flags})
}

// onChange names who is told of changes from now on.
func (s *Settings) onChange(f func(now *config.Config, broken error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = f
}

// Current returns the settings in force.
func (s *Settings) Current() *config.Config { return s.now.Load() }

// Config returns the settings in force, their file, and what is wrong with it.
func (s *Settings) Config() (*config.Config, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Load(), s.path, s.broken
}

// Change writes values to the file and takes them up, or does neither: a file
// that cannot be written leaves the settings as they were, and a value that
// the environment or a flag overrides is refused before anything is written.
func (s *Settings) Change(_ context.Context, values map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := readOptional(s.path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", s.path, err)
	}
	text := data
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if text, err = config.Set(text, key, values[key]); err != nil {
			return s.unchanged(err, data, values)
		}
	}
	next, err := s.layered(text)
	if err != nil {
		return s.unchanged(err, data, values)
	}
	for key := range values {
		if src := next.Source(key); src == config.FromEnv || src == config.FromFlag {
			return fmt.Errorf("%s is set by %s: %w", key, src, api.ErrOverridden)
		}
	}
	if err := writeFile(realPath(s.path), text); err != nil {
		return &Fault{Code: exitFailed, What: "the change cannot be saved, so it was not made", Err: err, Hint: "make " + s.path + " writable"}
	}
	s.take(text, next)
	return nil
}

// unchanged says why a file cannot be changed: for what was in it already, or
// for the new values, which stand in no line that a person could look up.
func (s *Settings) unchanged(err error, file []byte, values map[string]string) error {
	if _, broken := s.layered(file); broken != nil {
		return &guard.Problem{Status: http.StatusUnprocessableEntity, Code: "setting",
			Title: "The settings are not valid as they are: " + broken.Error(), Hint: "Correct " + s.path + " first; nothing was changed."}
	}
	var e *config.Error
	if errors.As(err, &e) && values[e.Key] != "" {
		at := *e
		at.Line = 0
		return &at
	}
	return err
}

// take puts new settings in force; the caller holds mu.
func (s *Settings) take(text []byte, next config.Config) {
	s.file, s.broken = text, nil
	s.now.Store(&next)
	s.changed(&next, nil)
}

// reload looks at the file again.
func (s *Settings) reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := readOptional(s.path)
	if err == nil && bytes.Equal(data, s.file) {
		return
	}
	var next config.Config
	if err == nil {
		next, err = s.layered(data)
	}
	if err != nil {
		s.file, s.broken = data, err
		s.changed(s.now.Load(), err)
		return
	}
	s.take(data, next)
}

// settle is how long the file must be quiet before it is read: editors write
// in several steps.
const settle = 100 * time.Millisecond

// watch begins to watch the file; the returned function rereads it whenever it
// changes, until its context ends. What is watched is the folder: editors
// replace the file, and it need not exist yet.
func (s *Settings) watch() (follow func(context.Context), err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{s.path, realPath(s.path)} {
		if err := w.Add(filepath.Dir(name)); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return func(ctx context.Context) { s.follow(ctx, w) }, nil
}

func (s *Settings) follow(ctx context.Context, w *fsnotify.Watcher) {
	defer w.Close()
	quiet := time.NewTimer(0) // a change before the watch began is seen at once
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if name := filepath.Base(e.Name); name == filepath.Base(s.path) || name == filepath.Base(realPath(s.path)) {
				quiet.Reset(settle)
			}
		case <-w.Errors:
			quiet.Reset(settle) // events were lost: look
		case <-quiet.C:
			s.reload()
		}
	}
}

// realPath follows links: a config.toml that is linked from elsewhere stays a
// link.
func realPath(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}
