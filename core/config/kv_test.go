package config

import "testing"

// TestDailyWriteCap: a cap of nothing is a mistake that is answered, not one that
// lifts the cap.
func TestDailyWriteCap(t *testing.T) {
	for text, want := range map[string]string{
		"0KiB":   `config.toml line 2: kv.disk.daily_write_cap: must be at least 1MiB (to write nothing, set kv.disk.mode = "off")`,
		"512KiB": `config.toml line 2: kv.disk.daily_write_cap: must be at least 1MiB (to write nothing, set kv.disk.mode = "off")`,
		"1MiB":   "",
		"8TiB":   "",
	} {
		_, err := Parse([]byte("[kv.disk]\ndaily_write_cap = \"" + text + "\"\n"))
		if got := errText(err); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
