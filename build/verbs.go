package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holdfast/build/engine"
)

// tags is the build without the desktop: no Fyne, no C.
const tags = "headless"

// noCgo and withCgo are the two worlds: the program is built without C, the
// race detector needs it.
func noCgo() []string   { return []string{"CGO_ENABLED=0"} }
func withCgo() []string { return []string{"CGO_ENABLED=1"} }

// raced are the trees the race detector runs over.
func raced() []string { return []string{"core", "storage", "web", "app"} }

func demo(r *runner, args []string) error {
	program := filepath.Join(r.cache, "bin", "holdfast")
	jobs := []job{{"build the program", func() error {
		return r.goCmd(noCgo(), "build", "-tags", tags, "-o", program, "./app")
	}}}
	if slices.Contains(args, "--engine") {
		jobs = append(jobs, r.benchEngine()...)
		args = append([]string{"--engine-command", engine.Server(r.cache), "--engine-model", engine.File(r.cache, engine.Bench().Name)}, args...)
	}
	return r.all(append(jobs, job{"play the session", func() error {
		return r.sh(".", nil, program, append([]string{"demo"}, args...)...)
	}}))
}

// benchEngine installs the engine with the model of the measurements.
func (r *runner) benchEngine() []job {
	return []job{
		{"install llama-server", r.llamaServer},
		{"make the bench model", func() error { return r.models(engine.Bench()) }},
	}
}

func test(r *runner, _ []string) error {
	jobs := append(append([]job{{"seed", r.seedOfTree}}, r.static()...), r.units()...)
	jobs = append(jobs, r.desktop()...)
	jobs = append(append(jobs, r.clients()...), r.localEngine()...)
	return r.all(append(append(append(jobs, r.clientTests()...), r.engineTests()...), r.browser()...))
}

// seedEnv is core/seed's: where the random tests begin.
const seedEnv = "HOLDFAST_SEED"

