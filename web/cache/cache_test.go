package cache

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/core/config"
	"holdfast/core/content"
	"holdfast/core/kv"
)

type fixed struct{ status kv.Status }

func (f fixed) KV() kv.Status { return f.status }
func (f fixed) Dry(context.Context) (kv.Plan, error) {
	return kv.Plan{Before: 2 << 30, After: 1 << 30, Removed: 1}, nil
}
func (f fixed) Config() *config.Config           { c := config.Default(); return &c }
func (f fixed) Written() (today, limit kv.Bytes) { return 3 << 30, 64 << 30 }
func (f fixed) Mismatch() (fields []string, at time.Time) {
	return []string{"cache-type-k"}, time.UnixMilli(1_799_999_940_000)
}
func (f fixed) Titles(context.Context, []string) (map[string]string, error) {
	return map[string]string{"l1": "port the parser"}, nil
}

func drawn(t *testing.T, s kv.Status, target string) string {
	t.Helper()
	p := &Pages{Source: fixed{s}, Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) }, Form: func() string { return "form" }}
	page, err := p.Cache(httptest.NewRequest("GET", target, nil))
	if err != nil {
		t.Fatal(err)
	}
	var html strings.Builder
	if err := page.Body.Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	return html.String()
}

// Every miss reason is said in words.
func TestMissWords(t *testing.T) {
	for _, r := range kv.MissReasons() {
		if w := missWords(r); w == "" || strings.Contains(w, "_") && !strings.Contains(w, ".") {
			t.Errorf("%s is %q", r, w)
		}
	}
}

// While the tier is off the page says what it is for and offers nothing that
// cannot be done.
func TestOff(t *testing.T) {
	html := drawn(t, kv.Status{Effective: kv.StatusEffective{State: kv.StateOff, Reason: "kv.disk.mode is off"}}, "/ui/cache?dry=1")
	if !strings.Contains(html, "No local engine yet") || strings.Contains(html, "/ui/cache/clear") || !strings.Contains(html, "kv.disk.mode is off") {
		t.Error(html)
	}
}

func TestInventory(t *testing.T) {
	s := kv.Status{Effective: kv.StatusEffective{State: kv.StateActive, PendingRestart: []string{"kv.disk.mode"}},
		Usage: kv.StatusUsage{BudgetBytes: 8 << 30, UsedBytes: 2 << 30, ReserveBytes: 16 << 30, FilesystemAvailableBytes: 100 << 30}}
	for i := range 60 {
		s.Inventory = append(s.Inventory, kv.StatusEntry{StateIdentity: kv.StateID(content.Of([]byte{byte(i)})), Tokens: kv.Tokens(1000 + i), Bytes: 1 << 20, LastUsed: time.Unix(int64(i), 0),
			Sessions: []string{"l1", "gone"}})
	}
	html := drawn(t, s, "/ui/cache?sort=tokens&page=2&dry=1")
	for _, want := range []string{"26–50 of 60 stored points", "kv.disk.mode", "1 stored point goes", "2 GiB of 8 GiB", ">1,034<", ">port the parser</a>", ">gone</a>", "3 GiB of 64 GiB a day",
		`<code class="badge">cache-type-k</code>`} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	m := model{Status: s}
	var sum float64
	for _, p := range m.room() {
		sum += p.Value
	}
	if want := float64(102 << 30); sum != want {
		t.Errorf("the bar adds up to %g bytes, want %g", sum, want)
	}
}
