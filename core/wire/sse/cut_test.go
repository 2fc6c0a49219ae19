package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// cut is what a Cutter hands on of a stream in pieces.
func cut(body []byte, next func(left int) int) (events []seen, pieces []string) {
	c := NewCutter(func(raw []byte, ev Event) {
		pieces = append(pieces, string(raw))
		if ev.Data != nil {
			events = append(events, seen{ev.Name, string(ev.Data)})
		}
	})
	for len(body) > 0 {
		n := next(len(body))
		piece := bytes.Clone(body[:n])
		c.Write(piece)
		clear(piece) // the cutter may keep nothing of it
		body = body[n:]
	}
	c.Close()
	return events, pieces
}

func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"nothing":            {"", nil},
		"two":                {"event: a\ndata: 1\n\ndata: 2\n\n", []string{"event: a\ndata: 1\n\n", "data: 2\n\n"}},
		"comment":            {": ping\n\ndata: 1\n: in between\n\n", []string{": ping\n\n", "data: 1\n: in between\n\n"}},
		"CRLF":               {"data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"data: 1\r\n\r\n", "data: 2\r\n\r\n"}},
		"CR":                 {"data: 1\r\rdata: 2\r\r", []string{"data: 1\r\r", "data: 2\r\r"}},
		"blank lines":        {"\n\ndata: 1\n\n\n", []string{"\n", "\n", "data: 1\n\n", "\n"}},
		"no last blank line": {"data: 1\n\ndata: 2\n", []string{"data: 1\n\n", "data: 2\n"}},
		"no last line end":   {"data: 1\n\ndata: 2", []string{"data: 1\n\n", "data: 2"}},
	} {
		if _, got := cut([]byte(c.body), whole); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, piece := range c.want {
			if got, want := Whole([]byte(piece)), !strings.HasPrefix(name, "no last"); got != want && piece != "data: 1\n\n" {
				t.Errorf("%s: %q is whole: %v", name, piece, got)
			}
		}
	}
}

// What is too long passes in pieces without an event, and the stream goes on.
func TestCutTooLong(t *testing.T) {
	body := "data: 1\n\ndata: " + strings.Repeat("x", MaxEvent) + "\n\ndata: 2\n\n"
	for _, next := range []func(int) int{whole, func(left int) int { return min(left, 100_000) }} {
		events, pieces := cut([]byte(body), next)
		if want := []seen{{"", "1"}, {"", "2"}}; !slices.Equal(events, want) {
			t.Errorf("%d events, want 2", len(events))
		}
		if strings.Join(pieces, "") != body {
			t.Errorf("the pieces are not the stream")
		}
	}
}

func TestAppendEvent(t *testing.T) {
	for _, ev := range []seen{{"a", "1"}, {"", "1"}, {"a", "{\n\"b\":1\n\n}"}} {
		raw := AppendEvent(nil, ev.name, []byte(ev.data))
		if got := split(raw, whole); !slices.Equal(got, []seen{ev}) || !Whole(raw) {
			t.Errorf("%q is read as %q", raw, got)
		}
	}
}

// However a stream is cut into writes, a Cutter hands on all of it, with the
// events of the format.
func FuzzCut(f *testing.F) {
	for _, s := range []string{
		"event: a\r\ndata: 1\r\ndata: 2\r\n\r\n", "data: é\rdata\r\r: c\n\n", "\uFEFFdata:x\n\ndata: y", "\n\r\n\r\revent:\n\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		want := slices.DeleteFunc(reference(body), func(s seen) bool { return s.data == "" })
		for _, next := range []func(int) int{whole, bytewise, func(left int) int { return 1 + max(size, 0)%left }} {
			events, pieces := cut(body, next)
			events = slices.DeleteFunc(events, func(s seen) bool { return s.data == "" })
			if !slices.Equal(events, want) {
				t.Fatalf("%q, want %q", events, want)
			}
			if got := strings.Join(pieces, ""); got != string(body) {
				t.Fatalf("%q became %q", body, got)
			}
		}
	})
}
