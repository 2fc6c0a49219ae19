// Command build is how this repository is built, tested and measured:
//
//	go run ./build demo | test | bench | engine | lint | gen | package | licences | nightly
//
// It runs the program and its tests from outside and imports none of them.
// What a verb needs it installs itself: Debian packages when run as root, npm
// packages by exact version, Go modules through the module proxy. Everything
// downloaded or built stays in one ignored folder, .cache, or in HOLDFAST_CACHE.
// Every step is printed with its duration, and nothing is skipped: what cannot
// be installed fails the run.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A verb is one word of the command line.
type verb struct {
	name, does string
	run        func(r *runner, args []string) error
}

func verbs() []verb {
	return []verb{
		{"demo", "play the bundled coding session through the real chain", demo},
		{"test", "everything a change must pass", test},
		{"bench", "comparisons: bench proxy, bench cost, bench kv", bench},
		{"engine", "install llama-server and the models of the KV tests", engineOnly},
		{"lint", "gofmt, go vet, import rules, staticcheck", lint},
		{"gen", "regenerate generated files", gen},
		{"package", "deb, tar.xz, Windows programs and installer, to build/out", pack},
		{"licences", "print the licences of everything in the programs", licences},
		{"nightly", "the long form of test: 10,000 programs, fuzzing", nightly},
	}
}

// errUsage asks for the list of verbs and exit code 2.
var errUsage = errors.New("name what is to be done")

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "build: %v\n\n%s", err, usage())
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	for _, v := range verbs() {
		if v.name != args[0] {
			continue
		}
		r, err := newRunner(os.Stdout)
		if err != nil {
			return err
		}
		return r.verb(v, args[1:])
	}
	return fmt.Errorf("%w: there is no verb %q", errUsage, args[0])
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: go run ./build VERB [args]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-8s %s\n", v.name, v.does)
	}
	return b.String()
}

// rootOf walks up from dir to the folder that holds this module's go.mod.
func rootOf(dir string) (string, error) {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module holdfast\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run it inside the holdfast repository")
		}
		dir = up
	}
}