// seedOfTree lets the random tests begin where the committed tree says: one
// commit plays the same programs wherever it is tested, the next one others.
// Without git every test picks its own.
func (r *runner) seedOfTree() error {
	if set := os.Getenv(seedEnv); set != "" {
		fmt.Fprintf(r.out, "%s=%s, as you set it\n", seedEnv, set)
		return nil
	}
	tree, err := r.command(".", nil, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil || len(tree) < 8 {
		fmt.Fprintln(r.out, "no commit to take it from: every test picks its own")
		return nil
	}
	n, err := strconv.ParseUint(string(tree[:8]), 16, 32)
	if err != nil {
		return fmt.Errorf("git names the tree %q: %w", tree, err)
	}
	r.seed = fmt.Sprintf("%s=%d", seedEnv, n)
	fmt.Fprintln(r.out, r.seed)
	return nil
}

// engineOnly installs the local engine, for working on the KV tier.
func engineOnly(r *runner, _ []string) error { return r.all(r.localEngine()) }

func (r *runner) static() []job {
	return []job{
		{"gofmt", r.gofmt},
		{"fetch modules", r.modules},
		{"go vet", func() error { return r.goCmd(noCgo(), "vet", "-tags", tags, "./...") }},
		{"go vet, client and engine tests", func() error {
			return r.goCmd(noCgo(), "vet", "-tags", tags+",clients,engine", "./app", "./core/engine", "./core/local")
		}},
		{"import rules", func() error { return r.goCmd(noCgo(), "test", "-count=1", "./build") }},
	}
}

// modules downloads what the steps below compile, and no more: the go command
// itself gives up at the first answer that fails.
func (r *runner) modules() error {
	return r.fetch(func() error {
		return errors.Join(r.sources(".", noCgo(), "-test", "-tags", tags+",clients,engine", "./..."),
			r.sources(".", noCgo(), "-test", "-tags", tags+",browser", "./app"),
			r.sources(".", withCgo(), "-test", "-tags", desktopTags+",desktop", "./app", "./ui"))
	})
}

// sources has the go command look at every source of packages, with those they
// import; args are for go list.
func (r *runner) sources(dir string, env []string, args ...string) error {
	cmd := r.command(dir, env, "go", append([]string{"list", "-deps"}, args...)...)
	cmd.Stderr = r.out
	return cmd.Run()
}

// units are the hermetic tests, plain and raced. The raced run plays fewer
// random programs: it looks for races, not for differences.
func (r *runner) units() []job {
	return []job{
		{"go test", func() error { return r.goCmd(noCgo(), "test", "-tags", tags, "-timeout", "20m", "./...") }},
		{"install gcc", r.needGCC},
		{"go test -race", func() error {
			args := append([]string{"test", "-race", "-tags", tags, "-timeout", "40m"}, r.existing(raced())...)
			return r.goCmd(append(withCgo(), "HOLDFAST_PROGRAMS=40"), args...)
		}},
	}
}

func (r *runner) clientTests() []job {
	return []job{{"real clients", func() error {
		return r.goCmd(noCgo(), "test", "-count=1", "-v", "-timeout", "15m", "-tags", tags+",clients", "-run", "^TestClient", "./app")
	}}}
}

// engineTests drive a real llama-server: through the tier alone, and by a real
// agent through the whole program.
func (r *runner) engineTests() []job {
	real := func(tags string, packages ...string) func() error {
		return func() error {
			args := []string{"test", "-count=1", "-timeout", "15m", "-tags", tags, "-run", "^TestEngine"}
			return r.goCmd(noCgo(), append(args, packages...)...)
		}
	}
	return []job{
		{"real engine", real(tags+",engine", "./core/engine", "./core/local")},
		{"an agent on a real engine", real(tags+",clients,engine", "./app")},
	}
}

// benches are the comparisons by name: a test behind a build tag each, so that
// no figure can ever fail a change.
func benches() map[string][]string {
	return map[string][]string{
		"proxy": {"-run", "^TestBenchProxy$", "./app"},
		"cost":  {"-run", "^TestBenchCost$", "./core/fold"},
		"kv":    {"-run", "^TestBenchKV$", "./core/local"},
	}
}

// bench runs one of the comparisons.
func bench(r *runner, args []string) error {
	if len(args) == 0 || benches()[args[0]] == nil {
		return errors.New("usage: go run ./build bench proxy|cost|kv [go test flags]")
	}
	var jobs []job
	if args[0] == "kv" {
		jobs = r.benchEngine()
	}
	return r.all(append(jobs, job{"bench " + args[0], func() error {
		run := []string{"test", "-tags", tags + ",bench", "-count=1", "-v", "-timeout", benchTime}
		return r.goCmd(noCgo(), append(append(run, args[1:]...), benches()[args[0]]...)...)
	}}))
}

// benchTime is what the longest comparison may take: bench kv computes some
// 40,000 tokens of a model of 240 million weights on two cores.
const benchTime = "3h"

// staticcheck is pinned here because it runs as a tool of its own: in go.mod
// its dependencies would be the program's.
const staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

func lint(r *runner, _ []string) error {
	return r.all(append(r.static(), job{"staticcheck", func() error {
		return r.goCmd(noCgo(), "run", staticcheck, "-tags", tags, "./...")
	}}))
}

func nightly(r *runner, _ []string) error {
	long := job{"go test, 10,000 programs", func() error {
		return r.goCmd(append(noCgo(), "HOLDFAST_PROGRAMS=10000"), "test", "-tags", tags, "-count=1", "-timeout", "4h", "./...")
	}}
	fuzzing, err := r.fuzzJobs()
	if err != nil {
		return err
	}
	jobs := append(r.static(), r.units()...)
	jobs = append(append(append(jobs, long), fuzzing...), r.desktop()...)
	jobs = append(append(jobs, r.clients()...), r.localEngine()...)
	packages, err := r.packageChecks()
	if err != nil {
		return err
	}
	return r.all(append(append(append(jobs, r.clientTests()...), r.engineTests()...), packages...))
}

// fuzzJobs finds every fuzz target of the module: one minute of fuzzing each.
func (r *runner) fuzzJobs() (jobs []job, err error) {
	cmd := r.command(".", noCgo(), "go", "test", "-tags", tags, "-list", "^Fuzz", "-json", "./...")
	cmd.Stderr = r.out
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing fuzz targets: %w", err)
	}
	targets, err := fuzzTargets(bytes.NewReader(listed))
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		jobs = append(jobs, job{"fuzz " + t.pkg + " " + t.name, func() error {
			return r.goCmd(noCgo(), "test", "-tags", tags, "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", "60s", "-fuzzminimizetime", "1x", t.pkg)
		}})
	}
	return jobs, nil
}

// gofmt fails on any file that is not formatted.
func (r *runner) gofmt() error {
	files, err := r.goFiles()
	if err != nil {
		return err
	}
	out, err := r.command(".", nil, "gofmt", append([]string{"-l"}, files...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if len(out) > 0 {
		return fmt.Errorf("not formatted:\n%s", out)
	}
	return nil
}

// goFiles lists the Go files of the repository, without dot folders: the cache
// holds other people's.
func (r *runner) goFiles() (files []string, err error) {
	err = filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != r.root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// existing turns folder names into package patterns, leaving out folders that
// hold nothing yet.
func (r *runner) existing(dirs []string) (patterns []string) {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(r.root, dir)); err == nil {
			patterns = append(patterns, "./"+dir+"/...")
		}
	}
	return patterns
}
