package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// packageChecks makes the packages and installs them: the deb in a root that is
// thrown away, the Windows programs under wine.
func (r *runner) packageChecks() ([]job, error) {
	p, err := r.packaging()
	if err != nil {
		return nil, err
	}
	return p.checks(), nil
}

func (p *packaging) checks() []job {
	return append(p.jobs(),
		job{"a program with a newer ledger", p.nextProgram},
		job{"deb installs, upgrades, goes", p.checkDeb},
		job{"install wine", p.needWine},
		job{"windows files under wine", p.checkWineFiles},
		job{"windows engine ends with us, under wine", p.checkWineEngine},
		job{"windows programs under wine", p.checkWine},
	)
}

// Versions of packages that are made to be upgraded from and to.
const (
	olderVersion = "0.0.1"
	nextVersion  = "99.0.0"
)

// nextProgram builds the program as the next version will be that changes the
// ledger: the same source with one more migration laid over it.
func (p *packaging) nextProgram() error {
	dir := filepath.Join(p.root, "storage/ledger/sql/migrations")
	steps, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err != nil {
		return err
	}
	step := filepath.Join(p.stage, "next.sql")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(dir, fmt.Sprintf("%02d-next.sql", len(steps)+1)): step}})
	if err != nil {
		return err
	}
	overlay := filepath.Join(p.stage, "next.json")
	if err := errors.Join(os.WriteFile(step, []byte("CREATE TABLE next_version (a INTEGER) STRICT;\n"), 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return err
	}
	return p.buildLinux("holdfast-next", "-overlay", overlay)
}

// checkDeb installs an older package into a root of its own, has it record a
// session, upgrades to this version and to one with a newer ledger, finds every
// byte of the session again and goes on with it, and removes.
func (p *packaging) checkDeb() error {
	root, err := os.MkdirTemp("", "holdfast-root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755), os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644)); err != nil {
		return err
	}
	older, next := p.debFile(olderVersion), p.debFile(nextVersion)
	defer os.Remove(older)
	defer os.Remove(next)
	if err := errors.Join(p.debOf(olderVersion, filepath.Join(p.stage, "holdfast")), p.debOf(nextVersion, filepath.Join(p.stage, "holdfast-next"))); err != nil {
		return err
	}
	model := startModel()
	defer model.Close()
	home := filepath.Join(root, "home")
	i := &installed{call: []string{filepath.Join(root, "usr/bin/holdfast")}, env: []string{"HOLDFAST_HOME=" + home}, state: home, out: p.runner.out}
	for n, file := range []string{older, p.debFile(p.version), next} {
		err := p.dpkg(root, "--install", file)
		if err == nil && n == 0 {
			err = i.prepare(model.URL)
		}
		if err == nil {
			err = i.upgraded(n+1, file == next)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return p.checkBackAndGone(root, i)
}

// checkBackAndGone goes back to this version, which must leave the newer ledger
// alone and say so, and removes the package.
func (p *packaging) checkBackAndGone(root string, i *installed) error {
	if err := p.dpkg(root, "--install", p.debFile(p.version)); err != nil {
		return err
	}
	if said, err := i.run("sessions", "list"); err == nil || !strings.Contains(said, "newer version") {
		return fmt.Errorf("a ledger of a newer version: %v\n%s", err, said)
	}
	if err := p.dpkg(root, "--remove", "holdfast"); err != nil {
		return err
	}
	if _, err := os.Stat(i.call[0]); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removed, and the program is there: %v", err)
	}
	if err := p.dpkg(root, "--purge", "holdfast"); err != nil {
		return err
	}
	return leftover(root, i.state)
}

// upgraded checks a version after its installation, the n-th: it reads what the
// one before left, byte for byte, and carries on with the same session. migrates
// says that it brings the ledger to a newer form.
func (i *installed) upgraded(n int, migrates bool) error {
	if n > 1 {
		kept, err := i.run("sessions", "export", i.session)
		if err != nil || kept != i.export {
			return fmt.Errorf("the session is not what it was: %v, %d bytes, were %d", err, len(kept), len(i.export))
		}
	}
	err := i.serve(func(addr string) error { return talk(addr, n) })
	if err != nil {
		return err
	}
	if i.session, err = i.onlySession(int64(n)); err != nil {
		return err
	}
	if i.export, err = i.run("sessions", "export", i.session); err != nil {
		return fmt.Errorf("%w\n%s", err, i.export)
	}
	schema, err := schemaOf(filepath.Join(i.state, "ledger.db"))
	fmt.Fprintf(i.out, "turn %d of session %s: %d bytes exported, ledger of version %d\n", n, i.session, len(i.export), schema)
	if err == nil && n > 1 && (schema > i.schema) != migrates {
		err = fmt.Errorf("the ledger has version %d, and had %d before", schema, i.schema)
	}
	i.schema = schema
	return err
}

// schemaOf is the version of a ledger, from the header of its file (at 60).
func schemaOf(file string) (uint32, error) {
	data, err := os.ReadFile(file)
	if err != nil || len(data) < 64 {
		return 0, fmt.Errorf("no ledger: %w", err)
	}
	return binary.BigEndian.Uint32(data[60:]), nil
}

// dpkg works on a root without the packages ours depends on: this machine's
// are used to run it.
func (p *packaging) dpkg(root string, args ...string) error {
	return p.sh(".", nil, "dpkg", append([]string{"--root=" + root, "--force-depends", "--force-script-chrootless", "--force-not-root"}, args...)...)
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
