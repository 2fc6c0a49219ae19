//go:build engine

package local

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/core/usage"
)

// TestEngineForeignStates wants states of another engine, model or setting to be
// refused before the engine sees them: nothing is read, the miss names what
// differs, and the answer is the one without a store.
func TestEngineForeignStates(t *testing.T) {
	first, _ := turns(300)
	stored := t.TempDir()
	h := open(t, home{stored}, settings(t, "tiny"))
	h.chat(1, first...)
	h.close()
	for _, c := range []struct {
		name, model string
		change      func(*engine.Settings)
		why         kv.MissReason
		field       string
	}{
		{"K15 other cache type", "tiny", func(s *engine.Settings) { s.CacheK, s.CacheV = "q8_0", "q8_0" }, kv.MissIdentity, "cache-type-k"},
		{"K15 other context", "tiny", func(s *engine.Settings) { s.Context = 2048 }, kv.MissIdentity, "ctx-size"},
		{"K15 flash attention off", "tiny", func(s *engine.Settings) { s.NoFlash = true }, kv.MissIdentity, "flash-attn"},
		{"other rope base by flag", "tiny", func(s *engine.Settings) { s.RoPE.FreqBase = "500000" }, kv.MissIdentity, "rope-freq-base"},
		{"KV20 other weights of the same shape", "weights", nil, kv.MissNeverSeen, ""},
		{"other rope base in the file", "rope", nil, kv.MissNeverSeen, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settings(t, c.model)
			if c.change != nil {
				c.change(&s)
			}
			empty := open(t, home{t.TempDir()}, s)
			want := empty.chat(16, first...)
			empty.close()
			h := open(t, home{copied(t, stored)}, s)
			ids, err := promptOf(t.Context(), h.identified().client, mustBody(t, first))
			if err != nil {
				t.Fatal(err)
			}
			got := h.chat(16, first...)
			id, _, _ := h.identified().reuse()
			hit := h.tier.Lookup(tierQuery(h, id, ids))
			defer hit.Release()
			a := h.tier.Status().Activity
			if a.BytesRead != 0 || got.receipt.Restored != 0 || got.receipt.RestReason != string(c.why) {
				t.Errorf("read %d bytes, receipt %+v", a.BytesRead, got.receipt)
			}
			if c.field != "" && !slices.Contains(hit.Fields, c.field) {
				t.Errorf("the miss %s names %v, not %s", hit.Miss, hit.Fields, c.field)
			}
			if got.text() != want.text() || got.probabilities() != want.probabilities() {
				t.Errorf("with the store %q, without %q", got.text(), want.text())
			}
		})
	}
}

// TestEngineDamagedStore flips and cuts what is on disk: the engine never sees
// it, answers as if there were no store, and goes on.
func TestEngineDamagedStore(t *testing.T) {
	first, _ := turns(300)
	stored := t.TempDir()
	h := open(t, home{stored}, settings(t, "tiny"))
	want := h.chat(16, first...)
	h.close()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, file string)
	}{
		{"K4 a byte of a pack flipped", func(t *testing.T, file string) { flip(t, file, 4096) }},
		{"K4 a pack cut short", func(t *testing.T, file string) {
			if err := os.Truncate(file, 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"K63 a pack gone", func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copied(t, stored)
			h := open(t, home{dir}, settings(t, "tiny"))
			packs, err := filepath.Glob(filepath.Join(dir, "kv", "packs", "*"))
			if err != nil || len(packs) == 0 {
				t.Fatalf("%v %v", packs, err)
			}
			for _, p := range packs {
				c.damage(t, p)
			}
			got := h.chat(16, first...)
			if got.text() != want.text() || got.receipt.Restored != 0 {
				t.Errorf("%q %+v, without a store %q", got.text(), got.receipt, want.text())
			}
			life := h.identified().number
			if again := h.chat(16, first...); again.text() != want.text() || h.identified().number != life || life != 1 {
				t.Errorf("the engine did not go on: life %d, %q", life, again.text())
			}
		})
	}
}

func flip(t *testing.T, file string, at int64) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func copied(t *testing.T, dir string) string {
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "h"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(to, "h", "kv"), 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(to, "h")
}

// TestEngineHalfRestored lets the engine take a stored state and say that it
// failed: what is in the slot then is nobody's, so it is emptied before the
// request is computed in it, and the answer is the one without a store.
func TestEngineHalfRestored(t *testing.T) {
	first, _ := turns(300)
	x, end := unmanaged(t, "tiny", "-np", "1")
	defer end()
	f := newFront(t, x.identified().client.Base())
	want := x.chat(8, first...)
	x.detach()
	y := furnish(t, home{copied(t, x.home.dir)})
	y.hand = x.hand
	y.driver = New(Options{Route: "local", Host: standing{f.client}, Tier: y.tier, Handover: x.hand, Weights: engine.OpenWeights(y.home.dir + "/w"),
		Findings: OpenFindings(y.home.dir + "/f"), Log: y.log})
	y.identified()
	f.failing.Store(true)
	got := y.chat(8, first...)
	f.failing.Store(false)
	t.Run("KV45 the slot is emptied first", func(t *testing.T) {
		if calls := f.heard(); !slices.Equal(calls, []string{"restore", "erase", "chat"}) {
			t.Errorf("the engine was asked to %v", calls)
		}
	})
	if r := got.receipt; r.Restored != 0 || r.RestReason != string(kv.MissImportFailed) {
		t.Errorf("%+v", r)
	}
	if got.text() != want.text() || got.probabilities() != want.probabilities() {
		t.Errorf("after the failure %q, without a store %q", got.text(), want.text())
	}
	y.detach()
}

