package fold

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Call is one tool call of a folded stretch and what came of it.
type Call struct {
	Tool string
	// Arguments are the call's JSON, or its text for tools that take text.
	Arguments string
	Result    string
	// Failed is the wire's own word for it; wires without one leave it false.
	Failed bool
}

// The bounds of an artifact list, the last line included.
const (
	maxArtifacts     = 40
	maxArtifactChars = 2000
)

// maxArtifactName is how many characters of a path, command or address a line
// keeps, and maxErrorLine how many of an error.
const (
	maxArtifactName = 120
	maxErrorLine    = 120
)

// deed is what a call did to the thing it names. The order is that of the
// list; where it is too long, deeds fall away from its end.
type deed int

const (
	didWrite deed = iota
	didEdit
	didDelete
	didRun
	didFetch
	didRead
	didAsk // another agent
	didSearchWeb
	didSearch
	didCall // a tool nothing is known of
)

// String is the first word of a line.
func (d deed) String() string {
	return [...]string{"wrote", "edited", "deleted", "ran", "fetched", "read", "delegated", "searched the web for", "searched", "called"}[d]
}

// isFile reports whether the deed's name is a path.
func (d deed) isFile() bool { return d == didWrite || d == didEdit || d == didDelete || d == didRead }

// artifact is one line: a deed, what it was done to, how often, and how it
// ended the last time.
type artifact struct {
	deed  deed
	name  string
	times int
	end   ending
}

// Artifacts is the list of what a stretch did, made from its calls alone and so
// the same every time: files written, edited, deleted and read, commands
// with their exit status, addresses, searches, and the last error line of what
// did not succeed in the end. It is empty when nothing was called.
func Artifacts(calls []Call) string { return artifactsAfter(nil, calls) }

// artifactsAfter goes on from earlier lists whose calls are no longer kept.
func artifactsAfter(lists []string, calls []Call) string {
	var b book
	for _, l := range lists {
		b.recall(l)
	}
	for _, c := range calls {
		b.enter(c)
	}
	return b.list()
}

// book collects the artifacts of calls in their order.
type book struct {
	entries []artifact
	// running names the command, by its place in entries, that still runs under
	// a session id of its shell.
	running map[string]int
	// more is what earlier lists had no room for.
	more int
}

// enter books a call. A later call of the same kind on the same thing is the
// same line: what matters is how it stands in the end.
func (b *book) enter(c Call) {
	if id := polled(c); id != "" {
		if at, ok := b.running[id]; ok {
			b.entries[at].end = endingOf(didRun, c)
			return
		}
	}
	for _, d := range deedsOf(c) {
		at := b.line(d)
		b.entries[at].times++
		b.entries[at].end = endingOf(d.deed, c)
		if id := sessionOf(c.Result); d.deed == didRun && b.entries[at].end.still && id != "" {
			if b.running == nil {
				b.running = map[string]int{}
			}
			b.running[id] = at
		}
	}
}

// line returns the place of the entry for a deed. A file that was read and then
// changed is one that was changed, and a written file stays written.
func (b *book) line(d act) int {
	at := slices.IndexFunc(b.entries, func(e artifact) bool {
		return e.name == d.name && (e.deed == d.deed || e.deed.isFile() && d.deed.isFile())
	})
	if at < 0 {
		b.entries = append(b.entries, artifact{deed: d.deed, name: d.name})
		return len(b.entries) - 1
	}
	e := &b.entries[at]
	if stronger := d.deed == didDelete || e.deed == didDelete && d.deed != didRead || d.deed < e.deed; stronger && e.deed != d.deed {
		e.deed, e.times = d.deed, 0
	}
	return at
}

// The fixed words of a list around its lines.
const (
	listRoot = "paths under "
	listMore = "and %d more"
)

// list renders the entries grouped by deed, first done first, within the bounds.
// What does not fit is counted in the last line.
func (b *book) list() string {
	entries := b.entries
	if len(entries) == 0 {
		return ""
	}
	slices.SortStableFunc(entries, func(a, b artifact) int { return int(a.deed - b.deed) })
	root := commonRoot(entries)
	head := ""
	if root != "" {
		head = listRoot + root + "\n"
	}
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = e.line(root)
	}
	room := maxArtifactChars - utf8.RuneCountInString(head)
	if b.more > 0 {
		room -= len("and 1000000 more")
	}
	keep := choose(entries, lines, room)
	out, rest := head, b.more
	for i, l := range lines {
		if keep[i] {
			out += l + "\n"
		} else {
			rest++
		}
	}
	if rest > 0 {
		return out + fmt.Sprintf(listMore, rest)
	}
	return strings.TrimSuffix(out, "\n")
}

// perDeed is how many lines each deed gets before any gets more, so that many
// edits do not push out every command.
const perDeed = 10

// choose marks the lines that stay within the bounds: of each deed the latest,
// deeds in their order. room is in characters.
func choose(entries []artifact, lines []string, room int) []bool {
	const counting = len("and 1000000 more")
	keep, left := make([]bool, len(lines)), maxArtifacts
	total := 0
	for _, l := range lines {
		total += utf8.RuneCountInString(l) + 1
	}
	if len(lines) > maxArtifacts || total-1 > room {
		left, room = left-1, room-counting
	}
	for _, quota := range []int{perDeed, len(lines)} {
		for d := range didCall + 1 {
			taken := 0
			for i := len(lines) - 1; i >= 0 && taken < quota && left > 0; i-- {
				size := utf8.RuneCountInString(lines[i]) + 1
				if entries[i].deed != d || keep[i] || size > room {
					continue
				}
				keep[i] = true
				taken, left, room = taken+1, left-1, room-size
			}
		}
	}
	return keep
}

// line renders an entry: "edited core/fold/fold.go (3 times), failed: no match".
func (e artifact) line(root string) string {
	name := e.name
	if e.deed.isFile() {
		name = keepEnd(strings.TrimPrefix(name, root), maxArtifactName)
	} else {
		name = keepStart(name, maxArtifactName)
	}
	s := e.deed.String() + " " + name
	if e.times > 1 {
		s += fmt.Sprintf(" (%d times)", e.times)
	}
	return s + e.end.words(e.deed)
}

// words is what a line says about how a deed ended: for commands always, for
// others only when they failed.
func (x ending) words(d deed) string {
	var s string
	switch {
	case x.said != "":
		return x.said
	case d == didRun && x.still:
		return ", still running"
	case d == didRun && x.coded:
		s = ", exit " + strconv.Itoa(x.code)
	case d == didRun && !x.failed:
		return ", ok"
	case x.failed:
		s = ", failed"
	}
	if x.failed && x.line != "" {
		s += ": " + keepStart(x.line, maxErrorLine)
	}
	return s
}

// commonRoot is the folder all absolute paths among the entries share, with its
// final slash; empty if fewer than two have one worth saying once.
func commonRoot(entries []artifact) string {
	root, n := "", 0
	for _, e := range entries {
		if !e.deed.isFile() || !strings.HasPrefix(e.name, "/") {
			continue
		}
		dir := path.Dir(e.name) + "/"
		if n++; n == 1 {
			root = dir
		}
		for !strings.HasPrefix(dir, root) {
			root = path.Dir(strings.TrimSuffix(root, "/"))
			if root != "/" {
				root += "/"
			}
		}
	}
	if n < 2 || strings.Count(root, "/") < 3 {
		return ""
	}
	return root
}

// keepStart and keepEnd cut s to n characters and mark the cut.
func keepStart(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func keepEnd(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}
