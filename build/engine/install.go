// Package engine puts a real llama-server and models of random weights into the
// cache folder, so that the KV tier is tested and measured against the engine it
// drives.
//
// The server comes from Debian's own packages, which are unpacked and not
// installed: nothing of the machine changes and no root is needed. Its libraries
// are newer than most machines', so they come along with their C library, and
// the programs are pointed at them. The distribution moves on; nothing is pinned
// by version, and what runs says which it is.
package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// suites are where the package is looked for, in order.
func suites() []string { return []string{"testing", "sid"} }

// serverPackage brings llama-server; patchelf points programs at other
// libraries.
const (
	serverPackage = "llama.cpp-tools"
	patchPackage  = "patchelf"
)

// Server is where the program lies in the cache folder.
func Server(cache string) string { return filepath.Join(cache, "engine", "bin", "llama-server") }

// Install makes the server unless it is there and runs.
func Install(cache string, out io.Writer) error {
	in := &installer{dir: filepath.Join(cache, "engine"), out: out}
	in.apt, in.root, in.bin = filepath.Join(in.dir, "apt"), filepath.Join(in.dir, "root"), filepath.Join(in.dir, "bin")
	if version, err := in.version(); err == nil {
		fmt.Fprintf(out, "llama-server is %s\n", version)
		return nil
	}
	if err := in.fresh(); err != nil {
		return err
	}
	for _, step := range []func() error{in.fetch, in.unpack, in.point, in.backends} {
		if err := step(); err != nil {
			return fmt.Errorf("llama-server: %w", err)
		}
	}
	version, err := in.version()
	if err != nil {
		return fmt.Errorf("llama-server does not run after its installation: %w", err)
	}
	fmt.Fprintf(out, "llama-server %s\n", version)
	return errors.Join(os.RemoveAll(in.apt), os.RemoveAll(in.debs()))
}

// installer is one installation; its folders are below dir.
type installer struct {
	dir, apt, root, bin string
	out                 io.Writer
}

func (in *installer) debs() string { return filepath.Join(in.dir, "debs") }

// version asks the program which it is; an answer means that it is complete.
func (in *installer) version() (string, error) {
	text, err := exec.Command(filepath.Join(in.bin, "llama-server"), "--version").CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), "version: "), "\n")
	return line, err
}

// fresh clears what an interrupted installation left; models stay.
func (in *installer) fresh() error {
	for _, dir := range []string{in.apt, in.root, in.bin, in.debs()} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{in.root, in.bin, in.debs(), in.apt + "/lists/partial", in.apt + "/cache/archives/partial", in.apt + "/etc"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(in.apt+"/status", nil, 0o644)
}

// run runs a program; its output is returned, and shown when it fails.
func (in *installer) run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &errs
	text, err := cmd.Output()
	if err != nil {
		fmt.Fprintf(in.out, "%s %s\n%s%s", name, strings.Join(args, " "), text, errs.Bytes())
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text), nil
}

