package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/seed"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
	"holdfast/core/wire/wiretest"
)

// The fold programs play what clients do to a conversation while its model
// folds it, nests folds, opens them and looks things up, while the upstream
// refuses for length, originals are purged, rows are damaged, the program
// restarts and copies are made. Every body is held against three judges: a twin
// that only knows the full path and is sent what the client took away at its
// place; the client's own elements, of which nothing may be missing that no
// fold stands for; and a strict provider. Replay gives back what left.

// folder is a player whose model folds. twin gets the same requests and the
// same model's words in mode off, and is never restarted.
type folder struct {
	player
	twin  *rig
	model *model
	count *tally
}

// tally is what programs came to, over all of them.
type tally struct {
	mu                                                                         sync.Mutex
	requests, compared, twinned                                                int
	folds, nested, opened, searched, inherited, overlaid, purges, damaged, off int
}

func (t *tally) add(o *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests, t.compared, t.twinned = t.requests+o.requests, t.compared+o.compared, t.twinned+o.twinned
	t.folds, t.nested, t.opened, t.searched = t.folds+o.folds, t.nested+o.nested, t.opened+o.opened, t.searched+o.searched
	t.inherited, t.overlaid, t.purges, t.damaged, t.off = t.inherited+o.inherited, t.overlaid+o.overlaid, t.purges+o.purges, t.damaged+o.damaged, t.off+o.off
}

func (t *tally) String() string {
	return fmt.Sprintf("%d requests, %d equal on both paths, %d equal to the twin's: %d folds, %d folds folded again, %d opened, %d searched, %d copies with folds, %d bodies with overlays, %d purges, %d damaged, %d compared in mode off",
		t.requests, t.compared, t.twinned, t.folds, t.nested, t.opened, t.searched, t.inherited, t.overlaid, t.purges, t.damaged, t.off)
}

// refs are what hf_status offers, in its order.
var (
	refs      = regexp.MustCompile(`\b(m[0-9]{5}|b[0-9]+) `)
	carriers  = regexp.MustCompile(`\[fold (b[0-9]+) · [^·]+ · ([0-9,]+) messages\]`)
	shortened = "characters left out here because"
)

// fold lets the model look at the ranges, do something about them, and answer.
func (p *folder) fold(k *talk) {
	answer := p.newItem("assistant")
	m := p.plays(k, said{think: "look", calls: []use{{fmt.Sprint("look_", answer.id), "hf_status", `{"view":"messages","limit":200}`}}})
	m.while = func(n int) {
		switch n {
		case 2:
			m.script = append(m.script, p.choose(answer))
		case 3:
			m.script = append(m.script, said{text: answer.says()})
		}
	}
	sent := p.send(k, "fold", false)
	last := string(sent[len(sent)-1])
	if at := strings.LastIndex(last, fmt.Sprint("fold_", answer.id)); m.n == 3 && at >= 0 && strings.Contains(last[at:], "Folded") {
		p.count.folds++
		for _, m := range carriers.FindAllStringSubmatch(string(sent[0]), -1) {
			if !strings.Contains(last, m[0]) {
				p.count.nested++
			}
		}
		if n := commonPrefix(string(sent[0]), last); n < len(last) && !strings.Contains(last[max(0, n-10):], "[fold b") {
			p.fail("the first change behind a fold is no carrier: %s", clipped(last[n:]))
		}
	}
	k.view = append(k.view, slot{item: answer}, slot{item: p.newItem("user")})
	k.rewound = nil
	if next := p.send(k, "append", false)[0]; !bytes.Contains(next, fmt.Appendf(nil, `"look_%d"`, answer.id)) {
		p.fail("the model does not find its own calls: %s", next)
	}
}

// plays is a model with words for the next request only.
func (p *folder) plays(k *talk, script ...said) *model {
	p.model = &model{g: p.g, chat: k.wire == wireC, script: script, counts: true}
	return p.model
}

