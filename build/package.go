package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The packaging tools are pinned here and run as tools of their own: in go.mod
// their dependencies would be the program's.
const (
	nfpm     = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
	goWinres = "github.com/tc-hib/go-winres@v0.3.3"
)

// desktopTags build the program with its window on OpenGL ES, which compiles in
// a quarter of the time of desktop OpenGL and draws the same.
const desktopTags = "gles"

// packaging is one run of package: what is built goes to out, what packages
// are put together from to stage.
type packaging struct {
	*runner
	out, stage      string
	version, commit string
}

// pack makes every package this machine can make; package check installs and
// runs them as well, as nightly does.
func pack(r *runner, args []string) error {
	p, err := r.packaging()
	if err != nil {
		return err
	}
	if slices.Contains(args, "check") {
		return r.all(p.checks())
	}
	return r.all(p.jobs())
}

func (r *runner) packaging() (*packaging, error) {
	p := &packaging{runner: r, out: filepath.Join(r.root, "build", "out"), stage: filepath.Join(r.cache, "stage")}
	meta, err := os.ReadFile(filepath.Join(r.root, "FyneApp.toml"))
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(meta), "\n") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Version = "); ok {
			p.version = strings.Trim(v, `"`)
		}
	}
	if p.version == "" {
		return nil, errors.New("FyneApp.toml names no version")
	}
	p.commit = "unknown" // an archive of the source has no history
	if out, err := r.command(".", nil, "git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		p.commit = strings.TrimSpace(string(out))
	}
	return p, errors.Join(os.MkdirAll(p.out, 0o755), os.MkdirAll(filepath.Join(p.stage, "completions"), 0o755))
}

func (p *packaging) jobs() []job {
	return []job{
		{"install what the desktop builds with", p.needDesktop},
		{"install what packages are made with", p.needPackaging},
		{"linux program", p.linuxProgram},
		{"manual page, completions, licences", p.texts},
		{"deb", p.deb},
		{"tar.xz", p.tarball},
		{"windows programs", p.windowsPrograms},
		{"windows installer", p.windowsInstaller},
		{"sizes", p.sizes},
	}
}

// ldflags puts version and commit inside. The release of the source is that of
// FyneApp.toml, which a test of build holds.
func (p *packaging) ldflags(more string) string {
	return "-s -w -X main.commit=" + p.commit + more
}

func (p *packaging) needPackaging() error {
	for name, debian := range map[string]string{"makensis": "nsis", "osslsigncode": "osslsigncode", "openssl": "openssl", "xz": "xz-utils"} {
		if err := p.needProgram(name, debian); err != nil {
			return err
		}
	}
	return nil
}

func (p *packaging) linuxProgram() error { return p.buildLinux("holdfast") }

// buildLinux builds the program with its desktop; more is for go build.
func (p *packaging) buildLinux(name string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-tags", desktopTags, "-ldflags", p.ldflags("")}, more...)
	return p.goCmd(withCgo(), append(args, "-o", filepath.Join(p.stage, name), "./app")...)
}

// texts asks the program for its manual and completions.
func (p *packaging) texts() error {
	say := func(args ...string) ([]byte, error) {
		return p.command(".", []string{"HOLDFAST_HOME=" + p.stage}, filepath.Join(p.stage, "holdfast"), args...).Output()
	}
	manual, err := say("man")
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(p.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text, err := say("completion", shell)
		if err != nil {
			return err
		}
		if err := p.put("completions/holdfast."+shell, text); err != nil {
			return err
		}
	}
	licence, err := os.ReadFile(filepath.Join(p.root, "LICENSE"))
	if err != nil {
		return err
	}
	list, err := p.licences()
	if err != nil {
		return err
	}
	return errors.Join(p.put("holdfast.1", manual), p.put("holdfast.1.gz", zipped(manual)), p.put("changelog.gz", zipped(changes)),
		p.put("LICENSE.txt", licence), p.put("LICENCES.txt", list), p.put("copyright", slices.Concat(licence, []byte("\n"), list)))
}

