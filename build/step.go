package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// runner carries out the steps of one verb. Steps run one after the other: on
// the small machines CI uses, two at once only blur the durations.
type runner struct {
	root, cache string
	// seed is the environment entry that the tests of this run begin at; empty
	// leaves each its own.
	seed string
	out  io.Writer
	done []timed
	// pauses are the waits before each further try of what comes over a network.
	pauses []time.Duration
}

type timed struct {
	name string
	took time.Duration
}

func newRunner(out io.Writer) (*runner, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	root, err := rootOf(dir)
	if err != nil {
		return nil, err
	}
	cache, err := filepath.Abs(cmp.Or(os.Getenv("HOLDFAST_CACHE"), filepath.Join(root, ".cache")))
	if err != nil {
		return nil, err
	}
	return &runner{root: root, cache: cache, out: out, pauses: []time.Duration{3 * time.Second, 30 * time.Second}}, os.MkdirAll(cache, 0o755)
}

// verb runs v and ends with the list of its steps and their durations.
func (r *runner) verb(v verb, args []string) error {
	start := time.Now()
	err := v.run(r, args)
	if len(r.done) > 0 {
		fmt.Fprintf(r.out, "\n%s: %d steps in %s\n", v.name, len(r.done), round(time.Since(start)))
		for _, d := range r.done {
			fmt.Fprintf(r.out, "  %8s  %s\n", round(d.took), d.name)
		}
	}
	return err
}

// step runs one named step; its duration is printed whether it failed or not.
func (r *runner) step(name string, do func() error) error {
	fmt.Fprintf(r.out, "\n== %s\n", name)
	start := time.Now()
	err := do()
	took := time.Since(start)
	r.done = append(r.done, timed{name, took})
	if err != nil {
		fmt.Fprintf(r.out, "-- %s: FAILED after %s\n", name, round(took))
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(r.out, "-- %s: %s\n", name, round(took))
	return nil
}

// A job is a step before it runs.
type job struct {
	name string
	do   func() error
}

// all runs the jobs in order and stops at the first that fails.
func (r *runner) all(jobs []job) error {
	for _, j := range jobs {
		if err := r.step(j.name, j.do); err != nil {
			return err
		}
	}
	return nil
}

// fetch does what asks a mirror or a registry for something: one that fails for a
// moment is asked again. do must begin anew each time.
func (r *runner) fetch(do func() error) error {
	err := do()
	for _, pause := range r.pauses {
		if err == nil {
			return nil
		}
		fmt.Fprintf(r.out, "it failed (%v); once more in %s\n", err, pause)
		time.Sleep(pause)
		err = do()
	}
	return err
}

// sh runs a program in dir (relative to the root) with env added, its output
// passed through.
func (r *runner) sh(dir string, env []string, name string, args ...string) error {
	cmd := r.command(dir, env, name, args...)
	cmd.Stdout, cmd.Stderr = r.out, r.out
	return cmd.Run()
}

func (r *runner) command(dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if !filepath.IsAbs(dir) {
		cmd.Dir = filepath.Join(r.root, dir)
	}
	cmd.Env = append(slices.Clone(os.Environ()), "HOLDFAST_CACHE="+r.cache)
	if r.seed != "" {
		cmd.Env = append(cmd.Env, r.seed)
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// goCmd runs the go command at the root.
func (r *runner) goCmd(env []string, args ...string) error { return r.sh(".", env, "go", args...) }

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
