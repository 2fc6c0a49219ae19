package fold

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

var updateArtifacts = flag.Bool("update-artifacts", false, "rewrite the lists in testdata/artifact; review the diff")

// readCalls reads the calls of a golden file, sections "call NAME" each with a
// section "result" or "failed" after it, and the list wanted.
func readCalls(t *testing.T, path string) (calls []Call, want string) {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		text := strings.TrimSuffix(string(f.Data), "\n")
		kind, tool, _ := strings.Cut(f.Name, " ")
		switch kind {
		case "call":
			calls = append(calls, Call{Tool: tool, Arguments: text})
		case "result", "failed":
			last := &calls[len(calls)-1]
			last.Result, last.Failed = text, kind == "failed"
		case "list":
			want = text
		default:
			t.Fatalf("%s: unknown section %s", path, f.Name)
		}
	}
	return calls, want
}

func rewriteList(t *testing.T, path, list string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(b), "-- list --\n")
	if err := os.WriteFile(path, []byte(head+"-- list --\n"+list+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestArtifactGoldens: one file for each tool of the five agents.
func TestArtifactGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/artifact/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range files {
		calls, want := readCalls(t, path)
		if got := Artifacts(calls); got != want {
			t.Errorf("%s gives\n%s\nwant\n%s", path, got, want)
			if *updateArtifacts {
				rewriteList(t, path, got)
			}
		}
	}
}

// TestEveryToolOfTheAgentsHasAGolden: the tools the five agents offer by
// themselves, read off their requests and manuals of 2026-11; each stands in a
// golden of its agent.
func TestEveryToolOfTheAgentsHasAGolden(t *testing.T) {
	for agent, tools := range map[string]string{
		"claude":   "Agent AskUserQuestion Bash BashOutput Edit EnterPlanMode ExitPlanMode Glob Grep KillShell ListMcpResourcesTool LS LSP Monitor MultiEdit NotebookEdit NotebookRead Read ReadMcpResourceTool SendMessage Skill SlashCommand Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoWrite ToolSearch WebFetch WebSearch Write",
		"codex":    "apply_patch close_agent exec_command grep_files list_dir list_mcp_resource_templates list_mcp_resources read_file read_mcp_resource request_user_input send_input shell shell_command spawn_agent update_plan view_image wait web_search write_stdin",
		"opencode": "apply_patch bash batch codesearch edit glob grep list lsp multiedit patch plan_enter plan_exit question read skill task todoread todowrite webfetch websearch write",
		"pi":       "bash edit find grep ls read write",
		"gemini":   "activate_skill ask_user cli_help codebase_investigator delegate_to_agent enter_plan_mode exit_plan_mode get_internal_docs glob google_web_search grep_search list_directory read_file read_many_files replace run_shell_command save_memory search_file_content web_fetch write_file write_todos",
	} {
		files, err := filepath.Glob("testdata/artifact/" + agent + "-*.txtar")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, path := range files {
			calls, _ := readCalls(t, path)
			for _, c := range calls {
				seen[c.Tool] = true
			}
		}
		for _, tool := range strings.Fields(tools) {
			if !seen[tool] {
				t.Errorf("%s: no golden calls %s", agent, tool)
			}
		}
	}
}

// TestArtifactBounds: however much was done, the list has at most 40 lines of
// artifacts and 2,000 characters, keeps the latest of every deed, and counts
// the rest.
func TestArtifactBounds(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls func(i int) []Call
		n     int
		holds []string
	}{
		{"few", func(i int) []Call { return []Call{edit("a%d.go", i)} }, 40, []string{"a0.go", "a39.go"}},
		{"edits push out no command", func(i int) []Call {
			return []Call{edit("a%d.go", i), {Tool: "Bash", Arguments: fmt.Sprintf(`{"command":"go test ./p%d"}`, i)}}
		}, 60, []string{"a59.go", "go test ./p59", "and 8"}},
		{"long names", func(i int) []Call { return []Call{edit(strings.Repeat("深い/", 90)+"%d.go", i)} }, 60, []string{"59.go", "and 4"}},
		{"the latest reads stay", func(i int) []Call {
			return []Call{{Tool: "Read", Arguments: fmt.Sprintf(`{"file_path":"r%d.go"}`, i)}}
		}, 100, []string{"r99.go", "and 61 more"}},
	} {
		var calls []Call
		for i := range c.n {
			calls = append(calls, c.calls(i)...)
		}
		list := Artifacts(calls)
		lines := strings.Count(list, "\n") + 1
		if lines > maxArtifacts || utf8.RuneCountInString(list) > maxArtifactChars || !utf8.ValidString(list) {
			t.Errorf("%s: %d lines, %d characters", c.name, lines, utf8.RuneCountInString(list))
		}
		for _, h := range c.holds {
			if !strings.Contains(list, h) {
				t.Errorf("%s: %q is missing in\n%s", c.name, h, list)
			}
		}
		if again := Artifacts(calls); again != list {
			t.Errorf("%s: the second time it is\n%s", c.name, again)
		}
	}
	if got := Artifacts(nil); got != "" {
		t.Errorf("nothing was called, yet %q", got)
	}
}

// TestArtifactPatchText: a patch is read as it came and as a JSON string.
func TestArtifactPatchText(t *testing.T) {
	patch := "*** Begin Patch\n*** Update File: a.go\n*** End Patch"
	quoted, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{patch, string(quoted)} {
		if got := Artifacts([]Call{{Tool: "apply_patch", Arguments: args}}); got != "edited a.go" {
			t.Errorf("%s gives %q", args, got)
		}
	}
}

func edit(name string, i int) Call {
	return Call{Tool: "Edit", Arguments: fmt.Sprintf(`{"file_path":"`+name+`"}`, i)}
}

// FuzzArtifacts: any text is listed within the bounds and without a panic.
func FuzzArtifacts(f *testing.F) {
	f.Add("Bash", `{"command":"ls"}`, "Exit code 1\nerror: x")
	f.Add("apply_patch", "*** Begin Patch\n*** Add File: a\n*** End Patch", `{"output":"","metadata":{"exit_code":1}}`)
	f.Add("shell", `{"command":["sh","-c",""]}`, "")
	f.Add("read_many_files", `{"include":["/","/a","//"]}`, "\x00\xff")
	f.Fuzz(func(t *testing.T, tool, args, result string) {
		calls := []Call{{tool, args, result, false}, {"Read", `{"file_path":"/a/b/c"}`, result, true}, {tool, args, result, true}}
		if list := Artifacts(calls); utf8.RuneCountInString(list) > maxArtifactChars {
			t.Errorf("%d characters", utf8.RuneCountInString(list))
		}
	})
}

// TestArtifactsAreRecalled: from a list alone the same list is made again, and
// later calls go on from it.
func TestArtifactsAreRecalled(t *testing.T) {
	files, err := filepath.Glob("testdata/artifact/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range files {
		_, want := readCalls(t, path)
		if got := artifactsAfter([]string{want}, nil); got != want {
			t.Errorf("%s is recalled as\n%s\nwant\n%s", path, got, want)
		}
	}
	list := Artifacts([]Call{edit("/src/app/a%d.go", 1), edit("/src/app/b%d.go", 1)})
	got := artifactsAfter([]string{list, "and 3 more"}, []Call{edit("/src/app/a%d.go", 1)})
	if want := "paths under /src/app/\nedited a1.go (2 times)\nedited b1.go\nand 3 more"; got != want {
		t.Errorf("going on gives\n%s\nwant\n%s", got, want)
	}
}
