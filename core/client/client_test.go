package client

import (
	"errors"
	"strings"
	"testing"
)

const base = "http://127.0.0.1:4153"

func none(string) string { return "" }

func TestSetupLines(t *testing.T) {
	for id, want := range map[string]string{
		"claude":        "export ANTHROPIC_BASE_URL=http://127.0.0.1:4153",
		"codex":         `codex -c 'openai_base_url="http://127.0.0.1:4153/v1"'`,
		"opencode":      `{"provider":{"anthropic":{"options":{"baseURL":"http://127.0.0.1:4153/v1"}},"openai":{"options":{"baseURL":"http://127.0.0.1:4153/v1"}},"google":{"options":{"baseURL":"http://127.0.0.1:4153/v1beta"}}}}`,
		"pi":            `{"providers":{"anthropic":{"baseUrl":"http://127.0.0.1:4153"},"openai":{"baseUrl":"http://127.0.0.1:4153/v1"},"google":{"baseUrl":"http://127.0.0.1:4153/v1beta"}}}`,
		"gemini":        "export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4153",
		"qwen":          "export OPENAI_BASE_URL=http://127.0.0.1:4153/v1",
		"copilot":       "export COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:4153/v1",
		"openai-sdk":    "export OPENAI_BASE_URL=http://127.0.0.1:4153/v1",
		"anthropic-sdk": "export ANTHROPIC_BASE_URL=http://127.0.0.1:4153",
	} {
		a, ok := Find(id)
		if !ok {
			t.Fatalf("no agent %s", id)
		}
		if got := a.Setup(base, POSIX).Line; got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
	for _, a := range All() {
		s := a.Setup(base, PowerShell)
		if s.Line == "" || s.Into == "" || !strings.HasPrefix(s.Base, base) || strings.Contains(s.Line, "export ") {
			t.Errorf("%s: %+v", a.ID, s)
		}
	}
	if _, ok := Find("emacs"); ok {
		t.Error("an agent that is not in the table was found")
	}
}

func TestLaunch(t *testing.T) {
	for _, c := range []struct {
		id, before string // NAME=value of the environment the agent would have had
		env, args  string
	}{
		{"claude", "", "ANTHROPIC_BASE_URL=http://127.0.0.1:4153", ""},
		{"claude", "ANTHROPIC_BASE_URL=https://corp.example/anthropic", "ANTHROPIC_BASE_URL=http://127.0.0.1:4153/via/https://corp.example/anthropic", ""},
		{"claude", "ANTHROPIC_BASE_URL=http://127.0.0.1:4153", "ANTHROPIC_BASE_URL=http://127.0.0.1:4153", ""},
		{"codex", "", "", `-c openai_base_url="http://127.0.0.1:4153/v1"`},
		{"qwen", "OPENAI_BASE_URL=https://dashscope.example/v1", "OPENAI_BASE_URL=http://127.0.0.1:4153/via/https://dashscope.example/v1", ""},
		{"gemini", "", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4153", ""},
		{"opencode", "", `OPENCODE_CONFIG_CONTENT={"provider":{"anthropic":{"options":{"baseURL":"http://127.0.0.1:4153/v1"}},"openai":{"options":{"baseURL":"http://127.0.0.1:4153/v1"}},"google":{"options":{"baseURL":"http://127.0.0.1:4153/v1beta"}}}}`, ""},
	} {
		a, _ := Find(c.id)
		l := a.Launch(base, func(name string) string {
			k, v, _ := strings.Cut(c.before, "=")
			if k == name {
				return v
			}
			return ""
		})
		if strings.Join(l.Env, " ") != c.env || strings.Join(l.Args, " ") != c.args {
			t.Errorf("%s with %q: %q %q", c.id, c.before, l.Env, l.Args)
		}
	}
	a, _ := Find("pi")
	l := a.Launch(base, none)
	if l.FileFlag == "" || !strings.Contains(l.FileText, `{"anthropic":"http://127.0.0.1:4153","google":"http://127.0.0.1:4153/v1beta","openai":"http://127.0.0.1:4153/v1"}`) {
		t.Errorf("pi: %+v", l)
	}
}

// files are settings as people have them: order, indentation and comments of
// their own.
func files() map[string]map[string]string {
	return map[string]map[string]string{
		"claude": {
			"none": "", "empty": "\n", "object": "{}",
			"theirs":    "{\n    \"model\" : \"opus\",\n\t\"env\": { \"A\":\"1\" },\n \"permissions\": {\"allow\": [\"Bash\"]}\n}",
			"elsewhere": "{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://corp.example/x\"}}\n",
		},
		"codex": {
			"none":      "",
			"theirs":    "# mine\nmodel = \"o9\" # best\n\n[tui]\nopenai_base_url = \"not this one\"\n",
			"no break":  "model = \"o9\"",
			"elsewhere": "openai_base_url = 'https://corp.example/v1'\n[a]\n",
		},
		"opencode": {"none": "", "theirs": "{\"provider\": {\"openai\": {\"options\": {\"timeout\": 5}}}, \"theme\": \"x\"}"},
		"pi":       {"none": "", "theirs": "{\"providers\": {\"local\": {\"baseUrl\": \"http://localhost:8080\"}}}\n"},
		"gemini":   {"none": "", "theirs": "# keys\nGEMINI_API_KEY=abc\n", "elsewhere": "GOOGLE_GEMINI_BASE_URL=https://corp.example\nX=1"},
		"qwen":     {"none": "", "theirs": "OPENAI_API_KEY=abc\n"},
	}
}

func TestConnectAndDisconnect(t *testing.T) {
	for id, cases := range files() {
		a, _ := Find(id)
		c := a.Config()
		for name, text := range cases {
			before := []byte(text)
			wrote, err := c.Connect(before, base)
			if err != nil {
				t.Errorf("%s %s: %v", id, name, err)
				continue
			}
			if !c.Connected(wrote, base) || c.Connected(before, base) {
				t.Errorf("%s %s: connected %v, before %v:\n%s", id, name, c.Connected(wrote, base), c.Connected(before, base), wrote)
			}
			if name == "elsewhere" && !strings.Contains(string(wrote), base+"/via/https://corp.example") {
				t.Errorf("%s: an upstream of one's own is lost:\n%s", id, wrote)
			}
			again, err := c.Connect(wrote, base)
			if err != nil || string(again) != string(wrote) {
				t.Errorf("%s %s: connecting twice changes more: %v\n%s", id, name, err, again)
			}
			undone, err := c.Disconnect(wrote, before, wrote)
			if err != nil || c.Connected(undone, base) || strings.Contains(string(undone), base) {
				t.Errorf("%s %s: %v\n%s", id, name, err, undone)
			}
			if name == "theirs" && id != "opencode" && string(undone) != text {
				t.Errorf("%s: what is left differs:\n%q\n%q", id, undone, text)
			}
		}
	}
}

// TestDisconnectKeepsEdits edits a connected file and wants the edit kept and
// our value gone.
func TestDisconnectKeepsEdits(t *testing.T) {
	edits := map[string][2]string{
		"claude":   {"{", "{\"mine\": true, "},
		"codex":    {"openai_base_url", "mine = true\nopenai_base_url"},
		"opencode": {"{", "{\"mine\": true, "},
		"pi":       {"{", "{\"mine\": true, "},
		"gemini":   {"GOOGLE", "mine=true\nGOOGLE"},
		"qwen":     {"OPENAI_BASE", "mine=true\nOPENAI_BASE"},
	}
	for id, cases := range files() {
		a, _ := Find(id)
		c := a.Config()
		before := []byte(cases["theirs"])
		wrote, err := c.Connect(before, base)
		if err != nil {
			t.Fatal(err)
		}
		edited := strings.Replace(string(wrote), edits[id][0], edits[id][1], 1)
		if edited == string(wrote) {
			t.Fatalf("%s: nothing edited", id)
		}
		undone, err := c.Disconnect([]byte(edited), before, wrote)
		if err != nil || !strings.Contains(string(undone), "mine") || strings.Contains(string(undone), base) {
			t.Errorf("%s: %v\n%s", id, err, undone)
		}
		moved, err := c.Connect([]byte(edited), "http://127.0.0.1:9")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := c.Disconnect(moved, before, wrote)
		if err != nil || string(kept) != string(moved) {
			t.Errorf("%s: a value that is not ours was taken out: %v\n%s", id, err, kept)
		}
	}
}

func TestConnectRefusesWhatItCannotRead(t *testing.T) {
	for id, text := range map[string]string{"claude": "{// a comment\n}", "opencode": "[1]", "pi": "{", "codex": "model = \n[x"} {
		a, _ := Find(id)
		if out, err := a.Config().Connect([]byte(text), base); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v %s", id, err, out)
		}
	}
	if a, _ := Find("copilot"); a.Config() != nil {
		t.Error("copilot has no settings file to connect")
	}
}
