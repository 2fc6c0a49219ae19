package session

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
)

// side is one outbound body cut into pieces, with what is needed to explain
// them: what the chain gets from its codecs.
type side struct {
	codec  wire.Codec
	body   *wire.Body
	keys   []content.ID
	pieces []Piece
	bytes  [][]byte
}

func newSide(t *testing.T, family, raw string) *side {
	t.Helper()
	s := &side{codec: anthropic.Codec{}}
	if family == "openai" {
		s.codec = openai.Codec{}
	}
	var err error
	if s.body, err = wire.Cut([]byte(raw), s.codec.List()); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for i := range s.body.Elements {
		s.keys = append(s.keys, s.message(t, s.body.Element(i)).Key)
	}
	return s
}

func (s *side) message(t *testing.T, raw []byte) *chat.Message {
	t.Helper()
	m, err := s.codec.Element(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return &m
}

// cut makes the pieces: segments, and what stands between them.
func (s *side) cut(ns []int64) {
	from := 0
	add := func(p Piece, at chat.Span) {
		if at.Start > from {
			s.add(Piece{}, chat.Span{Start: from, End: at.Start})
		}
		if at.Len() > 0 {
			s.add(p, at)
		}
		from = at.End
	}
	for _, f := range s.body.Fields {
		if f.Value != s.body.List {
			add(Piece{Name: f.Name}, f.Value)
			continue
		}
		for i, e := range s.body.Elements {
			add(Piece{Name: f.Name, Elem: true, N: ns[i]}, e)
		}
	}
	add(Piece{}, chat.Span{Start: len(s.body.Raw), End: len(s.body.Raw)})
}

func (s *side) add(p Piece, at chat.Span) {
	raw := at.Of(s.body.Raw)
	p.ID, p.Len = content.Of(raw), int64(len(raw))
	s.pieces, s.bytes = append(s.pieces, p), append(s.bytes, raw)
}

func (s *side) at(i int) []byte {
	if i < 0 {
		return nil
	}
	return s.bytes[i]
}

// segment loads one piece; the zero Segment where there is none.
func (s *side) segment(t *testing.T, i int) Segment {
	t.Helper()
	if i < 0 {
		return Segment{}
	}
	p, raw := s.pieces[i], s.bytes[i]
	if p.Elem {
		return ElemSegment(p.Name, p.N, s.message(t, raw))
	}
	var rest []byte
	if cut, found := s.codec.BillingLine(raw); found {
		rest = unmarked(t, cut)
	}
	return FieldSegment(p.Name, raw, unmarked(t, raw), rest)
}

// unmarked is a field without the cache markers of its blocks.
func unmarked(t *testing.T, raw []byte) []byte {
	t.Helper()
	if raw[0] != '[' {
		return raw
	}
	objects, err := wire.ValueOf(raw).List()
	if err != nil {
		t.Fatal(err)
	}
	spans := make([]chat.Span, len(objects))
	for i, o := range objects {
		spans[i] = o.Span
	}
	out, err := wire.StripMembers(raw, spans, "cache_control")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// numbered gives both sides element numbers the way the ledger would.
func number(old, new *side) {
	a := Align(old.keys, new.keys)
	ns := make([]int64, len(new.keys))
	for j := range ns {
		ns[j] = int64(100 + j)
		if i := a.Kept[j]; i >= 0 {
			ns[j] = int64(i + 1)
		}
	}
	var olds []int64
	for i := range old.keys {
		olds = append(olds, int64(i+1))
	}
	old.cut(olds)
	new.cut(ns)
}

// caseText is the rest of one line of a golden's case.
func caseText(in, name string) string {
	for line := range strings.Lines(in) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// report runs one recorded pair the way the chain does after the reply.
func report(t *testing.T, in string) *FirstChange {
	t.Helper()
	family := caseText(in, "wire")
	newFamily := family
	if to := caseText(in, "to"); to != "" {
		newFamily = to
	}
	old, new := newSide(t, family, caseText(in, "old")), newSide(t, newFamily, caseText(in, "new"))
	number(old, new)
	d, same, found := FirstChanged(old.pieces, new.pieces)
	checkDivergence(t, old, new, d, same, found)
	if !found {
		idle, _ := strconv.ParseInt(caseText(in, "idle_ms"), 10, 64)
		return Lapsed(idle)
	}
	c := Change{Offset: d.Offset, Index: d.Index, Old: old.segment(t, d.OldOf), New: new.segment(t, d.NewOf), WireSwitch: family != newFamily}
	if d.Between() {
		c.OldAt, c.NewAt = old.at(d.Old), new.at(d.New)
	}
	c.ModelOld, c.ModelNew = string(old.body.Field("model")), string(new.body.Field("model"))
	return c.Explain()
}

// checkDivergence holds what was found against the bytes.
func checkDivergence(t *testing.T, old, new *side, d Divergence, same int64, found bool) {
	t.Helper()
	a, b := old.body.Raw, new.body.Raw
	if string(bytes.Join(old.bytes, nil)) != string(a) || string(bytes.Join(new.bytes, nil)) != string(b) {
		t.Error("the pieces are not the body")
	}
	common := firstDiff(a, b)
	if int(same) > common {
		t.Errorf("%d bytes are said to be equal, %d are", same, common)
	}
	if !found {
		return
	}
	exact := int(d.Offset) + firstDiff(old.at(d.Old), new.at(d.New))
	if d.Offset == same && exact != common {
		t.Errorf("the first changed byte is said to be %d, it is %d", exact, common)
	}
}

func TestChangeGolden(t *testing.T) {
	golden(t, "change.txtar", func(t *testing.T, in string) string {
		c := report(t, in)
		if c == nil {
			return "no change"
		}
		return fmt.Sprintf("cause:  %s, by %s\npath:   %s\noffset: %d\nold:    %s\nnew:    %s", c.Cause, c.By, c.JSONPath, c.Offset, c.Old, c.New)
	})
}

// TestEveryCauseIsRecorded: each cause of the closed list has a pair, named by
// it.
func TestEveryCauseIsRecorded(t *testing.T) {
	seen := map[string]bool{}
	ar, err := txtar.ParseFile("testdata/change.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		if c := report(t, string(f.Data)); c != nil {
			seen[c.Cause] = true
		}
	}
	for _, c := range []string{"cache marker moved", "billing line", "clock or date", "tools reordered or changed", "system changed", "reasoning dropped",
		"client edit", "client removal", "model switch", "wire switch", "lifetime lapsed", "unknown"} {
		if !seen[c] {
			t.Errorf("%q has no recorded pair", c)
		}
		delete(seen, c)
	}
	for c := range seen {
		t.Errorf("%q is not on the list", c)
	}
}

func TestLapsed(t *testing.T) {
	const lifetime = 5 * 60 * 1000
	if c := Lapsed(lifetime); c != nil {
		t.Errorf("lapsed at its end: %+v", c)
	}
	if c := Lapsed(lifetime + 1); c == nil || c.By != "time" {
		t.Errorf("not lapsed after its end: %+v", c)
	}
}

func TestClockOnly(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"Today is 2026-11-29.", "Today is 2026-11-30.", true},
		{"at 2026-11-29T20:01:13Z", "at 2026-11-29T20:01:14.5+01:00", true},
		{"now 9:05 PM", "now 11:59 am", true},
		{"It is Sunday, November 29, 2026", "It is Monday, November 30, 2026", true},
		{"11/29/2026", "12/1/26", true},
		{`"t":1795983280`, `"t":1795983280615`, true},
		{"Today is 2026-11-29.", "Today was 2026-11-30.", false},
		{"same", "same", false},
		{"version 12", "version 13", false},
		{"line 1795983280x", "line 1795983281y", false},
	} {
		if got := clockOnly([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

// TestAround: the texts shown are short, around the change and never half a
// rune.
func TestAround(t *testing.T) {
	long := []byte(strings.Repeat("ä", 400))
	for at := range len(long) + 1 {
		s := around(long, at)
		if len(s) > ChangeText || !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
			t.Fatalf("around %d: %d bytes, %q", at, len(s), s)
		}
	}
	if got := around([]byte("short"), 3); got != "short" {
		t.Errorf("%q", got)
	}
	if got := around([]byte(strings.Repeat("-", 300)+"X"+strings.Repeat("+", 300)), 300); strings.IndexByte(got, 'X') != changeTextBefore {
		t.Errorf("the change stands at %d", strings.IndexByte(got, 'X'))
	}
	if got := around([]byte("a\xff\xfe"), 1); !utf8.ValidString(got) {
		t.Errorf("invalid text is shown as %q", got)
	}
}

// TestFirstChangedRandom: on random pieces the prefix is what it says and a
// plain extension is never a change.
func TestFirstChangedRandom(t *testing.T) {
	r := seeded(t)
	piece := func(text string, elem bool, n int64) Piece {
		return Piece{Name: map[bool]string{true: "messages"}[elem], Elem: elem, N: n, ID: content.Of([]byte(text)), Len: int64(len(text))}
	}
	body := func(n int, foot string) (ps []Piece) {
		ps = append(ps, piece(`{"messages":[`, false, 0))
		for i := range n {
			if i > 0 {
				ps = append(ps, piece(",", false, 0))
			}
			ps = append(ps, piece(fmt.Sprint("element ", i), true, int64(i+1)))
		}
		return append(ps, piece(foot, false, 0))
	}
	for range 2000 {
		n := 1 + r.IntN(9)
		old, new := body(n, "]}"), body(n+r.IntN(4), "]}")
		if _, same, found := FirstChanged(old, new); found || same < lengthOf(old)-2 {
			t.Fatalf("%d elements and more: changed %v, prefix %d", n, found, same)
		}
		if d, _, found := FirstChanged(old, body(n+1, `],"stream":true}`)); !found || d.Old != len(old)-1 || d.OldOf != -1 {
			t.Fatalf("another foot behind an extension: %+v %v", d, found)
		}
		i := 1 + 2*r.IntN(n)
		edited := slices.Clone(new)
		edited[i] = piece("edited", true, 99)
		d, same, found := FirstChanged(old, edited)
		if !found || d.New != i || d.NewOf != i || d.OldOf != i || d.Index != i/2 || same != lengthOf(new[:i]) || d.Offset != same {
			t.Fatalf("edit of piece %d: %+v, prefix %d, %v", i, d, same, found)
		}
	}
}
