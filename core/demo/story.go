package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A Beat is one step of the bundled session: what the person types before it,
// what the model then replies, and what the reply's calls bring back.
type Beat struct {
	// Prompt opens a task; empty while the model works through its tool calls.
	Prompt  string
	Turn    Turn
	Results []string
}

// DefaultTurns is the length of the bundled session: twelve tasks.
const DefaultTurns = 12 * beatsPerTask

// Session is the bundled coding session, the first turns of it: a person and
// an agent put an invented tide-table server into shape, package by package.
// It is the same on every run. Past the twelfth task it goes round again with
// other numbers.
func Session(turns int) []Beat {
	var beats []Beat
	for i := 0; len(beats) < turns; i++ {
		beats = append(beats, newTask(i).beats()...)
	}
	return beats[:turns]
}

// ScriptOf is the model's side of a session.
func ScriptOf(beats []Beat) Script {
	script := make(Script, len(beats))
	for i, b := range beats {
		script[i] = b.Turn
		script[i].Opens = b.Prompt
		script[i].After = b.after(i)
	}
	return script
}

// The times between two requests: tools run for a while, a person reads and
// types, and twice in a session is away for longer than any cache lives.
const (
	toolTime   = 12 * time.Second
	personTime = 100 * time.Second
	breakTime  = 45 * time.Minute
	breakEvery = 5 * beatsPerTask
)

func (b *Beat) after(turn int) time.Duration {
	switch {
	case b.Prompt == "":
		return toolTime
	case turn > 0 && turn%breakEvery == 0:
		return breakTime
	}
	return personTime
}

// task is one piece of work on one package of the invented project.
type task struct {
	n             int
	pkg, typ      string
	verb, noun    string
	field, helper string
	limit         int
}

func newTask(n int) task {
	kinds := []task{
		{pkg: "almanac", typ: "Almanac", verb: "Predict", noun: "high water", field: "predictions", helper: "harmonics"},
		{pkg: "gauge", typ: "Gauge", verb: "Sample", noun: "a reading", field: "readings", helper: "calibrate"},
		{pkg: "harbour", typ: "Harbour", verb: "Berth", noun: "a vessel", field: "berths", helper: "clearance"},
		{pkg: "chart", typ: "Chart", verb: "Sound", noun: "a depth", field: "soundings", helper: "datum"},
		{pkg: "buoy", typ: "Buoy", verb: "Report", noun: "wave height", field: "spectra", helper: "significant"},
		{pkg: "pilot", typ: "Pilot", verb: "Route", noun: "a passage", field: "waypoints", helper: "bearing"},
		{pkg: "ledger", typ: "Ledger", verb: "Enter", noun: "a due", field: "entries", helper: "balance"},
		{pkg: "notice", typ: "Notice", verb: "Publish", noun: "a warning", field: "warnings", helper: "expires"},
		{pkg: "weather", typ: "Forecast", verb: "Blend", noun: "a surge", field: "models", helper: "weight"},
		{pkg: "dredge", typ: "Survey", verb: "Compare", noun: "two profiles", field: "profiles", helper: "volume"},
		{pkg: "radio", typ: "Channel", verb: "Relay", noun: "a call", field: "calls", helper: "priority"},
		{pkg: "archive", typ: "Archive", verb: "Replay", noun: "a season", field: "seasons", helper: "checksum"},
	}
	t := kinds[n%len(kinds)]
	t.n, t.limit = n, 16+n*7
	return t
}

// beatsPerTask is the number of model calls one task takes.
const beatsPerTask = 11

// beats is a task from the prompt to the closing words.
func (t task) beats() []Beat {
	return []Beat{
		t.look(), t.readTests(), t.firstEdit(), t.failingRun(), t.rethink(), t.secondEdit(),
		t.passingRun(), t.checks(), t.note(), t.diff(), t.closing(),
	}
}

func (t task) file(name string) string {
	return fmt.Sprintf("/home/keeper/tidehouse/%s/%s", t.pkg, name)
}

func (t task) look() Beat {
	return Beat{
		Prompt: fmt.Sprintf("In package %s, %s.%s must refuse %s once more than %d %s are held, instead of growing without a bound. "+
			"Return ErrFull, keep the order of what is there, and cover it with a test. Leave the other packages alone.%s",
			t.pkg, t.typ, t.verb, t.noun, t.limit, t.field, t.like()),
		Turn: Turn{
			Cue:      Cue{Wants: t.wants(), Goal: fmt.Sprintf("%s: %s.%s must refuse %s with ErrFull beyond %d %s.", t.pkg, t.typ, t.verb, t.noun, t.limit, t.field)},
			Thinking: fmt.Sprintf("The bound belongs where %s grows, before anything is written. First I look at the type and at who calls %s.", t.field, t.verb),
			Text:     fmt.Sprintf("I'll start with %s and its callers.", t.typ),
			Calls: []Call{
				t.call("Read", "file_path", t.file(t.pkg+".go")),
				t.call("Grep", "pattern", `\.`+t.verb+`\(`, "path", "/home/keeper/tidehouse"),
			},
		},
		Results: []string{numbered(t.source(false)), t.callers()},
	}
}

// Every third task from the fifth on is to take up work that lies lookBack
// tasks behind it.
const lookBack = 3

func (t task) looksBack() bool { return t.n > lookBack && t.n%lookBack == 1 }

// like refers to earlier work, as people do.
func (t task) like() string {
	if !t.looksBack() {
		return ""
	}
	return fmt.Sprintf(" Word the change note as you did for package %s.", newTask(t.n-lookBack).pkg)
}

