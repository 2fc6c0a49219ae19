package kv

import (
	"slices"
	"testing"
	"time"
)

// A conversation that grows writes what is new and no more; what was written is
// what the plan said, and saving the same again writes nothing.
func TestPlanSpill(t *testing.T) {
	w := newWarehouse()
	base := conversation("spill", 1000)
	block := smallLayout(Dense).BlockBytes(64)
	first := w.spill(t, saved(Dense, base[:320], 1), 0)
	if len(first.Missing) != 5 || first.Payload != 5*block || first.Reused != 0 || first.Storable != 5*block || first.Pack != 48+5*48+5*block {
		t.Errorf("first: %+v", first)
	}
	second := w.spill(t, saved(Dense, base[:640], 2), 320)
	if len(second.Missing) != 5 || second.Missing[0].Index != 5 || second.Reused != 5 || second.Payload != second.Storable {
		t.Errorf("second: %+v", second)
	}
	again := PlanSpill(saved(Dense, base[:640], 3), 640, w.holds, w.Cost)
	if len(again.Missing) != 0 || again.Pack != 0 || again.Storable != 0 || again.Claim().Growth != again.Manifest {
		t.Errorf("again: %+v", again)
	}
	if c := second.Claim(); c.Write != second.Pack+second.Manifest || c.Growth != c.Write {
		t.Errorf("claims %v", c)
	}
}

// A block that stands twice in a conversation is written once.
func TestSpillWritesEqualBlocksOnce(t *testing.T) {
	m := saved(Dense, conversation("twice", 192), 1)
	m.Blocks[2] = m.Blocks[0]
	if p := PlanSpill(m, 0, func(BlockID) bool { return false }, PackCost{}); len(p.Missing) != 2 || p.Reused != 1 {
		t.Errorf("%+v", p)
	}
}

// Amplification as it is measured: payload written over the bytes that became
// storable, unaligned turns, spills as Due says.
func TestAmplification(t *testing.T) {
	for _, turn := range []int{50, 300, 1000} {
		w := newWarehouse()
		tokens := conversation("turns", 2000+20*turn)
		var payload, storable Bytes
		spilled, serial := Tokens(0), uint64(0)
		for i := range 21 {
			held := Tokens(2000 + i*turn)
			due := SpillRule{Min: MinTokens}.Due(Branch{Held: held, Spilled: spilled, Tail: held%64 > 0, Closing: i == 20})
			if !due.Spill {
				continue
			}
			n, _ := SpillEnd(Dense, nil, held, due.Tail, 0)
			serial++
			m := saved(Dense, tokens[:n], serial)
			p := w.spill(t, m, spilled)
			payload, storable = payload+p.Payload, storable+p.Storable
			if worst := float64(p.Payload) / float64(p.Storable); worst > 1.10 {
				t.Errorf("turns of %d, spill at %d: %.3f", turn, held, worst)
			}
			spilled = Tokens(n)
		}
		if all := float64(payload) / float64(storable); all > 1.05 {
			t.Errorf("turns of %d: %.3f together", turn, all)
		}
		if rows := smallLayout(Dense).BlockBytes(len(tokens)); storable != rows {
			t.Errorf("turns of %d: %d of %d bytes became restorable", turn, storable, rows)
		}
	}
}

func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		rule SpillRule
		b    Branch
		want SpillDue
	}{
		"255 new":             {SpillRule{}, Branch{Held: 255}, SpillDue{}},
		"256 new":             {SpillRule{}, Branch{Held: 256}, SpillDue{Spill: true}},
		"whole blocks count":  {SpillRule{}, Branch{Held: 319 + 192, Spilled: 256}, SpillDue{}},
		"enough whole blocks": {SpillRule{}, Branch{Held: 512, Spilled: 256}, SpillDue{Spill: true}},
		"idle":                {SpillRule{}, Branch{Held: 320, Spilled: 256, Idle: 10 * time.Second}, SpillDue{Spill: true}},
		"not yet idle":        {SpillRule{}, Branch{Held: 320, Spilled: 256, Idle: 9 * time.Second}, SpillDue{}},
		"idle, nothing whole": {SpillRule{}, Branch{Held: 319, Spilled: 256, Idle: 10 * time.Second, Tail: true}, SpillDue{}},
		"long idle":           {SpillRule{}, Branch{Held: 319, Spilled: 256, Idle: 30 * time.Second, Tail: true}, SpillDue{Spill: true, Tail: true}},
		"long idle, no tail":  {SpillRule{}, Branch{Held: 256, Spilled: 256, Idle: time.Hour}, SpillDue{}},
		"closing":             {SpillRule{}, Branch{Held: 257, Spilled: 256, Closing: true, Tail: true}, SpillDue{Spill: true, Tail: true}},
		"closing, all there":  {SpillRule{}, Branch{Held: 256, Spilled: 256, Closing: true}, SpillDue{}},
		"too short":           {SpillRule{Min: 256}, Branch{Held: 255, Closing: true, Tail: true}, SpillDue{}},
		"the day is used up":  {SpillRule{Written: 10, Cap: 10}, Branch{Held: 9999, Closing: true}, SpillDue{}},
		"the day is not":      {SpillRule{Written: 9, Cap: 10}, Branch{Held: 9999}, SpillDue{Spill: true}},
		"nothing held":        {SpillRule{}, Branch{Closing: true, Tail: true}, SpillDue{}},
	} {
		got := c.rule.Due(c.b)
		if got.Spill != c.want.Spill || got.Tail != c.want.Tail || got.Reason == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSpillEnd(t *testing.T) {
	parts := []Boundary{boundaryAt(184, 1), boundaryAt(696, 1), boundaryAt(719, 1), boundaryAt(846, 1), boundaryAt(850, 1), boundaryAt(855, 1)}
	draft := Boundary{Position: 855, Blob: BlockOf(nil), Size: 1, Appendix: true}
	positions := func(list []Boundary) (out []int) {
		for _, b := range list {
			out = append(out, int(b.Position))
		}
		return out
	}
	for name, c := range map[string]struct {
		memory Memory
		parts  []Boundary
		stable Tokens
		tail   bool
		room   Bytes
		n      int
		keep   []int
	}{
		"dense":                    {Dense, nil, 719, false, 9, 704, nil},
		"dense with its tail":      {Dense, nil, 719, true, 9, 719, nil},
		"dense with its draft":     {Dense, []Boundary{draft}, 855, true, 9, 855, []int{855}},
		"dense, the draft is past": {Dense, []Boundary{draft}, 719, true, 9, 719, nil},
		"at the last part":         {Hybrid, parts, 855, false, 9, 855, []int{184, 846, 850, 855}},
		"past a thinking turn":     {Hybrid, parts, 720, true, 9, 719, []int{184, 696, 719}},
		"with its draft as well":   {Hybrid, append(slices.Clone(parts), draft), 855, true, 9, 855, []int{184, 850, 855, 855}},
		"in any order":             {Hybrid, []Boundary{parts[2], parts[0], parts[2], parts[1]}, 800, true, 9, 719, []int{184, 696, 719}},
		"no room for two":          {Hybrid, parts, 855, false, 1, 855, []int{184, 855}},
		"room for the end only":    {Hybrid, parts, 855, false, 0, 855, []int{855}},
		"before every part":        {Recurrent, parts, 100, true, 9, 0, nil},
	} {
		n, keep := SpillEnd(c.memory, c.parts, c.stable, c.tail, c.room)
		if n != c.n || !slices.Equal(positions(keep), c.keep) {
			t.Errorf("%s: %d, %v", name, n, positions(keep))
		}
	}
}
