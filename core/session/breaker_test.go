package session

import (
	"encoding/json"
	"strings"
	"testing"
)

// run feeds a breaker one turn per letter: . is a clean turn, x a fault. It
// returns what was open to each turn: s for snapshot, - for blocked.
func run(b *Breaker, now, step int64, turns string) string {
	var out strings.Builder
	for _, c := range turns {
		if b.Blocks(now) {
			out.WriteByte('-')
		} else {
			out.WriteByte('s')
		}
		*b = b.Next(now, c == 'x')
		now += step
	}
	return out.String()
}

func TestBreaker(t *testing.T) {
	blocked := strings.Repeat("-", 20)
	quiet := strings.Repeat(".", 20)
	for _, c := range []struct{ name, turns, want string }{
		{"clean", "......", "ssssss"},
		{"one fault", ".x....", "ssssss"},
		{"two in a row", ".xx..", "sss--"},
		{"two apart", ".x.x..", "ssssss"},
		{"three in twenty", "x........x.......x.", strings.Repeat("s", 18) + "-"},
		{"third fault on turn twenty", "x.x" + strings.Repeat(".", 16) + "x.", strings.Repeat("s", 20) + "-"},
		{"third fault on turn twenty-one", "x.x" + strings.Repeat(".", 17) + "x.", strings.Repeat("s", 22)},
		{"open twenty turns, one probe, closed", "xx" + quiet + "....", "ss" + blocked + "ssss"},
		{"the probe fails", "xx" + quiet + "x.", "ss" + blocked + "s-"},
		{"the probe fails, twenty more", "xx" + quiet + "x" + quiet + "..", "ss" + blocked + "s" + blocked + "ss"},
		{"closed forgets old faults", "xx" + quiet + "..x.", "ss" + blocked + "ssss"},
		{"and opens again on two in a row", "xx" + quiet + "..xx.", "ss" + blocked + "ssss-"},
		{"faults while open change nothing", "xx" + strings.Repeat("x", 20) + "..", "ss" + blocked + "ss"},
	} {
		var b Breaker
		if got := run(&b, 1_000_000, 1000, c.turns); got != c.want {
			t.Errorf("%s:\nturns %s\ngot   %s\nwant  %s", c.name, c.turns, got, c.want)
		}
	}
}

func TestBreakerTime(t *testing.T) {
	var b Breaker
	run(&b, 0, 1, "xx") // opened at 1
	const tenMin = 10 * 60 * 1000
	if !b.Blocks(tenMin) || b.Blocks(tenMin+1) {
		t.Errorf("open until %d, want %d", b.Until, tenMin+1)
	}
	if got := b.Phase(tenMin) + " " + b.Phase(tenMin+1) + " " + (Breaker{}).Phase(0); got != "open probe closed" {
		t.Errorf("phases are %s", got)
	}
	if probed := b.Next(tenMin+1, false); probed.State != BreakerClosed || probed.Recent != 0 {
		t.Errorf("after a clean probe: %+v", probed)
	}
	if again := b.Next(tenMin+1, true); !again.Blocks(tenMin+2) || again.Until != 2*tenMin+1 {
		t.Errorf("after a failed probe: %+v", again)
	}
}

// TestBreakerIsAValue: it survives the session row it is stored in.
func TestBreakerIsAValue(t *testing.T) {
	var b Breaker
	run(&b, 5, 1, ".x.xx...")
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var back Breaker
	if err := json.Unmarshal(text, &back); err != nil || back != b {
		t.Errorf("%s came back as %+v (%v)", text, back, err)
	}
}
