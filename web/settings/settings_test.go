package settings

import (
	"strings"
	"testing"

	"holdfast/core/config"
)

type fixed struct{ c config.Config }

func (f fixed) Config() (*config.Config, string, error) { return &f.c, "/home/config.toml", nil }

// Every setting there is has a field on the page, with what it is now.
func TestEverySetting(t *testing.T) {
	c := config.Default()
	p := &Pages{Source: fixed{c}, Form: func() string { return "form" }}
	var html strings.Builder
	if err := p.page("").Body.Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Fields() {
		if !strings.Contains(html.String(), `id="`+fieldID(f.Key)+`-v"`) {
			t.Errorf("%s has no field", f.Key)
		}
		if _, known := tables()[strings.Split(f.Key, ".")[0]]; strings.Contains(f.Key, ".") && !known {
			t.Errorf("the table of %s has no name", f.Key)
		}
		if got, err := config.Set(nil, f.Key, text(f)); err != nil && !strings.HasPrefix(f.Key, "routes.") && text(f) != "" {
			t.Errorf("%s = %q, as the page shows it, is refused: %v (%s)", f.Key, text(f), err, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		key, value string
		ok         bool
	}{{"ledger.budget", "3GiB", true}, {"ledger.budget", "3 bananas", false}, {"rollout.mode", "sideways", false}, {"rollout.percent", "50", true}, {"no.such", "1", false}} {
		if got := Check(nil, c.key, c.value); (got.Problem == "") != c.ok {
			t.Errorf("%s = %s: %q", c.key, c.value, got.Problem)
		}
	}
}

// What the environment decides cannot be changed here.
func TestLocked(t *testing.T) {
	var html strings.Builder
	if err := control(config.Field{Key: "log_level", Value: "info", Source: config.FromEnv}).Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(html.String(), "disabled") {
		t.Error(html.String())
	}
}
