package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Arguments are read the way models write them: a list as a string of JSON, one
// range without its list, numbers and booleans as strings, other common names.

var errNotObject = errors.New(notJSON)

// fields is a tool's argument object.
type fields map[string]json.RawMessage

// readFields takes the arguments as an object, as a string that holds one, or
// as nothing at all.
func readFields(args []byte) (fields, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return fields{}, nil
	}
	var f fields
	if json.Unmarshal(unquoted(args), &f) != nil {
		return nil, errNotObject
	}
	return f, nil
}

// unquoted unwraps a JSON string that holds JSON.
func unquoted(raw []byte) []byte {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	if inner := []byte(strings.TrimSpace(s)); json.Valid(inner) {
		return inner
	}
	return raw
}

// get is the first field of these names that is there; case, underscores and
// dashes in the model's spelling do not count.
func (f fields) get(names ...string) json.RawMessage {
	for _, want := range names {
		if v, ok := f[want]; ok {
			return v
		}
	}
	plain := strings.NewReplacer("_", "", "-", "")
	for _, want := range names {
		for name, v := range f {
			if strings.EqualFold(plain.Replace(name), want) {
				return v
			}
		}
	}
	return nil
}

func (f fields) text(names ...string) string {
	raw := f.get(names...)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSpace(s)
	}
	if raw == nil || string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// number reads a whole number, also one written as a string or with a fraction.
func (f fields) number(def int, names ...string) int {
	v, err := strconv.ParseFloat(f.text(names...), 64)
	if err != nil || v < 1 || v > 1e6 {
		return def
	}
	return int(v)
}

func (f fields) flag(names ...string) bool {
	on, err := strconv.ParseBool(strings.ToLower(f.text(names...)))
	return err == nil && on
}

// request is one range as the model asked for it.
type request struct {
	start, end, summary, topic string
}

// requests reads hf_compress's ranges.
func (f fields) requests() ([]request, error) {
	topic := f.text("topic")
	list := unquoted(f.get("content", "ranges"))
	var many []fields
	var one fields
	switch {
	case json.Unmarshal(list, &many) == nil:
	case json.Unmarshal(list, &one) == nil && one != nil:
		many = []fields{one}
	case f.get("startId", "startRef", "start", "from") != nil:
		many = []fields{f}
	}
	if len(many) == 0 {
		return nil, errors.New(needContent)
	}
	out := make([]request, len(many))
	for i, r := range many {
		out[i] = request{start: r.text("startId", "startRef", "start", "from"), end: r.text("endId", "endRef", "end", "to"),
			summary: r.text("summary"), topic: r.text("topic")}
		if out[i].topic == "" {
			out[i].topic = topic
		}
	}
	return out, nil
}

// target reads a blockId: b3, "3", 3, or the ref of a message.
func (f fields) target() (Ref, string) {
	said := f.text("blockId", "block", "id")
	if r, ok := ParseRef(said); ok {
		return r, said
	}
	if n, err := strconv.ParseInt(said, 10, 64); err == nil && n > 0 {
		return Ref{Number: n, Block: true}, said
	}
	return Ref{}, said
}
