package session

import (
	"fmt"
	"slices"
	"strings"
)

// weakLetters stand for elements without content of their own: an empty user
// element and an assistant element of reasoning alone.
const weakLetters = "eE"

// refAlign is the alignment told over one-letter tokens by the words of the
// design, as a set of equal pairs and string operations: slow, and written
// apart from Align. It is the oracle of the alignment and of the planner.
type refAlign struct {
	s, in string
	pairs map[[2]int]bool
	out   bool
}

func newRefAlign(s, in string) *refAlign {
	r := &refAlign{s: s, in: in, pairs: map[[2]int]bool{}}
	p := 0
	for p < len(s) && p < len(in) && strings.HasPrefix(in, s[:p+1]) {
		p++
	}
	q := 0
	for p+q < len(s) && p+q < len(in) && strings.HasSuffix(in[p:], s[len(s)-q-1:]) {
		q++
	}
	if strings.Trim(s[len(s)-q:], weakLetters) == "" {
		q = 0
	}
	for i := range p {
		r.pairs[[2]int{i, i}] = true
	}
	for d := range q {
		r.pairs[[2]int{len(s) - 1 - d, len(in) - 1 - d}] = true
	}
	r.middle(p, len(s)-q, len(in)-q)
	strong := false
	for pr := range r.pairs {
		strong = strong || !strings.Contains(weakLetters, s[pr[0]:pr[0]+1])
	}
	if !strong && p < len(s) {
		r.pairs = map[[2]int]bool{}
	}
	return r
}

// middle pairs what lies in s[p:se] and in[p:ie].
func (r *refAlign) middle(p, se, ie int) {
	a, b := r.s[p:se], r.in[p:ie]
	var anchors [][2]int
	for j := range len(b) {
		c := b[j : j+1]
		if !strings.Contains(weakLetters, c) && strings.Count(a, c) == 1 && strings.Count(b, c) == 1 {
			anchors = append(anchors, [2]int{p + strings.Index(a, c), p + j})
		}
	}
	r.out = !slices.IsSortedFunc(anchors, func(x, y [2]int) int { return x[0] - y[0] })
	for _, x := range anchors {
		r.pairs[x] = true
	}
	if r.out {
		return
	}
	for _, x := range anchors {
		for _, d := range []int{-1, 1} {
			for k := d; ; k += d {
				i, j := x[0]+k, x[1]+k
				if i < p || j < p || i >= se || j >= ie || r.s[i] != r.in[j] || r.taken(i, j) {
					break
				}
				r.pairs[[2]int{i, j}] = true
			}
		}
	}
}

func (r *refAlign) taken(i, j int) bool {
	for pr := range r.pairs {
		if pr[0] == i || pr[1] == j {
			return true
		}
	}
	return false
}

// refVerdict is what happens to each stored element, by index.
type refVerdict struct {
	row              int
	kept, replaced   map[int]int // stored to inbound
	removed, rewound []int
	from             int // inbound elements from here on are new
	out              bool
}

func (r *refAlign) verdict() refVerdict {
	v := refVerdict{row: 5, kept: map[int]int{}, replaced: map[int]int{}, out: r.out}
	for pr := range r.pairs {
		v.kept[pr[0]] = pr[1]
		v.from = max(v.from, pr[1]+1)
	}
	switch {
	case len(v.kept) == 0:
		return refVerdict{row: 4}
	case r.out:
		v.row = 8
		return v
	}
	i, j := 0, 0
	for ; j < v.from; i, j = i+1, j+1 {
		n, m := 0, 0 // the run up to the next pair
		for !r.pairs[[2]int{i + n, j + m}] {
			if _, ok := v.kept[i+n]; !ok {
				n++
				continue
			}
			m++
		}
		v.run(i, j, n, m)
		i, j = i+n, j+m
	}
	for ; i < len(r.s); i++ {
		v.rewound = append(v.rewound, i)
	}
	return v
}

func (v *refVerdict) run(i, j, n, m int) {
	switch {
	case n == 0 && m == 0:
	case n == m:
		v.row = max(v.row, 6)
		for d := range n {
			v.replaced[i+d] = j + d
		}
	case m == 0:
		v.row = max(v.row, 7)
		for d := range n {
			v.removed = append(v.removed, i+d)
		}
	default:
		v.row = 8
	}
}

// tell says the verdict so that two can be compared and read.
func (v refVerdict) tell() string {
	switch {
	case v.row == 4:
		return "row 4"
	case v.out:
		return fmt.Sprint("row ", v.row, " out, kept ", v.kept)
	}
	return fmt.Sprint("row ", v.row, " kept ", v.kept, " replaced ", v.replaced, " removed ", v.removed, " rewound ", v.rewound, " new from ", v.from)
}

// verdictOf is an Alignment in the words of the reference.
func verdictOf(a *Alignment) refVerdict {
	v := refVerdict{row: a.Row, kept: map[int]int{}, replaced: map[int]int{}, removed: a.Removed, rewound: a.Rewound, from: a.Appended, out: a.AnchorsOut}
	for j, i := range a.Kept {
		if i >= 0 {
			v.kept[i] = j
		}
	}
	for _, p := range a.Replaced {
		v.replaced[p.Stored] = p.Inbound
	}
	return v
}
