package tier

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/storage/faultfs"
	"holdfast/storage/segment"
)

// TestCases are reports about systems like this one, each as small as it gets.
func TestCases(t *testing.T) {
	t.Run("K25 K23 alternating conversations are all kept", func(t *testing.T) {
		l := newLab(t, setup{})
		for turn := 1; turn <= 3; turn++ {
			for c := 1; c <= 5; c++ {
				_, err := l.spill(0, talk(c, 320*turn)) // one slot for all of them
				must(t, err)
			}
		}
		for c := 1; c <= 5; c++ {
			h, err := l.restore(talk(c, 2000))
			must(t, err)
			if h.Tokens != 960 {
				t.Errorf("conversation %d: %d tokens", c, h.Tokens)
			}
		}
		l.exact()
	})
	t.Run("K50 nested states do not evict each other", func(t *testing.T) {
		l := newLab(t, setup{limits: tight()})
		for n := 64; n <= 1024; n += 64 {
			_, err := l.spill(0, talk(1, n))
			must(t, err)
			if s := l.Status(); s.Usage.Manifests != 1 || s.Activity.Evictions != 0 {
				t.Fatalf("at %d tokens: %d manifests, %d evictions", n, s.Usage.Manifests, s.Activity.Evictions)
			}
		}
		l.exact()
	})
	t.Run("K59 a prompt that leaves early keeps every block before that", func(t *testing.T) {
		l := newLab(t, setup{})
		_, err := l.spill(0, talk(1, 1024))
		must(t, err)
		for n := 64; n <= 1024; n += 64 {
			h, err := l.restore(append(talk(1, n), talk(7, 100)...))
			must(t, err)
			if h.Tokens != n {
				t.Errorf("left at %d, restored %d", n, h.Tokens)
			}
		}
	})
	t.Run("K69 a start truncates nothing", func(t *testing.T) {
		l := newLab(t, setup{})
		_, err := l.spill(0, talk(1, 640))
		must(t, err)
		must(t, l.Close(context.Background()))
		before := onDisk(t, l.dir)
		for range 3 {
			again := newLab(t, setup{dir: l.dir})
			must(t, again.Close(context.Background()))
		}
		if after := onDisk(t, l.dir); after != before {
			t.Errorf("%d became %d", before, after)
		}
	})
	t.Run("KV5 what is used is known without a count", func(t *testing.T) {
		l, d := onDiskOf(t, 1<<40, roomy())
		for c := range 30 {
			_, err := l.spill(0, talk(c, 320))
			must(t, err)
			l.exact()
		}
		if d.rescans != 0 {
			t.Errorf("the files were counted %d times in 30 spills that have room", d.rescans)
		}
		l, d = onDiskOf(t, 1<<40, tight())
		for c := range 30 {
			_, err := l.spill(0, talk(c, 320))
			must(t, err)
		}
		if n := int(l.Status().Activity.Evictions); n == 0 || d.rescans > n { // once before each, never for each block
			t.Errorf("the files were counted %d times for %d evictions", d.rescans, n)
		}
	})
	t.Run("KV33 what is stored once more keeps what it shares", func(t *testing.T) {
		l := newLab(t, setup{})
		_, err := l.spill(0, talk(1, 640))
		must(t, err)
		first := newest(l)
		data, err := l.store.Manifest(content.ID(first))
		must(t, err)
		must(t, l.store.PutManifest(content.ID(first), data)) // the same under the same key
		for range 3 {                                         // the same tokens, then with what follows them
			_, err := l.spill(0, talk(1, 640), withTail)
			if err != nil && !errors.Is(err, &Refusal{Reason: ReasonStored}) {
				t.Fatal(err)
			}
		}
		l.exact()
		_, err = l.spill(0, append(talk(1, 640), talk(2, 320)...))
		must(t, err)
		h, err := l.restore(append(talk(1, 640), talk(2, 400)...))
		must(t, err)
		if s := l.Status(); h.Tokens != 960 || s.Usage.Manifests != 1 || s.Usage.UniqueSegments != 15 {
			t.Errorf("restored %d; %+v", h.Tokens, s.Usage)
		}
		l.exact()
	})
	t.Run("KV38 descriptions go with their entries", func(t *testing.T) {
		l := newLab(t, setup{})
		for c := 1; c <= 20; c++ {
			_, err := l.spill(0, talk(c, 320))
			must(t, err)
		}
		_, err := l.Clear(context.Background(), nil, false)
		must(t, err)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.entries) != 0 || len(l.refs) != 0 || l.index.Len() != 0 {
			t.Errorf("%d entries, %d blocks, %d in the index", len(l.entries), len(l.refs), l.index.Len())
		}
	})
}

