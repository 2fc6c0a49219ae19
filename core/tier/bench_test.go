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

// The bars of 256 MiB: each is a share of the plain thing on the same disk, done
// in turns with ours in one run.
const (
	benchTokens = 8192
	benchPairs  = 7
)

// contest does plain and ours in turns, each of them first every other time, and
// reports both speeds and the median share of the pairs: a machine that slows
// down for a while slows both halves of a pair.
func contest(b *testing.B, size int64, plain, ours func() time.Duration) {
	var shares []float64
	var took [2]time.Duration
	for b.Loop() {
		for range benchPairs {
			var one [2]time.Duration
			if len(shares)%2 == 0 {
				one[0] = plain()
				one[1] = ours()
			} else {
				one[1] = ours()
				one[0] = plain()
			}
			shares = append(shares, 100*one[0].Seconds()/one[1].Seconds())
			took[0], took[1] = took[0]+one[0], took[1]+one[1]
		}
	}
	slices.Sort(shares)
	speed := func(d time.Duration) float64 { return float64(size) * float64(len(shares)) / d.Seconds() / 1e6 }
	b.ReportMetric(speed(took[0]), "plain-MB/s")
	b.ReportMetric(speed(took[1]), "ours-MB/s")
	b.ReportMetric(shares[len(shares)/2], "%of-plain")
	b.ReportMetric(shares[0], "%lowest")
	b.ReportMetric(shares[len(shares)-1], "%highest")
}

// timed is how long f takes.
func timed(b *testing.B, f func() error) time.Duration {
	began := time.Now()
	err := f()
	took := time.Since(began)
	must(b, err)
	return took
}

// BenchmarkSpill splits, names, writes and syncs a whole state of 256 MiB,
// against writing and syncing the same bytes from memory. The bar is 60 %.
func BenchmarkSpill(b *testing.B) {
	dir := shm(b)
	e := &benchEngine{dir: dir, file: filepath.Join(dir, "slot"), tokens: benchTokens}
	size, err := slotFile(e.file, 1, benchLayout(), talk(1, benchTokens))
	must(b, err)
	data, err := os.ReadFile(e.file)
	must(b, err)
	disk := b.TempDir()
	contest(b, size, func() time.Duration {
		name := filepath.Join(disk, "plain")
		defer os.Remove(name)
		return timed(b, func() error { return writeFile(name, data) })
	}, func() time.Duration {
		l := newLab(b, setup{limits: Limits{Budget: 1 << 40, MinTokens: 64}, fs: durable.OS{}})
		defer os.RemoveAll(l.dir)
		defer l.Close(context.Background())
		return timed(b, func() error { return benchSpill(l, e) })
	})
}

// benchSpill spills the engine's one state and waits for it.
func benchSpill(l *lab, e *benchEngine) error {
	done := make(chan error, 1)
	err := l.Spill(Request{Model: model(1), State: state(1), Slots: e, Tokens: talk(1, e.tokens), Done: func(_ Spilled, err error) { done <- err }})
	if err != nil {
		return err
	}
	return <-done
}

// BenchmarkFill is a state of 256 MiB that no page cache holds, against reading
// its pack from end to end. Assembling reads and verifies every block and puts
// its rows where they belong, in memory: the bar is 60 %. The hand-over is what a
// request waits for, Fill itself with the file the engine gets: the bar is 45 %.
func BenchmarkFill(b *testing.B) {
	dir := shm(b)
	e := &benchEngine{dir: dir, file: filepath.Join(dir, "slot"), tokens: benchTokens}
	size, err := slotFile(e.file, 1, benchLayout(), talk(1, benchTokens))
	must(b, err)
	l := newLab(b, setup{limits: Limits{Budget: 1 << 40, MinTokens: 64}, fs: durable.OS{}})
	must(b, benchSpill(l, e))
	pack := files(b, l.dir, "packs")[0]
	plain := func() time.Duration {
		must(b, dropCache(pack))
		return timed(b, func() error { return readFile(pack) })
	}
	b.Run("assemble", func(b *testing.B) {
		file := make(memory, size)
		contest(b, size, plain, func() time.Duration {
			must(b, dropCache(pack))
			return timed(b, func() error { return l.assembleIn(file) })
		})
	})
	b.Run("hand-over", func(b *testing.B) {
		contest(b, size, plain, func() time.Duration {
			must(b, dropCache(pack))
			return benchFill(b, l, filepath.Join(dir, "fill"))
		})
	})
}

// benchFill is a fill into a new file, which it removes.
func benchFill(b *testing.B, l *lab, name string) time.Duration {
	h := l.lookup(append(talk(1, benchTokens), 1))
	var f *Filled
	took := timed(b, func() (err error) {
		f, err = l.Fill(context.Background(), h, name, slotfile.Target{Streams: 1})
		return err
	})
	must(b, errors.Join(os.Remove(name), l.Settle(f, Restored, benchTokens, time.Millisecond)))
	return took
}

// memory is a file of a fixed size.
type memory []byte

func (m memory) WriteAt(p []byte, at int64) (int, error) { return copy(m[at:], p), nil }

// assembleIn is a fill without the file.
func (l *lab) assembleIn(w io.WriterAt) error {
	h := l.lookup(append(talk(1, benchTokens), 1))
	defer h.Release()
	man, err := l.load(h.Manifest)
	if err != nil {
		return err
	}
	plan, err := kv.PlanFill(h.Manifest, man, h.Tokens, l.where, kv.Rates{})
	if err != nil {
		return err
	}
	_, err = l.into(context.Background(), man, plan, w, slotfile.Target{Streams: 1})
	return err
}

func writeFile(name string, data []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for b := range slices.Chunk(data, 4<<20) {
		if _, err = f.Write(b); err != nil {
			break
		}
	}
	return errors.Join(err, f.Sync(), f.Close())
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
