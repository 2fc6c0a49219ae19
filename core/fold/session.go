package fold

import (
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
)

// Session is what a tool call is answered from.
type Session struct {
	Elements []Element
	// NextRef is the next ref the ledger will give: refs below it that are not in
	// the list are gone, those above never were. 0 when not known.
	NextRef int64
	State   State
	Rhythm  Rhythm
	Limits  Limits
}

// ToolUse is one call of our own tools, as the model made it. Name ends in the
// state's suffix or not.
type ToolUse struct {
	Name string
	Args []byte
}

// Need are the texts a call is answered from.
type Need struct {
	// Elements are element numbers; those that are not kept any more are left
	// out of Texts.
	Elements []int64
	// Bodies are the names of block bodies.
	Bodies []content.ID
	// Documents asks for everything searchable: an element is a Doc with its ref
	// as ID ("" without one), a block one with its b-ref, role "block", topic and summary.
	Documents bool
}

// Texts are the texts a call asked for.
type Texts struct {
	Elements  map[int64]*chat.Message
	Bodies    map[content.ID]Body
	Documents []Doc
	// Index is the index of Documents, if it was made before; nil has it made.
	Index *Index
}

// Outcome is what a call led to. State, Rhythm and Events, with the bodies these
// carry, are to be committed together.
type Outcome struct {
	// Result is what the model reads.
	Result string
	// Failed says that nothing changed or was found; Stuck that the same call
	// had failed before, so that it is not worth another round.
	Failed, Stuck bool
	State         State
	Rhythm        Rhythm
	Events        []Event
	Blocks        []int64
}

// Needs says which texts Run will want for a call. A call that will fail needs
// none.
func (s Session) Needs(c ToolUse) Need {
	f, err := readFields(c.Args)
	if err != nil {
		return Need{}
	}
	switch s.tool(c.Name) {
	case ToolCompress:
		return s.needsOf(f)
	case ToolDecompress:
		return s.needsToOpen(f)
	case ToolSearch:
		return Need{Documents: true}
	}
	return Need{}
}

// Run carries out a call. It is pure: the same session, call and texts give the
// same outcome, so a repeated call may as well be answered from the ledger.
func (s Session) Run(c ToolUse, t Texts) Outcome {
	s.Limits = s.Limits.filled()
	s.Limits.Terms = s.Rhythm.lapse(s.Limits.Terms)
	f, err := readFields(c.Args)
	if err != nil {
		return s.remember(c, s.failed(fmt.Sprintf(badArguments, c.Name, err)))
	}
	var out Outcome
	switch s.tool(c.Name) {
	case ToolCompress:
		out = s.compress(f, t)
	case ToolDecompress:
		out = s.decompress(f, t)
	case ToolSearch:
		out = s.search(f, t)
	case ToolStatus:
		out = s.status(f)
	default:
		out = s.failed(fmt.Sprintf(unknownTool, c.Name))
	}
	return s.remember(c, out)
}

// Owns reports whether a called tool is one of ours.
func (s State) Owns(name string) bool { return Session{State: s}.tool(name) != "" }

// tool is the plain name of one of our tools, "" for any other.
func (s Session) tool(name string) string {
	for _, own := range toolNames() {
		if name == own+s.State.Suffix {
			return own
		}
	}
	return ""
}

// said answers without changing anything.
func (s Session) said(result string) Outcome {
	return Outcome{Result: result, State: s.State, Rhythm: s.Rhythm}
}

func (s Session) failed(result string) Outcome {
	out := s.said(result)
	out.Failed = true
	return out
}

// remember cuts a failing call short when it comes again, and keeps it in mind.
func (s Session) remember(c ToolUse, out Outcome) Outcome {
	if !out.Failed {
		return out
	}
	out.Rhythm, out.Stuck = out.Rhythm.again(c.Name, canonical(c.Args))
	if out.Stuck {
		out.Result = failedAgain
	}
	return out
}
