//go:build clients || bench || engine

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds one run of a client; a whole one takes seconds.
const patience = 3 * time.Minute

// buildProgram compiles the program as it is shipped for servers.
func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "headless", "-o", file, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// holdfast is a running program with a home of its own.
type holdfast struct {
	program, home   string
	addr, inspector string
	token           string
	pid             int
	ended           chan error
	log             bytes.Buffer
}

// startHoldfast starts the program in a rollout mode, with more settings in
// TOML, and stops it, with the
// exit code checked, when the test ends.
func startHoldfast(t *testing.T, program, mode string, settings ...string) *holdfast {
	t.Helper()
	h := &holdfast{program: program, home: t.TempDir()}
	config := fmt.Sprintf("[rollout]\nmode = %q\n", mode) + strings.Join(settings, "")
	if err := os.WriteFile(filepath.Join(h.home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.stop(t) })
	h.start(t)
	return h
}

// start runs the program on its home.
func (h *holdfast) start(t *testing.T) {
	t.Helper()
	cmd := h.command("serve", "--addr", "127.0.0.1:0", "--inspector-addr", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &h.log, &h.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.pid, h.ended = cmd.Process.Pid, make(chan error, 1)
	go func() { h.ended <- cmd.Wait() }()
	h.await(t)
}

// stop ends the program as a person would and checks how it left. A second
// call does nothing.
func (h *holdfast) stop(t *testing.T) {
	t.Helper()
	if h.pid == 0 {
		return
	}
	if err := syscall.Kill(h.pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	h.pid = 0
	if err := <-h.ended; err != nil {
		t.Errorf("serve: %v\n%s", err, h.log.Bytes())
	}
}

func (h *holdfast) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.program, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_HOME="+h.home)
	return cmd
}

// await waits for runtime.json, which says that both listeners are open.
func (h *holdfast) await(t *testing.T) {
	t.Helper()
	for {
		data, err := os.ReadFile(filepath.Join(h.home, "runtime.json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		var at struct{ Addr, Inspector string }
		if err == nil && json.Unmarshal(data, &at) == nil && at.Addr != "" {
			h.addr, h.inspector = at.Addr, at.Inspector
			break
		}
		select {
		case err := <-h.ended:
			h.pid = 0
			t.Fatalf("serve ended: %v\n%s", err, h.log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}
	token, err := os.ReadFile(filepath.Join(h.home, "token"))
	if err != nil {
		t.Fatal(err)
	}
	h.token = strings.TrimSpace(string(token))
}

// get reads one path of the inspector.
func (h *holdfast) get(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.inspector+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", path, resp.Status, err, data)
	}
	return data
}

// recorded is what the program says of one turn.
type recorded struct {
	ID     json.Number `json:"id"`
	Path   string      `json:"path"`
	Gate   string      `json:"gate"`
	Status int         `json:"status"`
	Bytes  struct{ In, Out int }
	Usage  struct{ Source string }
}

// sessions lists the sessions by the command a person would use.
func (h *holdfast) sessions(t *testing.T) (ids []string) {
	t.Helper()
	out, err := h.command("sessions", "list", "--json").Output()
	if err != nil {
		t.Fatalf("sessions list: %v\n%s", err, out)
	}
	var list []struct{ ID string }
	decodeList(t, out, &list)
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// turns waits until the program has recorded n finished turns of a session:
// the end of a turn is written after its reply has left.
func (h *holdfast) turns(t *testing.T, session string, n int) (list []recorded) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list = nil
		decodeList(t, h.get(t, "/hf/v1/sessions/"+session+"/turns"), &list)
		done := 0
		for _, turn := range list {
			if turn.Usage.Source == "exact" {
				done++
			}
		}
		if done >= n {
			return list
		}
	}
	t.Fatalf("session %s has %d turns, want %d finished ones: %+v", session, len(list), n, list)
	return nil
}

// decodeList decodes a list, bare or as the one list of a page object.
func decodeList(t *testing.T, data []byte, into any) {
	t.Helper()
	if json.Unmarshal(data, into) == nil {
		return
	}
	var page map[string]json.RawMessage
	if err := json.Unmarshal(data, &page); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, member := range page {
		if json.Unmarshal(member, into) == nil {
			return
		}
	}
	t.Fatalf("no list in %s", data)
}
