package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// packageChecks makes the packages and installs them: the deb in a root that is
// thrown away, the Windows programs under wine.
func (r *runner) packageChecks() ([]job, error) {
	p, err := r.packaging()
	if err != nil {
		return nil, err
	}
	return append(p.jobs(),
		job{"deb installs, upgrades, goes", p.checkDeb},
		job{"install wine", func() error { return p.needProgram("wine", "wine", "wine64", "xvfb", "xauth", "gcc-mingw-w64-x86-64") }},
		job{"windows programs under wine", p.checkWine},
	), nil
}

// checkDeb installs an older package into a root of its own, lets it make a
// ledger, upgrades, finds the session again, and removes.
func (p *packaging) checkDeb() error {
	root, err := os.MkdirTemp("", "holdfast-root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	home := filepath.Join(root, "home")
	now, current := p.version, p.debFile()
	p.version = "0.0.1"
	older := p.debFile()
	err = p.deb()
	p.version = now
	defer os.Remove(older)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755), os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644)); err != nil {
		return err
	}
	program := filepath.Join(root, "usr/bin/holdfast")
	for _, file := range []string{older, current} {
		if err := p.dpkg(root, "--install", file); err != nil {
			return err
		}
		if err := p.serveOnce(program, home); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	if err := p.dpkg(root, "--purge", "holdfast"); err != nil {
		return err
	}
	return leftover(root, home)
}

// dpkg works on a root without the packages ours depends on: this machine's
// are used to run it.
func (p *packaging) dpkg(root string, args ...string) error {
	return p.sh(".", nil, "dpkg", append([]string{"--root=" + root, "--force-depends", "--force-script-chrootless", "--force-not-root"}, args...)...)
}

// serveOnce starts an installed program, reports how long it took until it
// answered, and sends it off by quit. The second time the ledger is an older
// program's.
func (p *packaging) serveOnce(program, home string) error {
	env := append(os.Environ(), "HOLDFAST_HOME="+home)
	cmd := exec.Command(program, "serve", "--addr", "127.0.0.1:0", "--inspector-addr", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Env, cmd.Stderr = env, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Process.Kill()
	run := func(args ...string) (string, error) {
		c := exec.Command(program, args...)
		c.Env = env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for {
		if _, err := run("status"); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("it does not answer:\n%s", said.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(p.runner.out, "answered within %s of its start\n", round(time.Since(began)))
	for _, args := range [][]string{{"version"}, {"sessions", "list"}, {"sessions", "verify"}, {"quit"}} {
		if out, err := run(args...); err != nil {
			return fmt.Errorf("holdfast %s: %w\n%s\n%s", strings.Join(args, " "), err, out, said.String())
		}
	}
	return cmd.Wait()
}

// leftover wants the owner's data there and nothing else of ours.
func leftover(root, home string) error {
	if _, err := os.Stat(filepath.Join(home, "ledger.db")); err != nil {
		return fmt.Errorf("the ledger went with the package: %w", err)
	}
	var left []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == home || strings.HasPrefix(path, filepath.Join(root, "var/lib/dpkg")) {
			if path == home {
				return filepath.SkipDir
			}
			return err
		}
		if !d.IsDir() && strings.Contains(strings.ToLower(path[len(root):]), "holdfast") {
			left = append(left, path)
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left behind: %q", left)
	}
	return err
}

// prng is the one function that wine 8 lacks and every program built by Go 1.26
// calls first; tests only.
const prng = `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n) { return SystemFunction036(to, (ULONG)n); }
`

// checkWine runs the command line and the installer under wine. It is a smoke
// test and no proof for Windows.
func (p *packaging) checkWine() error {
	prefix := filepath.Join(p.cache, "wine")
	env := []string{"WINEPREFIX=" + prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=;bcryptprimitives=n"}
	source := filepath.Join(p.stage, "prng.c")
	if err := os.WriteFile(source, []byte(prng), 0o644); err != nil {
		return err
	}
	if err := p.sh(".", env, "xvfb-run", "-a", "wineboot", "-i"); err != nil {
		return err
	}
	dll := filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	if err := p.sh(".", nil, "x86_64-w64-mingw32-gcc", "-shared", "-O2", "-s", "-o", dll, source, "-ladvapi32"); err != nil {
		return err
	}
	setups, err := filepath.Glob(filepath.Join(p.out, "HoldfastSetup-*.exe"))
	if err != nil || len(setups) == 0 {
		return fmt.Errorf("no installer in %s", p.out)
	}
	wine := func(args ...string) error {
		return p.sh(".", env, "xvfb-run", append([]string{"-a", "wine"}, args...)...)
	}
	if err := wine(setups[0], "/S"); err != nil {
		return fmt.Errorf("the installer: %w", err)
	}
	installed, err := filepath.Glob(filepath.Join(prefix, "drive_c/users/*/AppData/Local/Programs/Holdfast"))
	if err != nil || len(installed) != 1 {
		return fmt.Errorf("installed in %q", installed)
	}
	// Wine 8 cannot delete a tree the way Go does, so the demo keeps its home.
	for _, args := range [][]string{{"version"}, {"demo", "--fast", "--keep"}} {
		if err := wine(append([]string{filepath.Join(installed[0], "holdfast.exe")}, args...)...); err != nil {
			return fmt.Errorf("holdfast %s: %w", args[0], err)
		}
	}
	if err := wine(filepath.Join(installed[0], "uninstall.exe"), "/S", "_?="+`C:\`+winPath(prefix, installed[0])); err != nil {
		return fmt.Errorf("the uninstaller: %w", err)
	}
	if left, _ := filepath.Glob(filepath.Join(installed[0], "*oldfast*")); len(left) > 0 {
		return fmt.Errorf("left behind: %q", left)
	}
	return nil
}

// winPath is a path below drive C as Windows writes it.
func winPath(prefix, path string) string {
	rel, _ := filepath.Rel(filepath.Join(prefix, "drive_c"), path) // it is below
	return strings.ReplaceAll(rel, "/", `\`)
}
