package layout

import (
	"net/url"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(0), "0"}, {Count(999), "999"}, {Count(1000), "1,000"}, {Count(-1234567), "−1,234,567"},
		{Short(940), "940"}, {Short(1000), "1k"}, {Short(12_345), "12.3k"}, {Short(999_949), "1000k"}, {Short(1_234_567), "1.23M"}, {Short(-4_500), "−4.5k"},
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1024), "1 KiB"}, {Bytes(5 << 20), "5 MiB"}, {Bytes(1 << 40), "1 TiB"}, {Bytes(123456789), "118 MiB"},
		{Percent(0), "0 %"}, {Percent(0.0004), "<0.1 %"}, {Percent(0.5), "50 %"}, {Percent(0.99951), ">99.9 %"}, {Percent(0.123), "12.3 %"},
		{Money(0), "$0"}, {Money(0.00001), "<$0.0001"}, {Money(0.0123), "$0.0123"}, {Money(3.456), "$3.46"}, {Money(-1234.5), "−$1,235"},
		{Ms(0), "0 ms"}, {Ms(0.034), "34 µs"}, {Ms(1.234), "1.23 ms"}, {Ms(1500), "1.5 s"}, {Ms(61_000), "1 min 01 s"},
		{Seconds(3_725), "1 h 02 min"}, {Seconds(200_000), "2 d 7 h"},
		{Ago(1_000_000, 0), "never"}, {Ago(1_000_000, 998_000), "just now"}, {Ago(1_000_000, 1_060_000), "in 1 min"}, {Ago(10_000_000, 1_000_000), "2 h ago"},
		{Pct(0.5), "50%"}, {Pct(1.0 / 3), "33.3333%"}, {Plural(1, "turn", "turns"), "1 turn"}, {Plural(2_000, "turn", "turns"), "2,000 turns"},
		{Words("commit_failed"), "commit failed"}, {About("$1", true), "≈ $1"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestHere(t *testing.T) {
	u, err := url.Parse("/ui/sessions?q=a+b&page=3&sort=turns")
	if err != nil {
		t.Fatal(err)
	}
	h := At(u)
	if got := h.With("page", "", "q", "x&y"); got != "/ui/sessions?q=x%26y&sort=turns" {
		t.Error(got)
	}
	if got := h.String(); got != "/ui/sessions?page=3&q=a+b&sort=turns" {
		t.Error(got)
	}
	s := SortOf(h, "seen", "turns")
	if s.By != "turns" || s.next("turns") != "/ui/sessions?dir=asc&q=a+b&sort=turns" || s.next("seen") != "/ui/sessions?q=a+b&sort=seen" {
		t.Errorf("%+v %s %s", s, s.next("turns"), s.next("seen"))
	}
	if got := SortOf(At(&url.URL{RawQuery: "sort=drop+table"}), "seen", "turns"); got.By != "seen" {
		t.Errorf("an order nobody knows is %q", got.By)
	}
	p := Paging{Here: h, Page: 3, Size: 25, Total: 60, What: "sessions"}
	if p.Shown() != "51–60 of 60 sessions" || p.Pages() != 3 {
		t.Error(p.Shown(), p.Pages())
	}
}

func TestFilled(t *testing.T) {
	out := Filled([]Part{{Value: 1}, {Value: 0}, {Value: 3}, {Value: 1e-9}}, 0)
	if len(out) != 3 || out[0].Width < 0.24 || out[0].Width > 0.25 {
		t.Errorf("%+v", out)
	}
	end := out[len(out)-1]
	if end.From+end.Width > 1.0001 {
		t.Errorf("the bar ends at %f", end.From+end.Width)
	}
	if got := Filled([]Part{{Value: 5}}, 0); len(got) != 1 || got[0].Width != 1 {
		t.Errorf("%+v", got)
	}
}

func TestSteps(t *testing.T) {
	for highest, want := range map[float64]int{0: 0, 10: 5, 100_000: 5, 7: 3, 123_456: 2} {
		if got := Steps(highest, 4); highest > 0 && (len(got) == 0 || got[len(got)-1] > highest || len(got) > 5) || highest == 0 && len(got) != want {
			t.Errorf("steps up to %g: %v", highest, got)
		}
	}
	if d := Line([]float64{0, 50, 100}, 100); d != "M0 100L500 50L1000 0" {
		t.Error(d)
	}
	if d := Area([]float64{1}, 2); d != "M0 50L1000 50L1000 100L0 100Z" {
		t.Error(d)
	}
}
