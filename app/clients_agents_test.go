//go:build clients

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// agent is one real client and how to drive it.
type agent struct {
	name string
	// signed clients send a session id, so that they can be served from the
	// ledger; the others are always served from their own list.
	signed bool
	// path is what the client's base URL ends in.
	path string
	// say runs the client once with a prompt and returns what a person would see.
	say func(t *testing.T, in sandbox, baseURL, prompt string, resume bool) string
}

// sandbox is a throw-away home; a client's two runs share one.
type sandbox struct{ home, work string }

func newSandbox(t *testing.T) sandbox {
	s := sandbox{t.TempDir(), t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.work, "notes.txt"), []byte("slack water at noon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a program in the sandbox with nothing of our own environment.
func (s sandbox) run(t *testing.T, env []string, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, s.work
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "DO_NOT_TRACK=1", "NO_PROXY=127.0.0.1"}, env...)
	timer := time.AfterFunc(patience, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // Run below reports it
		}
	})
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(program), err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes()
}

// installed is a file of the client cache; it must be there.
func installed(t *testing.T, parts ...string) string {
	t.Helper()
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", ".cache")
	}
	file, err := filepath.Abs(filepath.Join(append([]string{cache}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: go run ./build test installs it", err)
	}
	return file
}

// npmArch is this machine's architecture in npm's words.
func npmArch() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

func node(t *testing.T) string {
	return installed(t, "clients", "node", "node_modules", "node-linux-"+npmArch(), "bin", "node")
}

func realAgents() []agent {
	return []agent{
		{name: "claude-code", signed: true, say: sayClaude},
		{name: "pi-chat", path: "/v1", say: sayPi("openai-completions")},
		{name: "pi-anthropic", say: sayPi("anthropic-messages")},
		{name: "node-openai", path: "/v1", say: sayNode("openai.mjs")},
		{name: "node-openai-affinity", signed: true, path: "/v1", say: sayNode("openai.mjs", "x-session-affinity", "ses_clients")},
		{name: "node-anthropic", say: sayNode("anthropic.mjs")},
		{name: "go-openai", path: "/v1", say: sayGo("openai")},
		{name: "go-anthropic", say: sayGo("anthropic")},
	}
}

func sayClaude(t *testing.T, in sandbox, baseURL, prompt string, resume bool) string {
	args := []string{"-p", prompt, "--allowedTools", "Bash", "Read", "--output-format", "json"}
	idFile := filepath.Join(in.home, "session-id")
	if resume {
		id, err := os.ReadFile(idFile)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--resume", string(id))
	}
	out := in.run(t, []string{
		"ANTHROPIC_BASE_URL=" + baseURL, "ANTHROPIC_API_KEY=sk-ant-dummy-000000000000",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
	}, installed(t, "clients", "claude-code", "node_modules", "@anthropic-ai", "claude-code-linux-"+npmArch(), "claude"), args...)
	var said struct {
		Result  string `json:"result"`
		Turns   int    `json:"num_turns"`
		IsError bool   `json:"is_error"`
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(idFile, []byte(said.Session), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s (%d turns, error %v)", said.Result, said.Turns, said.IsError)
}

func sayPi(api string) func(*testing.T, sandbox, string, string, bool) string {
	return func(t *testing.T, in sandbox, baseURL, prompt string, resume bool) string {
		settings := map[string]any{"providers": map[string]any{"p": map[string]any{
			"baseUrl": baseURL, "api": api, "apiKey": "dummy",
			"models": []any{map[string]any{"id": "stub-model", "contextWindow": 200000, "maxTokens": 8000}},
		}}}
		data, err := json.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(in.home, ".pi", "agent")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "models.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{installed(t, "clients", "pi", "node_modules", "@earendil-works", "pi-coding-agent", "dist", "bundle", "cli.js"),
			"-p", "--provider", "p", "--model", "stub-model"}
		if resume {
			args = append(args, "-c")
		}
		out := in.run(t, []string{"PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0"}, node(t), append(args, prompt)...)
		return string(out)
	}
}

func sayNode(script string, header ...string) func(*testing.T, sandbox, string, string, bool) string {
	return func(t *testing.T, in sandbox, baseURL, prompt string, _ bool) string {
		args := []string{installed(t, "clients", "sdk", script), baseURL, filepath.Join(in.home, "history.json"), prompt}
		return string(in.run(t, nil, node(t), append(args, header...)...))
	}
}

func sayGo(sdk string) func(*testing.T, sandbox, string, string, bool) string {
	return func(t *testing.T, in sandbox, baseURL, prompt string, _ bool) string {
		return string(in.run(t, nil, installed(t, "bin", "gosdk"), sdk, baseURL, filepath.Join(in.home, "history.json"), prompt))
	}
}

// saidToAgents are the two runs of a scenario: two tool rounds, then a resume with
// one more, whose replies are compressed and reason aloud on chat too.
func saidToAgents() [2]string {
	return [2]string{
		`Look around, please. STUB{"rounds":[[{"k":"bash","cmd":"cat notes.txt"}],[{"k":"bash","cmd":"wc -l notes.txt"}]],"final":"First part done."}`,
		`And again. STUB{"rounds":[[{"k":"bash","cmd":"ls"}]],"final":"Second part done.","encoding":"gzip","reasoning":true}`,
	}
}

// scenario runs a client through both prompts and returns what it showed.
func (a agent) scenario(t *testing.T, baseURL string) string {
	t.Helper()
	in := newSandbox(t)
	var seen []string
	for i, prompt := range saidToAgents() {
		shown := a.say(t, in, baseURL+a.path, prompt, i > 0)
		seen = append(seen, strings.TrimSpace(shown))
	}
	return strings.Join(seen, "\n")
}
