package demo

import (
	"fmt"
	"strings"
)

// The invented project's files and the output of its tools: written, not
// recorded, and long where the real ones are long.

// operations are the further methods every package of the project has.
func operations() []string {
	return []string{"Open", "Reload", "Merge", "Prune", "Summarise", "Export", "Verify", "Between", "Backfill",
		"Resample", "Split", "Rotate", "Snapshot", "Restore", "Compare", "Annotate", "Reindex", "Drain", "Seal", "Trim", "Notify", "Audit"}
}

func (t task) source(edited bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `// Package %[1]s keeps the %[4]s of one station.
//
// A %[2]s is filled by %[3]s and read by the page handlers. It is safe for use by
// several goroutines; the lock is held around state changes only.
package %[1]s

import (
	"errors"
	"sync"
)

var ErrFull = errors.New("%[1]s: full")

// limit bounds the memory of one station: %[5]d %[4]s are a month of them at
// the shortest interval in use.
const limit = %[5]d

// Value is one of the %[4]s.
type Value struct {
	At     int64   // unix seconds
	Metres float64 // above chart datum
	Source string
}

// %[2]s holds the %[4]s of one station, oldest first.
type %[2]s struct {
	mu   sync.Mutex
	name string
	%[4]s []Value
	seen map[int64]bool
}

// New makes an empty %[2]s.
func New(name string) *%[2]s {
	return &%[2]s{name: name, seen: map[int64]bool{}}
}

// %[3]s takes %[6]s. The same instant twice is one.
func (x *%[2]s) %[3]s(v Value) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen[v.At] {
		return nil
	}
`, t.pkg, t.typ, t.verb, t.field, t.limit, t.noun)
	if edited {
		fmt.Fprintf(&b, "\tif len(x.%s) > limit {\n\t\treturn ErrFull\n\t}\n", t.field)
	}
	fmt.Fprintf(&b, "\tx.%[1]s = append(x.%[1]s, v)\n\tx.seen[v.At] = true\n\treturn nil\n}\n", t.field)
	for i, op := range operations() {
		t.operation(&b, i, op)
	}
	return b.String()
}

func (t task) operation(b *strings.Builder, i int, op string) {
	fmt.Fprintf(b, `
// %[1]s walks the %[3]s and applies %[4]s to each, in order; it stops at the first
// one that lies more than %[5]d seconds behind its neighbour.
func (x *%[2]s) %[1]s(from, to int64) ([]Value, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []Value
	for i, v := range x.%[3]s {
		if v.At < from || v.At >= to {
			continue
		}
		if i > 0 && v.At-x.%[3]s[i-1].At > %[5]d {
			return out, errors.New("%[6]s: gap before " + v.Source)
		}
		out = append(out, %[4]s(v, %[5]d))
	}
	return out, nil
}
`, op, t.typ, t.field, t.helper, 60*(t.n+i+1), t.pkg)
}

func (t task) tests() string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t\"errors\"\n\t\"testing\"\n)\n", t.pkg)
	for i, op := range operations() {
		fmt.Fprintf(&b, `
func Test%[1]s%[2]s(t *testing.T) {
	x := New("station-%02[3]d")
	for at := range int64(%[4]d) {
		if err := x.%[5]s(Value{At: at * %[6]d, Metres: float64(at%%7) / 2, Source: "synthetic"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := x.%[2]s(0, %[7]d)
	if err != nil || len(got) != %[4]d {
		t.Fatalf("%[2]s: %%d values, %%v; want %[4]d", len(got), err)
	}
}
`, t.typ, op, t.n+1, 4+i, t.verb, 30+i, 10000+t.n)
	}
	return b.String() + "\n// keep last\n"
}

func (t task) newTest() string {
	return fmt.Sprintf(`func Test%[1]sFull(t *testing.T) {
	x := New("station-%02[2]d")
	for at := range int64(limit) {
		if err := x.%[3]s(Value{At: at}); err != nil {
			t.Fatalf("%%d of %%d: %%v", at, limit, err)
		}
	}
	err := x.%[3]s(Value{At: limit})
	if !errors.Is(err, ErrFull) {
		t.Fatalf("one too many: %%v, want ErrFull", err)
	}
	for i, v := range x.%[4]s {
		if v.At != int64(i) {
			t.Fatalf("place %%d holds %%d", i, v.At)
		}
	}
}
`, t.typ, t.n+1, t.verb, t.field)
}

func (t task) testCount() int { return len(operations()) * 3 }

// run is the output of the package's tests, before or after the cure.
func (t task) run(passes bool) string {
	var b strings.Builder
	for i := range t.testCount() {
		name := fmt.Sprintf("Test%s%s", t.typ, operations()[i%len(operations())])
		if i >= len(operations()) {
			name += fmt.Sprintf("/tide_%d", i)
		}
		fmt.Fprintf(&b, "=== RUN   %s\n    %s_test.go:%d: station-%02d: %d values between %d and %d\n--- PASS: %s (0.%02ds)\n",
			name, t.pkg, 14+i*9, t.n+1, 4+i, i*3600, (i+6)*3600, name, (i*7+t.n)%10)
	}
	name := "Test" + t.typ + "Full"
	if passes {
		fmt.Fprintf(&b, "=== RUN   %[1]s\n--- PASS: %[1]s (0.00s)\nPASS\nok  \ttidehouse/%[2]s\t0.0%[3]ds\n", name, t.pkg, 31+t.n%60)
		return b.String()
	}
	fmt.Fprintf(&b, "=== RUN   %[1]s\n    %[2]s_test.go:141: one too many: <nil>, want ErrFull\n--- FAIL: %[1]s (0.00s)\nFAIL\nexit status 1\nFAIL\ttidehouse/%[2]s\t0.0%[3]ds\n",
		name, t.pkg, 31+t.n%60)
	return b.String()
}

func (t task) callers() string {
	var b strings.Builder
	for i, where := range []string{"server/ingest", "server/backfill", "cmd/tidehouse/import", "web/upload", "replay/season"} {
		fmt.Fprintf(&b, "%s.go:%d:\t\tif err := %s.%s(value); err != nil {\n", where, 31+i*17+t.n, t.pkg, t.verb)
	}
	return b.String()
}

func (t task) patch() string {
	var b strings.Builder
	fmt.Fprintf(&b, " notes/%03[1]d-%[2]s.md  |  1 +\n %[2]s/%[2]s.go      |  3 +++\n %[2]s/%[2]s_test.go | 17 +++++++++++++++++\n 3 files changed, 21 insertions(+)\n", t.n+1, t.pkg)
	fmt.Fprintf(&b, "diff --git a/%[1]s/%[1]s.go b/%[1]s/%[1]s.go\n--- a/%[1]s/%[1]s.go\n+++ b/%[1]s/%[1]s.go\n@@ -50,6 +50,9 @@\n+\tif len(x.%[2]s) >= limit {\n+\t\treturn ErrFull\n+\t}\n", t.pkg, t.field)
	fmt.Fprintf(&b, "diff --git a/%[1]s/%[1]s_test.go b/%[1]s/%[1]s_test.go\n@@ -128,3 +128,20 @@\n", t.pkg)
	for _, line := range strings.Split(t.newTest(), "\n") {
		b.WriteString("+" + line + "\n")
	}
	return b.String()
}

// numbered is a file as an agent's read tool shows it.
func numbered(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(&b, "%6d\t%s\n", i+1, line)
	}
	return b.String()
}
