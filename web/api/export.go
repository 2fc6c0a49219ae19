package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdfast/core/session"
)

// Exporter writes a session out. It is used with and without a running
// process, so it takes its readers, not the API.
type Exporter struct {
	Sessions Sessions
	Bytes    Bytes
}

// line is one line of a jsonl export: the session first, then every row with
// the exact bytes of its element beside its first row.
type line struct {
	Session *session.SessionView `json:"session,omitempty"`
	Row     *session.RowView     `json:"row,omitempty"`
	Element json.RawMessage      `json:"element,omitempty"`
	NotKept string               `json:"not_kept,omitempty"`
}

// Export writes one session as "jsonl" or "md".
func (x Exporter) Export(ctx context.Context, w io.Writer, id, format string) error {
	s, err := x.Sessions.Session(ctx, id)
	if err != nil {
		return err
	}
	rows, err := x.Sessions.RowViews(ctx, id)
	if err != nil {
		return err
	}
	if format == "md" {
		head(w, s)
		return x.each(ctx, rows, func(r session.RowView, raw []byte, gone string) error { return section(w, r, raw, gone) })
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line{Session: &s}); err != nil {
		return err
	}
	return x.each(ctx, rows, func(r session.RowView, raw []byte, gone string) error {
		l := line{Row: &r, NotKept: gone}
		if raw != nil {
			l.Element = compact(asJSON(raw))
		}
		return enc.Encode(l)
	})
}

// each visits the rows with the bytes of their element, which come with its
// first row only. Bytes that are gone are named, never faked.
func (x Exporter) each(ctx context.Context, rows []session.RowView, visit func(session.RowView, []byte, string) error) error {
	var last int64
	for _, r := range rows {
		var raw []byte
		gone := ""
		if id, ok := parseHash(r.Hash); ok && r.Elem != last {
			b, err := x.Bytes.Blob(ctx, id)
			switch {
			case errors.Is(err, session.ErrNotKept), errors.Is(err, session.ErrUnknown):
				gone = err.Error()
			case err != nil:
				return err
			}
			raw = b
		}
		last = r.Elem
		if err := visit(r, raw, gone); err != nil {
			return err
		}
	}
	return nil
}

// compact puts an element on one line. A client's own pretty-printing is the
// one thing an export does not keep; replay does.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

func head(w io.Writer, s session.SessionView) {
	fmt.Fprintf(w, "# %s\n\n%s on %s, %d turns, %d elements\n", title(s), s.Model, s.Wire, s.Turns, s.Elements)
}

func title(s session.SessionView) string {
	if s.Title == "" {
		return s.ID
	}
	return strings.Join(strings.Fields(s.Title), " ")
}

func section(w io.Writer, r session.RowView, raw []byte, gone string) error {
	name := r.Ref
	if name == "" {
		name = fmt.Sprint("element ", r.Elem)
	}
	if gone != "" {
		_, err := fmt.Fprintf(w, "\n## %s %s\n\n(%s)\n", name, r.Role, gone)
		return err
	}
	if raw == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n## %s %s\n\n%s\n", name, r.Role, readable(raw))
	return err
}

// readable is the text of an element, with everything else as indented JSON.
func readable(raw []byte) string {
	var m struct{ Content json.RawMessage }
	var text string
	if json.Unmarshal(raw, &m) != nil {
		return fence(raw)
	}
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var blocks []json.RawMessage
	if json.Unmarshal(m.Content, &blocks) != nil {
		return fence(raw)
	}
	var out []string
	for _, b := range blocks {
		var t struct{ Type, Text string }
		if json.Unmarshal(b, &t) == nil && t.Type == "text" {
			out = append(out, t.Text)
			continue
		}
		out = append(out, fence(b))
	}
	return strings.Join(out, "\n\n")
}

// fence shows JSON as code; the fence is longer than any run of backticks in it.
func fence(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	mark := "```"
	for strings.Contains(b.String(), mark) {
		mark += "`"
	}
	return mark + "json\n" + b.String() + "\n" + mark
}
