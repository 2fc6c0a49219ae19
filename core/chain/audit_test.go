package chain_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"holdfast/core/config"
	"holdfast/core/session"
)

// TestAudit: a sound ledger passes; one with a wrong stored element is found,
// recorded, and served by the full path until it was re-stamped.
func TestAudit(t *testing.T) {
	g := newRig(t, config.On)
	var msgs []string
	for i := range 3 {
		msgs = append(msgs, user(fmt.Sprintf("a question that is long enough to be kept as a blob of its own %d", i)))
		g.send(anthropicPath, anthropicBody(msgs...), sessionHeader, "audited")
	}
	id := ledgersOf(t, g.path)[0]
	if r, err := g.chain.Audit(context.Background(), id); err != nil || r == nil || !r.OK() {
		t.Fatalf("a sound ledger: %+v, %v", r, err)
	}
	swapKeys(t, g.path)
	r, err := g.chain.Audit(context.Background(), id)
	if err != nil || r.OK() {
		t.Fatalf("a wrong element was not found: %+v, %v", r, err)
	}
	if len(g.degraded) != 1 || g.degraded[0].Gate != string(session.R3) {
		t.Errorf("degraded: %+v", g.degraded)
	}
}

// swapKeys gives two elements each other's stored bytes.
func swapKeys(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE element SET blob = (SELECT e.blob FROM element e WHERE e.n = 3 - element.n) WHERE n IN (1, 2)"); err != nil {
		t.Fatal(err)
	}
}
