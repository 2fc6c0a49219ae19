package chain_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/seed"
	"holdfast/core/session"
)

// The parity test plays random programs of what clients do to a conversation
// and holds every body that leaves against an oracle. The oracle keeps its own
// list: what the client sends now, and what the client took away, at its
// place. It knows nothing of rows, keys or alignment.

// item is one piece of an oracle's conversation: a text, or a tool round.
type item struct {
	id   int
	kind string // "user", "assistant", "call", "think"
	n    int    // parallel calls of a round
	pad  int    // how often the text says so
}

// says is what a text item says.
func (it item) says() string {
	return fmt.Sprintf("%s %d says something <about> \u00e9 \"%d\"", it.kind, it.id, it.id) + strings.Repeat(" and so on", it.pad)
}

// spelled is how an element was spelled when it was first stored: with a
// marker an Anthropic text stands in an array, without one it is a string.
type spelled struct{ array, stored bool }

// slot is one place of the oracle's view.
type slot struct {
	item
	removed bool
	spelled spelled
}

// talk is one conversation of one world.
type talk struct {
	header, id string
	wire       string
	tools      bool
	view       []slot
	rewound    []slot // what the last rewind cut, oldest first
	// dirty: the list moved on while no rows were written.
	dirty bool
	fresh bool // nothing was sent yet
	// hurt: its rows were damaged; lost: the twin of a fold program no longer
	// sees the same list.
	hurt, lost bool
}

func (k *talk) list() (out []item) {
	for _, s := range k.view {
		if !s.removed {
			out = append(out, s.item)
		}
	}
	return out
}

const (
	wireA = anthropicPath
	wireC = chatPath
)

// asClientsSpell makes of Go's JSON what other clients write.
var asClientsSpell = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", "\u00e9", `\u00e9`)

// elements renders an item on a wire. marked is for the last element of the
// list; Anthropic clients put the marker there and take the array form with it.
func (it item) elements(wire string, array, marked bool) []string {
	quoted, _ := json.Marshal(it.says())
	text := asClientsSpell.Replace(string(quoted[1 : len(quoted)-1]))
	switch it.kind {
	case "call":
		return it.round(wire, marked)
	case "think":
		if wire == wireA {
			return []string{fmt.Sprintf(`{"role":"assistant","content":[{"type":"thinking","thinking":"t%d","signature":"c2ln"},{"type":"text","text":"%s"}]}`, it.id, text)}
		}
		return []string{fmt.Sprintf(`{"role":"assistant","content":"%s","reasoning_content":"t%d"}`, text, it.id)}
	}
	if wire == wireC || !array {
		return []string{fmt.Sprintf(`{"role":%q,"content":"%s"}`, it.kind, text)}
	}
	mark := ""
	if marked {
		mark = `,"cache_control":{"type":"ephemeral"}`
	}
	return []string{fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":"%s"%s}]}`, it.kind, text, mark)}
}

// round is an assistant element with n calls and their results: one user
// element on Anthropic, one tool element each on chat.
func (it item) round(wire string, marked bool) []string {
	var calls, results []string
	for i := range it.n {
		id := fmt.Sprintf("call_%d_%d", it.id, i)
		if wire == wireA {
			mark := ""
			if marked && i == it.n-1 {
				mark = `,"cache_control":{"type":"ephemeral"}`
			}
			calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"bash","input":{"cmd":"echo %d","n":1.50}}`, id, i))
			results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"out %d%s"%s}`, id, it.id, strings.Repeat(" and so on", it.pad), mark))
			continue
		}
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"n\": 1.5, \"cmd\":\"echo %d\"}"}}`, id, i))
		results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"out %d%s"}`, id, it.id, strings.Repeat(" and so on", it.pad)))
	}
	if wire == wireA {
		return []string{`{"role":"assistant","content":[` + strings.Join(calls, ",") + `]}`, `{"role":"user","content":[` + strings.Join(results, ",") + `]}`}
	}
	return append([]string{`{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`}, results...)
}