// front stands before an engine. While failing it has the engine restore what it
// is told to and says that it could not, and notes what changes or uses slots.
type front struct {
	client  *engine.Client
	failing atomic.Bool
	mu      sync.Mutex
	calls   []string
}

func newFront(t *testing.T, base string) *front {
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.URL.Query().Get("action")
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			call = "chat"
		}
		if !f.failing.Load() || call == "" {
			proxy.ServeHTTP(w, r)
			return
		}
		f.mu.Lock()
		f.calls = append(f.calls, call)
		f.mu.Unlock()
		if call != "restore" {
			proxy.ServeHTTP(w, r)
			return
		}
		done := httptest.NewRecorder()
		proxy.ServeHTTP(done, r)
		if done.Code != http.StatusOK {
			t.Errorf("the engine did not take the state: %d %s", done.Code, done.Body)
		}
		http.Error(w, `{"error":{"code":500,"message":"it broke","type":"server_error"}}`, http.StatusInternalServerError)
	}))
	t.Cleanup(srv.Close)
	f.client = engine.NewClient(srv.URL, "")
	t.Cleanup(f.client.Close)
	return f
}

func (f *front) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// TestEngineKilled kills the engine while it restores and while it saves: the
// request is answered by its next life, cold, and what was stored stays sound.
func TestEngineKilled(t *testing.T) {
	first, second := turns(600)
	for _, c := range []struct {
		name   string
		before bool // the store is filled by an earlier run
	}{{"K41 during a restore", true}, {"K29 during a save", false}} {
		t.Run(c.name, func(t *testing.T) {
			where := home{t.TempDir()}
			if c.before {
				h := open(t, where, settings(t, "tiny"))
				h.chat(1, first...)
				h.close()
			}
			h := open(t, where, settings(t, "tiny"))
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				h.killAtHandover(t.Context())
			}()
			one := h.chat(16, first...)
			<-killed
			until(t, "another life", func() bool {
				now, failed := h.sup.State()
				return failed == nil && now.Life == 2
			})
			two := h.chat(16, second...)
			t.Logf("%+v then %+v", one.receipt, two.receipt)
			if one.text() == "" || two.text() == "" {
				t.Error("no answer")
			}
			h.close()
			h = open(t, where, settings(t, "tiny"))
			three := h.chat(16, second...)
			if three.receipt.Source != usage.FromDisk {
				t.Errorf("after all of it nothing comes from disk: %+v", three.receipt)
			}
		})
	}
}

// killAtHandover kills the engine once a file appears in the hand-over folder.
func (h *house) killAtHandover(ctx context.Context) {
	now, _ := h.sup.State()
	for ctx.Err() == nil {
		if files, _ := os.ReadDir(h.hand); len(files) > 0 {
			syscall.Kill(now.PID, syscall.SIGKILL) // its end is what the test waits for
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// TestEngineRepeats sends the same prompt again and again: in one process nothing
// is read from disk, a hundred at once write once, and a hundred at once after a
// restart read once.
func TestEngineRepeats(t *testing.T) {
	where := home{t.TempDir()}
	first, second := turns(300)
	t.Run("K49 KV43 a hundred write once", func(t *testing.T) {
		h := open(t, where, settings(t, "tiny"))
		h.wave(t, 100, first)
		h.settled()
		a := h.tier.Status().Activity
		if a.Writes != 1 || a.Fills != 0 || a.BytesRead != 0 {
			t.Errorf("%d writes, %d fills, %d bytes read", a.Writes, a.Fills, a.BytesRead)
		}
	})
	t.Run("K20 KV22 a hundred after a restart read once", func(t *testing.T) {
		h := open(t, where, settings(t, "tiny"))
		h.wave(t, 100, first)
		h.settled()
		a := h.tier.Status().Activity
		if a.Fills != 1 || a.Writes != 0 || a.RestoresOK != 1 || a.RestoreFailures != 0 {
			t.Errorf("%d fills, %d writes, %d restored, %d failed", a.Fills, a.Writes, a.RestoresOK, a.RestoreFailures)
		}
	})
	t.Run("K23 KV42 the disk is one more slot", func(t *testing.T) {
		h := open(t, where, settings(t, "tiny"))
		h.chat(2, first...)
		for i := range 2 { // as many as there are slots
			h.chat(2, say("user", prose(200, 50+i)))
		}
		back := h.chat(2, second...)
		if back.receipt.Source != usage.FromDisk || back.receipt.Restored == 0 {
			t.Errorf("a conversation that lost its slot: %+v", back.receipt)
		}
		grown := append(slices.Clone(second), say("assistant", "It stands."), say("user", prose(200, 9)))
		h.chat(2, grown...)
		h.settled()
		if a := h.tier.Status().Activity; a.Writes == 0 {
			t.Error("what grew behind a restore is not kept")
		}
	})
}

// wave sends n identical prompts at once and wants identical answers.
func (h *house) wave(t *testing.T, n int, messages []map[string]any) {
	t.Helper()
	body := map[string]any{"messages": messages, "max_tokens": 4, "temperature": 0}
	texts := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r, err := h.try(t.Context(), "/v1/chat/completions", body)
			if err != nil || r.status != 200 {
				texts[i] = fmt.Sprintf("%d %v %s", r.status, err, r.body)
				return
			}
			texts[i] = r.text()
		})
	}
	all.Wait()
	slices.Sort(texts)
	if different := slices.Compact(texts); len(different) != 1 {
		t.Errorf("answers %q", different)
	}
}

func tierQuery(h *house, id kv.StateIdentity, ids []kv.Token) tier.Query {
	return tier.Query{Model: h.identified().model, State: id, Tokens: ids}
}