// wants is what has to be known of it.
func (t task) wants() string {
	if !t.looksBack() {
		return ""
	}
	old := newTask(t.n - lookBack)
	return fmt.Sprintf("change note for package %s: now refuses %s with ErrFull", old.pkg, old.noun)
}

func (t task) readTests() Beat {
	return Beat{
		Turn:    Turn{Cue: Cue{Glances: t.looksBack()}, Calls: []Call{t.call("Read", "file_path", t.file(t.pkg+"_test.go"))}},
		Results: []string{numbered(t.tests())},
	}
}

func (t task) firstEdit() Beat {
	grow := "\tx." + t.field + " = append(x." + t.field + ", v)"
	return Beat{
		Turn: Turn{
			Text: fmt.Sprintf("%s appends without looking. I put the check before it, and write the test first thing.", t.verb),
			Calls: []Call{
				t.edit(grow, "\tif len(x."+t.field+") > limit {\n\t\treturn ErrFull\n\t}\n"+grow),
				t.call("Edit", "file_path", t.file(t.pkg+"_test.go"), "old_string", "// keep last\n", "new_string", t.newTest()+"\n// keep last\n"),
			},
		},
		Results: []string{t.updated(".go"), t.updated("_test.go")},
	}
}

func (t task) updated(suffix string) string {
	return "The file " + t.file(t.pkg+suffix) + " has been updated."
}

func (t task) failingRun() Beat {
	return Beat{
		Turn:    Turn{Calls: []Call{t.call("Bash", "command", "go test -v ./"+t.pkg+"/...", "description", "Run the package's tests")}},
		Results: []string{t.run(false)},
	}
}

func (t task) rethink() Beat {
	return Beat{
		Turn: Turn{
			Thinking: fmt.Sprintf("One too many gets in: the check runs before the append, so the limit itself must already refuse. It is >=, not >. "+
				"%s also runs before the check and would leave a trace behind; the check must come first.", t.helper),
			Text:  "Off by one: the check runs before the append, so holding exactly the limit must already refuse. Let me see that stretch again.",
			Calls: []Call{t.call("Bash", "command", "sed -n 40,80p "+t.pkg+"/"+t.pkg+".go", "description", "Show the changed stretch")},
		},
		Results: []string{strings.Join(strings.SplitAfter(t.source(true), "\n")[39:80], "")},
	}
}

func (t task) secondEdit() Beat {
	return Beat{
		Turn:    Turn{Calls: []Call{t.edit("len(x."+t.field+") > limit", "len(x."+t.field+") >= limit")}},
		Results: []string{t.updated(".go")},
	}
}

func (t task) passingRun() Beat {
	return Beat{
		Turn:    Turn{Text: "Again, with the limit itself refused.", Calls: []Call{t.call("Bash", "command", "go test -v ./"+t.pkg+"/...", "description", "Run the package's tests")}},
		Results: []string{t.run(true)},
	}
}

func (t task) checks() Beat {
	return Beat{
		Turn: Turn{Calls: []Call{
			t.call("Bash", "command", "go vet ./...", "description", "Vet everything"),
			t.call("Grep", "pattern", "ErrFull", "path", "/home/keeper/tidehouse"),
		}},
		Results: []string{"", fmt.Sprintf("%[1]s/%[1]s.go:12:var ErrFull = errors.New(\"%[1]s: full\")\n%[1]s/%[1]s.go:58:\t\treturn ErrFull\n%[1]s/%[1]s_test.go:141:\tif !errors.Is(err, ErrFull) {\n", t.pkg)},
	}
}

func (t task) note() Beat {
	return Beat{
		Turn: Turn{
			Text: "Callers see a new error, so it goes into the change notes.",
			Calls: []Call{t.call("Write", "file_path", fmt.Sprintf("/home/keeper/tidehouse/notes/%03d-%s.md", t.n+1, t.pkg), "content",
				fmt.Sprintf("%s.%s now refuses %s with ErrFull once %d %s are held. Before, it grew until memory ran out.\n", t.typ, t.verb, t.noun, t.limit, t.field))},
		},
		Results: []string{"File created."},
	}
}

func (t task) diff() Beat {
	return Beat{
		Turn:    Turn{Calls: []Call{t.call("Bash", "command", "git diff --stat && git diff", "description", "Review the change")}},
		Results: []string{t.patch()},
	}
}

func (t task) closing() Beat {
	return Beat{Turn: Turn{Cue: Cue{Fact: t.fact()}, Text: fmt.Sprintf("Done. %s.%s refuses %s once %d %s are held and leaves everything as it was; "+
		"the test holds exactly the limit, one more, and checks the order afterwards. %d tests pass, vet is quiet, no other package changed.",
		t.typ, t.verb, t.noun, t.limit, t.field, t.testCount()+1)}}
}

// fact is what later work needs to know of the task.
func (t task) fact() string {
	return fmt.Sprintf("%[1]s: %[2]s.%[3]s in %[1]s/%[1]s.go refuses %[4]s with ErrFull once %[5]d %[6]s are held; the check (len >= limit) stands before the append. "+
		"Test%[2]sFull holds the limit and one more. Note in notes/%03[7]d-%[1]s.md. %[8]d tests pass, vet is quiet; nothing is open.",
		t.pkg, t.typ, t.verb, t.noun, t.limit, t.field, t.n+1, t.testCount()+1)
}

// call makes a tool call from names and values in turn.
func (task) call(tool string, pairs ...string) Call {
	var args object
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, member{pairs[i], pairs[i+1]})
	}
	return Call{Tool: tool, Args: json.RawMessage(mustEncode(args))}
}

func (t task) edit(from, to string) Call {
	return t.call("Edit", "file_path", t.file(t.pkg+".go"), "old_string", from, "new_string", to)
}
