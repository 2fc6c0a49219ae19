package fold

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Shape is how a wire spells a tool; the values are the wires' own names.
type Shape string

// The four shapes.
const (
	ShapeAnthropic Shape = "anthropic"
	ShapeChat      Shape = "openai"
	ShapeResponses Shape = "responses"
	ShapeGoogle    Shape = "google"
)

// Tool is one of our tools as plain values.
type Tool struct {
	Name        string
	Description string
	Params      []Param
}

// Param is one argument: a plain type, or a list of objects with Items.
type Param struct {
	Name, Type, Description string
	Required                bool
	Items                   []Param
}

func toolNames() [4]string {
	return [4]string{ToolCompress, ToolDecompress, ToolSearch, ToolStatus}
}

// Tools are our tools in their constant order; suffix is the state's.
func Tools(suffix string) []Tool {
	text := func(name, say string) Param { return Param{Name: name, Type: "string", Description: say} }
	must := func(p Param) Param { p.Required = true; return p }
	whole := func(name, say string) Param { return Param{Name: name, Type: "integer", Description: say} }
	ranges := Param{Name: "content", Type: "array", Description: sayContent, Items: []Param{
		must(text("startId", sayStart)), must(text("endId", sayEnd)), must(text("summary", saySummary)), text("topic", sayRangeTopic)}}
	return []Tool{
		{ToolCompress + suffix, sayCompress, []Param{must(ranges), text("topic", sayTopic)}},
		{ToolDecompress + suffix, sayDecompress, []Param{must(text("blockId", sayBlock)), whole("page", sayPage), {Name: "full", Type: "boolean", Description: sayFull}}},
		{ToolSearch + suffix, saySearch, []Param{must(text("query", sayQuery)), whole("limit", saySearchMax)}},
		{ToolStatus + suffix, sayStatus, []Param{text("scope", sayScope), text("view", sayView), whole("limit", sayStatusMax)}},
	}
}

// ToolsJSON are our tools as a wire's list takes them, one value each, the same
// bytes every time.
func ToolsJSON(shape Shape, suffix string) []json.RawMessage {
	tools := Tools(suffix)
	out := make([]json.RawMessage, len(tools))
	for i, t := range tools {
		name, say, schema := quoted(t.Name), quoted(t.Description), object(t.Params, shape)
		var form string
		switch shape {
		case ShapeAnthropic:
			form = fmt.Sprintf(`{"name":%s,"description":%s,"input_schema":%s}`, name, say, schema)
		case ShapeResponses:
			form = fmt.Sprintf(`{"type":"function","name":%s,"description":%s,"parameters":%s,"strict":false}`, name, say, schema)
		case ShapeGoogle:
			form = fmt.Sprintf(`{"name":%s,"description":%s,"parameters":%s}`, name, say, schema)
		default:
			form = fmt.Sprintf(`{"type":"function","function":{"name":%s,"description":%s,"parameters":%s}}`, name, say, schema)
		}
		out[i] = json.RawMessage(form)
	}
	return out
}

// object is a plain object schema: no combinators, some providers refuse them.
func object(params []Param, shape Shape) string {
	props, required := make([]string, len(params)), []string{}
	for i, p := range params {
		props[i] = quoted(p.Name) + ":" + property(p, shape)
		if p.Required {
			required = append(required, quoted(p.Name))
		}
	}
	s := `{"type":` + typed("object", shape) + `,"properties":{` + strings.Join(props, ",") + `}`
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return s + `}`
}

func property(p Param, shape Shape) string {
	s := `{"type":` + typed(p.Type, shape) + `,"description":` + quoted(p.Description)
	if p.Items != nil {
		s += `,"items":` + object(p.Items, shape)
	}
	return s + `}`
}

// typed spells a type; Google's schemas write it in capitals.
func typed(t string, shape Shape) string {
	if shape == ShapeGoogle {
		t = strings.ToUpper(t)
	}
	return quoted(t)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("fold: internal error: a text does not marshal: " + err.Error())
	}
	return string(b)
}

// canonical is one spelling of arguments, so that a call that comes again is
// known by its hash; what is not JSON stands for itself.
func canonical(args []byte) []byte {
	var v any
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return args
	}
	b, err := json.Marshal(v)
	if err != nil {
		return args
	}
	return b
}
