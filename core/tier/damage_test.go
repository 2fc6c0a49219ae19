package tier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/seed"
	"holdfast/storage/segment"
)

// files lists the stored files of one folder of a store.
func files(t testing.TB, dir, sub string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, sub))
	must(t, err)
	for _, e := range entries {
		names = append(names, filepath.Join(dir, sub, e.Name()))
	}
	return names
}

// flipped runs f with one bit of a file changed, and puts it back.
func flipped(t testing.TB, name string, at int64, bit uint, f func()) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	b := make([]byte, 1)
	_, err = file.ReadAt(b, at)
	must(t, err)
	_, err = file.WriteAt([]byte{b[0] ^ 1<<bit}, at)
	must(t, err)
	f()
	_, err = file.WriteAt(b, at)
	must(t, err)
}

// flips is how many bits are flipped: 10,000 where asked for by
// HOLDFAST_PROGRAMS, as the bar says.
func flips() int {
	if os.Getenv("HOLDFAST_PROGRAMS") != "" {
		return 10000
	}
	return 200 / thin
}

// TestFlippedBits: any bit of a pack or a manifest, flipped while the store is
// open or before it is: nothing is handed over that is not what was saved.
func TestFlippedBits(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	tokens := talk(1, 200)
	tpl := newLab(t, setup{})
	_, err := tpl.spill(0, tokens, withTail)
	must(t, err)
	must(t, tpl.Close(context.Background()))
	all := append(files(t, tpl.dir, "packs"), files(t, tpl.dir, "manifests")...)
	refused := 0
	for i := range flips() {
		name := all[i%len(all)]
		info, err := os.Stat(name)
		must(t, err)
		at, bit := r.Int64N(info.Size()), uint(r.IntN(8))
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		flipped(t, name, at, bit, func() { must(t, os.CopyFS(dir, os.DirFS(tpl.dir))) })
		l := newLab(t, setup{dir: dir})
		switch _, err := l.restore(append(tokens, 1)); {
		case err != nil:
			refused++
		case i%len(all) == 0 && at < 8: // the head of a pack: no byte of any block
		default:
			t.Fatalf("flip %d of %s at %d was not noticed", bit, filepath.Base(name), at)
		}
		l.exact()
		must(t, l.Close(context.Background()))
		must(t, os.RemoveAll(dir))
	}
	t.Logf("K68 K62 %d refused", refused)
}

// TestDamageWhileOpen: a damaged block takes every state that names it out of
// use at once, leaves the others, and can be written anew.
func TestDamageWhileOpen(t *testing.T) {
	l := newLab(t, setup{})
	shared := talk(1, 640)
	for c := 2; c <= 3; c++ {
		_, err := l.spill(c, append(shared[:640:640], talk(c, 320)...))
		must(t, err)
	}
	_, err := l.spill(4, talk(4, 640))
	must(t, err)
	block := l.blockAt(append(shared[:640:640], talk(2, 320)...), 3)
	pack, off, _, ok := l.store.Where(content.ID(block))
	if !ok {
		t.Fatal("block 3 is not stored")
	}
	flipped(t, filepath.Join(l.dir, "packs", pack.String()+".pack"), off+100, 3, func() {
		_, err := l.restore(append(shared[:640:640], talk(2, 400)...))
		var miss *Miss
		if !errors.As(err, &miss) || miss.Reason != kv.MissCorrupt {
			t.Fatalf("got %v", err)
		}
		t.Run("KV33 W5 what shares the block goes with it", func(t *testing.T) {
			if h := l.lookup(append(shared[:640:640], talk(3, 400)...)); h.Found() {
				t.Errorf("a state with a damaged block is still found: %d tokens", h.Tokens)
			}
		})
		if _, err := l.restore(talk(4, 700)); err != nil {
			t.Errorf("the others stay: %v", err)
		}
		l.exact()
		t.Run("K67 written anew it restores", func(t *testing.T) {
			for c := 2; c <= 3; c++ {
				_, err := l.spill(c, append(shared[:640:640], talk(c, 320)...))
				must(t, err)
				_, err = l.restore(append(shared[:640:640], talk(c, 400)...))
				must(t, err)
			}
		})
	})
	s := l.Status()
	if s.Activity.CorruptEntries != 2 || s.Usage.QuarantinedObjects == 0 {
		t.Errorf("%+v %+v", s.Activity, s.Usage)
	}
	l.exact()
}

// blockAt is the name of block k of a state of those tokens.
func (l *lab) blockAt(tokens []kv.Token, k int) kv.BlockID {
	b := rows(l.eng.seed, tokens, 64*k, 64*k+64, layout().BlockBytes(64))
	return kv.BlockOf(b)
}

