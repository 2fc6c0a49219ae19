package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is the prefix of our own import paths.
const module = "holdfast/"

// A rule says what one package may import of ours. A pattern that ends in
// "/..." stands for a folder and everything below it.
type rule struct {
	// pure packages take time, files and network as values, never as calls.
	pure  bool
	allow []string
}

// rules is the house: calls go down, imports go inward. A package that is not
// here does not belong; a package named xtest stands with its parent's rule.
func rules() map[string]rule {
	chatContent := []string{"core/chat", "core/content"}
	codec := rule{pure: true, allow: []string{"core/wire", "core/wire/sse", "core/chat", "core/content"}}
	page := rule{allow: []string{"web/layout", "core/chat", "core/config", "core/content", "core/fold", "core/kv", "core/session", "core/usage", "core/wire"}}
	return map[string]rule{
		"app":              {allow: []string{"app/...", "ui/...", "web/...", "core/...", "storage/...", "assets/..."}},
		"ui":               {allow: []string{"assets/...", "core/..."}},
		"web":              {allow: []string{"assets/...", "core/...", "web/..."}},
		"web/layout":       {allow: []string{"assets/..."}},
		"web/overview":     page,
		"web/sessions":     page,
		"web/degrades":     page,
		"web/cache":        page,
		"web/settings":     page,
		"web/help":         page,
		"web/api":          {allow: []string{"core/..."}},
		"core/guard":       {},
		"core/seed":        {},
		"core/content":     {pure: true},
		"core/chat":        {pure: true, allow: []string{"core/content"}},
		"core/usage":       {pure: true},
		"core/client":      {pure: true},
		"core/config":      {pure: true, allow: []string{"core/usage"}},
		"core/wire":        {pure: true, allow: chatContent},
		"core/wire/sse":    codec,
		"core/wire/openai": codec, "core/wire/anthropic": codec, "core/wire/responses": codec, "core/wire/google": codec,
		"core/fold":        {pure: true, allow: []string{"core/chat", "core/usage", "core/content"}},
		"core/session":     {pure: true, allow: []string{"core/content", "core/chat", "core/fold", "core/usage"}},
		"core/kv":          {pure: true, allow: []string{"core/content", "core/usage"}},
		"core/kv/slotfile": {pure: true, allow: []string{"core/kv", "core/content"}},
		"core/engine":      {allow: []string{"core/content", "core/chat", "core/kv"}},
		"core/tier":        {allow: []string{"core/kv", "core/kv/slotfile", "core/content"}},
		"core/local": {allow: []string{"core/content", "core/chat", "core/kv", "core/kv/slotfile", "core/tier", "core/engine", "core/wire/...", "core/usage",
			"core/config", "core/upstream"}},
		"core/upstream":   {allow: []string{"core/chat", "core/wire/...", "core/usage", "core/config"}},
		"core/chain":      {allow: []string{"core/..."}},
		"core/demo":       {allow: []string{"core/chat", "core/wire/..."}},
		"storage/durable": {},
		"storage/faultfs": {allow: []string{"storage/durable"}},
		"storage/segment": {allow: []string{"core/content", "storage/durable"}},
		"storage/ledger":  {allow: []string{"core/chat", "core/fold", "core/content", "core/session", "core/usage"}},
		"assets":          {},
		"build":           {allow: []string{"build/..."}},
		"build/engine":    {},
	}
}

// folders are the only ones at the root, dot folders aside.
func folders() []string { return []string{"app", "ui", "web", "core", "storage", "assets", "build"} }

// impure are the imports a pure package does without, and clock the functions
// of package time that read or wait on the clock.
func impure(imp string) bool {
	if imp == "net/url" || imp == "net/netip" {
		return false
	}
	for _, root := range []string{"os", "net", "syscall", "log", "database/sql", "math/rand", "crypto/rand", "io/ioutil"} {
		if imp == root || strings.HasPrefix(imp, root+"/") {
			return true
		}
	}
	return false
}

func clock() []string {
	return []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
}

func TestArchitecture(t *testing.T) {
	for _, sin := range check(t, os.DirFS("..")) {
		t.Error(sin)
	}
}

// check returns one line per broken rule of the tree.
func check(t *testing.T, tree fs.FS) (sins []string) {
	t.Helper()
	sins = rootSins(t, tree)
	packages := parseTree(t, tree)
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		r, ok := ruleOf(dir)
		if !ok {
			sins = append(sins, dir+": no such package in the architecture")
			continue
		}
		sins = append(sins, commentSins(dir, packages[dir])...)
		for _, f := range packages[dir] {
			sins = append(sins, importSins(dir, r, f)...)
			sins = append(sins, clockSins(dir, r, f)...)
		}
	}
	return sins
}

func rootSins(t *testing.T, tree fs.FS) (sins []string) {
	t.Helper()
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir() && !slices.Contains(folders(), e.Name()):
			sins = append(sins, e.Name()+": not one of the top-level folders")
		case strings.HasSuffix(e.Name(), ".go"):
			sins = append(sins, e.Name()+": Go at the root")
		}
	}
	return sins
}

