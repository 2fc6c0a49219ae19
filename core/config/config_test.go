package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// cases reads a golden file into name -> part -> text.
func cases(t *testing.T, file string) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		i := strings.LastIndexByte(f.Name, '.')
		name, part := f.Name[:i], f.Name[i+1:]
		if out[name] == nil {
			out[name] = map[string]string{}
		}
		out[name][part] = string(f.Data)
	}
	return out
}

// changed describes the fields that are not as shipped.
func changed(c *Config) string {
	def, b := Default(), strings.Builder{}
	was := def.leaves()
	for _, f := range c.Fields() {
		if f.Source != FromDefault || f.Literal() != was[f.Key] {
			fmt.Fprintf(&b, "%s = %s (%s)\n", f.Key, f.Literal(), f.Source)
		}
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for name, c := range cases(t, "parse.txtar") {
		cfg, err := Parse([]byte(c["toml"]))
		got := "error: " + fmt.Sprintln(err)
		if err == nil {
			got = changed(&cfg)
		}
		if got != c["want"] {
			t.Errorf("%s\n got %s\nwant %s", name, got, c["want"])
		}
	}
}

func TestSet(t *testing.T) {
	for name, c := range cases(t, "set.txtar") {
		key, value, _ := strings.Cut(strings.TrimSpace(c["set"]), " ")
		before := c["toml"]
		if name == "no newline at the end" {
			before = strings.TrimSuffix(before, "\n")
		}
		out, err := Set([]byte(before), key, value)
		got := "error: " + fmt.Sprintln(err)
		if err == nil {
			got = string(out)
		}
		if got != c["want"] {
			t.Errorf("%s\n got %s\nwant %s", name, got, c["want"])
		}
	}
}

// Every setting can be set from its own literal, whatever its type, and reads
// back as set.
func TestSetEveryKey(t *testing.T) {
	c := Default()
	file := []byte("# kept\n")
	for _, f := range c.Fields() {
		value := strings.Trim(f.Literal(), `"`)
		out, err := Set(file, f.Key, value)
		if err != nil {
			t.Errorf("%s = %s: %v", f.Key, value, err)
			continue
		}
		file = out
	}
	got, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Fields() {
		if f.Source != FromFile {
			t.Errorf("%s comes from %s", f.Key, f.Source)
		}
	}
	got.sources, c.sources = nil, nil
	if !reflect.DeepEqual(got, c) {
		t.Errorf("round trip changed the defaults:\n%s", file)
	}
}

func TestLayers(t *testing.T) {
	env := map[string]string{
		"HOLDFAST_ADDR": "127.0.0.1:1", "HOLDFAST_ROLLOUT_MODE": "on", "HOLDFAST_BYPASS": "1",
		"HOLDFAST_ROLLOUT_PERCENT": "5", // not one of the six
	}
	c, err := Load(Layers{
		File:  []byte("addr = \"127.0.0.1:2\"\nlog_level = \"debug\"\n[rollout]\nmode = \"off\"\n"),
		Env:   func(k string) string { return env[k] },
		Flags: map[string]string{"addr": "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `addr = "127.0.0.1:0" (flag)
log_level = "debug" (file)
bypass = true (env)
rollout.mode = "on" (env)
`
	if got := changed(&c); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if def := Default(); len(def.sources) != 0 || def.Source("addr") != FromDefault {
		t.Error("laying over wrote to the defaults")
	}
}

func TestLayersRefuse(t *testing.T) {
	for _, c := range []struct {
		name, want string
		l          Layers
	}{
		{"env", `bypass: "maybe" does not fit, it wants true or false (it comes from the environment variable HOLDFAST_BYPASS)`,
			Layers{Env: func(k string) string { return map[string]string{"HOLDFAST_BYPASS": "maybe"}[k] }}},
		{"flag", `log_level: "loud" is not one of debug, info, warn, error`, Layers{Flags: map[string]string{"log_level": "loud"}}},
		{"unknown flag", `there is no such setting`, Layers{Flags: map[string]string{"nope.nope.nope": "1"}}},
	} {
		_, err := Load(c.l)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestRouteFor(t *testing.T) {
	c, err := Parse([]byte("[routes.mine]\nurl = \"http://127.0.0.1:9\"\ndefault_for = [\"anthropic\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if name, _, ok := c.RouteFor(Anthropic); !ok || name != "mine" {
		t.Errorf("anthropic goes to %q", name)
	}
	if _, _, ok := c.RouteFor("other"); ok {
		t.Error("an unknown family has a route")
	}
}

func TestEffects(t *testing.T) {
	c := Default()
	var restart []string
	for _, f := range c.Fields() {
		if f.Effect == Restart {
			restart = append(restart, f.Key)
		}
	}
	want := []string{"addr", "inspector_addr", "kv.disk.mode", "kv.disk.directory"}
	if !reflect.DeepEqual(restart, want) {
		t.Errorf("restart: %v, want %v", restart, want)
	}
}

func TestSize(t *testing.T) {
	for _, s := range []string{"1KiB", "512MiB", "2GiB", "3TiB", "1025KiB"} {
		n, err := ParseSize(s)
		if err != nil || n.String() != s {
			t.Errorf("%s: %v, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "2", "GiB", "-1GiB", "+1GiB", "1.5GiB", " 1GiB", "1 GiB", "1gib", "1B", "99999999999999TiB"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("%q reads as %v", s, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("addr = \"127.0.0.1:0\"\n[routes.a]\nurl = \"http://x\"\n"))
	f.Add([]byte("kv = { disk = { min_tokens = 1 } }"))
	f.Add([]byte("[[routes]]\n\"\" = 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse(data); err != nil {
			return
		}
		out, err := Set(data, "bypass", "true")
		if err != nil {
			return
		}
		if c, err := Parse(out); err != nil || !c.Bypass {
			t.Errorf("set made %q of %q: %v", out, data, err)
		}
	})
}
