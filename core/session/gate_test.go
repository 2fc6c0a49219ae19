package session

import (
	"strings"
	"testing"
)

// cell is one thing a gate looks at, and the decision it must lead to.
type cell struct {
	name string
	set  func(*Facts)
	want Decision
}

// cells are written here from design section 6, worst doubt first; earlier ones
// win over later ones.
func cells() []cell {
	return []cell{
		{"unreadable", func(f *Facts) { f.Unreadable = true }, Decision{R3, "table_unreadable", "session", true}},
		{"sum", func(f *Facts) { f.SumMismatch = true }, Decision{R3, "checksum_mismatch", "session", true}},
		{"read back", func(f *Facts) { f.ReadBack = true }, Decision{R3, "read_back_mismatch", "session", true}},
		{"tripwire", func(f *Facts) { f.PathsDiffer = true }, Decision{R3, "paths_differ", "session", true}},
		{"open view", func(f *Facts) { f.ViewOpen = true }, Decision{R3, "view_not_closed", "session", true}},
		{"commit failed", func(f *Facts) { f.CommitFailed = true }, Decision{R3, "commit_failed", "session", true}},
		{"pending lost", func(f *Facts) { f.Pending = PendingLost }, Decision{R4, "structural_pending_lost", "session", false}},
		{"ids", func(f *Facts) { f.IDsBroken = true }, Decision{R1, "ids_missing_or_misaligned", "session", true}},
		{"mode", func(f *Facts) { f.ModeChanged = true }, Decision{R1, "identity_mode_changed", "session", true}},
		{"concurrent", func(f *Facts) { f.Concurrent = true }, Decision{R1, "two_requests_in_flight", "session", true}},
		{"anchors out", func(f *Facts) { f.AnchorsOut = true }, Decision{R1, "elements_reordered", "session", true}},
		{"block lost", func(f *Facts) { f.BlockLost = true }, Decision{R1, "block_lost_an_element", "session", true}},
		{"event", func(f *Facts) { f.EventUnaddressed = true }, Decision{R2, "event_without_address", "turn", false}},
		{"slow", func(f *Facts) { f.CommitMs = 200.1 }, Decision{R3, "commit_slow", "turn", true}},
	}
}

// harmless are the facts that must change nothing, alone and beside any gate.
func harmless() map[string]func(*Facts) {
	return map[string]func(*Facts){
		"model switched":   func(f *Facts) { f.ModelSwitched = true },
		"wire switched":    func(f *Facts) { f.WireSwitched = true },
		"image limits":     func(f *Facts) { f.ImageLimits = true },
		"tools armed":      func(f *Facts) { f.ToolsArmed = true },
		"client compacted": func(f *Facts) { f.ClientCompacted = true },
		"commit in time":   func(f *Facts) { f.CommitMs = max(f.CommitMs, 200) },
		"slow but exempt":  func(f *Facts) { f.CommitMs, f.Exempt = max(f.CommitMs, 9000), f.CommitMs <= 200 },
		"pending young":    func(f *Facts) { f.Pending = max(f.Pending, PendingYoung) },
	}
}

func TestGateCells(t *testing.T) {
	if d := Decide(Facts{}); d != (Decision{}) {
		t.Errorf("nothing happened and %v fired", d)
	}
	for _, c := range cells() {
		var f Facts
		c.set(&f)
		if d := Decide(f); d != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, d, c.want)
		}
	}
	if n := len(gates); n != len(cells()) {
		t.Errorf("%d gates, %d of them tested", n, len(cells()))
	}
}

// TestGateMatrix: harmless facts in every combination, alone and beside each
// gate, never change what is decided.
func TestGateMatrix(t *testing.T) {
	var names []string
	for n := range harmless() {
		names = append(names, n)
	}
	for _, c := range append([]cell{{"nothing", func(*Facts) {}, Decision{}}}, cells()...) {
		for bits := range 1 << len(names) {
			var f Facts
			c.set(&f)
			var on []string
			for i, n := range names {
				if bits>>i&1 == 1 {
					harmless()[n](&f)
					on = append(on, n)
				}
			}
			if d := Decide(f); d != c.want {
				t.Fatalf("%s beside %s: %+v, want %+v", c.name, strings.Join(on, ", "), d, c.want)
			}
		}
	}
}

// TestGatePrecedence: of any set of gates the first of the table decides.
func TestGatePrecedence(t *testing.T) {
	cs := cells()
	for bits := 1; bits < 1<<len(cs); bits++ {
		var f Facts
		first := -1
		for i, c := range cs {
			if bits>>i&1 == 0 {
				continue
			}
			if first < 0 {
				first = i
			}
			c.set(&f)
		}
		if d := Decide(f); d != cs[first].want {
			t.Fatalf("of set %b: %+v, want %s", bits, d, cs[first].name)
		}
	}
}

func TestCausesAreExplained(t *testing.T) {
	all := []Cause{CauseNotJSON, CauseShape, CauseDuplicateKey, CauseTooDeep, CauseEncoding, CauseInternal, CauseLedgerFull, CauseStale,
		CauseEcho, CauseSignature}
	for _, c := range cells() {
		all = append(all, c.want.Cause)
	}
	for _, c := range all {
		if s := c.Explain(); strings.Contains(s, string(c)) || !strings.HasSuffix(s, ".") {
			t.Errorf("%s has no sentence of its own: %s", c, s)
		}
	}
	if len(explanations) != len(all) {
		t.Errorf("%d sentences for %d causes", len(explanations), len(all))
	}
	if s := Cause("new_one").Explain(); !strings.Contains(s, "new_one") {
		t.Errorf("a cause without a sentence is not named: %s", s)
	}
}