// late is a store that runs something between a pack and its manifest.
type late struct {
	*segment.Store
	hook func()
}

func (s *late) WritePack(write func(func(content.ID, []byte) error) error) (content.ID, int64, error) {
	id, n, err := s.Store.WritePack(write)
	if s.hook != nil {
		s.hook()
	}
	return id, n, err
}

// TestKV14HoldsComeFirst: a pack that is published and not yet named survives a
// sweep, and so do the blocks a spill found stored.
func TestKV14HoldsComeFirst(t *testing.T) {
	s := &late{}
	l := newLab(t, setup{wrap: func(st *segment.Store) (Segments, Manifests) { s.Store = st; return s, st }})
	_, err := l.spill(0, talk(1, 640))
	must(t, err)
	base := newest(l)
	t.Run("KV46 collected after the lock", func(t *testing.T) {
		s.hook = func() {
			must(t, l.evict(base, false)) // the base goes, its blocks are held
			must(t, l.discarded())
		}
		_, err := l.spill(0, append(talk(1, 640), talk(5, 320)...))
		must(t, err)
		s.hook = nil
		h, err := l.restore(append(talk(1, 640), talk(5, 400)...))
		must(t, err)
		if h.Tokens != 960 {
			t.Errorf("restored %d", h.Tokens)
		}
	})
	l.exact()
}

// TestReconcile counts what a stop left behind.
func TestReconcile(t *testing.T) {
	l := newLab(t, setup{})
	_, err := l.spill(0, talk(1, 640))
	must(t, err)
	must(t, l.Close(context.Background()))
	must(t, os.WriteFile(filepath.Join(l.dir, "packs", ".pack.1.tmp"), []byte("half"), 0o600))
	must(t, os.WriteFile(filepath.Join(l.dir, "manifests", ".x.1.tmp"), []byte("half"), 0o600))
	s, err := segment.Open(l.dir, segment.Options{})
	must(t, err)
	orphan := make([]byte, 5000)
	_, size, err := s.WritePack(func(put func(content.ID, []byte) error) error { return put(content.Of(orphan), orphan) })
	must(t, err)
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(l.dir, "packs", ".pack.2.tmp"), []byte("half"), 0o600))
	again := newLab(t, setup{dir: l.dir})
	r := again.Status().Reconciliation
	if r.RemovedTemporaryFiles != 1 || r.RemovedOrphanBytes != kv.Bytes(size) || r.QuarantinedManifests != 0 {
		t.Errorf("KV40 %+v", r)
	}
	again.exact()
}

// TestKV58StorageErrorRecovers without anybody writing a state.
func TestKV58StorageErrorRecovers(t *testing.T) {
	l := newLab(t, setup{})
	must(t, l.Close(context.Background()))
	f, err := faultfs.New(l.dir)
	must(t, err)
	l = newLab(t, setup{dir: l.dir, fs: f})
	f.Arm(0, faultfs.Fail)
	if _, err := l.spill(0, talk(1, 640)); err == nil {
		t.Fatal("the planted error was lost")
	}
	f.Disarm()
	if s := l.Status().Effective; s.State != kv.StateDegraded || s.Reason != ReasonStorageError {
		t.Errorf("%+v", s)
	}
	l.look()
	if s := l.Status().Effective; s.State != kv.StateActive {
		t.Errorf("after a probe %+v", s)
	}
	l.exact()
}