func (p *packaging) put(name string, data []byte) error {
	return os.WriteFile(filepath.Join(p.stage, name), data, 0o644)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that exists
	z.Write(data)                                         // a buffer takes everything
	z.Close()
	return b.Bytes()
}

func (p *packaging) deb() error {
	return p.debOf(p.version, filepath.Join(p.stage, "holdfast"))
}

// debOf packs a program as a version.
func (p *packaging) debOf(version, program string) error {
	text, err := os.ReadFile(filepath.Join(p.root, "build/linux/nfpm.yaml"))
	if err != nil {
		return err
	}
	config := filepath.Join(p.stage, "nfpm.yaml")
	filled := strings.NewReplacer("${VERSION}", version, "${PROGRAM}", program, "${STAGE}", p.stage).Replace(string(text))
	if err := os.WriteFile(config, []byte(filled), 0o644); err != nil {
		return err
	}
	return p.goCmd(noCgo(), "run", nfpm, "package", "--config", config, "--packager", "deb", "--target", p.debFile(version))
}

func (p *packaging) debFile(version string) string {
	return filepath.Join(p.out, "holdfast_"+version+"_amd64.deb")
}

// tarball is the same for every other Linux, to unpack anywhere.
func (p *packaging) tarball() error {
	name := "holdfast-" + p.version + "-linux-amd64"
	dir := filepath.Join(p.stage, name)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "completions"), 0o755)); err != nil {
		return err
	}
	files := []string{"holdfast", "holdfast.1", "LICENSE.txt", "LICENCES.txt", "completions/holdfast.bash", "completions/holdfast.zsh", "completions/holdfast.fish"}
	for _, f := range files {
		if err := p.sh(p.stage, nil, "cp", "-p", f, filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	for _, f := range []string{"README.md", "build/linux/app.holdfast.Holdfast.desktop", "assets/icon/holdfast.svg"} {
		if err := p.sh(".", nil, "cp", f, dir); err != nil {
			return err
		}
	}
	return p.sh(p.stage, []string{"XZ_OPT=-T0"}, "tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-cJf", filepath.Join(p.out, name+".tar.xz"), name)
}

// windowsPrograms are two: a tray program has no console on Windows, so the
// command line is one of its own. Neither needs C.
func (p *packaging) windowsPrograms() error {
	syso := filepath.Join(p.root, "app", "rsrc")
	defer os.Remove(syso + "_windows_amd64.syso") // or every build for Windows would take it
	err := p.goCmd(noCgo(), "run", goWinres, "make", "--in", "build/windows/winres.json", "--arch", "amd64", "--out", syso,
		"--product-version", p.numbers(), "--file-version", p.numbers())
	if err != nil {
		return err
	}
	windows := append(noCgo(), "GOOS=windows", "GOARCH=amd64")
	if err := p.goCmd(windows, "build", "-trimpath", "-ldflags", p.ldflags(" -H=windowsgui"), "-o", filepath.Join(p.stage, "HoldfastTray.exe"), "./app"); err != nil {
		return err
	}
	if err := p.goCmd(windows, "build", "-trimpath", "-tags", tags, "-ldflags", p.ldflags(""), "-o", filepath.Join(p.stage, "holdfast.exe"), "./app"); err != nil {
		return err
	}
	if err := p.signer(); err != nil {
		return err
	}
	for _, name := range []string{"HoldfastTray.exe", "holdfast.exe"} {
		if err := p.sh(p.stage, nil, "sh", "sign.sh", name); err != nil {
			return err
		}
	}
	return nil
}

// numbers is the version as Windows counts.
func (p *packaging) numbers() string {
	v, _, _ := strings.Cut(p.version, "-")
	return v + ".0"
}

// signer writes a script that signs with a certificate made for this run. It
// shows that signing works; a release is signed with the owner's own.
func (p *packaging) signer() error {
	made := p.command(p.stage, nil, "openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "30", "-keyout", "key.pem", "-out", "cert.pem",
		"-subj", "/CN=Holdfast test signature", "-addext", "extendedKeyUsage=codeSigning")
	if said, err := made.CombinedOutput(); err != nil { // pages of dots when it is well
		return fmt.Errorf("making a certificate: %w\n%s", err, said)
	}
	script := fmt.Sprintf("#!/bin/sh\nset -e\nosslsigncode sign -h sha256 -certs '%[1]s/cert.pem' -key '%[1]s/key.pem' -n Holdfast -in \"$1\" -out \"$1.signed\" >/dev/null\nmv \"$1.signed\" \"$1\"\n", p.stage)
	return os.WriteFile(filepath.Join(p.stage, "sign.sh"), []byte(script), 0o755)
}

func (p *packaging) windowsInstaller() error {
	setup := filepath.Join(p.out, "HoldfastSetup-"+p.version+".exe")
	err := p.sh(".", nil, "makensis", "-V2", "-DSRC="+p.stage, "-DOUT="+setup, "-DICO="+filepath.Join(p.root, "assets/icon/holdfast.ico"),
		"-DSIGN="+filepath.Join(p.stage, "sign.sh"), "-DVERSION="+p.version, "-DNUMBERS="+p.numbers(), "build/windows/installer.nsi")
	if err != nil {
		return err
	}
	for _, name := range []string{setup, filepath.Join(p.stage, "holdfast.exe"), filepath.Join(p.stage, "HoldfastTray.exe")} {
		if out, err := p.command(".", nil, "osslsigncode", "verify", "-CAfile", filepath.Join(p.stage, "cert.pem"), name).CombinedOutput(); err != nil {
			return fmt.Errorf("%s is not signed: %w\n%s", name, err, out)
		}
	}
	return nil
}

// sizes prints what was made.
func (p *packaging) sizes() error {
	for _, pattern := range []string{p.out + "/*.deb", p.out + "/*.xz", p.out + "/*.exe", p.stage + "/holdfast", p.stage + "/*.exe"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.runner.out, "%6.1f MB  %s\n", float64(info.Size())/1e6, filepath.Base(f))
		}
	}
	return nil
}

