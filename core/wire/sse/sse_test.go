package sse

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type seen struct{ name, data string }

// split feeds body in pieces and returns the events; a last one without its
// blank line included.
func split(body []byte, next func(left int) int) []seen {
	var events []seen
	s := New(func(ev Event) { events = append(events, seen{ev.Name, string(ev.Data)}) })
	for len(body) > 0 {
		n := next(len(body))
		piece := bytes.Clone(body[:n])
		s.Write(piece)
		clear(piece) // the splitter may keep nothing of it
		body = body[n:]
	}
	if ev, ok := s.Pending(); ok {
		events = append(events, seen{ev.Name, string(ev.Data)})
	}
	return events
}

func whole(left int) int { return left }
func bytewise(int) int   { return 1 }

// reference reads a stream the slow way, from the text of the format.
func reference(body []byte) []seen {
	text := strings.TrimPrefix(string(body), "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var events []seen
	var name string
	var data []string
	for _, line := range append(strings.Split(text, "\n"), "") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				events = append(events, seen{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		}
	}
	return events
}

func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []seen
	}{
		"nothing":            {"", nil},
		"one":                {"event: a\ndata: 1\n\n", []seen{{"a", "1"}}},
		"no name":            {"data: 1\n\ndata: 2\n\n", []seen{{"", "1"}, {"", "2"}}},
		"name does not last": {"event: a\ndata: 1\n\ndata: 2\n\n", []seen{{"a", "1"}, {"", "2"}}},
		"no space":           {"event:a\ndata:1\n\n", []seen{{"a", "1"}}},
		"two spaces":         {"data:  1\n\n", []seen{{"", " 1"}}},
		"CRLF":               {"event: a\r\ndata: 1\r\n\r\n", []seen{{"a", "1"}}},
		"CR":                 {"event: a\rdata: 1\r\rdata: 2\r\r", []seen{{"a", "1"}, {"", "2"}}},
		"mixed":              {"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n", []seen{{"", "1"}, {"", "2"}, {"", "3"}}},
		"many lines":         {"data: {\ndata: \"a\":1\ndata\ndata: }\n\n", []seen{{"", "{\n\"a\":1\n\n}"}}},
		"comments":           {": ping\n\n:\ndata: 1\n: in between\n\n", []seen{{"", "1"}}},
		"other fields":       {"id: 7\nretry: 10\nfuture: x\ndata: 1\n\n", []seen{{"", "1"}}},
		"no data":            {"event: a\n\nid: 1\n\n", nil},
		"empty data":         {"data:\n\ndata\n\n", []seen{{"", ""}, {"", ""}}},
		"no last blank line": {"data: 1\n\nevent: b\ndata: 2\n", []seen{{"", "1"}, {"b", "2"}}},
		"no last line end":   {"event: b\ndata: 2", []seen{{"b", "2"}}},
		"UTF-8":              {"data: é😀\n\n", []seen{{"", "é😀"}}},
		"byte order mark":    {"\uFEFFdata: 1\n\n\uFEFFdata: 2\n\n", []seen{{"", "1"}}},
		"blank lines":        {"\n\n\r\n\ndata: 1\n\n\n\n", []seen{{"", "1"}}},
	} {
		for how, next := range map[string]func(int) int{"whole": whole, "byte by byte": bytewise} {
			if got := split([]byte(c.body), next); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %q, want %q", name, how, got, c.want)
			}
		}
	}
}

// What passes the bound is left out, and the stream goes on.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", MaxEvent)
	half := strings.Repeat("y", MaxEvent/2)
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"one line":         {"data: 1\n\ndata: " + long + "x\n\ndata: 2\n\n", []string{"1", "2"}},
		"a line with more": {"data: " + long + "\nevent: a\ndata: 3\n\ndata: 2\n\n", []string{"2"}},
		"many lines":       {"data: " + half + "\ndata: " + half + "\ndata: z\n\ndata: 2\n\n", []string{"2"}},
		"a comment":        {": " + long + "\n\ndata: 2\n\n", []string{"2"}},
		"comment and data": {": " + long + "\ndata: 1\n\ndata: 2\n\n", []string{"2"}},
		"just fits":        {"data: " + half + "\ndata: " + half[1:] + "\n\ndata: 2\n\n", []string{half + "\n" + half[1:], "2"}},
	} {
		for how, next := range map[string]func(int) int{"whole": whole, "in pieces": func(left int) int { return min(left, 100_000) }} {
			var got []string
			for _, ev := range split([]byte(c.body), next) {
				got = append(got, ev.data)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %d events, want %d", name, how, len(got), len(c.want))
			}
		}
	}
}

func TestHoldsNoMoreThanOneEvent(t *testing.T) {
	s := New(func(Event) {})
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 64 {
		s.Write(piece)
	}
	if cap(s.line)+cap(s.ev.data) > 2*MaxEvent {
		t.Errorf("%d bytes held of an endless line", cap(s.line))
	}
}

// Asking what is pending changes nothing.
func TestPendingChangesNothing(t *testing.T) {
	var got []seen
	s := New(func(ev Event) { got = append(got, seen{ev.Name, string(ev.Data)}) })
	for _, c := range []byte("event: a\ndata: 1\ndata: 22\n\ndata: 3\n\n") {
		s.Pending()
		s.Write([]byte{c})
		s.Pending()
	}
	if want := []seen{{"a", "1\n22"}, {"", "3"}}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if ev, ok := s.Pending(); ok {
		t.Errorf("pending after the end: %q", ev.Data)
	}
}

// However a stream is cut into writes, its events are those of the format.
func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"event: a\r\ndata: 1\r\ndata: 2\r\n\r\n", "data: é\rdata\r\r: c\n\n", "\uFEFFdata:x\n\ndata: y", "\n\r\n\r\revent:\n\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := reference(body)
		pieces := func(left int) int { return 1 + r.IntN(min(left, 9)) }
		for _, next := range []func(int) int{whole, bytewise, pieces} {
			if got := split(body, next); !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	event := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n"
	body := []byte(strings.Repeat(event, 1000))
	s := New(func(Event) {})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s.Write(body)
	}
}
