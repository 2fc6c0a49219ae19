package wiretest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"holdfast/core/wire"
)

// Talk makes up conversations on a wire. A group is one that stands or falls
// together: what a user says, or what the model says and the results of its
// calls.
type Talk struct {
	R      *rand.Rand
	Family wire.Family
	calls  int
}

// Group are the elements of a group.
type Group struct {
	Elements []string
	// User says that a user speaks; Calls are the ids of the model's calls.
	User  bool
	Calls []string
}

// Groups are n turns: a user's, then the model's with and without calls. The
// last is one that a model would go on from.
func (k *Talk) Groups(n int) []Group {
	groups := []Group{k.Ask()}
	for len(groups) < n {
		if k.R.IntN(3) > 0 {
			groups = append(groups, k.Work())
			continue
		}
		groups = append(groups, k.Say(), k.Ask())
	}
	return groups
}

// Ask is something a user says.
func (k *Talk) Ask() Group {
	return Group{User: true, Elements: []string{k.element("user", k.content())}}
}

// Say is something the model says.
func (k *Talk) Say() Group {
	return Group{Elements: []string{k.element("assistant", k.content())}}
}

// Work is something the model does.
func (k *Talk) Work() Group {
	ids := make([]string, 1+k.R.IntN(3))
	for i := range ids {
		ids[i] = fmt.Sprintf("call_%d", k.calls)
		k.calls++
	}
	return Group{Calls: ids, Elements: append([]string{k.Call(ids...)}, k.results(ids)...)}
}

// Call is the model's element with calls.
func (k *Talk) Call(ids ...string) string {
	var parts []string
	for _, id := range ids {
		if k.Family == wire.Anthropic {
			parts = append(parts, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Read","input":{"n": 1.0}%s}`, id, k.marker()))
		} else {
			parts = append(parts, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"read","arguments":"{ }"}}`, id))
		}
	}
	calls := "[" + strings.Join(parts, k.comma()) + "]"
	if k.Family == wire.Anthropic {
		return k.element("assistant", calls)
	}
	return `{"role":"assistant","content":null,"tool_calls":` + calls + `}`
}

func (k *Talk) results(ids []string) []string {
	var out []string
	for _, id := range ids {
		if k.Family == wire.Anthropic {
			out = append(out, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s%s}`, id, k.content(), k.marker()))
		} else {
			out = append(out, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, id, k.content()))
		}
	}
	if k.Family != wire.Anthropic {
		return out
	}
	if k.R.IntN(3) == 0 {
		out = append(out, k.block())
	}
	return []string{k.element("user", "["+strings.Join(out, k.comma())+"]")}
}

func (k *Talk) element(role, content string) string {
	if k.R.IntN(4) == 0 {
		return fmt.Sprintf("{\n \"content\" : %s,\n \"role\": %q }", content, role)
	}
	return fmt.Sprintf(`{"role":%q,"content":%s}`, role, content)
}

// content is a string, or blocks of text.
func (k *Talk) content() string {
	if k.R.IntN(2) == 0 {
		return k.Text()
	}
	blocks := []string{k.block()}
	if k.R.IntN(3) == 0 {
		blocks = append(blocks, k.block())
	}
	return "[" + strings.Join(blocks, k.comma()) + "]"
}

func (k *Talk) block() string {
	return `{"type":"text","text":` + k.Text() + k.marker() + `}`
}

func (k *Talk) marker() string {
	if k.R.IntN(6) == 0 {
		return `, "cache_control":{"type":"ephemeral"}`
	}
	return ""
}

func (k *Talk) comma() string { return []string{",", ", ", "\n,"}[k.R.IntN(3)] }

// Text is a JSON string as clients escape it.
func (k *Talk) Text() string {
	words := []string{`word`, `\n`, `\u00e9`, `é`, `\"`, `한국`, `\ud83d`, `\\`, `/`}
	var b strings.Builder
	for n := 1 + k.R.IntN(30); n > 0; n-- {
		b.WriteString(words[k.R.IntN(len(words))])
	}
	return `"w` + b.String() + `"`
}

// Body puts elements into a request, with a system text and tools or without.
// The same seed gives the same frame.
func (k *Talk) Body(seed uint64, elements []string) []byte {
	frame := rand.New(rand.NewPCG(seed, 0))
	parts := []string{`"model": "m"`, `"messages": [` + strings.Join(elements, ", ") + ` ]`}
	for _, field := range []string{k.system(frame), `"tools": [{"name":"Read"} ]`, `"max_tokens":1.0`} {
		if at := frame.IntN(len(parts) + 1); field != "" && frame.IntN(3) > 0 {
			parts = append(parts[:at], append([]string{field}, parts[at:]...)...)
		}
	}
	return []byte("{" + strings.Join(parts, ",\n") + "}")
}

func (k *Talk) system(frame *rand.Rand) string {
	if k.Family != wire.Anthropic {
		return ""
	}
	return []string{
		`"system":"You are."`,
		`"system":[{"type":"text","text":"You are.","cache_control":{"type":"ephemeral"}}]`,
		`"system":[ ]`,
	}[frame.IntN(3)]
}

// Lead is the system element some conversations start with, on wires that have
// one.
func (k *Talk) Lead() []string {
	if k.Family == wire.Anthropic || k.R.IntN(3) == 0 {
		return nil
	}
	return []string{k.element([]string{"system", "developer"}[k.R.IntN(2)], k.content())}
}

// Own are our tools, as far as Render cares.
func Own() []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"name":"hf_a"}`), json.RawMessage(`{"name":"hf_b"}`)}
}
