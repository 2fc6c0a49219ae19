package config

import (
	"bytes"
	"errors"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Set returns config.toml with one setting changed and everything else, the
// comments and the order included, as it was. The result has been read back:
// it is valid and differs from the original in that setting alone.
func Set(data []byte, key, value string) ([]byte, error) {
	t := typeOf(key)
	if t == nil {
		return nil, noSuchKey(key)
	}
	before, err := decode(data)
	if err != nil {
		return nil, err
	}
	v, err := parseValue(key, t, value)
	if err != nil {
		return nil, err
	}
	out := splice(data, key, literal(v))
	after, err := Parse(out)
	var e *Error
	if broken := errors.As(err, &e) && e.Key == ""; broken || err == nil && !differOnlyIn(&before, &after, key, v) {
		return nil, &Error{Key: key, What: "this file's layout cannot be edited safely", Hint: "change it in an editor"}
	}
	return out, err
}

func noSuchKey(key string) *Error {
	e := &Error{Key: key, What: "there is no such setting"}
	if t, ok := keys()[star(key)]; ok && t == nil {
		e.What = "is a table, not a setting"
	} else if n := nearest(key); n != "" {
		e.Hint = "did you mean " + n + "?"
	}
	return e
}

// differOnlyIn reports whether after is before with key set to v. Moving a
// family to another route also takes it from the shipped one.
func differOnlyIn(before, after *Config, key string, v reflect.Value) bool {
	was, is := before.leaves(), after.leaves()
	for k, lit := range is {
		moved := strings.HasSuffix(key, ".default_for") && strings.HasSuffix(k, ".default_for")
		fresh := strings.HasPrefix(key, k[:strings.LastIndexByte(k, '.')+1]) && was[k] == ""
		if k != key && lit != was[k] && !moved && !fresh {
			return false
		}
	}
	return is[key] == literal(v)
}

func (c *Config) leaves() map[string]string {
	out := map[string]string{}
	walk(reflect.ValueOf(c).Elem(), "", Live, func(k string, v reflect.Value, _ Effect) { out[k] = literal(v) })
	return out
}

// setting is one key = value of a file: the bytes of the whole and of the value.
type setting struct {
	key                  string
	table                string
	from, valueFrom, end int
	text                 bool // the value is a string
	inline               bool // it stands in an inline table
}

// scan lists the settings of a file in order, those of inline tables one by
// one. It stops where the text is not TOML; callers decode the same text first.
func scan(data []byte) (out []setting) {
	p := unstable.Parser{}
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table:
			table, _ = dotted(n)
		case unstable.KeyValue:
			out = scanKeyValue(out, data, n, setting{table: table})
		}
	}
	return out
}

// scanKeyValue adds the settings of one expression; in names where it stands.
func scanKeyValue(out []setting, data []byte, n *unstable.Node, in setting) []setting {
	name, keyEnd := dotted(n)
	in.key = join(in.table, name)
	if n.Value().Kind == unstable.InlineTable {
		for it := n.Value().Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				out = scanKeyValue(out, data, it.Node(), setting{table: in.key, inline: true})
			}
		}
		return out
	}
	in.from, in.end = int(n.Raw.Offset), int(n.Raw.Offset+n.Raw.Length)
	in.end = in.from + len(bytes.TrimRight(data[in.from:in.end], " \t\r\n"))
	v := keyEnd + bytes.IndexByte(data[keyEnd:], '=') + 1
	in.valueFrom = v + len(data[v:in.end]) - len(bytes.TrimLeft(data[v:in.end], " \t"))
	in.text = n.Value().Kind == unstable.String
	return append(out, in)
}

// dotted joins the key of an expression and says where its bytes end.
func dotted(n *unstable.Node) (name string, end int) {
	for it := n.Key(); it.Next(); {
		k := it.Node()
		name, end = join(name, string(k.Data)), int(k.Raw.Offset+k.Raw.Length)
	}
	return name, end
}

// splice writes lit where key stands, else below the last setting of its
// table, else into a new table at the end.
func splice(data []byte, key, lit string) []byte {
	table, name := "", key
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		table, name = key[:i], key[i+1:]
	}
	last := -1
	for _, s := range scan(data) {
		if s.key == key {
			return replace(data, s.valueFrom, s.end, lit)
		}
		if s.table == table && !s.inline {
			last = s.end
		}
	}
	line := name + " = " + lit + "\n"
	if last >= 0 {
		return insertLine(data, last, line)
	}
	if at := headerEnd(data, table); at >= 0 {
		return insertLine(data, at, line)
	}
	if table == "" {
		return append([]byte(line), data...)
	}
	sep := "\n"
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		sep = "\n\n"
	}
	if len(data) == 0 {
		sep = ""
	}
	return append(bytes.Clone(data), sep+"["+table+"]\n"+line...)
}

// headerEnd is the end of a table's header, -1 when there is none.
func headerEnd(data []byte, table string) int {
	p := unstable.Parser{}
	p.Reset(data)
	for p.NextExpression() {
		if n := p.Expression(); n.Kind == unstable.Table {
			if name, end := dotted(n); name == table && table != "" {
				return end
			}
		}
	}
	return -1
}

// insertLine puts line behind the line that holds at.
func insertLine(data []byte, at int, line string) []byte {
	nl := bytes.IndexByte(data[at:], '\n')
	if nl < 0 {
		return append(append(bytes.Clone(data), '\n'), line...)
	}
	return replace(data, at+nl+1, at+nl+1, line)
}

func replace(data []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(data)+len(with))
	out = append(out, data[:from]...)
	out = append(out, with...)
	return append(out, data[to:]...)
}
