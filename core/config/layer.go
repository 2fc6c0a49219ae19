package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// EnvKeys maps the environment variables there are to settings. HOLDFAST_HOME,
// which moves the files, is read where paths are made.
func EnvKeys() map[string]string {
	return map[string]string{
		"HOLDFAST_ADDR":           "addr",
		"HOLDFAST_INSPECTOR_ADDR": "inspector_addr",
		"HOLDFAST_ROLLOUT_MODE":   "rollout.mode",
		"HOLDFAST_BYPASS":         "bypass",
		"HOLDFAST_LOG_LEVEL":      "log_level",
		"HOLDFAST_KV_DISK_MODE":   "kv.disk.mode",
	}
}

// Layers are the places settings come from.
type Layers struct {
	File  []byte
	Env   func(string) string // nil for none
	Flags map[string]string   // by dotted key
}

// Load reads all layers, the later ones winning field by field, and checks the
// result.
func Load(l Layers) (Config, error) {
	c, err := Parse(l.File)
	if err != nil {
		return Config{}, err
	}
	if c, err = c.WithEnv(l.Env); err != nil {
		return Config{}, err
	}
	for _, key := range slices.Sorted(mapKeys(l.Flags)) {
		if c, err = c.with(key, l.Flags[key], FromFlag); err != nil {
			return Config{}, err
		}
	}
	return c, c.Validate()
}

// WithEnv returns the settings with the environment laid over them. An empty
// variable counts as not set.
func (c Config) WithEnv(getenv func(string) string) (Config, error) {
	if getenv == nil {
		return c, nil
	}
	env := EnvKeys()
	for _, name := range slices.Sorted(mapKeys(env)) {
		v := getenv(name)
		if v == "" {
			continue
		}
		next, err := c.with(env[name], v, FromEnv)
		var e *Error
		if errors.As(err, &e) {
			return c, &Error{Key: e.Key, What: e.What, Hint: "it comes from the environment variable " + name}
		}
		if err != nil {
			return c, err
		}
		c = next
	}
	return c, nil
}

// with returns a copy that has one top-level or nested scalar set.
func (c Config) with(key, value string, src Source) (Config, error) {
	t := typeOf(key)
	if t == nil || star(key) != key {
		return c, noSuchKey(key)
	}
	v, err := parseValue(key, t, value)
	if err != nil {
		return c, err
	}
	c = c.clone()
	walk(reflect.ValueOf(&c).Elem(), "", Live, func(k string, field reflect.Value, _ Effect) {
		if k == key {
			field.Set(v)
		}
	})
	c.sources[key] = src
	return c, c.Validate()
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// parseValue reads a value as a person types it: no quotes needed, lists
// separated by commas or in brackets, on and off for switches.
func parseValue(key string, t reflect.Type, s string) (reflect.Value, error) {
	v := reflect.New(t).Elem()
	bad := &Error{Key: key, What: strconv.Quote(s) + " does not fit, it wants " + wants(t)}
	if t == reflect.TypeFor[Size]() {
		n, err := ParseSize(s)
		if err != nil {
			return v, bad
		}
		v.SetInt(int64(n))
		return v, nil
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		b, ok := map[string]bool{"true": true, "on": true, "1": true, "false": false, "off": false, "0": false}[strings.ToLower(s)]
		if !ok {
			return v, bad
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return v, bad
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return v, bad
		}
		v.SetFloat(n)
	case reflect.Slice:
		return parseList(v, s, bad)
	}
	return v, nil
}

func parseList(v reflect.Value, s string, bad error) (reflect.Value, error) {
	var items []string
	switch s = strings.TrimSpace(s); {
	case strings.HasPrefix(s, "["):
		if json.Unmarshal([]byte(s), &items) != nil {
			return v, bad
		}
	case s != "":
		items = strings.Split(s, ",")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(items)))
	for _, it := range items {
		v.Set(reflect.Append(v, reflect.ValueOf(strings.TrimSpace(it)).Convert(v.Type().Elem())))
	}
	return v, nil
}
