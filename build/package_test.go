package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOneVersion holds the version of the source against that of the packages.
func TestOneVersion(t *testing.T) {
	r := &runner{root: "..", cache: t.TempDir()}
	p, err := r.packaging()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../app/version.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`const release = "([^"]+)"`).FindSubmatch(source)
	if m == nil || strings.TrimSuffix(string(m[1]), "-dev") != p.version {
		t.Errorf("app/version.go says %s, FyneApp.toml %s", m, p.version)
	}
	if p.numbers() != p.version+".0" {
		t.Errorf("as Windows counts: %s", p.numbers())
	}
}

// TestPackagedFilesExist: every source of nfpm.yaml that is in the repository
// is there, and the desktop's own files are what they should be.
func TestPackagedFilesExist(t *testing.T) {
	text, err := os.ReadFile("linux/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`src: "?([^",}]+)`).FindAllSubmatch(text, -1) {
		src := string(m[1])
		if strings.HasPrefix(src, "$") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", src)); err != nil {
			t.Error(err)
		}
	}
	meta, err := os.ReadFile("linux/app.holdfast.Holdfast.metainfo.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(meta, new(struct{})); err != nil {
		t.Error(err)
	}
}

// TestBeforeRemoval runs the script of the package on a machine of three people:
// whoever connected an agent or starts Holdfast at login gets that undone, and
// nobody else is asked. An upgrade undoes nothing.
func TestBeforeRemoval(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"bin", "anne/.local/share/holdfast/clients", "bert/.config/autostart", "carl"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"bert/.config/autostart/app.holdfast.Holdfast.desktop": "",
		"bin/getent":  "#!/bin/sh\nfor u in anne bert carl; do echo \"$u:x:1000:1000::" + dir + "/$u:/bin/sh\"; done\n",
		"bin/runuser": "#!/bin/sh\necho \"$*\" >> '" + dir + "/ran'\n[ \"$2\" != anne ]\n", // one that fails does not stop the others
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(action string) string {
		cmd := exec.Command("sh", "linux/prerm", action)
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		ran, _ := os.ReadFile(filepath.Join(dir, "ran")) // none when nothing ran
		return string(ran)
	}
	if ran := run("upgrade"); ran != "" {
		t.Errorf("an upgrade runs %q", ran)
	}
	want := fmt.Sprintf("-u anne -- env HOME=%[1]s/anne holdfast uninstall\n-u bert -- env HOME=%[1]s/bert holdfast uninstall\n", dir)
	if ran := run("remove"); ran != want {
		t.Errorf("removal runs %q, want %q", ran, want)
	}
}

func TestLicencesAreListed(t *testing.T) {
	dir := t.TempDir()
	if _, err := licenceIn(dir); err == nil {
		t.Error("a work without a licence passed")
	}
	for name, text := range map[string]string{"LICENSE.md": "do as you like\n", "NOTICE": "made by me", "license_test.go": "package x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := licenceIn(dir)
	if err != nil || !strings.Contains(got, "do as you like") || !strings.Contains(got, "made by me") || strings.Contains(got, "package x") {
		t.Errorf("%v %q", err, got)
	}
	if list := string(listed(map[string]string{"b v1": "two", "a v1": "one"})); strings.Index(list, "a v1") > strings.Index(list, "b v1") {
		t.Errorf("not in order:\n%s", list)
	}
}
