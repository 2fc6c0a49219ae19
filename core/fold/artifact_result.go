package fold

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// ending is how a call ended, as far as its result tells.
type ending struct {
	// code is the exit status where coded.
	code  int
	coded bool
	// still says that the command had not ended.
	still  bool
	failed bool
	// line is the last line of the result that names an error.
	line string
	// said are the words of an earlier list, whose call is no longer kept.
	said string
}

// endingOf reads a result. A shell reports an exit status; of other tools the
// wire's word counts, or on wires without one a result that is an error in its
// form or begins as errors do.
func endingOf(d deed, c Call) (x ending) {
	text, isError := resultText(c.Result)
	x.code, x.coded = exitFigure(c.Result)
	if tool, _ := toolDeed(c.Tool); !x.coded && (tool == didRun || d == didRun) {
		x.code, x.coded = exitLine(text)
	}
	x.still = d == didRun && !x.coded && sessionOf(c.Result) != ""
	switch {
	case x.coded:
		x.failed = x.code != 0
	case d == didRun:
		x.failed = c.Failed
	default:
		x.failed = c.Failed || isError || beginsAsError(text)
	}
	if x.failed {
		x.line = errorLine(text)
	}
	return x
}

// resultText unwraps a result that is an object with the output, or an error
// in its place, as a text beside figures.
func resultText(result string) (text string, isError bool) {
	a := argumentsOf(result)
	if s := a.text("output", "content"); s != "" {
		return s, false
	}
	if s := a.text("error"); s != "" {
		return s, true
	}
	return result, false
}

// edgeLines is how many lines at either end of a result may hold what the
// agent, and not the command, says.
const edgeLines = 6

// exitFigure is the exit status an agent reports beside the output.
func exitFigure(result string) (code int, ok bool) {
	var figures struct {
		ExitCode *int `json:"exit_code"`
		Metadata struct {
			ExitCode *int `json:"exit_code"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(result), &figures) != nil {
		return 0, false
	}
	for _, p := range []*int{figures.Metadata.ExitCode, figures.ExitCode} {
		if p != nil {
			return *p, true
		}
	}
	return 0, false
}

// exitLine is the exit status an agent reports in a line of its own before or
// after the output.
func exitLine(text string) (code int, ok bool) {
	for _, line := range edgesOf(text) {
		if m := exitLinePattern.FindStringSubmatch(line); m != nil {
			code, err := strconv.Atoi(m[1])
			return code, err == nil
		}
	}
	return 0, false
}

// The lines with which agents report an exit status, and a command that goes
// on running. Both are constants that Go cannot declare as such.
var (
	exitLinePattern = regexp.MustCompile(`(?i)^(?:(?:process |command )?exited with (?:exit )?code:? |exit code:? |<exit_code>)(-?\d{1,5})(?:</exit_code>)?$`)
	sessionPattern  = regexp.MustCompile(`(?i)^(?:process running with session id|command running in background with id:?) ([\w-]+)`)
)

// edgesOf are the first and the last lines of a text, those at the end first:
// where both report, the end is later.
func edgesOf(text string) (out []string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if i < edgeLines || i >= len(lines)-edgeLines {
			out = append(out, strings.TrimSpace(lines[i]))
		}
	}
	return out
}

// sessionOf is the id under which a command goes on running, empty if it ended.
func sessionOf(result string) string {
	text, _ := resultText(result)
	for _, line := range edgesOf(text) {
		if m := sessionPattern.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// polled is the session id a call asks after, for the tools that do.
func polled(c Call) string {
	switch strings.ToLower(c.Tool) {
	case "write_stdin", "bashoutput", "taskoutput":
	default:
		return ""
	}
	a := argumentsOf(c.Arguments)
	for _, k := range []string{"session_id", "bash_id", "task_id"} {
		if id := strings.Trim(string(a[k]), `"`); id != "" {
			return id
		}
	}
	return ""
}

// beginsAsError reports whether a result begins the way agents report that a
// tool failed.
func beginsAsError(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, start := range []string{"error:", "error ", "<tool_use_error>", "<error>", "failed to ", "could not ", "enoent", "apply_patch verification failed"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// errorLine is the last line that speaks of an error, else the last line that
// is not the agent's own.
func errorLine(text string) string {
	last := ""
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSuffix(strings.TrimPrefix(oneLine(lines[i]), "<tool_use_error>"), "</tool_use_error>")
		if line == "" || strings.HasSuffix(line, ": (none)") || exitLinePattern.MatchString(line) {
			continue
		}
		if last == "" {
			last = line
		}
		if speaksOfError(line) {
			return line
		}
	}
	return last
}

// speaksOfError reports whether a line names what went wrong rather than
// counting it.
func speaksOfError(line string) bool {
	line = strings.ToLower(line)
	for _, word := range []string{"error", "fail:", "panic", "exception", "fatal", "cannot", "could not", "denied", "not found", "no such", "undefined", "expected", "refused", "timed out", "not allowed", "invalid"} {
		if strings.Contains(line, word) {
			return true
		}
	}
	return false
}
