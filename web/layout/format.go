package layout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a whole number with its thousands apart.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Short writes a number in at most five places: 940, 12.3k, 4.56M.
func Short(n int64) string {
	f, a := float64(n), math.Abs(float64(n))
	switch {
	case a < 1000:
		return Count(n)
	case a < 999_950:
		return figure(f/1e3) + "k"
	case a < 999_950_000:
		return figure(f/1e6) + "M"
	}
	return figure(f/1e9) + "G"
}

// figure keeps three figures.
func figure(f float64) string {
	digits := 2
	switch a := math.Abs(f); {
	case a >= 99.95:
		digits = 0
	case a >= 9.995:
		digits = 1
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return strings.Replace(s, "-", "−", 1)
}

// Bytes writes a size in binary units.
func Bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(f) < 1023.5 {
			break
		}
		f, unit = f/1024, u
	}
	return figure(f) + " " + unit
}

// Percent writes a share of one.
func Percent(f float64) string {
	p := f * 100
	switch {
	case p > 0 && p < 0.1:
		return "<0.1 %"
	case p > 99.9 && p < 100:
		return ">99.9 %"
	case p == math.Trunc(p):
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
	return strings.Replace(strconv.FormatFloat(p, 'f', 1, 64), "-", "−", 1) + " %"
}

// Share is a of b, 0 where there is no b.
func Share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Money writes an amount of dollars to the precision that still says something.
func Money(f float64) string {
	sign := ""
	if f < 0 {
		sign, f = "−", -f
	}
	switch {
	case f == 0:
		return "$0"
	case f < 0.0001:
		return sign + "<$0.0001"
	case f < 0.1:
		return sign + "$" + strconv.FormatFloat(f, 'f', 4, 64)
	case f < 1000:
		return sign + "$" + strconv.FormatFloat(f, 'f', 2, 64)
	}
	return sign + "$" + Count(int64(math.Round(f)))
}

// About marks a value that is an estimate.
func About(s string, estimate bool) string {
	if estimate {
		return "≈ " + s
	}
	return s
}

// Ms writes a duration given in milliseconds.
func Ms(ms float64) string {
	switch {
	case ms <= 0:
		return "0 ms"
	case ms < 0.095:
		return figure(ms*1000) + " µs"
	case ms < 999.5:
		return figure(ms) + " ms"
	}
	return Seconds(ms / 1000)
}

// Seconds writes a duration given in seconds.
func Seconds(s float64) string {
	switch {
	case s < 60:
		return figure(s) + " s"
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)%3600/60)
	}
	return fmt.Sprintf("%d d %d h", int(s)/86400, int(s)%86400/3600)
}

// exact is a time (unix ms) as written in full.
func exact(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000 MST") }

// stamp is a time as machines read it.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// Ago is a time against another, both unix ms. The script of the page writes
// the same words as time goes by.
func Ago(now, then int64) string {
	if then == 0 {
		return "never"
	}
	switch s := (now - then) / 1000; {
	case s < -1:
		return "in " + span(-s)
	case s < 5:
		return "just now"
	default:
		return span(s) + " ago"
	}
}

func span(s int64) string {
	switch {
	case s < 60:
		return fmt.Sprint(s, " s")
	case s < 3600:
		return fmt.Sprint(s/60, " min")
	case s < 86400:
		return fmt.Sprint(s/3600, " h")
	case s < 60*86400:
		return fmt.Sprint(s/86400, " d")
	}
	return fmt.Sprint(s/(30*86400), " months")
}

// Pct is a place along an SVG's width.
func Pct(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e6)/1e4, 'f', -1, 64) + "%"
}

// Num is a number as SVG reads it.
func Num(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }

// Words puts a name of the closed lists into words: commit_failed, commit failed.
func Words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// Or is s, or other where s is empty.
func Or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Plural is a count with its noun.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Host names the client behind a signal; one without a name is the signal.
func Host(signal string) string {
	switch signal {
	case "":
		return "no session id"
	case "x-claude-code-session-id", "metadata.user_id":
		return "Claude Code"
	case "session_id", "session-id", "prompt_cache_key":
		return "Codex"
	case "x-opencode-session":
		return "opencode"
	case "x-session-affinity":
		return "OpenAI-style client"
	}
	return signal
}
