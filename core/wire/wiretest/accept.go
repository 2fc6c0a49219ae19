package wiretest

import (
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Accept is the judgement of a strict provider on a body: it is JSON without
// repeated keys, every call is answered by what comes next and every result
// answers such a call, results come before all else. With alternating, users
// and models take turns; calls and their results are part of the model's.
func Accept(codec wire.Codec, raw []byte, alternating bool) error {
	body, err := wire.Cut(raw, codec.List())
	if err != nil {
		return err
	}
	if err := body.StrictFrame(nil); err != nil {
		return err
	}
	j := judge{oneElement: codec.Family() == wire.Anthropic, open: map[string]bool{}}
	for i := range body.Elements {
		m, err := codec.Element(body.Element(i))
		if err == nil {
			err = j.element(&m)
		}
		if err == nil && alternating {
			err = j.turn(&m)
		}
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if len(j.open) > 0 {
		return fmt.Errorf("calls without result at the end: %v", j.open)
	}
	return nil
}

// judge reads a conversation once.
type judge struct {
	// oneElement says that all results of a turn stand in one element.
	oneElement bool
	// open are the calls that are not answered yet.
	open map[string]bool
	// last is who had the last turn.
	last chat.Role
}

func (j *judge) element(m *chat.Message) error {
	waiting := len(j.open) > 0
	for _, p := range m.Parts {
		switch p.Kind {
		case chat.ToolResult:
			if !j.open[p.CallID] {
				return fmt.Errorf("result of %q, which was not called just before", p.CallID)
			}
			delete(j.open, p.CallID)
		case chat.ToolCall:
			if waiting {
				return fmt.Errorf("a call while %v have no result", j.open)
			}
			j.open[p.CallID] = true
		default:
			if waiting && len(j.open) > 0 {
				return fmt.Errorf("%s before the results of %v", p.Kind, j.open)
			}
		}
	}
	if waiting && j.oneElement && len(j.open) > 0 {
		return fmt.Errorf("no result of %v", j.open)
	}
	return nil
}

// turn finds two turns of one role behind each other.
func (j *judge) turn(m *chat.Message) error {
	calls := 0
	for _, p := range m.Parts {
		if p.Kind == chat.ToolCall {
			calls++
		}
	}
	switch m.Role {
	case chat.User:
	case chat.Assistant:
		if !j.oneElement && calls > 0 {
			return nil
		}
	default:
		return nil
	}
	if m.Role == j.last {
		return fmt.Errorf("two turns of %s", m.Role)
	}
	j.last = m.Role
	return nil
}
