package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"holdfast/core/demo"
)

// TestScripts runs testdata/scripts: what a person types and what comes back.
// A script is the comment of a txtar archive; its files are put into the home
// first. A line is one of
//
//	serve                 start the program in this process, on free ports
//	stop                  stop it as SIGTERM does
//	play N                send the first N turns of the demo session through it
//	env NAME=VALUE        set the environment of the commands that follow
//	put NAME FILE         write a file of the archive into the home as NAME
//	settled               wait until the running program has read config.toml
//	hf ARGS => CODE       run a command; CODE is its exit code
//	out, err REGEXP       something the last command printed (! out: nothing like it)
//	keep NAME REGEXP      remember a match of its output as $NAME
//
// $HOME stands for the home folder.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range files {
		if raced && strings.HasPrefix(filepath.Base(name), "long_") {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			newScript(t, archive).run(string(archive.Comment))
		})
	}
}

type script struct {
	t        *testing.T
	home     string
	files    map[string][]byte
	env      map[string]string
	vars     map[string]string
	app      *App
	ran      chan error
	end      context.CancelFunc
	model    *httptest.Server
	out, err bytes.Buffer
}

func newScript(t *testing.T, a *txtar.Archive) *script {
	t.Setenv("TMPDIR", t.TempDir()) // the demo makes its home there
	s := &script{t: t, home: filepath.Join(t.TempDir(), "home"), files: map[string][]byte{}, vars: map[string]string{}}
	s.env = map[string]string{"HOLDFAST_HOME": s.home}
	s.vars["HOME"] = s.home
	s.model = httptest.NewServer(demo.NewModel(demo.Options{Script: demo.ScriptOf(demo.Session(demo.DefaultTurns))}))
	t.Cleanup(s.model.Close)
	t.Cleanup(func() { s.stop() })
	s.vars["MODEL"] = s.model.URL
	for _, f := range a.Files {
		s.files[f.Name] = f.Data
		s.put(f.Name, f.Name)
	}
	return s
}

func (s *script) put(name, file string) {
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := writeFile(filepath.Join(s.home, name), []byte(s.expand(string(s.files[file])))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) expand(text string) string {
	return os.Expand(text, func(name string) string { return s.vars[name] })
}

func (s *script) run(text string) {
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if err := s.step(verb, rest); err != nil {
			s.t.Fatalf("line %d: %s: %v\nout: %s\nerr: %s", n+1, line, err, short(s.out.String(), 4000), s.err.String())
		}
	}
}

func (s *script) step(verb, rest string) error {
	switch verb {
	case "serve":
		return s.serve()
	case "stop":
		return s.stop()
	case "play":
		return s.play(rest)
	case "env":
		k, v, _ := strings.Cut(rest, "=")
		s.env[k] = s.expand(v)
		return nil
	case "put":
		name, file, _ := strings.Cut(rest, " ")
		s.put(name, file)
		return nil
	case "settled":
		return s.settled()
	case "hf":
		return s.hf(rest)
	case "out":
		return match(s.out.String(), s.expand(rest), true)
	case "err":
		return match(s.err.String(), s.expand(rest), true)
	case "!":
		where, rest, _ := strings.Cut(rest, " ")
		text := map[string]string{"out": s.out.String(), "err": s.err.String()}[where]
		return match(text, s.expand(rest), false)
	case "keep":
		name, re, _ := strings.Cut(rest, " ")
		m := regexp.MustCompile("(?m)" + re).FindStringSubmatch(s.out.String())
		if m == nil {
			return fmt.Errorf("no match")
		}
		s.vars[name] = m[len(m)-1]
		return nil
	}
	return fmt.Errorf("no such step")
}

func match(text, re string, want bool) error {
	if regexp.MustCompile("(?m)"+re).MatchString(text) != want {
		return fmt.Errorf("match is %v", !want)
	}
	return nil
}

func (s *script) getenv(k string) string { return s.env[k] }

func (s *script) serve() error {
	paths, err := pathsFrom(s.getenv)
	if err != nil {
		return err
	}
	s.app, err = Open(s.t.Context(), AppOptions{Paths: paths, Env: s.getenv,
		Flags: map[string]string{"addr": "127.0.0.1:0", "inspector_addr": "127.0.0.1:0"}})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	s.end, s.ran = end, make(chan error, 1)
	app, ran := s.app, s.ran
	go func() { ran <- app.Run(ctx) }()
	return nil
}

func (s *script) stop() error {
	if s.app == nil {
		return nil
	}
	s.end()
	if err := <-s.ran; err != nil {
		return err
	}
	err := s.app.Close()
	s.app = nil
	return err
}

func (s *script) play(turns string) error {
	var n int
	if _, err := fmt.Sscan(turns, &n); err != nil {
		return err
	}
	_, err := playOnce(s.t.Context(), s.app.BaseURL(), demo.PlayOptions{Turns: n}, func(demo.TurnResult) {})
	c := s.app.engine.chain
	for c.Status().InFlight > 0 { // a client has its last byte before the handler ends
		time.Sleep(time.Millisecond)
	}
	c.Idle()
	return err
}

// settled looks at the file at once; the watcher has tests of its own.
func (s *script) settled() error {
	s.app.settings.reload()
	return nil
}

func (s *script) hf(line string) error {
	args, code, ok := strings.Cut(line, " => ")
	if !ok {
		return fmt.Errorf("no exit code")
	}
	s.out.Reset()
	s.err.Reset()
	got := run(s.t.Context(), fields(s.expand(args)), stdio{strings.NewReader(""), &s.out, &s.err, s.getenv})
	if fmt.Sprint(got) != code {
		return fmt.Errorf("exit code %d", got)
	}
	return nil
}

// fields splits a command line; '…' keeps spaces, and ” is an empty word.
func fields(line string) (out []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}
