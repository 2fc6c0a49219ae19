package fold

import (
	"fmt"
	"strings"

	"holdfast/core/chat"
)

// artifacts lists what the calls of elements did, after what earlier lists say.
// A result belongs to the latest call of its id before it; where ids are missing,
// calls are answered in order.
func (t Texts) artifacts(earlier []string, ns []int64) string {
	var calls []Call
	named := map[string]int{}
	var unnamed []int
	for _, n := range ns {
		m := t.Elements[n]
		if m == nil {
			continue
		}
		for i := range m.Parts {
			switch p := &m.Parts[i]; {
			case p.Kind == chat.ToolCall:
				if p.CallID == "" {
					unnamed = append(unnamed, len(calls))
				} else {
					named[p.CallID] = len(calls)
				}
				calls = append(calls, Call{Tool: p.Tool, Arguments: p.Text})
			case p.Kind == chat.ToolResult && p.CallID == "" && len(unnamed) > 0:
				calls[unnamed[0]].Result += p.Text
				unnamed = unnamed[1:]
			case p.Kind == chat.ToolResult:
				if k, ok := named[p.CallID]; ok {
					calls[k].Result += p.Text
				}
			}
		}
	}
	return artifactsAfter(earlier, calls)
}

// transcript writes an element for reading.
func (t Texts) transcript(e *Element) string {
	head := fmt.Sprintf("--- %s %s\n", e.ref(), e.voice())
	m := t.Elements[e.N]
	if m == nil {
		return head + originalGone + "\n"
	}
	var s strings.Builder
	s.WriteString(head)
	for i := range m.Parts {
		s.WriteString(partText(m, &m.Parts[i]))
	}
	return s.String()
}

func partText(m *chat.Message, p *chat.Part) string {
	switch p.Kind {
	case chat.Reasoning, chat.Empty:
		return ""
	case chat.ToolCall:
		return "call " + p.Tool + " " + p.Text + "\n"
	case chat.Media:
		return mediaWord + "\n"
	}
	text, _ := Readable(m, p.Text)
	return text + "\n"
}
