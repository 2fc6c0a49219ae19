package demo

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Turn is one reply of the model, and what goes wrong with it.
type Turn struct {
	// Thinking is a thinking block (Anthropic) or reasoning_content (chat).
	Thinking string
	// Redacted adds a redacted_thinking block.
	Redacted bool
	Text     string
	Calls    []Call
	Usage    Usage
	Faults
	Cue
}

// Cue is what a scripted model goes by beside its lines.
type Cue struct {
	// Opens is the user text this turn answers; empty while the model works
	// through its tool calls.
	Opens string
	// After is how long after the turn before it the request comes.
	After time.Duration
	// Wants is what the model looks for first, where folded history can be
	// searched; Glances makes it ask for the folds beside its own calls.
	Wants   string
	Glances bool
	// Goal is the work that begins with this turn, Fact what is settled with it:
	// what a summary has to keep of it.
	Goal, Fact string
}

// Call is one tool call; Args is a JSON object.
type Call struct {
	Tool string
	Args json.RawMessage
	// mark ends the id of a scripted call: the place it was made at.
	mark string
}

// Usage overrides the token counts a reply reports; zero means derived.
type Usage struct {
	In  int `json:"in"`
	Out int `json:"out"`
}

// Faults are the ways a reply can go wrong or unusual. The ones that happen
// once happen once per label.
type Faults struct {
	// Err answers the first ErrN (at least one) requests with this status.
	Err  int `json:"err"`
	ErrN int `json:"errN"`
	// Cut breaks the connection in mid-stream, once; MidErr sends an error event
	// in mid-stream, once.
	Cut    bool `json:"cut"`
	MidErr bool `json:"midErr"`
	// Hang holds the response back until the client leaves.
	Hang bool `json:"hang"`
	// Garbage answers 200 with a body that is not JSON.
	Garbage bool `json:"garbage"`
	// Encoding compresses the response if the client accepts it: gzip, zstd, br
	// or deflate.
	Encoding string `json:"encoding"`
	// CRLF ends the lines of a stream with CR LF.
	CRLF bool `json:"crlf"`
	// PauseMS waits between the events of a stream, in milliseconds.
	PauseMS int `json:"pauseMS"`
}

// Script is a list of turns, played in order.
type Script []Turn

// at returns the n-th turn; past the end the model has nothing left to do. The
// ids of its calls say where they were made.
func (s Script) at(n int) Turn {
	if n >= len(s) {
		return Turn{Text: "The session is over."}
	}
	t := s[n]
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		t.Calls[i].mark = markOf(theirs, n)
	}
	return t
}

// mark starts a directive inside a user text.
const mark = "STUB{"

// directive is the JSON of a STUB{...} mark.
type directive struct {
	Rounds    [][]wish `json:"rounds"`
	Pre       string   `json:"pre"`
	Final     string   `json:"final"`
	Think     bool     `json:"think"`
	Reasoning bool     `json:"reasoning"`
	Redacted  bool     `json:"redacted"`
	Usage     Usage    `json:"usage"`
	// Played counts the rounds by what the model played, not by what the request
	// still shows of them: for sessions that are folded on the way.
	Played bool `json:"played"`
	Faults
}

// wish is a call the directive wants: the tool is found among those offered.
type wish struct {
	// K is a kind (bash, read, write, task); Name is a tool's exact name.
	K       string         `json:"k"`
	Name    string         `json:"name"`
	Cmd     string         `json:"cmd"`
	Path    string         `json:"path"`
	Content string         `json:"content"`
	Prompt  string         `json:"prompt"`
	Agent   string         `json:"agent"`
	Args    map[string]any `json:"args"`
}

// directive reads the last directive of the newest text; without one the model
// answers with its closing line.
func (q *request) directive() directive {
	d, ok := lastDirective(q.text)
	if !ok {
		d, _ = lastDirective(strings.ReplaceAll(strings.ReplaceAll(q.text, `\"`, `"`), `\\`, `\`))
	}
	return d
}

func lastDirective(text string) (d directive, found bool) {
	for at := strings.LastIndex(text, mark); at >= 0; at = strings.LastIndex(text[:at], mark) {
		dec := json.NewDecoder(strings.NewReader(text[at+len(mark)-1:]))
		var try directive
		if dec.Decode(&try) == nil {
			return try, true
		}
	}
	return directive{}, false
}

// turn is the directive's turn for a request: the next round of calls, or the
// final text.
func (d directive) turn(q request) Turn {
	t := Turn{Redacted: d.Redacted, Usage: d.Usage, Faults: d.Faults}
	if q.think || d.Think || d.Reasoning {
		t.Thinking = "I look at what is there before I change anything."
	}
	if q.format != nil {
		t.Text = string(mustEncode(q.format.example(0)))
		return t
	}
	if len(q.tools) > 0 && q.rounds < len(d.Rounds) {
		for _, w := range d.Rounds[q.rounds] {
			if tool, ok := w.pick(q.tools); ok {
				t.Calls = append(t.Calls, Call{Tool: tool.name, Args: mustEncode(w.args(tool.schema))})
			}
		}
	}
	switch {
	case len(t.Calls) == 0 && d.Final == "":
		t.Text = "DONE. The scripted model has finished this task."
	case len(t.Calls) == 0:
		t.Text = d.Final
	case d.Pre != "":
		t.Text = d.Pre
	default:
		t.Text = "Step " + string(rune('1'+q.rounds%9)) + "."
	}
	return t
}

// pick finds the tool a wish means.
func (w wish) pick(tools []tool) (tool, bool) {
	kinds := map[string]string{
		"bash":  `bash|shell|shell_command|exec_command|run_shell_command|terminal|execute_command`,
		"read":  `read|read_file|view|view_file`,
		"write": `write|write_file|create|create_file`,
		"task":  `task|agent|spawn_agent|subagent`,
	}
	names := regexp.QuoteMeta(w.Name)
	if w.Name == "" {
		names = kinds[w.K]
	}
	match := regexp.MustCompile(`(?i)^(?:` + names + `)$`)
	for _, t := range tools {
		if match.MatchString(t.name) {
			return t, true
		}
	}
	return tool{}, false
}
