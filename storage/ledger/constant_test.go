package ledger

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/session/ledgertest"
)

// TestConstantsAreCounted: what leaves with every request is stored once, and
// each turn that sent it holds a reference of its own.
func TestConstantsAreCounted(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := ledgertest.NewScript("constants")
	text := []byte(strings.Repeat("the same with every request ", 100))
	id := content.Of(text)
	for turn := int64(1); turn <= 3; turn++ {
		c := s.Turn(d.NextTurn())
		c.Turn.View = []session.ViewRun{{From: 0, To: len(c.Turn.List.Whole)}, {Add: "system", Blob: id}}
		c.Blobs = append(c.Blobs, session.Blob{ID: id, Raw: text})
		if err := d.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		refs, err := d.w.number(ctx, "SELECT refs FROM blob WHERE hash = ?", id[:])
		if err != nil || refs != turn {
			t.Errorf("turn %d: %d references, %v", turn, refs, err)
		}
	}
	if b, err := d.Blob(ctx, id); err != nil || !bytes.Equal(b, text) {
		t.Errorf("%d bytes, %v; want the %d that were stored", len(b), err, len(text))
	}
}
