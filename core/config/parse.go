package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Error is a setting somebody has to put right.
type Error struct {
	Key  string // dotted, "" when the file is not TOML
	Line int    // in config.toml, 0 when it does not come from there
	What string // what is wrong
	Hint string // what to do
}

func (e *Error) Error() string {
	var at []string
	if e.Line > 0 {
		at = append(at, fmt.Sprint("config.toml line ", e.Line))
	}
	if e.Key != "" {
		at = append(at, e.Key)
	}
	s := strings.Join(append(at, e.What), ": ")
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Parse reads config.toml over the defaults and checks the result. An unknown
// key is an error: a misspelt budget must not silently be the default one.
func Parse(data []byte) (Config, error) {
	c, err := decode(data)
	if err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, locate(err, data)
	}
	return c, nil
}

func decode(data []byte) (Config, error) {
	var any map[string]any
	if err := toml.Unmarshal(data, &any); err != nil {
		return Config{}, syntaxError(err)
	}
	c := Default().clone()
	dec := toml.NewDecoder(bytes.NewReader(data))
	if err := dec.DisallowUnknownFields().Decode(&c); err != nil {
		return Config{}, typeError(err)
	}
	for _, s := range scan(data) {
		// The decoder would take a bare number as bytes; a size has a unit.
		if t := typeOf(s.key); t == reflect.TypeFor[Size]() && !s.text {
			return Config{}, &Error{Key: s.key, Line: line(data, s.from), What: "wants " + wants(t)}
		}
		c.sources[s.key] = FromFile
	}
	c.yieldDefaults()
	return c, nil
}

func line(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }

// yieldDefaults lets a route that the file makes the default of a family take
// it from the shipped route, so that one line is enough to move a family.
func (c *Config) yieldDefaults() {
	claimed := map[Family]bool{}
	for name, r := range c.Routes {
		if c.Source("routes."+name+".default_for") == FromFile {
			for _, f := range r.DefaultFor {
				claimed[f] = true
			}
		}
	}
	for name, r := range c.Routes {
		if len(r.DefaultFor) == 0 || c.Source("routes."+name+".default_for") == FromFile {
			continue
		}
		kept := []Family{}
		for _, f := range r.DefaultFor {
			if !claimed[f] {
				kept = append(kept, f)
			}
		}
		r.DefaultFor = kept
		c.Routes[name] = r
	}
}

// syntaxError is the complaint about text that is not TOML at all.
func syntaxError(err error) error {
	out := &Error{What: "is not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	var one *toml.DecodeError
	if errors.As(err, &one) {
		out.Line, _ = one.Position()
	}
	return out
}

// typeError puts the decoder's complaint about good TOML into the owner's words.
func typeError(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		return unknownKey(&strict.Errors[0])
	}
	var one *toml.DecodeError
	if !errors.As(err, &one) {
		return &Error{What: err.Error()}
	}
	at, _ := one.Position()
	out := &Error{Key: strings.Join(one.Key(), "."), Line: at}
	if t := typeOf(out.Key); t != nil {
		out.What = "wants " + wants(t)
	} else {
		out.What = "wants a table [" + out.Key + "]"
	}
	return out
}

func unknownKey(e *toml.DecodeError) error {
	at, _ := e.Position()
	out := noSuchKey(strings.Join(e.Key(), "."))
	out.Line = at
	return out
}

// locate adds the line of the file to an error about a key that stands in it.
func locate(err error, data []byte) error {
	var e *Error
	if !errors.As(err, &e) || e.Line != 0 {
		return err
	}
	for _, s := range scan(data) {
		if s.key == e.Key {
			at := *e
			at.Line = line(data, s.from)
			return &at
		}
	}
	return err
}
