package tier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/storage/durable"
	"holdfast/storage/segment"
)

// benchLayout is a model of 16 layers with 32 KiB a token: a block is 2 MiB.
func benchLayout() kv.Layout {
	l := kv.Layout{Version: slotfile.Version, Memory: kv.Dense, Layers: 16}
	for range 32 {
		l.Runs = append(l.Runs, kv.Run{Type: 1, Row: 1024})
	}
	return l
}

// benchEngine hands out copies of one file, on the machine's fastest folder.
type benchEngine struct {
	file, dir string
	tokens    int
	n         int
}

func (e *benchEngine) Save(context.Context, int) (string, int, int64, error) {
	e.n++
	path := filepath.Join(e.dir, fmt.Sprint("bench-", e.n))
	info, err := os.Stat(e.file)
	if err == nil {
		err = os.Link(e.file, path)
	}
	if err != nil {
		return "", 0, 0, err
	}
	return path, e.tokens, info.Size(), nil
}

// shm is where a hand-over file lies: memory where there is a folder of it.
func shm(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-bench")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// BenchmarkSpill is a whole state of 256 MiB, against writing and syncing the
// same bytes to the same disk. The bar is 60 % of it.
func BenchmarkSpill(b *testing.B) {
	const tokens = 8192
	dir := shm(b)
	e := &benchEngine{dir: dir, file: filepath.Join(dir, "slot"), tokens: tokens}
	size, err := slotFile(e.file, 1, benchLayout(), talk(1, tokens))
	must(b, err)
	var plain, spill time.Duration
	for b.Loop() {
		began := time.Now()
		must(b, copyFile(filepath.Join(b.TempDir(), "plain"), e.file))
		plain += time.Since(began)
		l := newLab(b, setup{limits: Limits{Budget: 1 << 40, MinTokens: 64}, fs: durable.OS{}})
		began = time.Now()
		done := make(chan error, 1)
		must(b, l.Spill(Request{Model: model(1), State: state(1), Slots: e, Tokens: talk(1, tokens), Done: func(_ Spilled, err error) { done <- err }}))
		must(b, <-done)
		spill += time.Since(began)
		must(b, l.Close(context.Background()))
		must(b, os.RemoveAll(l.dir))
	}
	report(b, size, plain, spill)
}

// BenchmarkFill reads, verifies and assembles 256 MiB from a cold page cache,
// against a plain read of the pack. The bar is 60 % of it.
func BenchmarkFill(b *testing.B) {
	const tokens = 8192
	dir := shm(b)
	e := &benchEngine{dir: dir, file: filepath.Join(dir, "slot"), tokens: tokens}
	size, err := slotFile(e.file, 1, benchLayout(), talk(1, tokens))
	must(b, err)
	l := newLab(b, setup{limits: Limits{Budget: 1 << 40, MinTokens: 64}, fs: durable.OS{}})
	done := make(chan error, 1)
	must(b, l.Spill(Request{Model: model(1), State: state(1), Slots: e, Tokens: talk(1, tokens), Done: func(_ Spilled, err error) { done <- err }}))
	must(b, <-done)
	pack := files(b, l.dir, "packs")[0]
	var plain, fill time.Duration
	for b.Loop() {
		must(b, dropCache(pack))
		began := time.Now()
		must(b, readFile(pack))
		plain += time.Since(began)
		must(b, dropCache(pack))
		h := l.lookup(append(talk(1, tokens), 1))
		began = time.Now()
		f, err := l.Fill(context.Background(), h, filepath.Join(dir, "fill"), slotfile.Target{Streams: 1})
		must(b, err)
		fill += time.Since(began)
		must(b, errors.Join(os.Remove(filepath.Join(dir, "fill")), l.Settle(f, Restored, tokens, time.Millisecond)))
	}
	report(b, size, plain, fill)
}

func report(b *testing.B, size int64, plain, ours time.Duration) {
	mb := func(d time.Duration) float64 { return float64(size) * float64(b.N) / d.Seconds() / 1e6 }
	b.ReportMetric(mb(plain), "plain-MB/s")
	b.ReportMetric(mb(ours), "ours-MB/s")
	b.ReportMetric(100*plain.Seconds()/ours.Seconds(), "%of-plain")
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 1<<20))
	return errors.Join(err, out.Sync(), out.Close(), os.Remove(to))
}

func readFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 4<<20)
	for {
		if _, err := f.Read(buf); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// BenchmarkOpen is a start with 10 GiB stored: sparse packs of 16 MiB each, with
// the manifests of conversations of 16,384 tokens. The bar is 200 ms.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "kv")
	furnish(b, dir, 10<<30)
	for b.Loop() {
		s, err := segment.Open(dir, segment.Options{FS: quick{}})
		must(b, err)
		m, err := Open(context.Background(), Options{Limits: Limits{Budget: 1 << 40}, Store: func(context.Context) (Segments, Manifests, error) { return s, s, nil }})
		must(b, err)
		<-m.Ready()
		if n := m.Status().Usage; n.Manifests != 20 || n.UniqueSegments < 5000 {
			b.Fatalf("%+v", n)
		}
		must(b, m.Close(context.Background()))
	}
}

// sparse is a file system on which large writes leave holes.
type sparse struct{ quick }

func (s sparse) Create(name string, perm fs.FileMode) (durable.File, error) {
	f, err := s.OS.Create(name, perm)
	return sparseFile{f}, err
}

type sparseFile struct{ durable.File }

func (f sparseFile) Sync() error { return nil }

func (f sparseFile) Write(p []byte) (int, error) {
	if len(p) < 1<<20 {
		return f.File.Write(p)
	}
	_, err := f.File.(io.Seeker).Seek(int64(len(p)), io.SeekCurrent)
	return len(p), err
}

// furnish makes a store of so many bytes whose blocks are holes: no start may
// read them.
func furnish(b *testing.B, dir string, size kv.Bytes) {
	s, err := segment.Open(dir, segment.Options{FS: sparse{}})
	must(b, err)
	defer s.Close()
	l := benchLayout()
	const tokens = 16384
	block := l.BlockBytes(kv.BlockTokens)
	nothing := make([]byte, block)
	for c := range int(size / (block * tokens / kv.BlockTokens)) {
		m := &kv.Manifest{Model: model(1), State: state(1), Codec: kv.Raw(), Layout: l, Streams: 1, Tokens: talk(c, tokens), Serial: uint64(c)}
		for k := range tokens / kv.BlockTokens {
			m.Blocks = append(m.Blocks, kv.BlockOf(fmt.Appendf(nil, "%d %d", c, k)))
		}
		for blocks := range slices.Chunk(m.Blocks, 8) {
			_, _, err := s.WritePack(func(put func(content.ID, []byte) error) (err error) {
				for _, id := range blocks {
					err = errors.Join(err, put(content.ID(id), nothing))
				}
				return err
			})
			must(b, err)
		}
		data, id, err := m.Encode()
		must(b, err)
		must(b, s.PutManifest(content.ID(id), data))
	}
}