// TestExtent: how much of a file is stored, and which boundaries go along.
func TestExtent(t *testing.T) {
	dense := &slotfile.File{Layout: kv.Layout{Memory: kv.Dense}, Tokens: talk(1, 1000)}
	hybrid := &slotfile.File{Layout: kv.Layout{Memory: kv.Hybrid}, Tokens: talk(1, 1000)}
	for _, at := range []kv.Tokens{100, 200, 300, 400, 500, 600} {
		hybrid.Parts = append(hybrid.Parts, kv.Boundary{Position: at, Size: 10})
	}
	hybrid.Parts = append(hybrid.Parts, kv.Boundary{Position: 1000, Size: 10}, kv.Boundary{Position: 1000, Size: 10, Appendix: true})
	for _, c := range []struct {
		name   string
		f      *slotfile.File
		stable []kv.Token
		tail   bool
		want   int
		keep   []kv.Tokens
	}{
		{"whole blocks", dense, talk(1, 1000), false, 960, nil},
		{"with the tail", dense, talk(1, 1000), true, 1000, nil},
		{"up to the stable boundary", dense, talk(1, 700), false, 640, nil},
		{"as far as the slot agrees", dense, append(talk(1, 500), talk(2, 500)...), false, 448, nil},
		{"another conversation", dense, talk(3, 900), false, 0, nil},
		{"K31 at a boundary only", hybrid, talk(1, 550), true, 500, []kv.Tokens{100, 300, 400, 500}},
		{"K26 at most four", hybrid, talk(1, 1000), false, 1000, []kv.Tokens{100, 600, 1000, 1000}},
		{"no boundary so early", hybrid, talk(1, 90), false, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, keep := extent(c.f, c.stable, c.tail, kib)
			var at []kv.Tokens
			for _, b := range keep {
				at = append(at, b.Position)
			}
			if n != c.want || !slices.Equal(at, c.keep) {
				t.Errorf("%d tokens with %v, want %d with %v", n, at, c.want, c.keep)
			}
		})
	}
	if _, keep := extent(hybrid, talk(1, 1000), false, 15); len(keep) != 3 || keep[0].Position != 100 || keep[1].Position != 1000 {
		t.Errorf("with room for one more than the end: %v", keep)
	}
	if l := newLab(t, setup{}); l.boundaryRoom() != roomy().Budget/16 {
		t.Errorf("boundaries of a branch may take %d of %d", l.boundaryRoom(), roomy().Budget)
	}
}

// TestUnknownLayout: a file that cannot be described exactly is counted, and kept
// whole only when the slot closes.
func TestUnknownLayout(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 640)
	l.eng.after = func(path string, size int64) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = f.Write(make([]byte, 40))
		must(t, errors.Join(err, f.Close()))
	}
	l.eng.extra = 40
	if _, err := l.spill(0, tokens); !errors.Is(err, &Refusal{Reason: ReasonLayout}) {
		t.Fatalf("got %v", err)
	}
	out, err := l.spill(0, tokens, func(r *Request) { r.Closing = true })
	must(t, err)
	if s := l.Status(); out.Tokens != 640 || s.Activity.GeometryRejected != 2 || s.Usage.Manifests != 1 {
		t.Errorf("%+v %+v", out, s.Activity)
	}
	if h := l.lookup(talk(1, 500)); h.Found() {
		t.Error("K8 part of a state that has no parts")
	}
	h := l.lookup(append(tokens, 1))
	if h.Tokens != 640 {
		t.Fatalf("%+v", h)
	}
	f, path, err := l.take(h)
	must(t, err)
	if f.Size <= 640*512 {
		t.Errorf("the file has %d bytes", f.Size)
	}
	must(t, os.Remove(path))
	must(t, l.Settle(f, Restored, 639, 0))
	l.exact()
}

// TestDue is the rule as the driver asks for it.
func TestDue(t *testing.T) {
	l := newLab(t, setup{})
	if d := l.Due(state(1), talk(1, 300), 0, false); !d.Spill || d.Tail {
		t.Errorf("256 new tokens: %+v", d)
	}
	_, err := l.spill(0, talk(1, 320))
	must(t, err)
	if d := l.Due(state(1), talk(1, 400), 0, false); d.Spill {
		t.Errorf("KV63 80 new tokens: %+v", d)
	}
	if d := l.Due(state(1), talk(1, 400), 0, true); !d.Spill || !d.Tail {
		t.Errorf("closing: %+v", d)
	}
}
