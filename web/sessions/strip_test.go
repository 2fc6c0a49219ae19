package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
	"holdfast/storage/ledger"
)

// shape is what the picture and the table say of a coverage, in one form.
type shape struct{ spans, live, kv, checkpoints []string }

func shapeOf(c session.CoverageView) (s shape) {
	for _, v := range c.Spans {
		s.spans = append(s.spans, fmt.Sprintf("%s %d %d", v.Block, v.From, v.To))
	}
	for _, v := range c.Live {
		s.live = append(s.live, fmt.Sprintf("%d %d", v.From, v.To))
	}
	for _, v := range c.KV {
		s.kv = append(s.kv, fmt.Sprintf("%s %d %d", v.State, v.From, v.To))
	}
	for _, v := range c.Checkpoints {
		s.checkpoints = append(s.checkpoints, fmt.Sprint(v.Seq))
	}
	return s
}

var (
	spanRect = regexp.MustCompile(`<rect class="span [^"]*" data-block="([^"]*)" data-from="(\d+)" data-to="(\d+)"`)
	liveRect = regexp.MustCompile(`<rect class="live fill-live" data-from="(\d+)" data-to="(\d+)"`)
	kvRect   = regexp.MustCompile(`<rect class="kv [^"]*" data-from="(\d+)" data-to="(\d+)" data-state="([^"]*)"`)
	tickLine = regexp.MustCompile(`<line class="tick[^"]*" data-seq="(\d+)"`)

	spanLine = regexp.MustCompile(`<tr data-twin="span" data-block="([^"]*)">.*?<td class="num">(\d+)</td><td class="num">(\d+)</td>`)
	liveLine = regexp.MustCompile(`<tr data-twin="live">.*?<td class="num">(\d+)</td><td class="num">(\d+)</td>`)
	kvLine   = regexp.MustCompile(`<tr data-twin="kv" data-state="([^"]*)">.*?<td class="num">(\d+)</td><td class="num">(\d+)</td>`)
	ckptLine = regexp.MustCompile(`<tr data-twin="checkpoint" data-seq="(\d+)">`)
)