// body renders a request of which put are the items put back; nil for what the
// client itself sends.
func (k *talk) body(withRemoved bool) []byte {
	list := k.list()
	var elems []string
	j := 0
	for _, s := range k.view {
		if s.removed {
			if withRemoved {
				elems = append(elems, s.elements(k.wire, s.spelled.array, false)...)
			}
			continue
		}
		last := j == len(list)-1
		elems = append(elems, s.elements(k.wire, last, last)...)
		j++
	}
	head := `{"model":"claude-sonnet-4-5","max_tokens":1000,`
	if k.wire == wireC {
		head = `{"model":"gpt-5.2","max_completion_tokens":1000,`
	}
	if k.tools {
		head += `"tools":[{"name":"bash","type":"function","function":{"name":"bash"},"input_schema":{"type":"object"}}],`
	}
	return []byte(head + `"messages":[` + strings.Join(elems, ",") + `],"metadata":{"k":"v"}}`)
}

// stamp notes the spelling of everything that this request stores for the
// first time.
func (k *talk) stamp() {
	list := k.list()
	for i := range k.view {
		if sp := &k.view[i].spelled; !sp.stored {
			*sp = spelled{array: k.view[i].id == list[len(list)-1].id && i == len(k.view)-1, stored: true}
		}
	}
}

// settle makes the view the list: what the client took away is archived.
func (k *talk) settle() {
	k.view = slices.DeleteFunc(k.view, func(s slot) bool { return s.removed })
}

// player plays programs on one rig.
type player struct {
	t    *testing.T
	g    *rig
	r    *rand.Rand
	seed uint64
	next int
	mode config.RolloutMode
	pad  int
	log  []string

	snapshots, requests, putBack int
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("seed %d: %s\nprogram:\n  %s", p.seed, fmt.Sprintf(format, args...), strings.Join(p.log, "\n  "))
}

func (p *player) newItem(kind string) item {
	p.next++
	return item{id: p.next, kind: kind, n: 1 + p.r.IntN(3), pad: p.pad}
}

// turn appends what a new user turn or a tool round adds.
func (p *player) turn(k *talk) {
	if len(k.view) > 0 {
		k.view = append(k.view, slot{item: p.newItem([]string{"assistant", "call", "think"}[p.r.IntN(3)])})
	}
	if len(k.view) == 0 || k.view[len(k.view)-1].kind != "call" || p.r.IntN(3) == 0 {
		k.view = append(k.view, slot{item: p.newItem("user")})
	}
	k.rewound = nil
}

// live are the view indexes of what the client still sends.
func (k *talk) live() (at []int) {
	for i, s := range k.view {
		if !s.removed {
			at = append(at, i)
		}
	}
	return at
}

type operation struct {
	name string
	do   func(p *player, k *talk) (ok, restamp bool)
}

// operations change the talk as a client would and say whether the request is
// served by the full path (a re-stamp).
var operations = []operation{
	{"append", func(p *player, k *talk) (bool, bool) { p.turn(k); return true, false }},
	{"append again", func(p *player, k *talk) (bool, bool) { p.turn(k); p.turn(k); return true, false }},
	{"retry", func(p *player, k *talk) (bool, bool) { return !k.fresh, false }},
	{"resend", resend},
	{"edit", edit},
	{"prune", prune},
	{"compact", compact},
	{"insert", insert},
	{"rewind", rewind},
	{"return", comeBack},
	{"bring back", bringBack},
	{"wire switch", switchWire},
}

// resend repeats the last element as a new one.
func resend(p *player, k *talk) (bool, bool) {
	l := k.list()
	if len(l) == 0 || l[len(l)-1].kind == "call" {
		return false, false
	}
	k.view = append(k.view, slot{item: l[len(l)-1]}, slot{item: p.newItem("user")})
	k.rewound = nil
	return true, false
}

