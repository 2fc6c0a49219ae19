package demo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// tool is one tool a request offers.
type tool struct {
	name   string
	schema *schema
}

// schema is as much of JSON Schema as tools use to describe their arguments.
type schema struct {
	Type       json.RawMessage    `json:"type"`
	Const      any                `json:"const"`
	Enum       []any              `json:"enum"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Minimum    *float64           `json:"minimum"`
}

// is reports whether the schema's type is, or may be, name.
func (s *schema) is(name string) bool {
	return s != nil && bytes.Contains(bytes.ToLower(s.Type), []byte(`"`+name+`"`))
}

// example makes a value that fits the schema: the first choice everywhere.
// depth bounds a schema that contains itself.
func (s *schema) example(depth int) any {
	switch {
	case s == nil || depth > 8:
		return "stub"
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].example(depth + 1)
	case len(s.OneOf) > 0:
		return s.OneOf[0].example(depth + 1)
	case s.is("object") || s.Properties != nil:
		return s.members(depth)
	case s.is("array"):
		return []any{}
	case s.is("boolean"):
		return false
	case s.is("integer") || s.is("number"):
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	}
	return "stub"
}

func (s *schema) members(depth int) map[string]any {
	out := map[string]any{}
	for _, name := range s.Required {
		out[name] = s.Properties[name].example(depth + 1)
	}
	return out
}

// args fills a tool's arguments with what the wish says and, for the rest of
// the required ones, with examples.
func (w wish) args(s *schema) map[string]any {
	out := map[string]any{}
	if s != nil {
		for name, prop := range s.Properties {
			if v, ok := w.value(name, prop); ok {
				out[name] = v
			} else if slices.Contains(s.Required, name) {
				out[name] = prop.example(0)
			}
		}
	}
	for name, v := range w.Args {
		out[name] = v
	}
	return out
}

// value is the wish's own value for a property, by the names agents use.
func (w wish) value(name string, prop *schema) (any, bool) {
	has := func(v string, names ...string) bool { return v != "" && slices.Contains(names, name) }
	switch {
	case has(w.Cmd, "command", "cmd"):
		if prop.is("array") {
			return []string{"bash", "-lc", w.Cmd}, true
		}
		return w.Cmd, true
	case w.Path != "" && !prop.is("array") && (strings.Contains(name, "path") || strings.Contains(name, "file")):
		return w.Path, true
	case has(w.Content, "content", "contents", "file_text", "text"):
		return w.Content, true
	case has(w.Prompt, "prompt", "task", "message"):
		return w.Prompt, true
	case has(w.Agent, "subagent_type", "agent", "agent_type"):
		return w.Agent, true
	}
	return nil, false
}
