//go:build clients && record

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// identity are the headers that say which conversation a request belongs to.
func identity() []string {
	return []string{"X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id", "X-Session-Affinity", "X-Session-Id", "X-Parent-Session-Id"}
}

// develop writes the model calls among the exchanges as one golden: a section
// per request with its path, its identity and its body, one line per field and
// per message. The client's bodies are compact, so the lines joined are the body.
func develop(t *testing.T, file, did string, seen []exchange, mine own) {
	t.Helper()
	ar := &txtar.Archive{Comment: []byte(did + "\n")}
	if old, err := txtar.ParseFile(file); err == nil {
		ar.Comment = old.Comment
	}
	c := &censor{own: mine, texts: map[string]string{}, ids: map[string]string{}}
	for _, ex := range seen {
		if ex.method != "POST" {
			continue
		}
		_, path, _ := strings.Cut(strings.TrimPrefix(ex.uri, "/c/"), "/")
		var b bytes.Buffer
		fmt.Fprintf(&b, "POST /%s\n", path)
		for _, name := range identity() {
			if v := ex.header.Get(name); v != "" {
				fmt.Fprintf(&b, "%s: %s\n", name, c.stable(v))
			}
		}
		b.WriteByte('\n')
		body, err := parse(ex.body)
		if err != nil || !bytes.Equal(body.append(nil), ex.body) {
			t.Fatalf("this body is not compact JSON as it is written here: %v\n%s", err, ex.body)
		}
		c.body(body)
		body.lines(&b)
		ar.Files = append(ar.Files, txtar.File{Name: fmt.Sprint(len(ar.Files) + 1), Data: b.Bytes()})
	}
	if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}

// own are the texts of ours: prompts, the scripted model's lines and what the
// commands it runs print.
type own map[string]bool

func newOwn() own {
	o := own{}
	for _, s := range []string{"", "stub", "slack water at noon", "1 notes.txt", "notes.txt", "AGENTS.md\nnotes.txt", "cat notes.txt", "wc -l notes.txt", "ls", "Count the lines of notes.txt.", "general-purpose",
		"I look at what is there before I change anything.", "DONE. The scripted model has finished this task."} {
		o[s] = true
	}
	for i := range 9 {
		o[fmt.Sprintf("Step %d.", i+1)] = true
	}
	return o
}

// prompt adds a prompt and the last words its directive asks for.
func (o own) prompt(p string) {
	o[p] = true
	_, directive, found := strings.Cut(p, "STUB")
	var d struct {
		Final string `json:"final"`
	}
	if found && json.Unmarshal([]byte(directive), &d) == nil {
		o[d.Final] = true
	}
}

func (o own) has(s string) bool { return o[strings.TrimSpace(s)] }

// censor replaces what is not ours: texts by invented ones, the same by the
// same, and ids that differ from run to run by counted ones.
type censor struct {
	own   own
	texts map[string]string
	ids   map[string]string
}

// text is the replacement of a third party's text.
func (c *censor) text(kind, s string) string {
	if c.texts[s] == "" {
		c.texts[s] = fmt.Sprintf("%s %d.", kind, len(c.texts)+1)
	}
	return c.texts[s]
}

