//go:build clients && record

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/core/demo"
)

// goldens is where the recordings live; the test that replays them stands
// beside it.
const goldens = "../core/chain/testdata/recorded"

// TestRecord drives real clients against the scripted model and writes what
// they sent to goldens, without any third party's text. The comment of a golden
// that exists, with its verdicts, is kept: after recording anew, the replay in
// core/chain says which of them no longer hold. The same client gives the same
// bytes again, but what it sends side by side (a title, a subagent) may come in
// another order.
//
//	go test -tags 'headless clients record' -run TestRecord ./app
//
// opencode is not among the clients the tests drive; its scene needs it by hand:
//
//	npm i --prefix .cache/clients/opencode --ignore-scripts opencode-ai@1.18.33
func TestRecord(t *testing.T) {
	model := demo.NewModel(demo.Options{})
	server := httptest.NewServer(model)
	defer server.Close()
	for _, sc := range scenes() {
		t.Run(sc.name, func(t *testing.T) {
			tp := newTap(t, server.Listener.Addr().String(), nil)
			s := &studio{t: t, in: newSandbox(t), url: demo.BaseURL(tp.url, sc.name), own: newOwn(), permission: map[string]string{"*": "allow"}}
			sc.play(s)
			develop(t, filepath.Join(goldens, sc.name+".txtar"), sc.did, tp.seen(), s.own)
		})
	}
}

// scene is a scenario: what is done in which client.
type scene struct {
	name, did string
	play      func(*studio)
}

// Prompts and directives that several scenes share.
const (
	readNotes = `"rounds":[[{"k":"bash","cmd":"cat notes.txt"}]],"final":"First part done."`
	listFiles = `"rounds":[[{"k":"bash","cmd":"ls"}]],"final":"Second part done."`
	summary   = `"rounds":[[{"k":"bash","cmd":"ls"}]],"final":"<summary>The notes were read.</summary>"`
	// slowCut lets the first words arrive before the connection breaks.
	slowCut = `,"cut":true,"pauseMS":30`
)

// stub is a prompt with a directive for the scripted model.
func stub(prompt, directive string) string { return prompt + " STUB{" + directive + "}" }