// TestVerify finds damage nobody asked for, and rewrites the pack without it.
func TestVerify(t *testing.T) {
	l := newLab(t, setup{})
	for c := 1; c <= 3; c++ {
		_, err := l.spill(c, talk(c, 640))
		must(t, err)
	}
	v, err := l.Verify(context.Background(), nil)
	must(t, err)
	if !v.Sound() || v.Blocks != 30 || v.Packs != 3 || v.Entries != 3 {
		t.Errorf("%+v", v)
	}
	block := l.blockAt(talk(2, 640), 7)
	pack, off, _, _ := l.store.Where(content.ID(block))
	flipped(t, filepath.Join(l.dir, "packs", pack.String()+".pack"), off, 0, func() {
		v, err = l.Verify(context.Background(), nil)
		must(t, err)
	})
	if v.Sound() || v.Bad != 1 || v.Manifests != 1 || v.Entries != 2 {
		t.Errorf("KV1 %+v", v)
	}
	l.exact()
	if v, err = l.Verify(context.Background(), nil); err != nil || !v.Sound() {
		t.Errorf("once more: %+v, %v", v, err)
	}
	m2 := model(2)
	if v, err = l.Verify(context.Background(), &m2); err != nil || v.Blocks != 0 {
		t.Errorf("of another model: %+v, %v", v, err)
	}
}

// broken is a store whose reads fail for no fault of what is stored.
type broken struct{ *segment.Store }

func (b broken) Read(context.Context, []content.ID, func(int, []byte) error) error {
	return errors.New("input/output error")
}

// TestKV23TroubleIsNotDamage: a read that fails says nothing about the state.
func TestKV23TroubleIsNotDamage(t *testing.T) {
	l := newLab(t, setup{wrap: func(s *segment.Store) (Segments, Manifests) { return broken{s}, s }})
	_, err := l.spill(0, talk(1, 640))
	must(t, err)
	_, err = l.restore(talk(1, 700))
	var miss *Miss
	if !errors.As(err, &miss) || miss.Reason != kv.MissStorageError {
		t.Fatalf("got %v", err)
	}
	if s := l.Status(); s.Usage.Manifests != 1 || s.Activity.CorruptEntries != 0 {
		t.Errorf("%+v", s)
	}
	l.exact()
}

// TestForeignManifests: what another version, another codec or another key
// wrote is put aside at the start and never read.
func TestForeignManifests(t *testing.T) {
	tpl := newLab(t, setup{})
	_, err := tpl.spill(0, talk(1, 640))
	must(t, err)
	must(t, tpl.Close(context.Background()))
	name := files(t, tpl.dir, "manifests")[0]
	whole, err := os.ReadFile(name)
	must(t, err)
	man, _, err := kv.DecodeManifest(whole)
	must(t, err)
	sealed := func(change func([]byte)) []byte {
		b := append([]byte(nil), whole[:len(whole)-32]...)
		change(b)
		sum := content.Of(b)
		return append(b, sum[:]...)
	}
	raw := strings.Index(string(whole), "raw")
	for what, data := range map[string][]byte{
		"K55 another version":           sealed(func(b []byte) { b[8] = 2 }),
		"KV34 the codec's name changed": sealed(func(b []byte) { copy(b[raw:], "zip") }),
		"KV34 the codec's version":      sealed(func(b []byte) { b[raw+3] = 9 }),
		"KV1 a length beyond the file":  sealed(func(b []byte) { b[raw-4] = 255 }),
		"empty":                         {},
		"cut":                           whole[:len(whole)/2],
		"not sealed":                    append(append([]byte(nil), whole...), 0),
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kv")
			must(t, os.CopyFS(dir, os.DirFS(tpl.dir)))
			key := content.Of(data)
			if len(data) > 32 {
				key, _ = content.FromBytes(data[len(data)-32:])
			}
			must(t, os.Remove(filepath.Join(dir, "manifests", filepath.Base(name))))
			must(t, os.WriteFile(filepath.Join(dir, "manifests", key.String()+".manifest"), data, 0o600))
			l := newLab(t, setup{dir: dir})
			s := l.Status()
			if s.Usage.Manifests != 0 || s.Reconciliation.QuarantinedManifests != 1 || s.Reconciliation.RemovedOrphanBytes == 0 {
				t.Errorf("%+v %+v", s.Usage, s.Reconciliation)
			}
			if h := l.lookup(talk(1, 700)); h.Found() {
				t.Error("it was found")
			}
			l.exact()
		})
	}
	t.Run("KV33 a block that is missing is counted", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kv")
		must(t, os.CopyFS(dir, os.DirFS(tpl.dir)))
		must(t, os.Remove(files(t, dir, "packs")[0]))
		l := newLab(t, setup{dir: dir})
		if s := l.Status(); s.Reconciliation.QuarantinedManifests != 1 {
			t.Errorf("%+v", s.Reconciliation)
		}
		l.exact()
	})
	t.Run("K63 a file that vanished while open", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kv")
		must(t, os.CopyFS(dir, os.DirFS(tpl.dir)))
		l := newLab(t, setup{dir: dir})
		must(t, os.Remove(files(t, dir, "packs")[0]))
		if _, err := l.restore(talk(1, 700)); err == nil {
			t.Error("it was restored from nothing")
		}
		if _, err := l.store.Rescan(); err != nil {
			t.Error(err)
		}
		l.exact()
	})
	if len(man.Tokens) != 640 {
		t.Errorf("the template has %d tokens", len(man.Tokens))
	}
}

