package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ErrFormat says that a settings file is not what its agent reads, so it is
// left alone.
var ErrFormat = errors.New("client: the settings file cannot be read")

// Config is the settings file of an agent.
type Config struct {
	Folder    string // below the home folder, with slashes
	FolderVar string // variable that moves the folder, "" for none
	File      string
	format    format
	places    []place
}

// Config is the agent's settings file, nil when it has none.
func (a Agent) Config() *Config { return a.config }

// value is a text at a place: a dotted path in JSON, a key elsewhere.
type value struct{ name, text string }

func values(places []place, at func(place) string) (out []value) {
	for _, p := range places {
		out = append(out, value{p.name, at(p)})
	}
	return out
}

// Connect returns the file with every base URL led through base.
func (c *Config) Connect(file []byte, base string) ([]byte, error) {
	if err := c.format.check(file); err != nil {
		return nil, err
	}
	out, err := c.format.apply(file, values(c.places, func(p place) string {
		before, _ := c.format.get(file, p.name)
		return Via(base, p.path, before)
	}))
	if err != nil {
		return nil, err
	}
	return out, c.format.check(out)
}

// Connected reports whether the file leads every base URL through base.
func (c *Config) Connected(file []byte, base string) bool {
	return !slices.ContainsFunc(c.places, func(p place) bool {
		at, ok := c.format.get(file, p.name)
		return !ok || !strings.HasPrefix(at, base)
	})
}

// Disconnect takes out of now, which somebody edited since, what Connect put
// in: each place that still holds the text of wrote goes back to that of
// before. What was edited stays.
func (c *Config) Disconnect(now, before, wrote []byte) ([]byte, error) {
	if err := c.format.check(now); err != nil {
		return nil, err
	}
	out := slices.Clone(now)
	for _, p := range c.places {
		ours, _ := c.format.get(wrote, p.name)
		is, ok := c.format.get(out, p.name)
		if !ok || is != ours {
			continue
		}
		var err error
		if was, had := c.format.get(before, p.name); had {
			out, err = c.format.apply(out, []value{{p.name, was}})
		} else {
			out, err = c.format.remove(out, p.name, before)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, c.format.check(out)
}

// format reads and edits one kind of file, leaving every other byte alone.
type format interface {
	check(file []byte) error
	get(file []byte, name string) (string, bool)
	apply(file []byte, set []value) ([]byte, error)
	// remove takes a setting out; before is the file as it was without it.
	remove(file []byte, name string, before []byte) ([]byte, error)
}

// jsonFile is one JSON object.
type jsonFile struct{}

func (jsonFile) check(file []byte) error {
	if len(bytes.TrimSpace(file)) > 0 && !(gjson.ValidBytes(file) && gjson.ParseBytes(file).IsObject()) {
		return fmt.Errorf("%w: it is not one JSON object (comments are not understood)", ErrFormat)
	}
	return nil
}

func (jsonFile) get(file []byte, name string) (string, bool) {
	r := gjson.GetBytes(file, name)
	return r.String(), r.Exists()
}

func (jsonFile) apply(file []byte, set []value) ([]byte, error) {
	fresh := len(bytes.TrimSpace(file)) == 0
	out := slices.Clone(file)
	if fresh {
		out = []byte("{}")
	}
	for _, v := range set {
		var err error
		if out, err = sjson.SetBytes(out, v.name, v.text); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	if !fresh {
		return out, nil
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, out, "", "  "); err != nil {
		return nil, err
	}
	pretty.WriteByte('\n')
	return pretty.Bytes(), nil
}

// remove takes a member out, and the objects around it that are empty then
// and were not there before.
func (jsonFile) remove(file []byte, name string, before []byte) ([]byte, error) {
	out, err := sjson.DeleteBytes(file, name)
	for err == nil {
		at := strings.LastIndexByte(name, '.')
		if at < 0 {
			break
		}
		name = name[:at]
		if len(gjson.GetBytes(out, name).Map()) > 0 || gjson.GetBytes(before, name).Exists() {
			break
		}
		out, err = sjson.DeleteBytes(out, name)
	}
	return out, err
}

// lines is a file of one setting per line. With tables it is TOML: only the
// lines before the first table count, and texts are quoted.
type lines struct{ tables bool }

func (l lines) check(file []byte) error {
	if !l.tables {
		return nil
	}
	var any map[string]any
	if err := toml.Unmarshal(file, &any); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

// find returns the extent of a setting's line, its line break included, or
// where one may be put.
func (l lines) find(file []byte, name string) (from, to int, found bool) {
	for from < len(file) {
		to = len(file)
		if n := bytes.IndexByte(file[from:], '\n'); n >= 0 {
			to = from + n + 1
		}
		line := strings.TrimSpace(string(file[from:to]))
		if l.tables && strings.HasPrefix(line, "[") {
			return 0, 0, false
		}
		if key, _, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == name {
			return from, to, true
		}
		from = to
	}
	return 0, 0, false
}

func (l lines) get(file []byte, name string) (string, bool) {
	from, to, ok := l.find(file, name)
	if !ok {
		return "", false
	}
	_, text, _ := strings.Cut(strings.TrimSpace(string(file[from:to])), "=")
	return strings.Trim(strings.TrimSpace(text), `"'`), true
}

func (l lines) apply(file []byte, set []value) ([]byte, error) {
	for _, v := range set {
		line := v.name + "=" + v.text + "\n"
		if l.tables {
			line = fmt.Sprintf("%s = %q\n", v.name, v.text)
		}
		from, to, _ := l.find(file, v.name)
		file = slices.Concat(file[:from], []byte(line), file[to:])
	}
	return file, nil
}

func (l lines) remove(file []byte, name string, _ []byte) ([]byte, error) {
	from, to, _ := l.find(file, name)
	return slices.Concat(file[:from], file[to:]), nil
}

// compact is a JSON text on one line.
func compact(text []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return string(text)
	}
	return b.String()
}