// aptRun runs one of apt's programs on a world of its own.
func (in *installer) aptRun(dir, name string, args ...string) (string, error) {
	return in.run(dir, name, append([]string{
		"-oDir::State=" + in.apt, "-oDir::State::Lists=" + in.apt + "/lists", "-oDir::State::status=" + in.apt + "/status",
		"-oDir::Cache=" + in.apt + "/cache", "-oDir::Etc::SourceList=" + in.apt + "/etc/sources.list", "-oDir::Etc::SourceParts=/dev/null",
		"-oDir::Etc::Preferences=/dev/null", "-oDir::Etc::PreferencesParts=/dev/null", "-oAcquire::Languages=none",
		"-oAcquire::Retries=3", "-oAPT::Sandbox::User=root", "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"-oAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false", "-qq"}, args...)...)
}

// fetch downloads the server and its libraries from the first suite that has it.
func (in *installer) fetch() error {
	mirror, err := in.mirror()
	if err != nil {
		return err
	}
	for _, suite := range suites() {
		line := fmt.Sprintf("deb %s %s %s main\n", signedBy(), mirror, suite)
		if err := os.WriteFile(in.apt+"/etc/sources.list", []byte(line), 0o644); err != nil {
			return err
		}
		if _, err := in.aptRun("", "apt-get", "update"); err != nil {
			continue // the next suite may do; none at all is reported below
		}
		if _, err := in.aptRun("", "apt-cache", "show", serverPackage); err != nil {
			continue
		}
		want, err := in.needed()
		if err != nil {
			return err
		}
		fmt.Fprintf(in.out, "%d packages from %s\n", len(want), suite)
		_, err = in.aptRun(in.debs(), "apt-get", append([]string{"download"}, want...)...)
		return err
	}
	return fmt.Errorf("%s is in none of %v on %s", serverPackage, suites(), mirror)
}

// mirror is the Debian archive this machine uses already.
func (in *installer) mirror() (string, error) {
	listed, err := in.run("", "apt-get", "indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(listed, "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "Debian" && !regexp.MustCompile(`security|updates|backports`).MatchString(f[1]+f[2]) {
			return f[2], nil
		}
	}
	return configuredMirror()
}

// configuredMirror reads the configuration itself: on a machine whose package
// lists were never fetched apt names no targets.
func configuredMirror() (string, error) {
	files, err := filepath.Glob("/etc/apt/sources.list*")
	if err != nil {
		return "", err
	}
	more, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	for _, file := range append(files, more...) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		if m := regexp.MustCompile(`(?m)^(?:URIs:|deb ).*?(https?://\S+/debian)/?(?:\s|$)`).FindSubmatch(data); m != nil {
			return string(m[1]), nil
		}
	}
	return "", errors.New("this machine's apt knows no Debian mirror; the engine is installed from Debian's packages")
}

func signedBy() string {
	for _, key := range []string{"/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"} {
		if _, err := os.Stat(key); err == nil {
			return "[signed-by=" + key + "]"
		}
	}
	return ""
}

// library says which dependencies matter: what only maintainer scripts call
// does not.
var library = regexp.MustCompile(`^(lib|zlib1g)`)

// needed follows the dependencies of the server to all its libraries.
func (in *installer) needed() ([]string, error) {
	want, todo := []string{}, []string{serverPackage, patchPackage}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if slices.Contains(want, p) {
			continue
		}
		want = append(want, p)
		text, err := in.aptRun("", "apt-cache", "depends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
			"--no-replaces", "--no-enhances", p)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(text, "\n") {
			d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
			if ok && library.MatchString(d) && !strings.HasPrefix(d, "libc-") {
				todo = append(todo, d)
			}
		}
	}
	return want, nil
}

func (in *installer) unpack() error {
	debs, err := filepath.Glob(in.debs() + "/*.deb")
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := in.run("", "dpkg-deb", "-x", deb, in.root); err != nil {
			return err
		}
	}
	return nil
}

// point gives the programs the unpacked loader and one library path that all
// libraries inherit; the libraries' own paths would stop that.
func (in *installer) point() error {
	loader, err := in.only("usr/lib64/ld-linux*", "lib64/ld-linux*", "usr/lib/ld-linux*", "lib/ld-linux*")
	if err != nil {
		return err
	}
	llama, err := in.only("usr/lib/*/libllama.so.0")
	if err != nil {
		return err
	}
	lib := filepath.Dir(llama)
	patch := func(args ...string) error {
		_, err := in.run("", loader, append([]string{"--library-path", lib, in.root + "/usr/bin/patchelf"}, args...)...)
		return err
	}
	for _, pattern := range []string{"/libllama*.so.*.*", "/libmtmd.so.*.*", "/llama/*.so"} {
		libraries, err := filepath.Glob(lib + pattern)
		if err != nil {
			return err
		}
		for _, file := range libraries {
			if err := patch("--remove-rpath", file); err != nil {
				return err
			}
		}
	}
	server := filepath.Join(in.bin, "llama-server")
	data, err := os.ReadFile(in.root + "/usr/bin/llama-server")
	if err != nil {
		return err
	}
	if err := os.WriteFile(server, data, 0o755); err != nil {
		return err
	}
	return patch("--set-interpreter", loader, "--force-rpath", "--set-rpath", lib+":"+lib+"/llama", server)
}

// only is the first file below root that one of the patterns matches.
func (in *installer) only(patterns ...string) (string, error) {
	for _, p := range patterns {
		if found, _ := filepath.Glob(filepath.Join(in.root, p)); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("none of %v among the unpacked packages", patterns)
}

// backends links the CPU code next to the program, where the engine looks for
// it when the system has none.
func (in *installer) backends() error {
	found, err := filepath.Glob(in.root + "/usr/lib/*/ggml/backends*/libggml-*.so")
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("no CPU backend among the unpacked packages")
	}
	for _, file := range found {
		if err := os.Symlink(file, filepath.Join(in.bin, filepath.Base(file))); err != nil {
			return err
		}
	}
	return nil
}
