package fold

import (
	"encoding/json"
	"strings"
)

// act is one thing a call did; one patch may change many files.
type act struct {
	deed deed
	name string
}

// deedsOf reads what a call did from the tools of Claude Code, Codex, opencode,
// pi and Gemini CLI. Their names differ mostly in capitals and do not
// contradict each other, so the agent need not be known. A tool that is not
// known, or whose arguments are not, is listed by its name.
func deedsOf(c Call) []act {
	if files := patched(c); len(files) > 0 {
		return files
	}
	d, keys := toolDeed(c.Tool)
	args := argumentsOf(c.Arguments)
	switch d {
	case didRun:
		if s := commandLine(args); s != "" {
			return []act{{didRun, s}}
		}
	case didRead:
		if many := args.list("paths", "include"); len(many) > 0 {
			return eachName(didRead, many)
		}
	case didFetch:
		if urls := addresses(args.text("url", "prompt")); len(urls) > 0 {
			return eachName(didFetch, urls)
		}
	}
	name := oneLine(args.text(keys...))
	if d == didCall || name == "" {
		return []act{{didCall, c.Tool}}
	}
	if where := oneLine(args.text("path", "dir_path")); d == didSearch && where != "" && where != name {
		name += " in " + where
	}
	return []act{{d, name}}
}

// toolDeed is what a tool does, and the arguments that name its object, the
// first present one counts.
func toolDeed(tool string) (deed, []string) {
	file := []string{"file_path", "filePath", "absolute_path", "notebook_path", "path"}
	switch strings.ToLower(tool) {
	case "read", "read_file", "notebookread", "view_image", "read_many_files":
		return didRead, file
	case "write", "write_file":
		return didWrite, file
	case "edit", "multiedit", "notebookedit", "replace":
		return didEdit, file
	case "bash", "shell", "shell_command", "exec_command", "local_shell", "local_shell_call", "container.exec", "run_shell_command":
		return didRun, nil
	case "webfetch", "web_fetch":
		return didFetch, nil
	case "websearch", "web_search", "google_web_search", "codesearch":
		return didSearchWeb, []string{"query"}
	case "grep", "glob", "find", "search_file_content", "grep_search", "grep_files", "ls", "list", "list_dir", "list_directory":
		return didSearch, []string{"pattern", "path", "dir_path"}
	case "task", "agent", "spawn_agent", "delegate_to_agent", "codebase_investigator":
		return didAsk, []string{"description", "task", "objective", "message", "prompt"}
	}
	return didCall, nil
}

// argumentSet is the argument object of a call; nil where it is no JSON object.
type argumentSet map[string]json.RawMessage

func argumentsOf(s string) (a argumentSet) {
	if json.Unmarshal([]byte(s), &a) != nil {
		return nil
	}
	return a
}

// text is the first of the named arguments that is a string with content.
func (a argumentSet) text(keys ...string) string {
	for _, k := range keys {
		var s string
		if json.Unmarshal(a[k], &s) == nil && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// list is the first of the named arguments that is a list of strings.
func (a argumentSet) list(keys ...string) (out []string) {
	for _, k := range keys {
		if json.Unmarshal(a[k], &out) == nil && len(out) > 0 {
			return out
		}
	}
	return nil
}

func eachName(d deed, names []string) (out []act) {
	for _, n := range names {
		out = append(out, act{d, oneLine(n)})
	}
	return out
}

// commandLine is the command line of a call. A list is an argument vector; of the
// usual one, shell and flag and script, only the script is said.
func commandLine(a argumentSet) string {
	if s := a.text("command", "cmd"); s != "" {
		return oneLine(s)
	}
	argv := a.list("command", "cmd")
	if argv == nil { // the item of the built-in shell nests it
		argv = argumentsOf(string(a["action"])).list("command")
	}
	if n := len(argv); n >= 3 && strings.HasSuffix(argv[0], "sh") && strings.HasPrefix(argv[1], "-") {
		return oneLine(argv[n-1])
	}
	return oneLine(strings.Join(argv, " "))
}

// patchStart opens a patch in the format of Codex, which other agents use too.
const patchStart = "*** Begin Patch"

// patched are the files a patch changes; the patch may be the whole text, an
// argument, or stand in a command line.
func patched(c Call) (out []act) {
	text := c.Arguments
	if a := argumentsOf(text); a == nil {
		_ = json.Unmarshal([]byte(text), &text) // free text may come as a JSON string
	} else {
		text = a.text("input", "patch", "patchText", "patch_text")
		if d, _ := toolDeed(c.Tool); d == didRun {
			text = a.text("command", "cmd") + strings.Join(a.list("command", "cmd"), "\n")
		}
	}
	_, body, found := strings.Cut(text, patchStart)
	if !found {
		return nil
	}
	for line := range strings.Lines(body) {
		mark, name, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name = oneLine(name)
		switch mark {
		case "*** Add File":
			out = append(out, act{didWrite, name})
		case "*** Update File":
			out = append(out, act{didEdit, name})
		case "*** Delete File":
			out = append(out, act{didDelete, name})
		case "*** Move to": // of the file just named
			if n := len(out); n > 0 {
				out[n-1].deed = didDelete
			}
			out = append(out, act{didWrite, name})
		}
	}
	return out
}

// addresses are the http addresses in a text.
func addresses(text string) (out []string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("<>\"'`()[]{},", r) }) {
		if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
			out = append(out, strings.TrimRight(word, ".;:!?"))
		}
	}
	return out
}

// oneLine makes every run of white space one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
