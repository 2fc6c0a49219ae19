//go:build desktop && linux && !headless

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/web/api"
)

// engineFile is a part of the local engine that `go run ./build test` installs.
func engineFile(t *testing.T, parts ...string) string {
	t.Helper()
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", ".cache")
	}
	file, err := filepath.Abs(filepath.Join(append([]string{cache, "engine"}, parts...)...))
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Fatalf("%v: go run ./build test installs it", err)
	}
	return file
}

// localEngine is a route to a real engine of our own. The cache is off, as it
// is unless somebody turns it on.
func localEngine(t *testing.T) string {
	return fmt.Sprintf(`[routes.local]
url = "http://127.0.0.1:1"
engine = "llamacpp"
default_for = ["openai"]
[engine.local]
model = %q
command = %q
slots = 1
context = 4096
[kv.disk]
reserve = "1GiB"
`, engineFile(t, "models", "agent.gguf"), engineFile(t, "bin", "llama-server"))
}

// ask sends a prompt of some hundred tokens to the local engine; no two begin
// alike.
func (p *program) ask(about string) {
	p.t.Helper()
	text := strings.Repeat("the tide at "+about+" comes in twice a day. ", 60)
	r, _ := readRuntime(p.paths())
	body := fmt.Sprintf(`{"model":"m","max_tokens":4,"temperature":0,"messages":[{"role":"user","content":%q}]}`, text)
	req, err := http.NewRequestWithContext(p.t.Context(), "POST", "http://"+r.Addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Affinity", about)
	res, err := loopbackClient().Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		p.t.Fatal(res.Status, p.said())
	}
}

// stored are the files of what was said, below the cache's folder.
func (p *program) stored() (files []string) {
	p.t.Helper()
	err := filepath.WalkDir(filepath.Join(p.home, "kv"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && (strings.Contains(path, "/packs/") || strings.Contains(path, "/manifests/")) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return files
}

// tierView is what the test reads of the tier's status.
type tierView struct {
	Effective struct {
		State          string
		PendingRestart []string `json:"pending_restart"`
	}
	Usage struct{ Manifests int }
}

func (p *program) tier() (s tierView) {
	p.t.Helper()
	p.get("/hf/v1/kv", &s)
	return s
}

// again quits by the tray and starts anew.
func (h *host) again(p *program) {
	h.t.Helper()
	h.click("Quit")
	p.ends()
	p.start()
	h.await()
}

// TestDesktopCache turns the disk cache on and off in the tray. A change waits
// for a restart, and the menu says so; after it, what the next request to a
// local engine computed is on disk, or is not.
func TestDesktopCache(t *testing.T) {
	bus := startBus(t)
	h := newHost(t, bus)
	p := newProgram(t, bus, startX(t), localEngine(t))
	p.start()
	h.await()

	h.click("Auto")
	until(t, "the menu says that a restart is due", func() (bool, any) {
		text := menuText(h.menu())
		return strings.Contains(text, "Disk KV cache: auto after a restart\n"), text
	})
	if s := p.tier(); !slices.Contains(s.Effective.PendingRestart, "kv.disk.mode") || s.Effective.State != "off" {
		t.Errorf("the API tells of %+v", s.Effective)
	}
	p.ask("the mole")
	h.again(p)
	if files := p.stored(); len(files) > 0 {
		t.Errorf("off, and yet there is %q", files)
	}

	until(t, "the cache serves", func() (bool, any) { s := p.tier(); return s.Effective.State == "active", s.Effective })
	h.same(p)
	// What is asked while the engine is still being tried out is not kept, and
	// what is kept is written a moment later: so somebody goes on asking.
	var asked time.Time
	until(t, "a prompt is on disk", func() (bool, any) {
		if time.Since(asked) > 2*time.Second {
			p.ask("the quay at " + time.Now().String())
			asked = time.Now()
		}
		s := p.tier()
		return s.Usage.Manifests > 0 && len(p.stored()) > 0, fmt.Sprintf("%+v\n%q", s, p.stored())
	})
	h.click("Off")
	until(t, "the menu says that a restart is due", func() (bool, any) {
		text := menuText(h.menu())
		return strings.Contains(text, "Disk KV cache: off after a restart\n"), text
	})
	h.again(p)
	before := p.stored()
	p.ask("the weir")
	var s api.Status
	if p.get("/hf/v1/status", &s); s.KV.State != "off" {
		t.Errorf("the cache is %+v", s.KV)
	}
	h.click("Quit") // saves what there is to save
	p.ends()
	if after := p.stored(); !slices.Equal(before, after) || len(after) == 0 {
		t.Errorf("off, and the files changed from %q to %q", before, after)
	}
}