// TestEngineFiles: what the engine wrote is believed in nothing.
func TestEngineFiles(t *testing.T) {
	tokens := talk(1, 640)
	for name, spoil := range map[string]func(e *engine){
		"K7 another number of tokens": func(e *engine) { e.lie = 3 },
		"K10 nothing saved":           func(e *engine) { e.lie = -640 },
		"K60 the save failed":         func(e *engine) { e.before = func() error { return errors.New("HTTP 500") } },
		"K4 a truncated file":         func(e *engine) { e.after = func(p string, n int64) { os.Truncate(p, n-64) } },
		"trailing bytes":              func(e *engine) { e.after = func(p string, n int64) { os.Truncate(p, n+64) } },
		"no magic": func(e *engine) {
			e.after = func(p string, n int64) { os.WriteFile(p, make([]byte, n), 0o600) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, setup{})
			spoil(l.eng)
			if _, err := l.spill(0, tokens); err == nil {
				t.Fatal("it was kept")
			}
			if s := l.Status(); s.Usage.Manifests != 0 || s.Activity.Writes != 0 || s.Activity.LastError == "" || s.Effective.State != kv.StateActive {
				t.Errorf("%+v %+v", s.Usage, s.Effective)
			}
			if left := files(t, l.eng.dir, ""); len(left) != 0 {
				t.Errorf("the engine's file was left: %v", left)
			}
			l.exact()
		})
	}
	t.Run("the slot holds another conversation", func(t *testing.T) {
		l := newLab(t, setup{})
		l.eng.hold(0, talk(2, 640))
		done := make(chan error, 1)
		must(t, l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Tokens: tokens, Done: func(_ Spilled, err error) { done <- err }}))
		if err := <-done; !errors.Is(err, &Refusal{Reason: ReasonShort}) {
			t.Errorf("got %v", err)
		}
		l.exact()
	})
}

// TestSettle books every outcome once.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name           string
		outcome        Outcome
		used           int
		miss           kv.MissReason
		failures, left int
	}{
		{"K3 refused by the engine", Rejected, 0, kv.MissImportFailed, 1, 0},
		{"K41 the engine died", EngineGone, 0, kv.MissEngineUnavailable, 1, 0},
		{"the slot was taken", SlotTaken, 0, kv.MissSlotTaken, 1, 1},
		{"K20 K66 it gave nothing", Restored, 0, kv.MissImportFailed, 1, 1},
		{"not handed over", NotTried, 0, kv.MissNoIdleSlot, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, setup{})
			_, err := l.spill(0, talk(1, 640))
			must(t, err)
			f, path, err := l.take(l.lookup(talk(1, 700)))
			must(t, err)
			must(t, os.Remove(path))
			must(t, l.Settle(f, c.outcome, c.used, 0))
			s := l.Status()
			if s.Activity.Misses[c.miss] != 1 || len(s.Activity.Misses) != 1 || int(s.Activity.RestoreFailures) != c.failures || s.Activity.Hits != 0 || s.Usage.Manifests != c.left {
				t.Errorf("KV37 %+v, %d left", s.Activity, s.Usage.Manifests)
			}
			l.exact()
		})
	}
}

// TestKV49NothingPrivate: no token id and no text is in the status.
func TestKV49NothingPrivate(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 640)
	for i := range tokens {
		tokens[i] = 7777777
	}
	_, err := l.spill(0, tokens)
	must(t, err)
	data, err := json.Marshal(l.Status())
	must(t, err)
	if strings.Contains(string(data), "7777777") {
		t.Error("the status holds token ids")
	}
}