// licences prints the list alone; packages made elsewhere take it from here.
func licences(r *runner, _ []string) error {
	list, err := r.licences()
	if err != nil {
		return err
	}
	_, err = r.out.Write(list)
	return err
}

// licences lists the licence of everything that is in the programs: every
// module of either build, Go itself, and what was copied from npm.
func (r *runner) licences() ([]byte, error) {
	texts := map[string]string{}
	for _, build := range [][]string{
		append(withCgo(), "GOOS=linux", "GOFLAGS=-tags="+desktopTags), append(noCgo(), "GOOS=windows"), append(noCgo(), "GOOS=linux", "GOFLAGS=-tags="+tags),
	} {
		out, err := r.command(".", build, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./app").Output()
		if err != nil {
			return nil, fmt.Errorf("listing modules: %w", err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			name, dir, ok := strings.Cut(line, "\t")
			if !ok || texts[name] != "" {
				continue
			}
			if texts[name], err = licenceIn(dir); err != nil {
				return nil, err
			}
		}
	}
	root, err := r.command(".", nil, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if texts["Go"], err = licenceIn(strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	copied, err := filepath.Glob(filepath.Join(r.root, "assets", "*", "*.LICENSE"))
	if err != nil {
		return nil, err
	}
	for _, file := range copied {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		texts[strings.TrimSuffix(filepath.Base(file), ".LICENSE")] = string(data)
	}
	return listed(texts), nil
}

func listed(texts map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("Holdfast contains the following works of others.\n")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", name, strings.Repeat("=", len(name)), strings.TrimSpace(texts[name]))
	}
	return b.Bytes()
}

// licenceIn reads the licence files of a folder; a work without one must not be
// shipped.
func licenceIn(dir string) (string, error) {
	var found []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || strings.HasSuffix(name, ".GO") || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "NOTICE") && !strings.HasPrefix(name, "UNLICENSE") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		found = append(found, strings.TrimSpace(string(data)))
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s holds no licence", dir)
	}
	return strings.Join(found, "\n\n"), nil
}
