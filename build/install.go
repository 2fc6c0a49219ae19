package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"holdfast/build/engine"
)

// clientsDir holds one folder per npm client with its pinned package.json and
// package-lock.json; gosdk beside them is a Go module of its own.
const clientsDir = "build/clients"

// npmClients are the folders of clientsDir that npm installs. node comes
// first: the others need its version to run, not to be installed.
func npmClients() []string { return []string{"node", "claude-code", "pi", "sdk"} }

// clients installs every real client the tests drive: one job each.
func (r *runner) clients() []job {
	jobs := []job{{"install npm", r.needNpm}}
	for _, name := range npmClients() {
		jobs = append(jobs, job{"install " + name, func() error { return r.npm(name) }})
	}
	return append(jobs, job{"build the Go SDK client", r.goSDK})
}

// localEngine installs the real llama-server and the models the tests run on it.
func (r *runner) localEngine() []job {
	return []job{
		{"install llama-server", r.llamaServer},
		{"make models", func() error { return r.models(engine.Models()...) }},
	}
}

func (r *runner) llamaServer() error {
	return r.fetch(func() error { return engine.Install(r.cache, r.out) })
}

func (r *runner) models(models ...engine.Model) error {
	for _, m := range models {
		if err := engine.Make(r.cache, m); err != nil {
			return err
		}
		fmt.Fprintln(r.out, engine.File(r.cache, m.Name))
	}
	return nil
}

// goSDK compiles the client on the Go SDKs from its own module, so that their
// dependencies stay out of the program's go.mod.
func (r *runner) goSDK() error {
	dir := clientsDir + "/gosdk"
	if err := r.fetch(func() error { return r.sources(dir, noCgo(), ".") }); err != nil {
		return err
	}
	return r.sh(dir, noCgo(), "go", "build", "-o", filepath.Join(r.cache, "bin", "gosdk"), ".")
}

// needNpm makes sure npm can be called.
func (r *runner) needNpm() error { return r.needProgram("npm", "npm") }

// needGCC makes sure the race detector's C compiler is there.
func (r *runner) needGCC() error { return r.needProgram("gcc", "gcc", "libc6-dev") }

// needProgram looks for a program and, as root on Debian, installs the packages
// that bring it.
func (r *runner) needProgram(name string, debian ...string) error {
	if path, err := exec.LookPath(name); err == nil {
		fmt.Fprintf(r.out, "%s is %s\n", name, path)
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s is not installed; install it, or run as root on Debian", name)
	}
	return r.apt(debian...)
}

// apt installs Debian packages. Where another apt is at work it waits for its
// turn.
func (r *runner) apt(packages ...string) error {
	env, patient := []string{"DEBIAN_FRONTEND=noninteractive"}, []string{"-q", "-oAcquire::Retries=3", "-oDPkg::Lock::Timeout=300"}
	return r.fetch(func() error {
		if err := r.sh(".", env, "apt-get", append(patient, "update")...); err != nil {
			return err
		}
		return r.sh(".", env, "apt-get", slices.Concat(patient, []string{"install", "-y", "--no-install-recommends"}, packages)...)
	})
}

// npm installs clientsDir/name into the cache, once per content of its two
// pinned files. No package's own install script runs: none is needed (Claude
// Code's and Node's programs are whole optional packages for their platform).
func (r *runner) npm(name string) error {
	dir := filepath.Join(r.cache, "clients", name)
	stamp := filepath.Join(dir, ".stamp")
	want, err := r.pins(name, dir)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, want) {
		fmt.Fprintf(r.out, "%s is up to date\n", name)
		return nil
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	env := []string{"npm_config_cache=" + filepath.Join(r.cache, "npm"), "npm_config_update_notifier=false"}
	ci := func() error {
		return r.sh(dir, env, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	}
	if err := r.fetch(ci); err != nil {
		return err
	}
	return os.WriteFile(stamp, want, 0o644)
}

// pins copies the two pinned files of a client to dir and returns their hash.
// Our own scripts go with them: they find their packages beside themselves.
func (r *runner) pins(name, dir string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	from := filepath.Join(r.root, clientsDir, name)
	scripts, err := filepath.Glob(filepath.Join(from, "*.mjs"))
	if err != nil {
		return nil, err
	}
	for _, script := range scripts {
		if _, err := copyFile(dir, script); err != nil {
			return nil, err
		}
	}
	sum := sha256.New()
	for _, file := range []string{"package.json", "package-lock.json"} {
		data, err := copyFile(dir, filepath.Join(from, file))
		if err != nil {
			return nil, err
		}
		sum.Write(data)
	}
	return []byte(hex.EncodeToString(sum.Sum(nil)) + "\n"), nil
}

// copyFile copies a file into dir and returns its content.
func copyFile(dir, file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return data, os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644)
}
