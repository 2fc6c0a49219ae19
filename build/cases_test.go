package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// caseList is a numbered list of what people reported about systems like this
// one. Each number is answered by a test that bears it, or by a line in
// CONTRIBUTING.md that says which code makes it impossible.
type caseList struct {
	prefix string
	last   int
	what   string
}

// caseLists are grouped: of each group at most maxExcused percent may be lines.
func caseLists() [][]caseList {
	return [][]caseList{
		{{"P", 83, "proxy, wire, ledger"}, {"C", 70, "complaints about the background system"}},
		{{"K", 69, "engine and disk tier"}, {"KV", 63, "checks of the disk tier"}},
	}
}

const maxExcused = 15

// A test names cases at the start of its name (TestP5_P50_Signatures, TestKV11HandOff)
// or at the start of a subtest's (“P17 C12 the window is declared”).
const (
	caseToken    = `(?:KV|P|C|K)[1-9]\d*`
	testCases    = `^Test(` + caseToken + `(?:_` + caseToken + `)*)(?:$|[^a-z0-9])`
	subtestCases = `^(` + caseToken + `(?: ` + caseToken + `)*) \S`
	excusedCases = `^- (` + caseToken + `(?:, ` + caseToken + `)*): \S`
)

// caseNames collects where each case is named.
type caseNames struct {
	test, subtest *regexp.Regexp
	at            map[string][]string
}

func (c *caseNames) note(r *regexp.Regexp, name, where string) {
	m := r.FindStringSubmatch(name)
	if m == nil {
		return
	}
	for _, n := range regexp.MustCompile(caseToken).FindAllString(m[1], -1) {
		c.at[n] = append(c.at[n], where)
	}
}

// file reads the names of a test file: of its tests, and of the texts in them,
// for a subtest's name may stand in a table.
func (c *caseNames) file(path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		c.note(c.test, fn.Name.Name, path+" "+fn.Name.Name)
		ast.Inspect(fn, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					c.note(c.subtest, text, fmt.Sprintf("%s %s/%s", path, fn.Name.Name, text))
				}
			}
			return true
		})
	}
	return nil
}

// namedCases are the cases that tests of the repository bear.
func namedCases(t *testing.T) map[string][]string {
	c := &caseNames{regexp.MustCompile(testCases), regexp.MustCompile(subtestCases), map[string][]string{}}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "out" || name == "testdata" || name == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") || filepath.Base(path) == "cases_test.go" && filepath.Base(filepath.Dir(path)) == "build":
			return nil
		}
		return c.file(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.at
}

// excused are the cases CONTRIBUTING.md says cannot happen.
func excused(t *testing.T) map[string]bool {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	line, token := regexp.MustCompile(excusedCases), regexp.MustCompile(caseToken)
	out := map[string]bool{}
	for l := range bytes.Lines(text) {
		if m := line.FindSubmatch(bytes.TrimSpace(l)); m != nil {
			for _, n := range token.FindAll(m[1], -1) {
				out[string(n)] = true
			}
		}
	}
	return out
}

// TestCases: every reported case is answered, by a test or by a line.
func TestCases(t *testing.T) {
	named, lines := namedCases(t), excused(t)
	known := map[string]bool{}
	for _, group := range caseLists() {
		all, excuses := 0, 0
		for _, l := range group {
			var missing []string
			for n := 1; n <= l.last; n++ {
				id := l.prefix + strconv.Itoa(n)
				known[id] = true
				switch {
				case named[id] != nil:
				case lines[id]:
					excuses++
				default:
					missing = append(missing, id)
				}
			}
			all += l.last
			answer(t, l, missing)
		}
		if excuses*100 > all*maxExcused {
			t.Errorf("%d of %d cases are answered by a line alone, at most %d %% may be", excuses, all, maxExcused)
		}
	}
	for id, where := range named {
		if !known[id] {
			t.Errorf("%s is no case of any list: %v", id, where)
		}
	}
}

// answer says of one list which cases nothing answers.
func answer(t *testing.T, l caseList, missing []string) {
	slices.SortFunc(missing, func(a, b string) int {
		return strings.Compare(fmt.Sprintf("%8s", a), fmt.Sprintf("%8s", b))
	})
	say := t.Logf
	if len(missing) > 0 {
		say = t.Errorf
	}
	say("%s (%s): %d of %d answered, missing: %s", l.prefix, l.what, l.last-len(missing), l.last, strings.Join(missing, " "))
}

// TestCaseNames: what names a case and what does not.
func TestCaseNames(t *testing.T) {
	for pattern, names := range map[string]map[string]string{
		testCases:    {"TestP5_P50_C17_Signatures": "P5_P50_C17", "TestKV11HandOff": "KV11", "TestPlan": "", "TestCase1": "", "TestP5": "P5", "TestC3files": ""},
		subtestCases: {"P17 C12 the window": "P17 C12", "K5 a": "K5", "P17": "", "P0 x": "", "a P17 x": ""},
		excusedCases: {"- P46, P47: no": "P46, P47", "- P46 no": "", "P46: no": ""},
	} {
		r := regexp.MustCompile(pattern)
		for name, want := range names {
			got := ""
			if m := r.FindStringSubmatch(name); m != nil {
				got = m[1]
			}
			if got != want {
				t.Errorf("%s in %q names %q, want %q", pattern, name, got, want)
			}
		}
	}
}
