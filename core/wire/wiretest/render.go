package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/wire"
)

// RenderGolden runs testdata/render/*.txtar of the calling package. In an
// archive, body.json is the client's body, x.json an element to be named; x is
// a script of slots and additions, and x.want what leaves: the frame, then an
// element a line.
//
// A script has a word and what it applies to in each line: "keep 0-3 5" inbound
// elements, "put x.json" a stored one, "carrier text", "short 4 1" with the
// result that is core 1 of element 4 shortened, "echo x.json id=answer" and
// "more x.json" for rounds in place of an element ("id!=answer" failed),
// "round x.json id=answer" for a round of this turn, "paragraph text", "nudge
// text", "tools a b", "strict".
func RenderGolden(t *testing.T, codec wire.Codec) {
	t.Helper()
	names, err := filepath.Glob("testdata/render/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, f := range archive.Files {
			files[f.Name] = strings.TrimSpace(string(f.Data))
		}
		topic := strings.TrimSuffix(filepath.Base(name), ".txtar")
		for _, f := range archive.Files {
			if !strings.Contains(f.Name, ".") {
				t.Run(topic+"/"+f.Name, func(t *testing.T) { renderGolden(t, codec, files, f.Name) })
			}
		}
	}
}

func renderGolden(t *testing.T, codec wire.Codec, files map[string]string, name string) {
	t.Helper()
	body, err := wire.Cut([]byte(files["body.json"]), codec.List())
	if err != nil {
		t.Fatal(err)
	}
	s := script{t: t, files: files}
	for line := range strings.Lines(files[name]) {
		s.line(strings.TrimSpace(line))
	}
	got := "refused"
	if out, err := codec.Render(body, s.view, s.add); err == nil {
		got = showBody(t, codec, out.Bytes(body))
	} else if !errors.Is(err, wire.ErrSlot) {
		t.Errorf("refused with %v", err)
	}
	if want := files[name+".want"]; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// showBody writes a body for reading. It fails if the body or an element of it
// is not what the codec takes.
func showBody(t *testing.T, codec wire.Codec, raw []byte) string {
	t.Helper()
	body, err := wire.Cut(raw, codec.List())
	if err == nil {
		err = body.StrictFrame(nil)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	lines := []string{string(raw[:body.List.Start]) + "[…]" + string(raw[body.List.End:])}
	for i := range body.Elements {
		if _, err := codec.Element(body.Element(i)); err != nil {
			t.Errorf("element %d: %v", i, err)
		}
		lines = append(lines, string(body.Element(i)))
	}
	return strings.Join(lines, "\n")
}

// script is a view and additions in the making.
type script struct {
	t     *testing.T
	files map[string]string
	view  []wire.Slot
	add   wire.Additions
}

func (s *script) line(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "keep":
		s.keep(strings.Fields(rest))
	case "put":
		s.view = append(s.view, wire.Slot{Item: wire.Item{Inbound: -1, Raw: []byte(s.files[rest])}})
	case "carrier":
		s.view = append(s.view, wire.Slot{Carrier: rest})
	case "short":
		s.short(strings.Fields(rest))
	case "echo":
		s.view = append(s.view, wire.Slot{Echo: []wire.Private{s.round(rest)}})
	case "more":
		last := &s.view[len(s.view)-1]
		last.Echo = append(last.Echo, s.round(rest))
	case "round":
		s.add.Rounds = append(s.add.Rounds, s.round(rest))
	case "paragraph":
		s.add.Paragraph = rest
	case "nudge":
		s.add.Nudge = rest
	case "strict":
		s.add.Strict = true
	case "tools":
		for _, name := range strings.Fields(rest) {
			s.add.Tools = append(s.add.Tools, json.RawMessage(`{"name":"`+name+`"}`))
		}
	default:
		s.t.Fatalf("unknown word %q", line)
	}
}

func (s *script) keep(ranges []string) {
	for _, r := range ranges {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		for i := s.number(first); i <= s.number(last); i++ {
			s.view = append(s.view, wire.Slot{Item: wire.Item{Inbound: i}})
		}
	}
}

// short is a slot whose results keep their first and last five characters.
func (s *script) short(numbers []string) {
	slot := wire.Slot{Item: wire.Item{Inbound: s.number(numbers[0])}}
	for _, core := range numbers[1:] {
		slot.Overlays = append(slot.Overlays, wire.Overlay{Core: s.number(core), Shorten: shorten})
	}
	s.view = append(s.view, slot)
}

func shorten(text string) string {
	r := []rune(text)
	if len(r) <= 10 {
		return text
	}
	return fmt.Sprintf("%s…%d…%s", string(r[:5]), len(r)-10, string(r[len(r)-5:]))
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// round reads "x.json id=answer, id!=answer".
func (s *script) round(text string) wire.Private {
	name, answers, some := strings.Cut(text, " ")
	r := wire.Private{Assistant: []byte(s.files[name])}
	if !some {
		return r
	}
	for answer := range strings.SplitSeq(answers, ", ") {
		id, text, _ := strings.Cut(answer, "=")
		failed := strings.HasSuffix(id, "!")
		r.Results = append(r.Results, wire.Result{CallID: strings.TrimSuffix(id, "!"), Text: text, Failed: failed})
	}
	return r
}

// Added reports whether out is the body in with the paragraph, the tools and
// the nudge of add, each in one of its places, and in every other byte the
// same. It knows those places for itself: it takes them out of out again.
func Added(in, out []byte, add wire.Additions) bool {
	bare := [][]byte{out}
	if len(add.Tools) > 0 {
		tools := make([][]byte, len(add.Tools))
		for i := range tools {
			tools[i] = add.Tools[i]
		}
		ours := string(bytes.Join(tools, []byte(",")))
		bare = without(bare, swap{`,` + ours, ``}, swap{`[` + ours, `[`},
			swap{`,"tools":[` + ours + `]`, ``}, swap{`[` + ours + `]`, `null`})
	}
	if add.Nudge != "" {
		bare = withoutText(bare, add.Nudge)
	}
	if add.Paragraph != "" {
		bare = withoutText(bare, add.Paragraph)
	}
	return slices.ContainsFunc(bare, func(b []byte) bool { return bytes.Equal(b, in) })
}

// swap is a piece of a body that left and what stood there before.
type swap struct{ added, before string }

// withoutText takes a text out of every place one of ours may have.
func withoutText(bodies [][]byte, text string) [][]byte {
	quoted := string(wire.Quote(text))
	inside := quoted[1:]
	block := `{"type":"text","text":` + quoted + `}`
	out := without(bodies,
		swap{`\n\n` + inside, `"`}, swap{quoted, `""`}, swap{quoted, `null`}, // a string lengthened
		swap{`,` + block, ``}, swap{`[` + block, `[`}, // a block more
		swap{`,"system":` + quoted, ``}, swap{`,"content":` + quoted, ``}, // a member more
		swap{`{"role":"system","content":` + quoted + `},`, ``}, // an element more
		swap{`,{"role":"user","content":` + quoted + `}`, ``})
	return append(out, unwrapped(bodies, `},`+block+`]`)...)
}

// without are all bodies that a swap taken back leads to.
func without(bodies [][]byte, swaps ...swap) (out [][]byte) {
	for _, b := range bodies {
		for _, s := range swaps {
			if at := bytes.LastIndex(b, []byte(s.added)); at >= 0 {
				out = append(out, slices.Concat(b[:at], []byte(s.before), b[at+len(s.added):]))
			}
		}
	}
	return out
}

// unwrapped are the bodies in which a string became a block beside ours.
func unwrapped(bodies [][]byte, end string) (out [][]byte) {
	const start = `[{"type":"text","text":`
	for _, b := range bodies {
		to := bytes.LastIndex(b, []byte(end))
		if to < 0 {
			continue
		}
		if from := bytes.LastIndex(b[:to], []byte(start)); from >= 0 {
			out = append(out, slices.Concat(b[:from], b[from+len(start):to], b[to+len(end):]))
		}
	}
	return out
}