func found(html string, re *regexp.Regexp, order ...int) (out []string) {
	for _, m := range re.FindAllStringSubmatch(html, -1) {
		parts := make([]string, len(order))
		for i, k := range order {
			parts[i] = m[k]
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// drawn renders the picture and the table and reads both back.
func drawn(t *testing.T, c session.CoverageView) (picture, table shape) {
	t.Helper()
	s := newStrip("s1", c)
	var svg, twin strings.Builder
	if err := stripPicture(s).Render(context.Background(), &svg); err != nil {
		t.Fatal(err)
	}
	if err := twins(s, nil).Render(context.Background(), &twin); err != nil {
		t.Fatal(err)
	}
	p, q := svg.String(), twin.String()
	return shape{found(p, spanRect, 1, 2, 3), found(p, liveRect, 1, 2), found(p, kvRect, 3, 1, 2), found(p, tickLine, 1)},
		shape{found(q, spanLine, 1, 2, 3), found(q, liveLine, 1, 2), found(q, kvLine, 1, 2, 3), found(q, ckptLine, 1)}
}

func (s shape) equal(o shape) bool {
	return slices.Equal(s.spans, o.spans) && slices.Equal(s.live, o.live) && slices.Equal(s.kv, o.kv) && slices.Equal(s.checkpoints, o.checkpoints)
}

// ordered checks the places: within the strip, and in the order of positions.
func ordered(t *testing.T, seed uint64, c session.CoverageView) {
	t.Helper()
	s := newStrip("s1", c)
	for _, boxes := range [][]box{s.spans, s.live, s.kv} {
		for _, b := range boxes {
			if b.X < 0 || b.W <= 0 || b.X+b.W > 1.000001 {
				t.Errorf("seed %d: %s %d to %d lies at %f, %f wide", seed, b.Name, b.From, b.To, b.X, b.W)
			}
		}
	}
	for i := range s.scale.x[1:] {
		if s.scale.x[i+1] <= s.scale.x[i] {
			t.Errorf("seed %d: position %d does not come behind %d", seed, s.scale.edges[i+1], s.scale.edges[i])
		}
	}
}

// TestMapOfLedgers: for real ledgers of random conversations with folds inside
// folds, the picture and the table say what the coverage API says.
func TestMapOfLedgers(t *testing.T) {
	db, err := ledger.Open(context.Background(), filepath.Join(t.TempDir(), "l.db"), ledger.Options{Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	folds := 0
	for seed := range uint64(randomLedgers) {
		s := grow(t, db, seed)
		c, err := db.Coverage(context.Background(), s.State.Head.Ledger)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		folds += len(c.Spans)
		agree(t, seed, c)
	}
	if folds < randomLedgers/2 {
		t.Errorf("only %d spans in %d ledgers: the programs fold too little", folds, randomLedgers)
	}
}

func agree(t *testing.T, seed uint64, c session.CoverageView) {
	t.Helper()
	want := shapeOf(c)
	picture, table := drawn(t, c)
	if !picture.equal(want) {
		t.Errorf("seed %d: the picture shows\n%v, want\n%v", seed, picture, want)
	}
	if !table.equal(want) {
		t.Errorf("seed %d: the table says\n%v, want\n%v", seed, table, want)
	}
	ordered(t, seed, c)
}

// grow plays a random conversation into a ledger.
func grow(t *testing.T, db *ledger.DB, seed uint64) *ledgertest.Script {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 19))
	s := ledgertest.NewScript(fmt.Sprint("map ", seed))
	commit := func(c *session.Commit) {
		t.Helper()
		if err := db.Commit(context.Background(), c); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for range 11 + rnd.IntN(3) {
		commit(s.Turn(db.NextTurn()))
	}
	if to := 11 + rnd.IntN(4); rnd.IntN(6) > 0 && took(func() { commit(s.Fold(0, to)) }) {
		commit(s.Turn(db.NextTurn()))
		if rnd.IntN(2) == 0 && took(func() { commit(s.Nest(1, to+8)) }) {
			commit(s.Turn(db.NextTurn()))
		}
	}
	if rnd.IntN(4) == 0 {
		commit(s.Prune(db.NextTurn(), len(s.Msgs)-2))
	}
	return s
}

// took reports whether the kernel took a fold: a script panics where it does
// not, for example because the stretch is too short, and has changed nothing.
func took(fold func()) (ok bool) {
	defer func() { ok = recover() == nil }()
	fold()
	return true
}

// TestMapOfViews: any coverage at all, with states of the KV tier, blocks of
// several spans and positions nobody covers.
func TestMapOfViews(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var c session.CoverageView
		pos := int64(1)
		for i := range 1 + rnd.IntN(30) {
			from, to := pos, pos+1+int64(rnd.IntN(9))
			pos = to + int64(rnd.IntN(3))
			switch rnd.IntN(3) {
			case 0:
				c.Live = append(c.Live, session.IntervalView{From: from, To: to, Tokens: 1})
			case 1:
				c.Spans = append(c.Spans, session.SpanView{Block: fmt.Sprint("b", i/2), Tier: 1 + rnd.IntN(4), From: from, To: to, Tokens: 0})
			default:
				c.KV = append(c.KV, session.KVView{From: from, To: to, State: []string{"resident", "disk", "cold"}[rnd.IntN(3)]})
				c.Checkpoints = append(c.Checkpoints, session.CheckpointView{Seq: int64(i), Pos: from, Reason: "append"})
			}
		}
		c.PosHi = pos
		c.ProtectedFrom = rnd.Int64N(pos + 2)
		agree(t, seed, c)
	}
	agree(t, 0, session.CoverageView{})
}