// edit replaces one item that has a kept one behind it.
func edit(p *player, k *talk) (bool, bool) {
	at := k.live()
	if len(at) < 3 {
		return false, false
	}
	i := at[1+p.r.IntN(len(at)-2)]
	if k.view[i].kind == "call" || k.repeated(i) {
		return false, false
	}
	k.view[i] = slot{item: p.newItem(k.view[i].kind)}
	return true, false
}

// repeated says that an equal item stands elsewhere in the list, so that which
// of them was touched is anybody's guess.
func (k *talk) repeated(i int) bool {
	n := 0
	for _, s := range k.view {
		if s.id == k.view[i].id {
			n++
		}
	}
	return n > 1
}

// prune takes away one or two neighbours with kept items on both sides.
func prune(p *player, k *talk) (bool, bool) {
	at := k.live()
	if len(at) < 4 {
		return false, false
	}
	from := 1 + p.r.IntN(len(at)-2)
	to := min(from+1+p.r.IntN(2), len(at)-1)
	for _, i := range at[from:to] {
		if k.repeated(i) {
			return false, false
		}
	}
	for _, i := range at[from:to] {
		k.view[i].removed = true
	}
	return true, false
}

// compact replaces the head by a summary and keeps a tail.
func compact(p *player, k *talk) (bool, bool) {
	at := k.live()
	n := 0
	for _, i := range at {
		n += len(k.view[i].elements(k.wire, false, false))
	}
	if len(at) < 4 {
		return false, false
	}
	keep := k.view[at[len(at)-1]]
	if k.repeated(at[len(at)-1]) {
		return false, false
	}
	k.view = []slot{{item: p.newItem("user")}, keep}
	k.rewound = nil
	return true, true
}

// insert puts a new item between two kept ones.
func insert(p *player, k *talk) (bool, bool) {
	at := k.live()
	if len(at) < 2 {
		return false, false
	}
	i := at[1+p.r.IntN(len(at)-1)]
	k.view = slices.Insert(k.view, i, slot{item: p.newItem("user")})
	k.rewound = nil // what stood behind another element does not come back
	k.settle()
	return true, true
}

// rewind cuts the tail and goes on differently; what stood removed behind the
// cut goes with it.
func rewind(p *player, k *talk) (bool, bool) {
	at := k.live()
	if len(at) < 2 {
		return false, false
	}
	cut := 1 + p.r.IntN(len(at)-1)
	k.rewound = nil
	for _, i := range at[cut:] {
		k.rewound = append(k.rewound, k.view[i])
		if p.mode == config.Off || k.dirty { // no rows say how it was spelled
			k.rewound[len(k.rewound)-1].spelled.stored = false
		}
	}
	k.view = k.view[:at[cut-1]+1]
	k.view = append(k.view, slot{item: p.newItem("user")})
	return true, false
}

// comeBack undoes the last rewind: its elements return behind the same one.
func comeBack(p *player, k *talk) (bool, bool) {
	if len(k.rewound) == 0 {
		return false, false
	}
	k.view = k.view[:len(k.view)-1]
	for k.view[len(k.view)-1].removed { // stood behind the last kept one
		k.view = k.view[:len(k.view)-1]
	}
	k.view = append(k.view, k.rewound...)
	k.rewound = nil
	return true, false
}

// bringBack: the client restores what it had taken away.
func bringBack(p *player, k *talk) (bool, bool) {
	any := false
	for i := range k.view {
		if k.view[i].removed { // to the ledger it is a new element
			any, k.view[i].removed, k.view[i].spelled.stored = true, false, false
		}
	}
	return any, any
}

func switchWire(p *player, k *talk) (bool, bool) {
	if k.fresh || k.header == "" {
		return false, false
	}
	k.wire = map[string]string{wireA: wireC, wireC: wireA}[k.wire]
	k.settle()
	for i := range k.view {
		k.view[i].spelled.stored = false
	}
	return true, true
}

