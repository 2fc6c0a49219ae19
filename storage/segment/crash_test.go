package segment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"holdfast/core/content"
	"holdfast/storage/faultfs"
)

// acts are the changes a store can be cut off in. Before each it holds blocks 1
// to 4 in one pack, 5 in another, and a record; sound is what must be readable
// afterwards whatever happened.
func acts() map[string]struct {
	do    func(*Store) error
	sound []int
} {
	key, data := block(100)
	return map[string]struct {
		do    func(*Store) error
		sound []int
	}{
		"pack":           {func(s *Store) error { _, err := write(s, 6, 7); return err }, []int{1, 2, 3, 4, 5}},
		"pack again":     {func(s *Store) error { _, err := write(s, 5); return err }, []int{1, 2, 3, 4}},
		"manifest":       {func(s *Store) error { k, d := block(101); return s.PutManifest(k, d) }, []int{1, 2, 3, 4, 5}},
		"manifest again": {func(s *Store) error { return s.PutManifest(key, data) }, []int{1, 2, 3, 4, 5}},
		"note":           {func(s *Store) error { return s.SetNote(data) }, []int{1, 2, 3, 4, 5}},
		"drop":           {func(s *Store) error { return s.DropManifest(key) }, []int{1, 2, 3, 4, 5}},
		"quarantine":     {func(s *Store) error { return s.QuarantineManifest(key) }, []int{1, 2, 3, 4, 5}},
		"sweep":          {func(s *Store) error { _, err := s.Sweep(only(5)); return err }, []int{5}},
		"compact": {func(s *Store) error {
			_, _, err := s.Compact(context.Background(), packOf(s, 1), only(1, 4), false)
			return err
		}, []int{1, 4, 5}},
		"put aside": {func(s *Store) error {
			_, _, err := s.Compact(context.Background(), packOf(s, 1), only(1, 4), true)
			return err
		}, []int{1, 4, 5}},
	}
}

func packOf(s *Store, n int) content.ID {
	id, _ := block(n)
	pack, _, _, _ := s.Where(id)
	return pack
}

// template is a store before an act, closed.
func template(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	_, err := write(s, 1, 2, 3, 4)
	must(t, err)
	_, err = write(s, 5)
	must(t, err)
	key, data := block(100)
	must(t, s.PutManifest(key, data))
	must(t, s.SetNote([]byte("note")))
	must(t, s.Close())
	return dir
}

// furnished is a copy of it, on a file system with faults.
func furnished(t *testing.T, tpl string) (*Store, *faultfs.FS) {
	t.Helper()
	dir := cloneStore(t, tpl)
	f, err := faultfs.New(dir)
	must(t, err)
	return openAt(t, dir, Options{FS: f}), f
}

// TestEveryStep cuts every change off at every step it makes, in each way.
func TestEveryStep(t *testing.T) {
	tpl := template(t)
	for name, act := range acts() {
		t.Run(name, func(t *testing.T) {
			s, f := furnished(t, tpl)
			f.Arm(-1, faultfs.Fail)
			must(t, act.do(s))
			steps := f.Disarm()
			exact(t, s)
			for k := range steps {
				for _, kind := range faultfs.KindsAt(k) {
					t.Run(fmt.Sprintf("%s %v", steps[k], kind), func(t *testing.T) { cut(t, tpl, act.do, act.sound, k, kind) })
				}
			}
		})
	}
}

func cut(t *testing.T, tpl string, do func(*Store) error, sound []int, k int, kind faultfs.Kind) {
	s, f := furnished(t, tpl)
	f.Arm(k, kind)
	err := do(s)
	f.Disarm()
	if kind == faultfs.CrashBefore || kind == faultfs.CrashAfter {
		for _, left := range faultfs.Lefts() {
			clone := filepath.Join(t.TempDir(), "clone")
			must(t, f.Clone(clone, left))
			again := openAt(t, clone, Options{})
			holds(t, again, sound)
			exact(t, again)
		}
		return
	}
	if err != nil && !errors.Is(err, faultfs.ErrPlanted) && !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	exact(t, s) // KV17 KV60: what was given up is gone, or counted
	holds(t, s, sound)
	must(t, do(s))
	exact(t, s)
	holds(t, s, sound)
	if _, err := s.Rescan(); err != nil {
		t.Fatal(err)
	}
	exact(t, s)
	must(t, s.Close())
	again := openAt(t, s.Root(), Options{})
	holds(t, again, sound)
	exact(t, again)
}

// holds: the blocks that nobody meant to touch are there, and every block that
// is listed reads as what it is called.
func holds(t *testing.T, s *Store, sound []int) {
	t.Helper()
	if err := read(s, sound...); err != nil {
		t.Fatalf("blocks are lost: %v", err)
	}
	s.mu.RLock()
	var ids []content.ID
	for id := range s.index {
		ids = append(ids, id)
	}
	s.mu.RUnlock()
	if err := s.Read(context.Background(), ids, checked(ids, func(int, []byte) error { return nil })); err != nil {
		t.Fatalf("a listed block does not read: %v", err)
	}
	for _, key := range s.Manifests() {
		data, err := s.Manifest(key)
		if err != nil || content.Of(data) != key {
			t.Fatalf("record %v has %d other bytes, %v", key, len(data), err)
		}
	}
}
