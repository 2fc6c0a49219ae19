package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/core/content"
	"holdfast/core/seed"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openAt(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// block is some bytes with their name; equal numbers give equal bytes.
func block(n int) (content.ID, []byte) {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	b := make([]byte, 500+r.IntN(3000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return content.Of(b), b
}

func write(s *Store, ns ...int) (content.ID, error) {
	id, _, err := s.WritePack(func(put func(content.ID, []byte) error) error {
		for _, n := range ns {
			if err := put(block(n)); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
}

// read reads blocks back and checks them.
func read(s *Store, ns ...int) error {
	ids := make([]content.ID, len(ns))
	for i, n := range ns {
		ids[i], _ = block(n)
	}
	var mu sync.Mutex
	got := map[int]int{}
	err := s.Read(context.Background(), ids, checked(ids, func(i int, b []byte) error {
		mu.Lock()
		defer mu.Unlock()
		got[i]++
		return nil
	}))
	if err == nil && len(got) != len(ns) {
		return fmt.Errorf("%d of %d blocks were handed over", len(got), len(ns))
	}
	return err
}

// exact: the running total is what a count of every file gives, from outside.
func exact(t *testing.T, s *Store) {
	t.Helper()
	var total int64
	must(t, filepath.WalkDir(s.Root(), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, _ := d.Info()
			total += info.Size()
		}
		return err
	}))
	if got := s.Used(); got != total {
		t.Fatalf("the running total is %d, the files are %d: %+v", got, total, s.Usage())
	}
}

func only(wanted ...int) func(content.ID) bool {
	ids := map[content.ID]bool{}
	for _, n := range wanted {
		id, _ := block(n)
		ids[id] = true
	}
	return func(id content.ID) bool { return ids[id] }
}

func TestTotalsAreExact(t *testing.T) {
	t.Log("K54 K27: after every kind of mutation the total is a full count")
	s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
	key, data := block(900)
	var pack content.ID
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"open", func() error { return nil }},
		{"write", func() (err error) { pack, err = write(s, 1, 2, 3, 4); return err }},
		{"write nothing", func() error { _, err := write(s); return err }},
		{"write again", func() error { _, err := write(s, 1, 2, 3, 4); return err }},
		{"manifest", func() error { return s.PutManifest(key, data) }},
		{"manifest again", func() error { return s.PutManifest(key, data[:400]) }},
		{"note", func() error { return s.SetNote([]byte("first")) }},
		{"note again", func() error { return s.SetNote([]byte("a longer second one")) }},
		{"write failed", func() error {
			_, _, err := s.WritePack(func(put func(content.ID, []byte) error) error {
				return errors.Join(put(block(50)), errors.New("given up"))
			})
			if err == nil {
				return errors.New("the error was lost")
			}
			return nil
		}},
		{"compact", func() error {
			_, _, err := s.Compact(context.Background(), pack, only(2, 3), false)
			return errors.Join(err, read(s, 2, 3))
		}},
		{"write more", func() error { _, err := write(s, 10, 11, 12); return err }},
		{"sweep", func() error { _, err := s.Sweep(only(2, 3)); return err }},
		{"quarantine", func() error { return s.QuarantineManifest(key) }},
		{"empty", func() error { _, err := s.EmptyQuarantine(); return err }},
		{"manifest anew", func() error { return s.PutManifest(key, data) }},
		{"drop", func() error { return s.DropManifest(key) }},
		{"drop what is not there", func() error { return s.DropManifest(key) }},
		{"sweep all", func() error { _, err := s.Sweep(only()); return err }},
	} {
		must(t, step.do())
		t.Log(step.name, s.Usage())
		exact(t, s)
		before := s.Used()
		if after, err := s.Rescan(); err != nil || after != before {
			t.Fatalf("%s: a rescan gives %d (%v), the total was %d", step.name, after, err, before)
		}
	}
	if u := s.Usage(); u.Packs != 0 || u.Manifests != 0 || u.Quarantine != 0 || u.Quarantined != 0 {
		t.Errorf("an emptied store holds %+v", u)
	}
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	_, err := write(s, 1, 2, 3)
	must(t, err)
	key, data := block(9)
	must(t, s.PutManifest(key, data))
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, packDir, ".pack.0.tmp"), []byte("half"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".note.0.tmp"), []byte("half"), 0o600))
	s = openAt(t, dir, Options{})
	exact(t, s)
	if s.Swept() != 2 {
		t.Errorf("%d temporary files were removed, want 2", s.Swept())
	}
	if got, err := s.Manifest(key); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the record came back as %d bytes, %v", len(got), err)
	}
	must(t, read(s, 3, 1, 2, 1))
	if _, err := s.Manifest(content.ID{1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record that is not there: %v", err)
	}
	if err := read(s, 77); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("K63 a block that is not there: %v", err)
	}
}