// request sends the talk as it is and checks every byte that left.
func (p *player) request(k *talk, op string, restamp, changed bool) {
	k.stamp()
	plain, want := k.body(false), k.body(true)
	var header []string
	if k.header != "" {
		header = []string{k.header, k.id}
	}
	sent, resp := p.g.send(k.wire, plain, header...)
	turn := p.g.lastTurn()
	p.log = append(p.log, fmt.Sprintf("%-12s %-8s %s %s mode %s: path %s home %s gate %q, %d items", op, k.id, k.wire, k.header, p.mode, turn.Path, turn.Home, turn.Gate, len(k.view)))
	p.requests++
	full := p.mode != config.On || k.header == "" || restamp || k.dirty
	switch {
	case resp.StatusCode != 200:
		p.fail("status %d", resp.StatusCode)
	case full && turn.Path != session.PathFull, !full && turn.Path != session.PathSnapshot:
		p.fail("served by %s", turn.Path)
	case full && !bytes.Equal(sent, plain):
		p.fail("full path changed the bytes\nsent %s\nwant %s", sent, plain)
	case !full && !bytes.Equal(sent, want):
		p.fail("snapshot differs from the oracle\nsent %s\nwant %s", sent, want)
	case turn.Gate != "" || turn.Compared == session.Different || turn.Compared == session.Drift:
		p.fail("gate %q compared %q", turn.Gate, turn.Compared)
	}
	p.replayed(turn.ID, plain, sent)
	if !full {
		p.snapshots++
		if len(sent) != len(plain) {
			p.putBack++
		}
	}
	k.after(p.mode, changed, restamp)
}

// after keeps the oracle's idea of whether rows follow the list.
func (k *talk) after(mode config.RolloutMode, changed, restamp bool) {
	k.fresh = false
	if restamp || k.dirty { // what comes back in another epoch is spelled as it comes
		for i := range k.rewound {
			k.rewound[i].spelled.stored = false
		}
	}
	if mode == config.Off {
		k.dirty = k.dirty || changed
		return
	}
	if k.dirty {
		k.settle()
		k.dirty = false
	}
}

func (p *player) replayed(turn int64, in, out []byte) {
	for part, want := range map[chain.Part][]byte{chain.Inbound: in, chain.Outbound: out} {
		got, err := chain.Replay(context.Background(), p.g.db, turn, part)
		if part == chain.Outbound {
			got = stripped(got)
		}
		if err != nil || !bytes.Equal(got, want) {
			n := commonPrefix(string(got), string(want))
			p.fail("replay of %s of turn %d: %v\nfrom byte %d on got  %s\nwant %s", part, turn, err, n, clipped(string(got[max(0, n-60):])), clipped(string(want[max(0, n-60):])))
		}
	}
}

// program plays one conversation family: a session, perhaps a second branch in
// it, perhaps a copy of it, perhaps an unsigned one.
func (p *player) program() {
	p.log = nil
	talks := []*talk{p.newTalk(sessionHeader, fmt.Sprintf("s%d", p.seed))}
	for step := 0; step < 14; step++ {
		switch p.r.IntN(14) {
		case 0:
			p.setMode()
		case 1:
			p.log = append(p.log, "restart")
			p.g.restart()
		case 2:
			talks = append(talks, p.another(talks[0]))
		}
		k := talks[p.r.IntN(len(talks))]
		if k.fresh {
			if len(k.view) == 0 {
				p.turn(k)
			}
			p.request(k, "open", k.dirty, true)
			continue
		}
		op := operations[p.r.IntN(len(operations))]
		if ok, restamp := op.do(p, k); ok {
			p.request(k, op.name, restamp, op.name != "retry")
		}
	}
	p.verify()
}

func (p *player) newTalk(header, id string) *talk {
	wire := []string{wireA, wireC}[p.r.IntN(2)]
	return &talk{header: header, id: id, wire: wire, tools: true, fresh: true}
}

