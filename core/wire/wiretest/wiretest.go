// Package wiretest holds every codec to the same promises: goldens a person can
// read, and properties that fuzzing tries to break.
package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// Golden runs testdata/*.txtar of the calling package. In an archive, x.json is
// an element and x.parts what the codec must read in it; each line of "equal"
// names elements that have one key, each line of "differ" elements that have
// different ones.
func Golden(t *testing.T, codec wire.Codec) {
	t.Helper()
	for _, name := range archives(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			golden(t, codec, name)
		})
	}
}

func archives(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	return names
}

func golden(t *testing.T, codec wire.Codec, name string) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]chat.Message{}
	for _, f := range archive.Files {
		base, kind, _ := strings.Cut(f.Name, ".")
		switch kind {
		case "json":
			m, err := codec.Element(bytes.TrimSpace(f.Data))
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			messages[base] = m
		case "parts":
			if got := Show(messages[base]); got != string(f.Data) {
				t.Errorf("%s:\n%swant:\n%s", f.Name, got, f.Data)
			}
		default:
			keys(t, messages, f)
		}
	}
}

func keys(t *testing.T, messages map[string]chat.Message, f txtar.File) {
	t.Helper()
	for line := range strings.Lines(string(f.Data)) {
		names := strings.Fields(line)
		for i, a := range names {
			for _, b := range names[:i] {
				if equal := messages[a].Key == messages[b].Key; equal != (f.Name == "equal") {
					t.Errorf("%s and %s: equal = %v", b, a, equal)
				}
			}
		}
	}
}

// Show writes what was read of an element, a line for each part; long texts are
// cut in the middle.
func Show(m chat.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		fmt.Fprintf(&b, "%s %s", orDash(string(p.Role)), p.Kind)
		if p.CallID != "" {
			fmt.Fprintf(&b, " id=%s", p.CallID)
		}
		if p.Tool != "" {
			fmt.Fprintf(&b, " tool=%s", p.Tool)
		}
		if p.Kind != chat.Empty {
			fmt.Fprintf(&b, " %s", quote(p.Text))
		}
		b.WriteByte('\n')
	}
	if !bytes.Equal(m.Raw, m.Stripped) {
		fmt.Fprintf(&b, "stripped: %s\n", brief(string(m.Stripped)))
	}
	for i, s := range m.Media {
		fmt.Fprintf(&b, "payload: %d bytes at %d, %d in raw\n", s.Len(), s.Start, m.RawMedia[i].Start)
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// quote keeps JSON readable: it quotes with backquotes where Go can.
func quote(s string) string { return fmt.Sprintf("%#q", brief(s)) }

func brief(s string) string {
	if len(s) <= 400 {
		return s
	}
	return s[:150] + "…" + s[len(s)-150:]
}

// FuzzElement runs the codec on the goldens' elements and what fuzzing makes of
// them.
func FuzzElement(f *testing.F, codec wire.Codec) {
	f.Helper()
	for _, name := range archives(f) {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".json") {
				f.Add(bytes.TrimSpace(file.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) { Element(t, codec, raw) })
}

// Element checks what must hold of any bytes given to a codec.
func Element(t *testing.T, codec wire.Codec, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	m, err := codec.Element(raw)
	if !bytes.Equal(raw, before) {
		t.Fatalf("the codec wrote into %q", before)
	}
	if err != nil {
		refused(t, err)
		return
	}
	if !bytes.Equal(m.Raw, raw) || len(m.Parts) == 0 || m.Key.IsZero() {
		t.Fatalf("an element without bytes, parts or key: %+v", m)
	}
	payloads(t, m)
	var pretty, compact bytes.Buffer
	if err := errors.Join(json.Indent(&pretty, raw, " ", "\t"), json.Compact(&compact, raw)); err != nil {
		t.Fatalf("%v: %q was decoded", err, raw)
	}
	for _, other := range [][]byte{pretty.Bytes(), compact.Bytes(), m.Stripped} {
		again, err := codec.Element(other)
		if err != nil || again.Key != m.Key {
			t.Fatalf("%q has another key than %q (%v)", other, raw, err)
		}
	}
	again, _ := codec.Element(m.Stripped)
	if !bytes.Equal(again.Stripped, m.Stripped) {
		t.Fatalf("stripping %q again gives %q", m.Stripped, again.Stripped)
	}
	beside(t, codec, raw)
}

func refused(t *testing.T, err error) {
	t.Helper()
	for _, known := range []error{wire.ErrNotJSON, wire.ErrShape, wire.ErrDuplicateKey, wire.ErrTooDeep} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Fatalf("refused with %v", err)
}

func payloads(t *testing.T, m chat.Message) {
	t.Helper()
	if len(m.Media) != len(m.RawMedia) {
		t.Fatalf("%d payloads in the stored form, %d in raw", len(m.Media), len(m.RawMedia))
	}
	for i, s := range m.Media {
		kept, raw := s.Of(m.Stripped), m.RawMedia[i].Of(m.Raw)
		if !bytes.Equal(kept, raw) || len(raw) < chat.MediaMin || bytes.ContainsAny(raw, `\"`) {
			t.Fatalf("payload %d is %q in raw, %q in the stored form", i, raw, kept)
		}
	}
}

// Read feeds a response to a codec's reader in pieces of size bytes.
func Read(codec wire.Codec, stream bool, body string, size int) wire.ReplyInfo {
	r := codec.Reply(stream)
	for len(body) > 0 {
		n := min(size, len(body))
		r.Write([]byte(body[:n]))
		r.Info()
		body = body[n:]
	}
	return r.Info()
}