func scenes() []scene {
	lookAround, andAgain := stub("Look around, please.", readNotes), stub("And again.", listFiles)
	return []scene{
		{"claude-normal", "Claude Code 2.1.332, `claude -p`: one prompt, two tool rounds.", func(s *studio) {
			s.claude(stub("Look around, please.", `"rounds":[[{"k":"bash","cmd":"cat notes.txt"}],[{"k":"bash","cmd":"wc -l notes.txt"}]],"final":"First part done."`))
		}},
		{"claude-turns", "Claude Code 2.1.332: four prompts in one process, each after the answer to the last.", func(s *studio) {
			s.converse("Good morning.", lookAround, "Thank you.", "And goodbye.")
		}},
		{"claude-resume", "Claude Code 2.1.332: a prompt, then `claude -p --resume` in a new process.", func(s *studio) {
			s.claude(lookAround)
			s.claude(andAgain, "--resume", s.last)
		}},
		{"claude-fork", "Claude Code 2.1.332: a prompt, then `--resume --fork-session`, then the first session goes on.", func(s *studio) {
			s.claude(lookAround)
			first := s.last
			s.claude(andAgain, "--resume", first, "--fork-session")
			s.claude("Back here.", "--resume", first)
		}},
		{"claude-switch", "Claude Code 2.1.332: a prompt on the default model, the session resumed on an older one, then back.", func(s *studio) {
			s.claude(lookAround)
			s.claude(andAgain, "--resume", s.last, "--model", "claude-haiku-4-5")
			s.claude("Back again.", "--resume", s.last, "--model", "claude-opus-5-5")
		}},
		{"claude-switch-notices", "Claude Code 2.1.332: as claude-switch, from a model that is told its budget after every result.", func(s *studio) {
			s.claude(lookAround, "--model", "claude-opus-4-8")
			s.claude(andAgain, "--resume", s.last, "--model", "claude-haiku-4-5")
		}},
		{"claude-cut", "Claude Code 2.1.332: the first reply breaks off after its first words; the client asks again.", func(s *studio) {
			s.claude(stub("Look around, please.", readNotes+slowCut))
		}},
		{"claude-cut-silent", "Claude Code 2.1.332: the first reply breaks off before its first words; the client asks again.", func(s *studio) {
			s.claude(stub("Look around, please.", readNotes+`,"cut":true`))
		}},
		{"claude-cut-later", "Claude Code 2.1.332: as claude-cut, in the second prompt of a session.", func(s *studio) {
			s.claude(lookAround)
			s.claude(stub("And again.", listFiles+slowCut), "--resume", s.last)
		}},
		{"claude-subagent", "Claude Code 2.1.332: a prompt that starts a subagent.", func(s *studio) {
			s.claude(stub("Send somebody, please.", `"rounds":[[{"k":"task","prompt":"Count the lines of notes.txt.","agent":"general-purpose"}]],"final":"First part done."`))
		}},
		{"claude-title", "Claude Code 2.1.332, the terminal interface: one prompt; a title is asked for beside the first turn.", func(s *studio) {
			s.terminal(lookAround)
		}},
		{"claude-compact", "Claude Code 2.1.332: two prompts, `claude -p /compact --resume`, then two prompts in the compacted session.", func(s *studio) {
			s.claude(lookAround)
			s.claude(stub("And again.", summary), "--resume", s.last)
			s.claude("/compact", "--resume", s.last)
			s.claude("Go on.", "--resume", s.last)
			s.claude("And on.", "--resume", s.last)
		}},
		{"claude-compact-again", "Claude Code 2.1.332: `/compact` answered without a summary, so that it asks again.", func(s *studio) {
			s.claude(lookAround)
			s.claude("/compact", "--resume", s.last)
			s.claude("Go on.", "--resume", s.last)
		}},
		{"claude-compact-inside", "Claude Code 2.1.332: `/compact` between two prompts of one process.", func(s *studio) {
			s.converse(lookAround, stub("And again.", summary), "/compact", "Go on.", "And on.")
		}},
		{"claude-compact-talk", "Claude Code 2.1.332: as claude-compact, the last answer before it without a tool round.", func(s *studio) {
			s.claude(lookAround)
			s.claude(stub("And again.", `"final":"<summary>The notes were read.</summary>"`), "--resume", s.last)
			s.claude("/compact", "--resume", s.last)
			s.claude("Go on.", "--resume", s.last)
			s.claude("And on.", "--resume", s.last)
		}},
		{"claude-compact-twice", "Claude Code 2.1.332: a prompt and `claude -p /compact --resume`, twice over, then a prompt.", func(s *studio) {
			s.claude(stub("Look around, please.", summary))
			s.claude("/compact", "--resume", s.last)
			s.claude(stub("And again.", `"rounds":[[{"k":"bash","cmd":"cat notes.txt"}]],"final":"<summary>They were read again.</summary>"`), "--resume", s.last)
			s.claude("/compact", "--resume", s.last)
			s.claude("Go on.", "--resume", s.last)
		}},
		{"pi-anthropic", "pi 1.6.0 on Anthropic Messages: a prompt, then `pi -c` in a new process.", func(s *studio) {
			s.pi("anthropic-messages", "", lookAround)
			s.pi("anthropic-messages", "", andAgain, "-c")
		}},
		{"pi-chat", "pi 1.6.0 on Chat Completions: a prompt, then `pi -c` in a new process.", func(s *studio) {
			s.pi("openai-completions", "/v1", lookAround)
			s.pi("openai-completions", "/v1", andAgain, "-c")
		}},
		{"pi-chat-rules", "pi 1.6.0 on Chat Completions: a prompt, then, with an AGENTS.md in the folder, `pi -c`.", func(s *studio) {
			s.pi("openai-completions", "/v1", lookAround)
			s.write("AGENTS.md")
			s.pi("openai-completions", "/v1", andAgain, "-c")
		}},
		{"opencode-title", "opencode 1.18.33 on Chat Completions: a prompt, for which it asks for a title, then `opencode run -c`.", func(s *studio) {
			s.opencode(lookAround)
			s.opencode(andAgain, "-c")
		}},
		{"opencode-settings", "opencode 1.18.33 on Chat Completions: a prompt; one with an AGENTS.md in the folder; one with a tool switched off.", func(s *studio) {
			s.opencode(lookAround)
			s.write("AGENTS.md")
			s.opencode("Thank you.", "-c")
			s.permission["grep"] = "deny"
			s.opencode("And goodbye.", "-c")
		}},
	}
}

// studio is one scenario being recorded: a client in a sandbox of its own, in
// front of a tap that keeps what it sends.
type studio struct {
	t   *testing.T
	in  sandbox
	url string
	own own
	// last is the session Claude Code named in its last run.
	last string
	// permission is opencode's; a tool denied is not offered.
	permission map[string]string
}