// TestRead in every order, with neighbours, gaps and repeats, over several packs.
func TestRead(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
	for p := range 5 {
		ns := make([]int, 40)
		for i := range ns {
			ns[i] = p*40 + i
		}
		_, err := write(s, ns...)
		must(t, err)
	}
	for range 50 {
		ns := make([]int, r.IntN(120))
		for i := range ns {
			ns[i] = r.IntN(200)
		}
		must(t, read(s, ns...))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	id, _ := block(1)
	if err := s.Read(ctx, []content.ID{id}, func(int, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
	stop := errors.New("enough")
	if err := s.Read(context.Background(), []content.ID{id}, func(int, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a use that fails: %v", err)
	}
	everyPiece(t, s)
}

// everyPiece: what is read apart comes whole, with more of it than a reader
// holds at once, and a use that fails at any of it ends the read with its error;
// how many more the others take until they hear of it is chance.
func everyPiece(t *testing.T, s *Store) {
	t.Helper()
	var ids []content.ID
	for n := 0; n < 200; n += 2 { // no two are neighbours
		id, _ := block(n)
		ids = append(ids, id)
	}
	for _, at := range []int64{1, 2, readDepth + users, 50, 100, 101} {
		stop := errors.New("enough")
		var seen atomic.Int64
		err := s.Read(context.Background(), ids, checked(ids, func(int, []byte) error {
			if seen.Add(1) == at {
				return stop
			}
			return nil
		}))
		switch n := seen.Load(); {
		case at <= int64(len(ids)) && (!errors.Is(err, stop) || n < at):
			t.Errorf("a use that fails at piece %d: %v after %d", at, err, n)
		case at > int64(len(ids)) && (err != nil || n != int64(len(ids))):
			t.Errorf("read %d of %d pieces: %v", n, len(ids), err)
		}
	}
}

// TestReadersBuffers: no more bytes are in memory than a read may have, beside
// a single block that is larger.
func TestReadersBuffers(t *testing.T) {
	for _, c := range []struct {
		size int64
		lent int
	}{{32 << 10, readDepth}, {readPiece, readDepth}, {12 << 20, 2}, {readBytes + 1, 1}} {
		r := &reader{back: make(chan []byte, readDepth)}
		var out [][]byte
		for range c.lent {
			out = append(out, r.buffer(c.size))
		}
		if r.lent != c.lent || r.held > max(readBytes, c.size) || r.lent < readDepth && r.held+c.size <= readBytes {
			t.Errorf("pieces of %d bytes: %d of them are out, %d bytes", c.size, r.lent, r.held)
		}
		r.back <- out[0]
		if next := r.buffer(c.size); &next[0] != &out[0][0] || r.lent != c.lent {
			t.Errorf("pieces of %d bytes: another buffer, %d are out", c.size, r.lent)
		}
	}
}

// flip changes one byte of a file.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(t, err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b, at)
	must(t, err)
}

func TestDamagedBlock(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
	pack, err := write(s, 1, 2, 3)
	must(t, err)
	id, _ := block(2)
	_, off, _, ok := s.Where(id)
	if !ok {
		t.Fatal("block 2 is not there")
	}
	flip(t, s.packPath(pack), off+17)
	var bad *content.MismatchError
	if err := read(s, 1, 2, 3); !errors.As(err, &bad) || bad.ID != id {
		t.Fatalf("reading a damaged block: %v", err)
	}
	if _, _, _, ok := s.Where(id); ok {
		t.Error("KV33 a damaged block is still there to be counted on")
	}
	must(t, read(s, 1, 3))
	// It can be stored anew, and the sound copy is read.
	_, err = write(s, 2)
	must(t, err)
	must(t, read(s, 1, 2, 3))
	exact(t, s)
	made, _, err := s.Compact(context.Background(), pack, only(1, 3), true)
	must(t, err)
	if made.IsZero() || s.Usage().Quarantined != 1 {
		t.Errorf("the damaged pack was not put aside: %v, %+v", made, s.Usage())
	}
	must(t, read(s, 1, 2, 3))
	exact(t, s)
}

func TestKV55DigestInTwoPacks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	big, err := write(s, 1, 2, 3, 4)
	must(t, err)
	small, err := write(s, 2, 3)
	must(t, err)
	for _, gone := range []content.ID{big, small} {
		s := openAt(t, cloneStore(t, dir), Options{})
		_, err := s.DropPack(gone, only())
		must(t, err)
		must(t, read(s, 2, 3))
		exact(t, s)
	}
	// A stop in the middle of a compaction leaves both: the old one is garbage.
	must(t, s.Close())
	s = openAt(t, dir, Options{})
	freed, err := s.Sweep(only(2, 3))
	must(t, err)
	if freed == 0 {
		t.Error("the pack that was compacted is still needed")
	}
	must(t, read(s, 2, 3))
	exact(t, s)
	// A damaged copy is not the end of it.
	t.Run("other copy", func(t *testing.T) {
		s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
		first, err := write(s, 5, 6)
		must(t, err)
		_, err = write(s, 5, 7)
		must(t, err)
		id, _ := block(5)
		_, off, _, _ := s.Where(id)
		flip(t, s.packPath(first), off)
		must(t, read(s, 5, 6, 7))
	})
}

// cloneStore copies a store's files.
func cloneStore(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "clone")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestDamagedPacks: what is not a whole pack goes to quarantine at the next
// start, one flipped bit in the index included.
func TestDamagedPacks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	pack, err := write(s, 1, 2, 3)
	must(t, err)
	_, err = write(s, 4)
	must(t, err)
	must(t, s.Close())
	name := pack.String() + packExt
	whole, err := os.ReadFile(filepath.Join(dir, packDir, name))
	must(t, err)
	damage := map[string][]byte{"empty": {}, "K68 cut in the blocks": whole[:100], "no end": whole[:len(whole)-1], "other name": append([]byte("x"), whole[1:]...)}
	delete(damage, "other name") // the head is checked by its digest only as a constant
	for at := len(whole) - endSize - 3*entrySize; at < len(whole); at++ {
		b := bytes.Clone(whole)
		b[at] ^= 1
		damage[fmt.Sprint("flip at ", at-len(whole))] = b
	}
	for what, data := range damage {
		to := cloneStore(t, dir)
		must(t, os.WriteFile(filepath.Join(to, packDir, name), data, 0o600))
		s, err := Open(to, Options{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s.Usage().Quarantined != 1 || read(s, 1) == nil || read(s, 4) != nil {
			t.Errorf("%s: %+v", what, s.Usage())
		}
		exact(t, s)
		must(t, s.Close())
	}
}

func TestKV57QuarantineIsBounded(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
	for n := range 40 {
		key, data := block(n)
		must(t, s.PutManifest(key, data))
		must(t, s.QuarantineManifest(key))
		exact(t, s)
	}
	if n, _ := s.Quarantined(); n != quarantineObjects {
		t.Errorf("%d objects, want %d", n, quarantineObjects)
	}
	// By bytes: the files are sparse, what counts is their size.
	big, err := write(s, 1000)
	must(t, err)
	must(t, os.Truncate(s.packPath(big), quarantineBytes-10))
	must(t, s.Close())
	s = openAt(t, s.Root(), Options{})
	exact(t, s)
	if n, size := s.Quarantined(); n == 0 || size > quarantineBytes {
		t.Errorf("%d objects of %d bytes", n, size)
	}
	// One that is larger than all of it is not kept at all.
	_, err = write(s, 1001)
	must(t, err)
	id, _ := block(1001)
	pack, _, _, _ := s.Where(id)
	must(t, os.Truncate(s.packPath(pack), quarantineBytes+10))
	must(t, s.Close())
	s = openAt(t, s.Root(), Options{})
	exact(t, s)
	if s.Usage().Packs != 0 {
		t.Errorf("%+v", s.Usage())
	}
}

// TestBusy: a pack that is being read stays.
func TestBusy(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "kv"), Options{})
	pack, err := write(s, 1, 2)
	must(t, err)
	id, _ := block(1)
	must(t, s.Read(context.Background(), []content.ID{id}, func(int, []byte) error {
		if _, err := s.DropPack(pack, only()); !s.Busy(err) {
			t.Errorf("dropping a pack that is read: %v", err)
		}
		if _, _, err := s.Compact(context.Background(), pack, only(1), false); !s.Busy(err) {
			t.Errorf("compacting a pack that is read: %v", err)
		}
		if freed, err := s.Sweep(only()); freed != 0 || err != nil {
			t.Errorf("sweeping freed %d, %v", freed, err)
		}
		return nil
	}))
	if freed, err := s.DropPack(pack, only(2)); freed != 0 || err != nil {
		t.Errorf("a pack with a wanted block: %d, %v", freed, err)
	}
	if freed, err := s.Sweep(only()); freed == 0 || err != nil {
		t.Errorf("afterwards: %d, %v", freed, err)
	}
	exact(t, s)
}

func TestFarFileSystems(t *testing.T) {
	for _, m := range farMagics() {
		t.Run(fmt.Sprintf("KV3 %s %#x", m.name, m.magic), func(t *testing.T) {
			if name, far := farByMagic(m.magic); !far || name != m.name {
				t.Errorf("%q, %v", name, far)
			}
		})
	}
	for _, near := range []uint32{0xef53, 0x01021994, 0x9123683e, 0x58465342, 0x794c7630} {
		if name, far := farByMagic(near); far {
			t.Errorf("%#x is taken for %s", near, name)
		}
	}
	for kind, far := range map[string]bool{"nfs": true, "smbfs": true, "macfuse": true, "fuse.sshfs": true, "apfs": false, "hfs": false, "ufs": false} {
		if _, got := farByName(kind); got != far {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	base := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{base}, parts...)...) }
	mkdir := func(name string) string { must(t, os.MkdirAll(name, 0o700)); return name }
	link := func(to, name string) { must(t, os.Symlink(to, name)) }
	link(mkdir(at("real")), at("root-link"))
	link(mkdir(at("elsewhere")), filepath.Join(mkdir(at("below")), packDir))
	must(t, os.WriteFile(filepath.Join(at("below"), tagFile), nil, 0o600))
	s := openAt(t, at("file-link"), Options{})
	_, err := write(s, 1)
	must(t, err)
	must(t, s.Close())
	id := content.Of([]byte("x"))
	link(at("elsewhere"), s.packPath(id))
	must(t, os.WriteFile(filepath.Join(mkdir(at("home")), "thesis.tex"), []byte("x"), 0o600))
	for _, other := range []string{at("cache", tagFile), at("cache", "thesis.tex"), at("git", packDir, "pack-1.idx"), at("git", lockName)} {
		must(t, os.WriteFile(filepath.Join(mkdir(filepath.Dir(other)), filepath.Base(other)), []byte("x"), 0o600))
	}
	must(t, os.WriteFile(at("a-file"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(mkdir(at("other")), rootFile), []byte(`{"format":2,"hash":"blake3-256"}`), 0o600))
	link(at("nowhere"), at("dangling"))
	for name, dir := range map[string]string{
		"KV38 relative": "kv", "KV10 drive letter on Unix": `C:\kv`, "KV4 root is a link": at("root-link"),
		"KV4 link below the root": at("below"), "KV4 link among the packs": at("file-link"),
		"other files": at("home"), "a cache of another program": at("cache"), "packs of another program": at("git"), "a file": at("a-file"), "other format": at("other"), "dangling link above": at("dangling", "kv"),
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(name, "KV10") {
				return // there it is absolute
			}
			s, err := Open(dir, Options{})
			var e *Error
			if !errors.As(err, &e) || e.Hint == "" || e.Reason() != "storage_unavailable" {
				t.Fatalf("got %v, %v", s, err)
			}
		})
	}
	if data, err := os.ReadFile(at("git", packDir, "pack-1.idx")); err != nil || string(data) != "x" {
		t.Errorf("another program's file: %q, %v", data, err)
	}
	if names, _ := os.ReadDir(at("elsewhere")); len(names) != 0 {
		t.Errorf("something was written through a link: %v", names)
	}
	if _, err := os.Stat(`C:\kv`); err == nil {
		t.Error("a folder was made below the working directory")
	}
	// A link above the root is the system's business, and one store all the same.
	link(mkdir(at("disk")), at("mnt"))
	s = openAt(t, at("mnt", "deep", "kv"), Options{})
	if want, _ := filepath.EvalSymlinks(at("disk")); s.Root() != filepath.Join(want, "deep", "kv") {
		t.Errorf("the root is %s", s.Root())
	}
	if _, err := Open(at("disk", "deep", "kv"), Options{}); !errors.Is(err, ErrOwned) {
		t.Errorf("the same root by another name: %v", err)
	}
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	must(t, os.Mkdir(dir, 0o755))
	s := openAt(t, dir, Options{})
	_, err := write(s, 1)
	must(t, err)
	key, data := block(1)
	must(t, s.PutManifest(key, data))
	must(t, s.SetNote(data))
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v", name, info.Mode().Perm(), want)
		}
		return err
	}))
	tag, err := os.ReadFile(filepath.Join(dir, tagFile))
	if err != nil || !bytes.HasPrefix(tag, []byte("Signature: 8a477f597d28d172789f06886806bc55")) {
		t.Errorf("CACHEDIR.TAG: %q, %v", tag, err)
	}
}