// another opens a second branch, a copied session or an unsigned conversation.
func (p *player) another(first *talk) *talk {
	switch p.r.IntN(3) {
	case 0:
		k := p.newTalk(first.header, first.id)
		k.wire = first.wire
		k.tools = false
		return k
	case 1:
		p.next++
		k := p.newTalk(sessionHeader, fmt.Sprintf("copy%d-%d", p.seed, p.next))
		k.wire = first.wire
		for _, it := range first.list() {
			k.view = append(k.view, slot{item: it})
		}
		return k
	}
	return p.newTalk("", "")
}

func (p *player) setMode() {
	p.mode = []config.RolloutMode{config.On, config.On, config.Shadow, config.Off}[p.r.IntN(4)]
	p.log = append(p.log, "mode "+string(p.mode))
	p.g.setMode(p.mode)
}

func (p *player) verify() {
	p.t.Helper()
	for _, id := range ledgersOf(p.t, p.g.path) {
		r, err := chain.Verify(context.Background(), p.g.db, id, nil)
		if err != nil || !r.OK() {
			p.fail("verify %s: %v %+v", id, err, r)
		}
	}
}

func ledgersOf(t testing.TB, path string) (ids []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT ledger_id FROM session")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestParity plays 300 programs, or HOLDFAST_PROGRAMS.
func TestParity(t *testing.T) {
	t.Parallel()
	programs, seed := envInt("HOLDFAST_PROGRAMS", manyPrograms()), seed.Of(t)
	const batch = 10 // programs that share a ledger file
	var requests, snapshots, putBack atomic.Int64
	t.Run("batches", func(t *testing.T) {
		for i := 0; i < programs; i += batch {
			t.Run(fmt.Sprint(seed+uint64(i)), func(t *testing.T) {
				t.Parallel()
				g := newRig(t, config.On)
				for j := i; j < min(i+batch, programs); j++ {
					s := seed + uint64(j)
					p := &player{t: t, g: g, r: rand.New(rand.NewPCG(s, 0)), seed: s, mode: config.On}
					g.setMode(config.On)
					p.program()
					requests.Add(int64(p.requests))
					snapshots.Add(int64(p.snapshots))
					putBack.Add(int64(p.putBack))
				}
				g.forget()
			})
		}
	})
	t.Logf("%d programs: %d requests, %d on the snapshot path, %d with elements put back; 0 differences", programs, requests.Load(), snapshots.Load(), putBack.Load())
	if programs >= 100 && (snapshots.Load()*3 < requests.Load() || putBack.Load() == 0) {
		t.Errorf("the programs hardly reach the snapshot path")
	}
}

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// TestRollback: mode off and the four tables dropped give the full path's
// bytes at once, and the way back is a re-stamp.
func TestRollback(t *testing.T) {
	g := newRig(t, config.On)
	p := &player{t: t, g: g, r: rand.New(rand.NewPCG(1, 2)), mode: config.On}
	k := p.newTalk(sessionHeader, "rollback")
	for range 4 {
		p.turn(k)
		p.request(k, "append", false, true)
	}
	if ok, _ := prune(p, k); !ok {
		t.Fatal("nothing to prune")
	}
	p.request(k, "prune", false, true)
	g.close()
	dropSnapshotTables(t, g.path)
	g.open()
	p.mode = config.Off
	g.setMode(config.Off)
	p.turn(k)
	p.request(k, "append", false, true)
	p.mode = config.On
	g.setMode(config.On)
	p.turn(k)
	p.request(k, "append", true, true)
	p.turn(k)
	p.request(k, "append", false, true)
}

func dropSnapshotTables(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"l1_world", "snap_rows", "ckpt", "snap_meta"} {
		if _, err := db.Exec("DROP TABLE " + table); err != nil {
			t.Fatal(err)
		}
	}
}

// rendered bodies must be JSON, or the programs prove nothing.
func TestRendersJSON(t *testing.T) {
	p := &player{t: t, r: rand.New(rand.NewPCG(3, 4))}
	for range 50 {
		k := p.newTalk("x", "y")
		for range 5 {
			p.turn(k)
		}
		if b := k.body(false); !json.Valid(b) {
			t.Fatalf("not JSON: %s", b)
		}
	}
}
