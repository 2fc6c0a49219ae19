//go:build clients && engine

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/core/usage"
)

// localRoute is a home whose default route is an engine of its own, with the
// tier on.
func localRoute(t *testing.T, model string, slots, context int) string {
	return fmt.Sprintf(`[routes.local]
url = "http://127.0.0.1:1"
engine = "llamacpp"
default_for = ["anthropic", "openai"]
[engine.local]
model = %q
command = %q
slots = %d
context = %d
[kv.disk]
mode = "fixed"
budget = "1GiB"
reserve = "1GiB"
`, installed(t, "engine", "models", model+".gguf"), installed(t, "engine", "bin", "llama-server"), slots, context)
}

// receipts are the receipts of a session's finished turns, oldest first.
func (h *holdfast) receipts(t *testing.T, n int) (all []usage.Receipt) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all = nil
		for _, s := range h.sessions(t) {
			var list []struct {
				Receipt *usage.Receipt `json:"receipt"`
			}
			decodeList(t, h.get(t, "/hf/v1/sessions/"+s+"/turns"), &list)
			for i := range list {
				if r := list[len(list)-1-i].Receipt; r != nil {
					all = append(all, *r)
				}
			}
		}
		if len(all) >= n {
			return all
		}
	}
	t.Fatalf("%d receipts %+v, want %d\n%s", len(all), all, n, h.log.Bytes())
	return nil
}

// engines are the processes whose parent is the program.
func (h *holdfast) engines(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		var pid, parent int
		var name, state string
		fmt.Sscanf(string(data), "%d (%s %s %d", &pid, &name, &state, &parent) // a name with a space is not ours
		if parent == h.pid && strings.HasPrefix(name, "llama-server") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestEngineClaudeCode runs Claude Code on a local engine: two turns, the whole
// house restarted, and the third turn's prompt comes from disk. A house that is
// killed takes its engine along.
func TestEngineClaudeCode(t *testing.T) {
	program := buildProgram(t)
	h := startHoldfast(t, program, "shadow", localRoute(t, "agent", 1, 65_536))
	in := newSandbox(t)
	for i, prompt := range []string{"What is in the harbour?", "And in the tower?"} {
		sayCapped(t, in, "http://"+h.addr, prompt, i > 0)
	}
	h.receipts(t, 2)
	h.stop(t)
	h.start(t)
	before := h.receipts(t, 2) // a client may have asked more than twice; by now all of it is written
	sayCapped(t, in, "http://"+h.addr, "And in the letter?", true)
	all := h.receipts(t, len(before)+1)
	t.Logf("%+v", all)
	if r := all[len(before)]; r.Source != usage.FromDisk || r.Restored < 1000 {
		t.Errorf("the third turn was not restored: %+v\n%s", r, h.log.Bytes())
	}
	var status struct {
		KV struct {
			State     string `json:"state"`
			UsedBytes int64  `json:"used_bytes"`
		} `json:"kv"`
	}
	if err := json.Unmarshal(h.get(t, "/hf/v1/status"), &status); err != nil || status.KV.State != "active" || status.KV.UsedBytes == 0 {
		t.Errorf("status %+v, %v", status, err)
	}
	engines := h.engines(t)
	if len(engines) != 1 {
		t.Fatalf("engines %v", engines)
	}
	if err := syscall.Kill(h.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.pid = 0
	<-h.ended
	for end := time.Now().Add(patience); syscall.Kill(engines[0], 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the engine outlives the program that was killed")
		}
	}
}

// sayCapped runs Claude Code once with its output capped. A model of random
// weights never comes to an end by itself, so that the client reports the cap as
// an error, and leaves with 1; what it sent and keeps is what counts here.
func sayCapped(t *testing.T, in sandbox, base, prompt string, resume bool) {
	t.Helper()
	args := []string{"-p", prompt, "--output-format", "json"}
	if resume {
		args = append(args, "--continue")
	}
	cmd := exec.CommandContext(t.Context(), installed(t, "clients", "claude-code", "node_modules", "@anthropic-ai", "claude-code-linux-"+npmArch(), "claude"), args...)
	cmd.Dir = in.work
	cmd.Env = []string{"HOME=" + in.home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "DO_NOT_TRACK=1", "NO_PROXY=127.0.0.1",
		"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=sk-ant-dummy-000000000000", "CLAUDE_CODE_MAX_OUTPUT_TOKENS=64",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1"}
	out, err := cmd.Output()
	var said struct {
		Error string `json:"api_error"`
		Turns int    `json:"num_turns"`
	}
	if json.Unmarshal(out, &said) != nil || err != nil && said.Error != "max_output_tokens" {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d calls, %d bytes said", said.Turns, len(out))
}
