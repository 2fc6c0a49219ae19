package ledger

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"holdfast/core/session/ledgertest"
)

var release = flag.Bool("release", false, "write testdata/v<N>.db.zst for the version being released")

// TestReleasedVersions opens a file of every released version.
func TestReleasedVersions(t *testing.T) {
	if *release {
		writeRelease(t)
	}
	files, err := filepath.Glob("testdata/v*.db.zst")
	must(t, err)
	if steps, _ := migrations(sqlFiles); len(files) != len(steps) {
		t.Fatalf("%d files for %d versions; make one with -release", len(files), len(steps))
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			must(t, os.WriteFile(path, inflate(t, file), 0o600))
			d := openAt(t, path, Options{})
			if rep := sound(t, d); rep.Sessions != 1 || rep.Turns != 3 {
				t.Errorf("it holds %+v", rep)
			}
			s := ledgertest.NewScript("s")
			for id := range int64(3) {
				s.Turn(id + 1)
			}
			st, err := d.Load(context.Background(), "l_s")
			must(t, err)
			if diff := ledgertest.Diff(st, s.State); diff != "" {
				t.Error(diff)
			}
			playOn(t, d, s, 1)
		})
	}
}

func inflate(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	dec, err := zstd.NewReader(nil)
	must(t, err)
	defer dec.Close()
	out, err := dec.DecodeAll(b, nil)
	must(t, err)
	return out
}

func writeRelease(t *testing.T) {
	d, _ := scripted(t, 3)
	must(t, d.Close())
	b, err := os.ReadFile(d.path)
	must(t, err)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	must(t, err)
	must(t, os.MkdirAll("testdata", 0o755))
	must(t, os.WriteFile("testdata/v1.db.zst", enc.EncodeAll(b, nil), 0o644))
}

// TestMigrate: an older file takes the steps it lacks, each with its number;
// one that fails leaves the version before it.
func TestMigrate(t *testing.T) {
	ctx := context.Background()
	fsys := fstest.MapFS{
		"sql/schema/50-snapshot.sql":    {Data: []byte("CREATE TABLE IF NOT EXISTS snap (a) ;")},
		"sql/migrations/01-first.sql":   {Data: []byte("-- nothing")},
		"sql/migrations/02-titles.sql":  {Data: []byte("ALTER TABLE session ADD COLUMN note TEXT;")},
		"sql/migrations/03-figures.sql": {Data: []byte("CREATE TABLE figures (a INTEGER) STRICT; INSERT INTO figures VALUES (1);")},
	}
	d, _ := scripted(t, 1)
	must(t, migrate(ctx, d.w, fsys))
	if v, err := d.w.number(ctx, "PRAGMA user_version"); err != nil || v != 3 {
		t.Fatalf("version %d, %v", v, err)
	}
	must(t, migrate(ctx, d.w, fsys)) // nothing left to do
	if n, err := d.w.number(ctx, "SELECT count(*) FROM figures"); err != nil || n != 1 {
		t.Fatalf("migration 3 ran %d times, %v", n, err)
	}
	fsys["sql/migrations/04-bad.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE half (a INTEGER) STRICT; nonsense;")}
	if err := migrate(ctx, d.w, fsys); err == nil {
		t.Fatal("a broken migration went through")
	}
	if v, err := d.w.number(ctx, "PRAGMA user_version"); err != nil || v != 3 {
		t.Fatalf("version %d after a broken migration, %v", v, err)
	}
	if has, err := hasTable(ctx, d.w, "half"); err != nil || has {
		t.Fatalf("half a migration stayed: %v, %v", has, err)
	}
	fsys["sql/migrations/06-gap.sql"] = &fstest.MapFile{}
	if err := migrate(ctx, d.w, fsys); err == nil {
		t.Fatal("a gap in the numbers")
	}
}

// TestFileMode: what a conversation says is the owner's alone, also where the
// file was made wider, and under any path.
func TestFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes are not permissions there
	}
	path := filepath.Join(t.TempDir(), "50% ?#&=ü led ger.db")
	must(t, os.WriteFile(path, nil, 0o644))
	d := openAt(t, path, Options{})
	playOn(t, d, ledgertest.NewScript("s"), 1)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", suffix, info.Mode())
		}
	}
}

// TestReopen: everything is there again, and no turn id is given twice.
func TestReopen(t *testing.T) {
	ctx := context.Background()
	d, s := scripted(t, 5)
	must(t, d.Close())
	must(t, d.Close())
	if _, err := d.Load(ctx, "l_s"); err == nil {
		t.Error("a closed ledger loads")
	}
	if err := d.SetSetting(ctx, "a", nil); err == nil {
		t.Error("a closed ledger writes")
	}
	d = openAt(t, d.path, Options{})
	if id := d.NextTurn(); id != 6 {
		t.Errorf("next turn %d, want 6", id)
	}
	playOn(t, d, s, 1)
	must(t, d.Delete(ctx, "l_s"))
	must(t, d.Close())
	d = openAt(t, d.path, Options{})
	if id := d.NextTurn(); id <= 7 {
		t.Errorf("next turn %d after the newest were deleted", id)
	}
}

// TestWriteBack: once the WAL is written back the file alone is enough.
func TestWriteBack(t *testing.T) {
	d, s := scripted(t, 5)
	d.keeper.now()
	b, err := os.ReadFile(d.path)
	must(t, err)
	alone := filepath.Join(t.TempDir(), "alone.db")
	must(t, os.WriteFile(alone, b, 0o600))
	got := openAt(t, alone, Options{})
	st, err := got.Load(context.Background(), "l_s")
	must(t, err)
	if diff := ledgertest.Diff(st, s.State); diff != "" {
		t.Error(diff)
	}
}

// TestCloseWaits: reads and writes under way end as they should, later ones
// are told; nothing is left open.
func TestCloseWaits(t *testing.T) {
	ctx := context.Background()
	d, s := scripted(t, 3)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				st, err := d.Load(ctx, "l_s")
				if errors.Is(err, errClosed) {
					return
				}
				if err != nil || st.Red != "" {
					t.Errorf("%v %+v", err, st)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			if err := d.SetSetting(ctx, "a", []byte("b")); err != nil {
				if !errors.Is(err, errClosed) {
					t.Error(err)
				}
				return
			}
		}
	})
	playOn(t, d, ledgertest.NewScript("other"), 3)
	must(t, d.Close())
	wg.Wait()
	d = openAt(t, d.path, Options{})
	st, err := d.Load(ctx, "l_s")
	must(t, err)
	if diff := ledgertest.Diff(st, s.State); diff != "" {
		t.Error(diff)
	}
}
