package fold

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/usage"
)

// Element is what the kernel knows of one element of the list: figures the
// chain keeps in memory from the one time it decoded it. Texts are handed in
// only when a tool call asks for them.
type Element struct {
	// N is the ledger number.
	N int64
	// Ref is the number of the m-ref; 0 for elements that never get one.
	Ref  int64
	Role chat.Role
	// Key is the element key, the witness of every event that names it.
	Key content.ID
	// Chars are the characters of all texts, Tokens an estimate until the
	// upstream reported.
	Chars  int
	Tokens usage.Tokens
	Cores  []Core
	Fixed  Fixed
	// First are the first words, on one line, at most firstWords characters.
	First string
	// Removed says that the client dropped it and the view keeps it.
	Removed bool
}

// Core is what the kernel knows of one part of an element.
type Core struct {
	Kind chat.Kind
	// Tool is the called tool's name, Call pairs a call with its result; both
	// empty where the wire has none.
	Tool   string
	Call   string
	Chars  int
	Tokens usage.Tokens
}

// Fixed says why an element can never be folded whatever its role.
type Fixed string

// The kinds of fixed element.
const (
	Definition Fixed = "definition" // declares tools or settings, or names an item by id
	Compaction Fixed = "compaction" // stands for a history only the provider can read
)

const firstWords = 60

// mediaTokens is the usual upper figure for one image, whatever its bytes.
const mediaTokens usage.Tokens = 1_600

// Describe reads an element's figures. N and Ref are the ledger's to fill in,
// and so is Tokens where it knows better. A payload is no text wherever it
// stands: it counts as one image.
func Describe(m *chat.Message) Element {
	e := Element{Role: m.Role, Key: m.Key, Fixed: fixedType(m.Type), Cores: make([]Core, len(m.Parts))}
	bytes := len(m.Stripped)
	for _, s := range m.Media {
		bytes -= s.Len()
	}
	e.Tokens = usage.EstimateBytes(bytes)
	for i := range m.Parts {
		p := &m.Parts[i]
		text, media := Readable(m, p.Text)
		c := Core{Kind: p.Kind, Tool: p.Tool, Call: p.CallID, Chars: utf8.RuneCountInString(text), Tokens: EstimateText(text)}
		if p.Kind == chat.Media {
			c.Chars, c.Tokens, media = 0, 0, 1
		}
		c.Tokens += mediaTokens * usage.Tokens(media)
		e.Tokens += mediaTokens * usage.Tokens(media)
		if p.Kind == chat.Opaque && e.Fixed == "" {
			e.Fixed = fixedType(typeOf(p.Text))
		}
		e.Chars += c.Chars
		e.Cores[i] = c
	}
	e.First = firstOf(m)
	return e
}

// Readable is a text of an element with a word in the place of each base64
// payload, and how many there were: images inside a tool result, above all.
func Readable(m *chat.Message, text string) (string, int) {
	n := 0
	for _, s := range m.Media {
		payload := string(s.Of(m.Stripped))
		if k := strings.Count(text, payload); k > 0 {
			text, n = strings.ReplaceAll(text, payload, mediaWord), n+k
		}
	}
	return text, n
}

// fixedType knows the item types that declare something or stand for a history.
func fixedType(t string) Fixed {
	switch t {
	case "additional_tools", "tool_addition", "tool_removal", "mcp_list_tools", "configuration_update", "item_reference":
		return Definition
	case "compaction", "compaction_summary", "compaction_trigger", "context_compaction":
		return Compaction
	}
	return ""
}

func typeOf(block string) string {
	var t struct {
		Type string `json:"type"`
	}
	if json.Unmarshal([]byte(block), &t) != nil {
		return ""
	}
	return t.Type
}

// firstOf are the first words an element says, or the call it makes.
func firstOf(m *chat.Message) string {
	var call string
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case chat.Text, chat.ToolResult:
			text, _ := Readable(m, p.Text)
			if s := headOf(text, firstWords); s != "" {
				return s
			}
		case chat.ToolCall:
			if call == "" {
				call = headOf(p.Tool+" "+p.Text, firstWords)
			}
		}
	}
	return call
}

// thought reports whether every core is reasoning: a client may drop such an
// element at any time, and it stays with the element after it.
func (e *Element) thought() bool {
	for i := range e.Cores {
		if e.Cores[i].Kind != chat.Reasoning {
			return false
		}
	}
	return len(e.Cores) > 0
}

// asked reports whether a user wrote the element, rather than a tool.
func (e *Element) asked() bool {
	if e.Role != chat.User {
		return false
	}
	for i := range e.Cores {
		if e.Cores[i].Kind == chat.ToolResult {
			return false
		}
	}
	return true
}

func (e *Element) system() bool { return e.Role == chat.System || e.Role == chat.Developer }

func (e *Element) ref() string { return Ref{Number: e.Ref}.String() }

// voice is the role as the model knows it: on some wires a result is sent by
// the user.
func (e *Element) voice() string {
	if e.Role == chat.User && !e.asked() {
		return string(chat.Tool)
	}
	return string(e.Role)
}
