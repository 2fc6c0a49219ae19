package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/core/wire"
)

// A scripted model finds its place by what it is sent, not by counting the
// history: folding takes messages away. The ids of its calls end in a mark that
// says whose tool was called and at which turn, and a turn that answers a
// person is known by the person's words.

// whose says who carries out a call: the client, or whoever added the folding
// tools.
type whose byte

const (
	theirs whose = 'c'
	ours   whose = 'f'
)

// markLen is the length of a mark: whose, and the turn in hexadecimal.
const markLen = 5

func markOf(w whose, turn int) string { return fmt.Sprintf("%c%04x", w, turn) }

func readMark(id string) (w whose, turn int, ok bool) {
	if len(id) < markLen {
		return 0, 0, false
	}
	mark := id[len(id)-markLen:]
	n, err := strconv.ParseUint(mark[1:], 16, 16)
	w = whose(mark[0])
	return w, int(n), err == nil && (w == theirs || w == ours)
}

// place is where in the script a request stands.
type place struct {
	turn int
	// made are the folding tools already called at this turn, answers what they
	// said.
	made, answers []string
}

// find places a request.
func (s Script) find(q *request) place {
	recent := latest(q.messages)
	at := place{turn: s.after(recent)}
	if at.turn < 0 {
		at.turn = s.opened(recent)
	}
	if at.turn < 0 {
		at.turn = q.assistants
	}
	for _, h := range recent {
		for _, p := range h.parts {
			if w, n, ok := readMark(p.id); !ok || w != ours || n != at.turn {
				continue
			}
			switch p.kind {
			case partCall:
				at.made = append(at.made, p.name)
			case partResult:
				at.answers = append(at.answers, p.text)
			}
		}
	}
	return at
}

// after is the turn behind the latest one whose calls were answered, or -1.
func (s Script) after(recent []heard) int {
	turn := -1
	for _, h := range recent {
		for _, p := range h.parts {
			if w, n, ok := readMark(p.id); ok && w == theirs && p.kind == partResult {
				turn = max(turn, n+1)
			}
		}
	}
	return turn
}

// opened is the turn that answers what the person said last, or -1.
func (s Script) opened(recent []heard) int {
	turn := -1
	for _, h := range recent {
		for _, p := range h.parts {
			for i := range s {
				if h.role == "user" && p.kind == partText && s[i].Opens != "" && strings.Contains(p.text, s[i].Opens) {
					turn = i
				}
			}
		}
	}
	return turn
}

// moment is the time of the session at which a turn is asked for.
func (s Script) moment(turn int) (at time.Duration) {
	for i := range s[:min(turn+1, len(s))] {
		at += s[i].After
	}
	return at
}

// Forgotten are the facts settled in beats that a request no longer tells the
// model: neither in its own words nor in a summary.
func Forgotten(body []byte, beats []Beat) (facts []string) {
	var told []string
	for _, h := range hearAnthropic(wire.ValueOf(body).Obj()) {
		for _, p := range h.parts {
			told = append(told, p.text)
		}
	}
	text := strings.Join(told, "\n")
	for i := range beats {
		t := &beats[i].Turn
		if t.Fact != "" && !strings.Contains(text, t.Fact) && !strings.Contains(text, t.Text) {
			facts = append(facts, t.Fact)
		}
	}
	return facts
}