// choose is what the model does about what the status named: fold a range, or
// open a fold, or search.
func (p *folder) choose(answer item) said {
	body := string(p.g.lastWhole())
	at := strings.LastIndex(body, "Messages:")
	if at < 0 {
		return said{text: answer.says()}
	}
	blocks := carriers.FindAllStringSubmatch(body[:at], -1)
	switch n := p.r.IntN(8); {
	case n == 0:
		p.count.searched++
		return said{calls: []use{{fmt.Sprint("find_", answer.id), "hf_search", fmt.Sprintf(`{"query":"says something %d"}`, p.r.IntN(p.next)+1)}}}
	case n == 1 && len(blocks) > 0:
		p.count.opened++
		b := blocks[p.r.IntN(len(blocks))][1]
		return said{calls: []use{{fmt.Sprint("open_", answer.id), "hf_decompress", fmt.Sprintf(`{"blockId":%q,"full":%v,"page":%d}`, b, p.r.IntN(2) == 0, 1+p.r.IntN(2))}}}
	}
	var names []string
	for _, m := range refs.FindAllStringSubmatch(body[at:], -1) {
		names = append(names, m[1])
	}
	from := 0
	if len(blocks) > 0 && p.r.IntN(2) == 0 { // a fold and what stands behind it
		names = append([]string{blocks[p.r.IntN(len(blocks))][1]}, names...)
	} else if len(names) > 1 {
		from = p.r.IntN(len(names) - 1)
	}
	if len(names) < 2 {
		return said{text: answer.says()}
	}
	to := min(len(names)-1, from+2+p.r.IntN(6))
	p.log = append(p.log, fmt.Sprintf("folds %s to %s", names[from], names[to]))
	return said{think: "fold", calls: []use{compress(fmt.Sprint("fold_", answer.id), names[from], names[to])}}
}

func (k *talk) codec() wire.Codec {
	if k.wire == wireC {
		return openai.Codec{}
	}
	return anthropic.Codec{}
}

// send sends the talk as it is, to both rigs, and returns all that the model
// got for it.
func (p *folder) send(k *talk, op string, restamp bool) [][]byte {
	k.stamp()
	m := p.model
	if p.model = nil; m == nil {
		m, p.model = p.plays(k), nil
	}
	plain := k.body(false)
	sent, status := p.post(p.g, k, plain, m)
	turn := p.g.lastTurn()
	p.log = append(p.log, fmt.Sprintf("%-12s %-10s %s mode %s: path %s home %s gate %q, %d items", op, k.id, k.wire, p.mode, turn.Path, turn.Home, turn.Gate, len(k.view)))
	p.count.requests++
	switch {
	case status != m.status():
		p.fail("status %d", status)
	case k.hurt && (turn.Gate != "R3" || turn.Path != session.PathFull):
		p.fail("damaged rows gave path %s gate %q", turn.Path, turn.Gate)
	case !k.hurt && turn.Gate != "", turn.Compared == session.Different || turn.Compared == session.Drift:
		p.fail("gate %q compared %q", turn.Gate, turn.Compared)
	}
	for i, b := range sent {
		if err := wiretest.Accept(k.codec(), b, false); err != nil {
			p.fail("round %d is refused: %v\n%s", i+1, err, b)
		}
		p.outside(k, b, turn.Path)
	}
	if turn.Compared == session.ByteEqual {
		p.count.compared++
	}
	if p.r.IntN(3) == 0 {
		p.replayed(turn.ID, plain, stripped(sent[0]))
	}
	p.beside(k, sent, m, turn.Path)
	if turn.Home == session.HomeRestamp { // the rows are written anew, from the list
		k.hurt, restamp = false, true
		k.settle()
	}
	k.after(p.mode, op != "retry", restamp)
	return sent
}

// post sends a body through a rig, in front of a model.
func (p *folder) post(g *rig, k *talk, body []byte, m *model) (sent [][]byte, status int) {
	before := len(g.whole)
	g.setAnswer(m.serve)
	_, resp := g.send(k.wire, body, k.header, k.id)
	return g.whole[before:], resp.StatusCode
}

// beside holds what left against the twin's. The twin is in step as long as its
// list is the view: not where the client took something away and the full path
// served, for that one is shown less.
func (p *folder) beside(k *talk, sent [][]byte, m *model, path session.Path) {
	if path == session.PathFull && k.removed() {
		k.lost = true
	}
	if k.lost {
		return
	}
	same := &model{g: p.twin, chat: m.chat, counts: true, script: slices.Clone(m.script)}
	twin, _ := p.post(p.twin, k, k.body(true), same)
	if len(twin) != len(sent) {
		p.fail("%d rounds, the twin took %d", len(sent), len(twin))
	}
	for i := range sent {
		if n := commonPrefix(string(sent[i]), string(twin[i])); !bytes.Equal(sent[i], twin[i]) {
			p.fail("round %d differs from the full path's at byte %d:\nsent %s\ntwin %s", i+1, n,
				clipped(string(sent[i][max(0, n-200):])), clipped(string(twin[i][max(0, n-200):])))
		}
	}
	p.count.twinned += len(sent)
}

func (k *talk) removed() bool {
	return slices.ContainsFunc(k.view, func(s slot) bool { return s.removed })
}

