package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Source is the layer a field's value comes from.
type Source string

// The sources, weakest first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"
)

// Effect is when a changed value counts.
type Effect string

// The effects.
const (
	Live    Effect = "live"
	Restart Effect = "restart"
)

// Field is one setting as people see it.
type Field struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source Source `json:"source"`
	Effect Effect `json:"effect"`
}

// Literal is the value as config.toml spells it.
func (f Field) Literal() string { return literal(reflect.ValueOf(f.Value)) }

// Fields lists every setting in the order of the struct, map entries by name.
// Optional fields of routes and engines that are not set are left out.
func (c *Config) Fields() (out []Field) {
	walk(reflect.ValueOf(c).Elem(), "", Live, func(key string, v reflect.Value, e Effect) {
		src, inMap := c.Source(key), strings.HasPrefix(key, "routes.") || strings.HasPrefix(key, "engine.")
		if inMap && src == FromDefault && v.IsZero() {
			return
		}
		out = append(out, Field{key, v.Interface(), src, e})
	})
	return out
}

// Starts reports whether a setting decides which program is run, or what that
// program loads: only who can read the token file may change such a one.
func Starts(key string) bool {
	return strings.HasPrefix(key, "engine.") && (strings.HasSuffix(key, ".command") || strings.HasSuffix(key, ".model"))
}

// Source is the layer that decided a field.
func (c *Config) Source(key string) Source {
	if s, ok := c.sources[key]; ok {
		return s
	}
	return FromDefault
}

// walk visits the leaves of a settings value with their dotted keys.
func walk(v reflect.Value, prefix string, e Effect, visit func(string, reflect.Value, Effect)) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			eff := e
			if f.Tag.Get("effect") == string(Restart) {
				eff = Restart
			}
			walk(v.Field(i), join(prefix, f.Tag.Get("toml")), eff, visit)
		}
	case v.Kind() == reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, n := range names {
			walk(v.MapIndex(n), join(prefix, n.String()), e, visit)
		}
	default:
		visit(prefix, v, e)
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// schema lists the keys there are with the type of each; "*" stands for a name
// the owner chooses. Tables have a nil type.
func schema(t reflect.Type, prefix string, out map[string]reflect.Type) map[string]reflect.Type {
	switch t.Kind() {
	case reflect.Struct:
		out[prefix] = nil
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				schema(f.Type, join(prefix, f.Tag.Get("toml")), out)
			}
		}
	case reflect.Map:
		out[prefix] = nil
		schema(t.Elem(), prefix+".*", out)
	default:
		out[prefix] = t
	}
	return out
}

func keys() map[string]reflect.Type {
	return schema(reflect.TypeFor[Config](), "", map[string]reflect.Type{})
}

// typeOf returns the type of a setting, nil for a key there is not.
func typeOf(key string) reflect.Type {
	ks := keys()
	if t := ks[key]; t != nil {
		return t
	}
	return ks[star(key)]
}

// star replaces the name in a key under routes or engine by "*".
func star(key string) string {
	p := strings.Split(key, ".")
	if len(p) > 1 && (p[0] == "routes" || p[0] == "engine") {
		p[1] = "*"
	}
	return strings.Join(p, ".")
}

// wants says in words what a setting takes.
func wants(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Size]():
		return `a size such as "512MiB" or "2GiB"`
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Slice:
		return `a list such as ["a", "b"]`
	}
	return "text in quotes"
}

// literal writes a value the way TOML does.
func literal(v reflect.Value) string {
	if s, ok := v.Interface().(Size); ok {
		return strconv.Quote(s.String())
	}
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = literal(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// quote writes a basic TOML string; its escapes are those of JSON.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
