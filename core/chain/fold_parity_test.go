package chain_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
	"holdfast/core/wire/wiretest"
)

// The fold programs play what clients do to a conversation while its model
// folds it, nests folds and looks things up. Every turn, the two paths are
// compared byte for byte before it leaves, what left is what replay gives back,
// and a strict provider takes it; where the client removed nothing, mode off
// sends the very same bytes.

// folder is a player whose model folds.
type folder struct {
	player
	folds, nested, compared int
}

// refs are what hf_status offers, in its order.
var refs = regexp.MustCompile(`\b(m[0-9]{5}|b[0-9]+) `)

// fold lets the model look at the ranges and fold one, then answer.
func (p *folder) fold(k *talk) {
	answer := p.newItem("assistant")
	chat := k.wire == wireC
	m := p.g.play(false, chat, said{think: "look", calls: []use{{fmt.Sprint("look_", answer.id), "hf_status", `{"view":"messages","limit":200}`}}})
	m.while = func(n int) {
		switch n {
		case 2:
			m.script = append(m.script, p.choose(k, answer))
		case 3:
			m.script = append(m.script, said{text: answer.says()})
		}
	}
	before := len(p.g.whole)
	p.send(k, "fold")
	p.g.setAnswer(nil)
	sent := p.g.whole[before:]
	last := string(sent[len(sent)-1])
	if at := strings.LastIndex(last, fmt.Sprint("fold_", answer.id)); m.n == 3 && strings.Contains(last[at:], "Folded") {
		p.folds++
		if n := commonPrefix(string(sent[0]), last); n < len(last) && !strings.Contains(last[max(0, n-10):], "[fold b") {
			p.fail("the first change behind a fold is no carrier: %s", clipped(last[n:]))
		}
	}
	k.view = append(k.view, slot{item: answer}, slot{item: p.newItem("user")})
	k.rewound = nil
	p.send(k, "append")
}

// choose is the call that folds a range of what the status named.
func (p *folder) choose(k *talk, answer item) said {
	body := string(p.g.whole[len(p.g.whole)-1])
	at := strings.LastIndex(body, "Messages:")
	if at < 0 {
		return said{text: answer.says()}
	}
	var names []string
	for _, m := range refs.FindAllStringSubmatch(body[at:], -1) {
		names = append(names, m[1])
	}
	for _, m := range regexp.MustCompile(`\[fold (b[0-9]+) `).FindAllStringSubmatch(body[:at], -1) {
		if p.r.IntN(2) == 0 {
			p.nested++
			names = append([]string{m[1]}, names...)
		}
	}
	if len(names) < 2 {
		return said{text: answer.says()}
	}
	i := p.r.IntN(len(names) - 1)
	j := min(len(names)-1, i+2+p.r.IntN(6))
	m := fmt.Sprint("fold_", answer.id)
	p.log = append(p.log, fmt.Sprintf("folds %s to %s", names[i], names[j]))
	return said{think: "fold", calls: []use{compress(m, names[i], names[j])}}
}

func (k *talk) codec() wire.Codec {
	if k.wire == wireC {
		return openai.Codec{}
	}
	return anthropic.Codec{}
}

// send sends the talk as it is and checks what can be told without an oracle.
func (p *folder) send(k *talk, op string) []byte {
	k.stamp()
	plain := k.body(false)
	p.g.mu.Lock()
	before := len(p.g.whole)
	p.g.mu.Unlock()
	_, resp := p.g.send(k.wire, plain, k.header, k.id)
	turn := p.g.lastTurn()
	p.log = append(p.log, fmt.Sprintf("%-12s %s mode %s: path %s home %s gate %q, %d items", op, k.wire, p.mode, turn.Path, turn.Home, turn.Gate, len(k.view)))
	p.requests++
	sent := p.g.whole[before:]
	switch {
	case resp.StatusCode != 200:
		p.fail("status %d", resp.StatusCode)
	case turn.Gate != "" || turn.Compared == session.Different || turn.Compared == session.Drift:
		p.fail("gate %q compared %q", turn.Gate, turn.Compared)
	}
	for i, b := range sent {
		if err := wiretest.Accept(k.codec(), b, false); err != nil {
			p.fail("round %d is refused: %v\n%s", i+1, err, b)
		}
	}
	if turn.Compared == session.ByteEqual {
		p.compared++
	}
	p.replayed(turn.ID, plain, stripped(sent[0]))
	k.after(p.mode, op != "retry", false)
	return sent[0]
}

// sameInOff wants mode off to send the same as mode on did.
func (p *folder) sameInOff(k *talk) {
	for _, s := range k.view {
		if s.removed {
			return
		}
	}
	on := p.send(k, "retry")
	was := p.mode
	p.mode = config.Off
	p.g.setMode(config.Off)
	off := p.send(k, "retry")
	p.mode = was
	p.g.setMode(was)
	if n := commonPrefix(string(on), string(off)); !bytes.Equal(on, off) {
		p.fail("mode off differs at byte %d:\non  %s\noff %s", n, clipped(string(on[n:])), clipped(string(off[n:])))
	}
}

func (p *folder) program() {
	p.log = nil
	k := p.newTalk(sessionHeader, fmt.Sprintf("f%d", p.seed))
	for range 6 {
		p.turn(k)
	}
	p.send(k, "open")
	for step := 0; step < 16; step++ {
		switch p.r.IntN(16) {
		case 0:
			p.setMode()
		case 1:
			p.log = append(p.log, "restart")
			p.g.restart()
		case 2, 3, 4, 5:
			p.fold(k)
		case 6:
			p.sameInOff(k)
		}
		op := operations[p.r.IntN(len(operations))]
		if ok, _ := op.do(&p.player, k); ok {
			p.send(k, op.name)
		}
	}
	p.verify()
}

// TestFoldParity plays 60 programs with folds, or HOLDFAST_FOLD_PROGRAMS.
func TestFoldParity(t *testing.T) {
	programs, seed := envInt("HOLDFAST_FOLD_PROGRAMS", 60), uint64(envInt("HOLDFAST_SEED", int(rand.Uint32())))
	t.Logf("%d programs from seed %d", programs, seed)
	const batch = 10
	total := folder{}
	for i := 0; i < programs; i += batch {
		g := foldRig(t, config.On)
		for j := i; j < min(i+batch, programs); j++ {
			s := seed + uint64(j)
			p := &folder{player: player{t: t, g: g, r: rand.New(rand.NewPCG(s, 0)), seed: s, mode: config.On, pad: 400}}
			g.setMode(config.On)
			p.program()
			total.requests += p.requests
			total.folds += p.folds
			total.nested += p.nested
			total.compared += p.compared
		}
		g.close()
	}
	t.Logf("%d requests, %d compared, %d folds, %d ranges that offered a fold; 0 differences", total.requests, total.compared, total.folds, total.nested)
	if programs >= 20 && (total.folds < programs || total.compared*3 < total.requests) {
		t.Errorf("the programs hardly fold")
	}
}