// outside holds what we did not add against what the client has: in its order,
// byte for byte, and nothing missing that no fold stands for.
func (p *folder) outside(k *talk, sent []byte, path session.Path) {
	own := p.elements(k, k.body(path == session.PathSnapshot))
	matched, stands, ours := 0, 0, false
	rest := own
	for _, e := range p.elements(k, sent) {
		if i := slices.IndexFunc(rest, func(o []byte) bool { return bytes.Equal(o, e) }); i >= 0 {
			matched, rest, ours = matched+1, rest[i+1:], false
			continue
		}
		text := string(e)
		switch m := carriers.FindStringSubmatch(text); {
		case strings.Contains(text, `"hf_`):
			ours = true
			continue
		case ours && privateResult.MatchString(text):
			continue
		case m != nil:
			n, _ := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
			stands += n
		case strings.Contains(text, shortened):
			p.count.overlaid++
			stands++
		case ours, strings.Contains(text, reminder), strings.Contains(text, "# Folded history"):
			stands++
		default:
			p.fail("an element that is neither the client's nor ours: %s", clipped(text))
		}
		ours = false
	}
	if missing := len(own) - matched; missing > stands {
		p.fail("%d elements are missing, what stands for others stands for %d:\n%s", missing, stands, sent)
	}
}

// privateResult is the result of a call of ours.
var privateResult = regexp.MustCompile(`"(look|fold|open|find)_[0-9]+"`)

func (p *folder) elements(k *talk, raw []byte) (out [][]byte) {
	body, err := wire.Cut(raw, k.codec().List())
	if err != nil {
		p.fail("%v", err)
	}
	for i := range body.Elements {
		out = append(out, body.Element(i))
	}
	return out
}

// sameInOff wants mode off to send the same as mode on did.
func (p *folder) sameInOff(k *talk) {
	if k.removed() || k.dirty || p.mode != config.On {
		return
	}
	on := p.send(k, "retry", false)[0]
	if bytes.Contains(on, []byte(reminder)) { // it is said once
		return
	}
	p.mode = config.Off
	p.g.setMode(config.Off)
	off := p.send(k, "retry", false)[0]
	p.mode = config.On
	p.g.setMode(config.On)
	p.count.off++
	if n := commonPrefix(string(on), string(off)); !bytes.Equal(on, off) && !p.dueSince(k, on, off) {
		p.fail("mode off differs at byte %d:\non  %s\noff %s", n, clipped(string(on[n:])), clipped(string(off[n:])))
	}
}

// dueSince reports whether two requests differ by a reminder alone, at the end
// of the later one: it may fall due with any request, in every mode.
func (p *folder) dueSince(k *talk, before, after []byte) bool {
	was, is := p.elements(k, before), p.elements(k, after)
	last := len(is) - 1
	return bytes.Count(after, []byte(reminder)) == 1 && bytes.Contains(is[last], []byte(reminder)) &&
		len(was) >= last && len(was) <= len(is) && slices.EqualFunc(was[:last], is[:last], bytes.Equal)
}