// TestKV47TwoProcesses: the lock holds between processes, and goes with one.
func TestKV47TwoProcesses(t *testing.T) {
	if dir := os.Getenv("SEGMENT_TEST_DIR"); dir != "" {
		_, err := Open(dir, Options{})
		var e *Error
		if errors.As(err, &e) {
			fmt.Println("refused:", e.Reason(), errors.Is(err, ErrOwned))
			return
		}
		fmt.Println("opened:", err)
		return
	}
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	child := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKV47TwoProcesses$")
		cmd.Env = append(os.Environ(), "SEGMENT_TEST_DIR="+dir)
		out, err := cmd.CombinedOutput()
		must(t, err)
		return string(out)
	}
	if got := child(); !strings.Contains(got, "refused: owned_elsewhere true") {
		t.Errorf("while we have it: %q", got)
	}
	must(t, s.Close())
	if got := child(); !strings.Contains(got, "opened: <nil>") {
		t.Errorf("once we let go: %q", got)
	}
}

// TestKV11HandOff: a store that is being closed is waited for.
func TestKV11HandOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s := openAt(t, dir, Options{})
	closed := make(chan error)
	opened := make(chan error)
	go func() {
		again, err := Open(dir, Options{})
		if err == nil {
			err = again.Close()
		}
		opened <- err
	}()
	go func() { closed <- s.Close() }()
	must(t, <-closed)
	if err := <-opened; err != nil && !errors.Is(err, ErrOwned) {
		t.Fatal(err) // it may have given up on a machine that stood still
	}
	again := openAt(t, dir, Options{})
	must(t, again.Close())
}