// source is one parsed file.
type source struct {
	name string
	ast  *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// parseTree parses every Go file in-process: shelling out to go list is cached
// and goes blind on files behind build tags.
func parseTree(t *testing.T, tree fs.FS) map[string][]source {
	t.Helper()
	packages := map[string][]source{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return foreign(tree, name)
		case !strings.HasSuffix(name, ".go") || path.Dir(name) == ".":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		packages[path.Dir(name)] = append(packages[path.Dir(name)], source{name, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// foreign skips folders that are not part of the module.
func foreign(tree fs.FS, dir string) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func ruleOf(dir string) (rule, bool) {
	if r, ok := rules()[dir]; ok {
		return r, true
	}
	parent := path.Dir(dir)
	r, ok := rules()[parent]
	if !ok || !strings.HasSuffix(path.Base(dir), "test") {
		return rule{}, false
	}
	return rule{allow: append(slices.Clone(r.allow), parent)}, true
}

// commentSins wants the package explained exactly once, not in a test file.
func commentSins(dir string, files []source) []string {
	var in []string
	code := false
	for _, f := range files {
		code = code || !f.test()
		if !f.test() && f.ast.Doc.Text() != "" {
			in = append(in, path.Base(f.name))
		}
	}
	if !code || len(in) == 1 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d package comments %v, want one", dir, len(in), in)}
}

// importSins holds an import against the rule. Tests may reach further, to
// drive a package with its real neighbours, but nothing of ours imports app or
// build, and Fyne stays in ui.
func importSins(dir string, r rule, f source) (sins []string) {
	for _, spec := range f.ast.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		ours, isOurs := strings.CutPrefix(imp, module)
		switch {
		case strings.HasPrefix(imp, "fyne.io/") && dir != "ui":
			sins = append(sins, fmt.Sprintf("%s: Fyne outside ui", f.name))
		case r.pure && !f.test() && impure(imp):
			sins = append(sins, fmt.Sprintf("%s: pure package imports %s", f.name, imp))
		case isOurs && !mayImport(dir, r, f.test(), ours):
			sins = append(sins, fmt.Sprintf("%s: may not import %s", f.name, imp))
		}
	}
	return sins
}

func mayImport(dir string, r rule, test bool, ours string) bool {
	if test && dir != "build" {
		return ours == dir || !matches("app/...", ours) && !matches("build/...", ours)
	}
	return slices.ContainsFunc(r.allow, func(pattern string) bool { return matches(pattern, ours) })
}

func matches(pattern, ours string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	return ours == folder || below && strings.HasPrefix(ours, folder+"/")
}

// clockSins finds calls of the clock in a pure package.
func clockSins(dir string, r rule, f source) (sins []string) {
	if !r.pure || f.test() {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(clock(), sel.Sel.Name) {
			sins = append(sins, fmt.Sprintf("%s: pure package calls time.%s", f.name, sel.Sel.Name))
		}
		return true
	})
	return sins
}

// TestArchitectureCatches plants one sin at a time into a tree that is in order.
func TestArchitectureCatches(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"nothing":           {"core/chat/b.go", "package chat", ""},
		"own module":        {"build/clients/x/go.mod", "module x", ""},
		"test reaches far":  {"core/chain/b_test.go", "package chain\nimport _ \"holdfast/storage/ledger\"", ""},
		"arrow outward":     {"core/chain/b.go", "package chain\nimport _ \"holdfast/storage/ledger\"", "may not import holdfast/storage/ledger"},
		"sideways":          {"core/guard/b.go", "// Package guard.\npackage guard\nimport _ \"holdfast/core/chat\"", "may not import holdfast/core/chat"},
		"behind a tag":      {"core/guard/b.go", "//go:build never\n\n// Package guard.\npackage guard\nimport _ \"holdfast/core/chat\"", "may not import"},
		"page to page":      {"web/cache/b.go", "// Package cache.\npackage cache\nimport _ \"holdfast/web/help\"", "may not import"},
		"build imports":     {"build/b_test.go", "package main\nimport _ \"holdfast/core/chat\"", "may not import"},
		"test imports app":  {"core/chat/b_test.go", "package chat\nimport _ \"holdfast/app\"", "may not import"},
		"pure reads files":  {"core/chat/b.go", "package chat\nimport _ \"os\"", "pure package imports os"},
		"pure opens socket": {"core/chat/b.go", "package chat\nimport _ \"net/http\"", "pure package imports net/http"},
		"pure reads clock":  {"core/chat/b.go", "package chat\nimport \"time\"\nvar now = time.Now", "calls time.Now"},
		"Fyne in app":       {"app/b.go", "// Command holdfast.\npackage main\nimport _ \"fyne.io/fyne/v2\"", "Fyne outside ui"},
		"no comment":        {"core/usage/b.go", "package usage", "0 package comments"},
		"two comments":      {"core/chat/b.go", "// Package chat again.\npackage chat", "2 package comments"},
		"unknown package":   {"core/misc/b.go", "// Package misc.\npackage misc", "no such package"},
		"unknown folder":    {"pkg/b.go", "// Package pkg.\npackage pkg", "not one of the top-level folders"},
		"code at the root":  {"main.go", "package main", "Go at the root"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"core/chat/a.go":       {Data: []byte("// Package chat.\npackage chat\nimport _ \"holdfast/core/content\"")},
				"core/chain/a.go":      {Data: []byte("// Package chain.\npackage chain\nimport _ \"holdfast/core/chat\"")},
				"build/a.go":           {Data: []byte("// Command build.\npackage main")},
				"build/clients/x/x.go": {Data: []byte("package main")},
			}
			if tc.want != "" {
				delete(tree, "build/clients/x/x.go")
			} else {
				tree["build/clients/x/go.mod"] = &fstest.MapFile{Data: []byte("module x")}
			}
			tree[tc.file] = &fstest.MapFile{Data: []byte(tc.text)}
			sins := check(t, tree)
			if tc.want == "" && len(sins) != 0 {
				t.Fatalf("a good tree is refused: %q", sins)
			}
			if tc.want != "" && (len(sins) == 0 || !strings.Contains(strings.Join(sins, "\n"), tc.want)) {
				t.Fatalf("got %q, want %q", sins, tc.want)
			}
		})
	}
}