// overflow: the upstream refuses for length once, and the client sends again.
func (p *folder) overflow(k *talk) {
	p.plays(k, said{status: 400, refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`})
	p.send(k, "refused", false)
	p.send(k, "retry", false)
}

// purge takes everything a small budget takes.
func (p *folder) purge() {
	p.log = append(p.log, "purge")
	p.count.purges++
	for _, g := range []*rig{p.g, p.twin} {
		ctx := context.Background()
		must(p.t, g.db.SetBudget(ctx, 1<<10))
		_, err := g.db.Trim(ctx, g.chain.Busy)
		must(p.t, err)
		must(p.t, g.db.SetBudget(ctx, 2<<30))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// damage spoils a live row of a talk while the program is down.
func (p *folder) damage(k *talk) {
	if p.mode != config.On || k.dirty {
		return
	}
	p.log = append(p.log, "damage")
	p.count.damaged++
	p.g.close()
	p.g.exec(`UPDATE snap_rows SET state_sum = zeroblob(16) WHERE active = 1 AND row_id = (SELECT max(row_id) FROM snap_rows
		WHERE active = 1 AND ledger_id = (SELECT ledger_id FROM session WHERE sess_raw = ?1)) AND ledger_id = (SELECT ledger_id FROM session WHERE sess_raw = ?1)`, k.id)
	p.g.open()
	k.hurt = true
	p.send(k, "retry", false)
}

// copied is the talk under another id, as a resumed or forked session.
func (p *folder) copied(k *talk) *talk {
	p.next++
	c := &talk{header: k.header, id: fmt.Sprintf("%s-copy%d", k.id, p.next), wire: k.wire, tools: true, lost: k.lost || k.removed()}
	for _, it := range k.list() {
		c.view = append(c.view, slot{item: it})
	}
	if sent := p.send(c, "copy", false); carriers.Match(sent[0]) {
		p.count.inherited++
	}
	return c
}

func (p *folder) program(steps int) {
	k := p.newTalk(sessionHeader, fmt.Sprintf("f%d", p.seed))
	for range 6 {
		p.turn(k)
	}
	p.send(k, "open", false)
	for range steps {
		switch p.r.IntN(18) {
		case 0:
			p.setMode()
		case 1:
			p.log = append(p.log, "restart")
			p.g.restart()
		case 2, 3, 4, 5, 6:
			p.fold(k)
		case 7:
			p.sameInOff(k)
		case 8:
			p.overflow(k)
		case 9:
			p.purge()
		case 10:
			p.damage(k)
		case 11:
			k = p.copied(k)
		default:
			p.operate(k)
		}
	}
	p.verify()
}

// operate does to the talk what a client may do.
func (p *folder) operate(k *talk) {
	op := operations[p.r.IntN(len(operations))]
	if p.r.IntN(4) == 0 { // what folds and rows see differently from the client
		op = operations[slices.IndexFunc(operations, func(o operation) bool { return o.name == "prune" })]
	}
	had := k.removed()
	ok, restamp := op.do(&p.player, k)
	if !ok {
		return
	}
	switch op.name {
	case "insert", "bring back", "rewind": // the twin sees no gap to put something into, or to go back behind
		k.lost = k.lost || had
	}
	p.send(k, op.name, restamp)
}

// manyPrograms is how many programs a run of the tests plays; the race detector
// makes each some ten times longer.
func manyPrograms() int {
	if raced {
		return 30
	}
	return 300
}

// TestFoldParity plays 300 programs with folds, or HOLDFAST_FOLD_PROGRAMS.
func TestFoldParity(t *testing.T) {
	t.Parallel()
	programs, seed := envInt("HOLDFAST_FOLD_PROGRAMS", manyPrograms()), seed.Of(t)
	total := &tally{}
	batch := 10 // programs that share a ledger file
	t.Run("batches", func(t *testing.T) {
		for i := 0; i < programs; i += batch {
			t.Run(fmt.Sprint(seed+uint64(i)), func(t *testing.T) {
				t.Parallel()
				foldBatch(t, seed+uint64(i), min(batch, programs-i), total)
			})
		}
	})
	t.Logf("%d programs: %s; 0 differences", programs, total)
	if !total.enough(programs) {
		t.Errorf("the programs hardly fold")
	}
}

// enough reports whether the programs proved something. Some hundred of them
// always do; of a few, one in thirty has no fold opened.
func (t *tally) enough(programs int) bool {
	if programs < 300 {
		return true
	}
	rare := min(t.nested, t.opened, t.searched, t.inherited, t.overlaid, t.purges, t.damaged, t.off)
	return t.folds >= programs/2 && t.compared*3 >= t.requests && t.twinned*2 >= t.requests && rare > 0
}

// foldBatch plays programs on one pair of ledger files.
func foldBatch(t *testing.T, seed uint64, programs int, total *tally) {
	g, twin := newRig(t, config.On), newRig(t, config.Off)
	for _, g := range []*rig{g, twin} {
		cfg := *g.cfg
		cfg.Fold.Economics, cfg.Fold.GrowthTokens = false, foldGrowth
		g.cfg = &cfg
		g.options = func(o *chain.Options) { o.Log = slog.New(noFailedCall{o.Log.Handler(), t}) }
		g.restart()
	}
	for s := seed; s < seed+uint64(programs); s++ {
		p := &folder{player: player{t: t, g: g, r: rand.New(rand.NewPCG(s, 0)), seed: s, mode: config.On, pad: 500, next: int(s%1e6) * 1000}, twin: twin, count: &tally{}}
		g.setMode(config.On)
		p.program(7)
		total.add(p.count)
	}
	g.forget()
	twin.forget()
}

// noFailedCall is a log in which no call of our tools may fail.
type noFailedCall struct {
	slog.Handler
	t *testing.T
}

func (h noFailedCall) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "call of our own tools failed") {
		h.t.Errorf("%s", r.Message)
	}
	return h.Handler.Handle(ctx, r)
}

// foldGrowth is small enough for reminders to be given in a short program.
const foldGrowth usage.Tokens = 6_000