// varying matches what differs from run to run: UUIDs, hashes, opencode's and
// the subagents' ids, and what the scripted model derives from a request.
var varying = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|\bses_\w{20,}|\ba[0-9a-f]{16}\b|\b(toolu_01|call_)[0-9a-f]{24}\b|\b(c2ln|cmVk)O[0-9A-Za-z+/]{20,}=*`)

// stable replaces varying ids by others of the same form.
func (c *censor) stable(s string) string {
	return varying.ReplaceAllStringFunc(s, func(id string) string {
		if c.ids[id] == "" {
			c.ids[id] = numbered(id, len(c.ids)+1)
		}
		return c.ids[id]
	})
}

// numbered is n in the form of an id: its prefix and dashes stay.
func numbered(id string, n int) string {
	digits := fmt.Sprintf("%x", n)
	out := []byte(id)
	from := 0
	if len(id) == 17 { // a subagent's id is the letter a and 16 digits
		from = 1
	}
	for _, prefix := range []string{"toolu_01", "call_", "ses_", "c2lnO", "cmVkO"} {
		if strings.HasPrefix(id, prefix) {
			from = len(prefix)
		}
	}
	for i := len(out) - 1; i >= from; i-- {
		switch {
		case out[i] == '-' || out[i] == '=':
		case digits != "":
			out[i], digits = digits[len(digits)-1], digits[:len(digits)-1]
		default:
			out[i] = '0'
		}
	}
	return string(out)
}

// body censors a request in place.
func (c *censor) body(b *value) {
	for i, name := range b.keys {
		v := b.kids[i]
		switch name {
		case "messages":
			c.message(v, "")
		case "tools":
			for _, tool := range v.kids {
				c.tool(tool)
			}
		case "safeguards":
			raw := string(v.append(nil))
			*v = *list(object([]string{"type", "classifier_context"}, text("dangerous_tool_use"), text(c.text("Context", raw))))
		default:
			c.field(v, name)
		}
	}
}

// plain is a word of the protocol, not a sentence of anybody's.
var plain = regexp.MustCompile(`^[\w.:+-]{0,64}$`)

// field censors the frame: what is no word of the protocol is replaced. The
// billing line is a word of it.
func (c *censor) field(v *value, key string) {
	for i := range v.kids {
		name := key
		if v.keys != nil {
			name = v.keys[i]
		}
		if name == "schema" && v.kids[i].keys != nil {
			*v.kids[i] = *object([]string{"type"}, text("object"))
			continue
		}
		c.field(v.kids[i], name)
	}
	if s, ok := v.text(); ok {
		switch {
		case key == "user_id" || strings.HasPrefix(s, "x-anthropic-billing-header:") || plain.MatchString(s):
			v.setText(c.stable(s))
		default:
			v.setText(c.text("System text", s))
		}
	}
}

// tool keeps a tool's name and what it is, an invented description that differs
// where the tool differs, and no schema.
func (c *censor) tool(v *value) {
	raw := string(v.append(nil))
	for i, key := range v.keys {
		switch key {
		case "description":
			*v.kids[i] = *text(c.text("Tool text", raw))
		case "input_schema", "parameters":
			*v.kids[i] = *object([]string{"type"}, text("object"))
		case "function":
			c.tool(v.kids[i])
		}
	}
}

// words are the members of messages that hold no prose.
func words() []string {
	return []string{"type", "role", "id", "tool_use_id", "tool_call_id", "name", "signature", "data", "ttl", "effort", "arguments"}
}

// message censors a message, or a part of one.
func (c *censor) message(v *value, key string) {
	for i := range v.kids {
		if v.keys != nil {
			key = v.keys[i]
		}
		c.message(v.kids[i], key)
	}
	s, ok := v.text()
	switch {
	case !ok:
	case c.own.has(s) || slices.Contains(words(), key):
		v.setText(c.stable(s))
	default:
		v.setText(c.text("Client text", s))
	}
}

// value is JSON with its members in order. A scalar is its raw bytes; an object
// has keys, an array has kids alone.
type value struct {
	raw  []byte
	open byte // '{', '[' or 0
	keys []string
	kids []*value
}

func text(s string) *value {
	v := &value{}
	v.setText(s)
	return v
}

func list(kids ...*value) *value { return &value{open: '[', kids: kids} }

func object(keys []string, kids ...*value) *value { return &value{open: '{', keys: keys, kids: kids} }

func (v *value) text() (s string, ok bool) {
	return s, len(v.raw) > 0 && v.raw[0] == '"' && json.Unmarshal(v.raw, &s) == nil
}

func (v *value) setText(s string) { v.raw = quote(s) }

func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func parse(b []byte) (*value, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	v, err := read(dec)
	if err == nil && dec.More() {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

func read(dec *json.Decoder) (*value, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return scalar(tok), nil
	}
	v := &value{open: byte(open)}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v.keys = append(v.keys, key.(string))
		}
		kid, err := read(dec)
		if err != nil {
			return nil, err
		}
		v.kids = append(v.kids, kid)
	}
	_, err = dec.Token()
	return v, err
}

func scalar(tok json.Token) *value {
	switch tok := tok.(type) {
	case string:
		return text(tok)
	case json.Number:
		return &value{raw: []byte(tok)}
	}
	return &value{raw: []byte(strings.ReplaceAll(fmt.Sprint(tok), "<nil>", "null"))}
}

// append writes the value compactly.
func (v *value) append(b []byte) []byte {
	if v.open == 0 {
		return append(b, v.raw...)
	}
	b = append(b, v.open)
	for i, kid := range v.kids {
		if i > 0 {
			b = append(b, ',')
		}
		if v.open == '{' {
			b = append(append(b, quote(v.keys[i])...), ':')
		}
		b = kid.append(b)
	}
	return append(b, v.open+2) // ] and } stand two behind [ and { in ASCII
}

// lines writes a body with one line per field and per message.
func (v *value) lines(b *bytes.Buffer) {
	lead := "{"
	for i, kid := range v.kids {
		fmt.Fprintf(b, "%s%s:", lead, quote(v.keys[i]))
		lead = ","
		if v.keys[i] != "messages" {
			fmt.Fprintf(b, "%s\n", kid.append(nil))
			continue
		}
		b.WriteString("[\n")
		for j, m := range kid.kids {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%s\n", m.append(nil))
		}
		b.WriteString("]\n")
	}
	b.WriteString("}\n")
}
