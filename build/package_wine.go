package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Wine is a smoke test and no proof for Windows. What it does show: programs
// start, serve and end, the installer puts things where it says, and the lists
// of who may use a file are those we asked for (wine keeps them as the file's
// mode, which can be read from outside). What it cannot show is that files take
// over the list of their folder: wine 8 does not do that.

// prng is the one function that wine 8 lacks and every program built by Go 1.26
// calls first; tests only.
const prng = `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n) { return SystemFunction036(to, (ULONG)n); }
`

func (p *packaging) winePrefix() string { return filepath.Join(p.cache, "wine") }

func (p *packaging) wineEnv() []string {
	return []string{"WINEPREFIX=" + p.winePrefix(), "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=;bcryptprimitives=n"}
}

// wine runs a Windows program.
func (p *packaging) wine(args ...string) error {
	return p.sh(".", p.wineEnv(), "xvfb-run", append([]string{"-a", "wine"}, args...)...)
}

// needWine installs wine and makes a Windows of our own in the cache.
func (p *packaging) needWine() error {
	if err := p.needProgram("wine", "wine", "wine64", "xvfb", "xauth", "gcc-mingw-w64-x86-64"); err != nil {
		return err
	}
	source := filepath.Join(p.stage, "prng.c")
	if err := os.WriteFile(source, []byte(prng), 0o644); err != nil {
		return err
	}
	if err := p.sh(".", p.wineEnv(), "xvfb-run", "-a", "wineboot", "-i"); err != nil {
		return err
	}
	dll := filepath.Join(p.winePrefix(), "drive_c/windows/system32/bcryptprimitives.dll")
	return p.sh(".", nil, "x86_64-w64-mingw32-gcc", "-shared", "-O2", "-s", "-o", dll, source, "-ladvapi32")
}

// checkWineFiles runs the tests of who may use a file as a Windows program.
func (p *packaging) checkWineFiles() error {
	return p.wineTest("./storage/durable", "^(TestPrivate|TestOneEntry|TestWriteFile)$")
}

// checkWineEngine runs the test that an engine ends with us as a Windows program.
func (p *packaging) checkWineEngine() error {
	return p.wineTest("./core/engine", "^TestLeash$")
}

// wineTest runs tests of a package as a Windows program.
func (p *packaging) wineTest(dir, run string) error {
	test := filepath.Join(p.stage, filepath.Base(dir)+".test.exe")
	if err := p.goCmd(append(noCgo(), "GOOS=windows", "GOARCH=amd64"), "test", "-c", "-o", test, dir); err != nil {
		return err
	}
	return p.wine(test, "-test.v", "-test.run", run)
}

// checkWine installs, uses and uninstalls the Windows programs.
func (p *packaging) checkWine() error {
	setup := filepath.Join(p.out, "HoldfastSetup-"+p.version+".exe")
	local, err := p.localAppData()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(local, "holdfast")); err != nil { // of an earlier run
		return err
	}
	if err := p.wine(setup, "/S", `/D=C:\elsewhere`); err == nil {
		return errors.New("the installer took a folder that is not the user's own")
	}
	if err := p.wine(setup, "/S"); err != nil {
		return fmt.Errorf("the installer: %w", err)
	}
	folder := filepath.Join(local, "Programs", "Holdfast")
	if err := onlyOwnerWrites(folder); err != nil {
		return err
	}
	// Wine 8 cannot delete a tree the way Go does, so the demo keeps its home.
	program := filepath.Join(folder, "holdfast.exe")
	for _, args := range [][]string{{"version"}, {"demo", "--fast", "--keep"}} {
		if err := p.wine(append([]string{program}, args...)...); err != nil {
			return fmt.Errorf("holdfast %s: %w", args[0], err)
		}
	}
	if err := p.checkWineServes(program, filepath.Join(local, "holdfast")); err != nil {
		return err
	}
	if err := p.wine(filepath.Join(folder, "uninstall.exe"), "/S", "_?="+`C:\`+winPath(p.winePrefix(), folder)); err != nil {
		return fmt.Errorf("the uninstaller: %w", err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*oldfast*")); len(left) > 0 {
		return fmt.Errorf("left behind: %q", left)
	}
	return closed(filepath.Join(local, "holdfast", "ledger.db")) // the owner's data stays, and stays closed
}

// localAppData is where a Windows user's own programs and data are.
func (p *packaging) localAppData() (string, error) {
	found, err := filepath.Glob(filepath.Join(p.winePrefix(), "drive_c/users/*/AppData/Local"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("the users of wine have %q", found)
	}
	return found[0], nil
}

// checkWineServes sends a session through the installed program and looks at
// the files of its home, by its own doctor and from outside.
func (p *packaging) checkWineServes(program, home string) error {
	model := startModel()
	defer model.Close()
	i := &installed{call: []string{"xvfb-run", "-a", "wine", program}, env: p.wineEnv(), state: home, out: p.runner.out}
	if err := i.prepare(model.URL); err != nil {
		return err
	}
	err := i.serve(func(addr string) error {
		if err := errors.Join(talk(addr, 1), talk(addr, 2)); err != nil {
			return err
		}
		for _, name := range []string{".", "token", "runtime.json", "config.toml", "ledger.db", "ledger.db-wal", "ledger.db-shm"} {
			if err := closed(filepath.Join(home, name)); err != nil {
				return err
			}
		}
		return i.doctorSees(filepath.Join(home, "token"))
	})
	if err != nil {
		return err
	}
	_, err = i.onlySession(2)
	return err
}

// doctorSees wants doctor to find all well, and to find a file others can read.
func (i *installed) doctorSees(file string) error {
	if said, err := i.run("doctor"); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return err
	}
	if said, err := i.run("doctor"); err == nil || !strings.Contains(said, "can be read by others (Everyone)") {
		return fmt.Errorf("doctor takes a token that others can read: %v\n%s", err, said)
	}
	return os.Chmod(file, 0o600)
}

// closed wants a file or folder that nobody but the owner and his group, which
// wine takes for the owner, may use.
func closed(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		err = fmt.Errorf("%s can be used by others: %v", path, info.Mode())
	}
	return err
}

// onlyOwnerWrites wants programs that others cannot replace.
func onlyOwnerWrites(folder string) error {
	return filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o022 != 0 {
			err = fmt.Errorf("%s can be replaced by others: %v", path, info.Mode())
		}
		return err
	})
}

// winPath is a path below drive C as Windows writes it.
func winPath(prefix, path string) string {
	rel, _ := filepath.Rel(filepath.Join(prefix, "drive_c"), path) // it is below
	return strings.ReplaceAll(rel, "/", `\`)
}
