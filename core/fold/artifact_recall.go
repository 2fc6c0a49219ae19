package fold

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A consumed fold whose originals were deleted has its artifact list left, and
// nothing else. It is read back into the book, so that the fold that took it in
// lists what it did.

// linePattern cuts a line after its deed into the name, how often, and how it
// ended.
const linePattern = `^(.+?)(?: \((\d+) times\))?(, (?:ok|still running|(?:exit -?\d+|failed)(?:: .*)?))?$`

// recall enters the lines of an earlier list.
func (b *book) recall(list string) {
	root, pattern := "", regexp.MustCompile(linePattern)
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		more := 0
		if r, ok := strings.CutPrefix(line, listRoot); ok {
			root = r
		} else if n, _ := fmt.Sscanf(line, listMore, &more); n == 1 {
			b.more += more
		} else if d, rest, ok := deedSaid(line); ok {
			b.recallLine(d, pattern.FindStringSubmatch(rest), root)
		}
	}
}

func (b *book) recallLine(d deed, parts []string, root string) {
	if parts == nil {
		return
	}
	name := parts[1]
	if d.isFile() && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "…") {
		name = root + name
	}
	times, err := strconv.Atoi(parts[2])
	if err != nil {
		times = 1
	}
	at := b.line(act{d, name})
	b.entries[at].times += times
	b.entries[at].end = ending{said: parts[3]}
}

// deedSaid finds the deed a line begins with.
func deedSaid(line string) (deed, string, bool) {
	for d := range didCall + 1 {
		if rest, ok := strings.CutPrefix(line, d.String()+" "); ok {
			return d, rest, true
		}
	}
	return 0, "", false
}