// write puts a text of ours where the client finds it.
func (s *studio) write(file string) {
	if err := os.WriteFile(filepath.Join(s.in.work, file), []byte("Answer briefly.\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// command prepares a client with nothing of our own environment.
func (s *studio) command(env []string, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.in.work
	cmd.Env = append([]string{"HOME=" + s.in.home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "DO_NOT_TRACK=1", "NO_PROXY=127.0.0.1"}, env...)
	return cmd
}

// output runs a client; to fail is part of some scenarios.
func (s *studio) output(cmd *exec.Cmd) []byte {
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Logf("%s: %v\n%s", filepath.Base(cmd.Path), err, out)
	}
	return out
}

// quiet keeps Claude Code to its conversation.
const quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"

func (s *studio) claudeCommand(env []string, args ...string) *exec.Cmd {
	env = append(env, "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_API_KEY="+claudeKey, "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")
	return s.command(env, claudeProgram(s.t), append(args, "--allowedTools", "Bash", "Read")...)
}

const claudeKey = "sk-ant-dummy-000000000000"

func claudeProgram(t *testing.T) string {
	return installed(t, "clients", "claude-code", "node_modules", "@anthropic-ai", "claude-code-linux-"+npmArch(), "claude")
}

// claude runs one prompt and notes the session's id.
func (s *studio) claude(prompt string, args ...string) {
	s.t.Helper()
	s.own.prompt(prompt)
	out := s.output(s.claudeCommand([]string{quiet}, append([]string{"-p", prompt, "--output-format", "json"}, args...)...))
	var said struct {
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		s.t.Logf("%v: %s", err, out)
	}
	s.last = said.Session
}

// converse says several prompts in one process, each after the answer to the
// last: prompts that wait are merged.
func (s *studio) converse(prompts ...string) {
	s.t.Helper()
	cmd := s.claudeCommand([]string{quiet}, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for _, p := range prompts {
		s.own.prompt(p)
		text := []any{map[string]any{"type": "text", "text": p}}
		if err := json.NewEncoder(in).Encode(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}}); err != nil {
			s.t.Fatal(err)
		}
		s.answered(lines)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		s.t.Error(err)
	}
}

// answered reads up to the result of a prompt.
func (s *studio) answered(lines *bufio.Reader) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		if bytes.Contains(line, []byte(`"type":"result"`)) {
			return
		}
	}
}

// terminal types a prompt into the interface a person uses, under script(1),
// which gives it a terminal, and leaves when the work is done.
func (s *studio) terminal(prompt string) {
	s.t.Helper()
	s.own.prompt(prompt)
	settings, err := json.Marshal(map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark",
		"projects":              map[string]any{s.in.work: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		"customApiKeyResponses": map[string]any{"approved": []string{claudeKey[len(claudeKey)-20:]}, "rejected": []string{}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.in.home, ".claude.json"), settings, 0o600); err != nil {
		s.t.Fatal(err)
	}
	inner := s.claudeCommand(nil)
	cmd := s.command(inner.Env, "script", "-qec", "stty cols 120 rows 40; exec "+strings.Join(inner.Args, " "), "/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for _, key := range []string{"", prompt, "\r", "", "", "\x03", "\x03"} {
		time.Sleep(3 * time.Second) // nothing on the screen says that a key will be read
		_, _ = io.WriteString(in, key)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
}

func (s *studio) pi(api, path, prompt string, args ...string) {
	s.t.Helper()
	s.own.prompt(prompt)
	sayPi(api)(s.t, s.in, s.url+path, prompt, len(args) > 0)
}

func (s *studio) opencode(prompt string, args ...string) {
	s.t.Helper()
	s.own.prompt(prompt)
	config, err := json.Marshal(map[string]any{
		"model": "stub/stub-model", "small_model": "stub/stub-model", "permission": s.permission,
		"provider": map[string]any{"stub": map[string]any{"npm": "@ai-sdk/openai-compatible",
			"options": map[string]any{"baseURL": s.url + "/v1", "apiKey": "dummy"},
			"models":  map[string]any{"stub-model": map[string]any{"limit": map[string]any{"context": 200000, "output": 8000}}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	env := []string{"OPENCODE_CONFIG_CONTENT=" + string(config), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}
	program := installed(s.t, "clients", "opencode", "node_modules", "opencode-linux-"+npmArch(), "bin", "opencode")
	cmd := s.command(env, program, append([]string{"run", "-m", "stub/stub-model", "--format", "json"}, args...)...)
	cmd.Stdin = strings.NewReader(prompt)
	s.output(cmd)
}
