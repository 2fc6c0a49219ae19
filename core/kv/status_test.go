package kv

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// The status JSON is a contract: its keys and their order are in testdata, and a
// change of them is a change others notice.
func TestStatusJSON(t *testing.T) {
	s := Status{
		Version: StatusVersion, FormatVersion: ManifestVersion,
		Configured: StatusConfigured{Mode: "fixed", Directory: "/d", BudgetBytes: 5, ReserveBytes: 6, Sources: map[string]string{"mode": "file"}},
		Effective:  StatusEffective{State: StateActive, PendingRestart: []string{"mode"}, Warnings: []string{}, StalePaths: []string{}},
		Activity:   StatusActivity{Misses: map[MissReason]int64{MissNeverSeen: 1}},
		Inventory:  []StatusEntry{{ModelIdentity: ModelIdentity(named("m")), LastUsed: day(), Sessions: []string{"s"}}},
	}
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/status.json"
	if *rewrite {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(want)) != string(got) {
		t.Errorf("%v, the status is now\n%s", err, got)
	}
}

// Every reason and state has its own word, and the list has all of them.
func TestWordsOfStatus(t *testing.T) {
	seen := map[MissReason]bool{}
	for _, r := range MissReasons() {
		if seen[r] || r == "" || strings.ToLower(string(r)) != string(r) {
			t.Errorf("%q", r)
		}
		seen[r] = true
	}
	states := []TierState{StateOff, StateStarting, StateActive, StateReadOnlyLowSpace, StatePruningToBudget, StateDegraded}
	if len(slices.Compact(slices.Sorted(slices.Values(states)))) != 6 {
		t.Errorf("%q", states)
	}
}
