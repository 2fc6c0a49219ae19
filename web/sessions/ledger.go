package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/web/layout"
)

// ledgerSize is how many rows one page of a ledger shows.
const ledgerSize = 100

// ledgerView is the view model of a session's rows.
type ledgerView struct {
	here   layout.Here
	groups []group
	pages  layout.Paging
	// filtered says whether anything narrows the rows.
	filtered bool
	// previews begin the text of each row, by hash and part.
	previews map[string][]string
}

// group is a run of rows: those one block covers, or, with no block, those that
// stand for themselves.
type group struct {
	block string
	rows  []session.RowView
}

// Ledger is the reading view of one session.
func (p *Pages) Ledger(r *http.Request) (layout.Page, error) {
	id := r.PathValue("id")
	h, err := p.head(r.Context(), id, "")
	if err != nil {
		return layout.Page{}, err
	}
	l := ledgerView{here: layout.At(r.URL)}
	q := session.RowQuery{Role: l.here.Get("role"), Kind: l.here.Get("kind"), State: session.ElemState(l.here.Get("state")),
		Block: l.here.Get("block"), Page: l.here.Int("page", 0), Size: ledgerSize, Pos: int64(l.here.Int("at", 0))}
	l.filtered = q.Role+q.Kind+string(q.State)+q.Block != ""
	if l.filtered && q.Page == 0 && q.Pos == 0 || q.Block != "" {
		q.Page, q.Pos = max(q.Page, 1), 0
	}
	page, err := p.Source.RowPage(r.Context(), id, q)
	if err != nil {
		return layout.Page{}, err
	}
	l.groups = grouped(page.Rows, q.Block != "")
	if l.previews, err = p.previews(r.Context(), page.Rows); err != nil {
		return layout.Page{}, err
	}
	l.pages = layout.Paging{Here: l.here, Page: page.Page, Size: ledgerSize, Total: page.Total, What: "rows"}
	out := h.page("Ledger")
	out.Body = ledgerPage(h, l)
	return out, nil
}

// previews reads the beginning of every element of a page, each once.
func (p *Pages) previews(ctx context.Context, rows []session.RowView) (map[string][]string, error) {
	out := map[string][]string{}
	for _, v := range rows {
		if _, done := out[v.Hash]; done {
			continue
		}
		out[v.Hash] = nil
		id, err := content.Parse(v.Hash)
		if err != nil || id.IsZero() {
			continue
		}
		raw, err := p.Source.Blob(ctx, id)
		switch {
		case errors.Is(err, session.ErrNotKept), errors.Is(err, session.ErrUnknown):
			continue
		case err != nil:
			return nil, err
		}
		for _, b := range blocksOf(raw) {
			out[v.Hash] = append(out[v.Hash], preview(b))
		}
	}
	return out, nil
}

// preview is what a row shows of itself before it is opened.
func (l *ledgerView) preview(v session.RowView) string {
	texts := l.previews[v.Hash]
	switch at := int(max(0, v.Sub)); {
	case len(texts) == 0:
		return "(the bytes are no longer kept)"
	case v.RowID == 0: // an element without rows: all of it
		return texts[0]
	case at < len(texts):
		return texts[at]
	}
	return texts[len(texts)-1]
}

// grouped puts rows that one block covers together; a block that was asked for
// by name is shown open.
func grouped(rows []session.RowView, open bool) (out []group) {
	for _, v := range rows {
		block := v.CoveredBy
		if open {
			block = ""
		}
		if k := len(out) - 1; k >= 0 && out[k].block == block {
			out[k].rows = append(out[k].rows, v)
			continue
		}
		out = append(out, group{block, []session.RowView{v}})
	}
	return out
}

// tokens is what a group's elements take.
func (g *group) tokens() (n int64) {
	for _, v := range g.rows {
		n += int64(v.Tokens)
	}
	return n
}

// elementID is where the bytes of a row are put once they are asked for.
func elementID(v session.RowView) string { return fmt.Sprintf("bytes-%d-%d", v.RowID, v.Elem) }

func refOf(v session.RowView) string {
	if v.Ref != "" {
		return v.Ref
	}
	return fmt.Sprintf("#%d", v.Elem)
}

// stateTone colours where an element stands.
func stateTone(s session.ElemState) string {
	switch s {
	case session.Live:
		return "brand"
	case session.Overlaid:
		return layout.Warn
	case session.Folded:
		return layout.Info
	}
	return layout.Quiet
}

// Element is the exact bytes of one element, for a row that was opened.
func (p *Pages) Element(r *http.Request) (templ.Component, error) {
	id, err := content.Parse(r.PathValue("hash"))
	if err != nil {
		return nil, session.ErrUnknown
	}
	raw, err := p.Source.Blob(r.Context(), id)
	if err != nil {
		return nil, err
	}
	return elementPart(id.String(), raw, blocksOf(raw)), nil
}

func roles() []layout.Option {
	return layout.Options([]string{"user", "assistant", "system", "developer", "tool"})
}

func kinds() []layout.Option {
	return []layout.Option{{Value: "text", Text: "text"}, {Value: "tool_call", Text: "tool call"}, {Value: "tool_result", Text: "tool result"},
		{Value: "reasoning", Text: "reasoning"}, {Value: "media", Text: "media"}, {Value: "carrier", Text: "fold carrier"}}
}

func states() []layout.Option {
	return layout.Options([]string{"live", "folded", "overlaid", "hidden", "removed", "rewound", "archived"})
}

// clipBytes bounds what one element puts on a page; the whole is in the export
// and in the turn's bytes.
const clipBytes = 200_000

func clip(s string) string {
	if len(s) <= clipBytes {
		return s
	}
	return strings.ToValidUTF8(s[:clipBytes], "") + fmt.Sprintf("\n… %s more; export the session to see all of it", layout.Bytes(int64(len(s)-clipBytes)))
}

// partBytes bounds one part of a conversation that is read as a whole.
const partBytes = 12_000

func clipPart(s string) string {
	if len(s) <= partBytes {
		return s
	}
	return strings.ToValidUTF8(s[:partBytes], "") + fmt.Sprintf("\n… %s more; Raw and the download have all of it", layout.Bytes(int64(len(s)-partBytes)))
}

func partName(b block) string {
	words := map[string]string{"call": "Tool call", "result": "Tool result", "reasoning": "Reasoning", "media": "Media", "data": "Data"}
	if b.Name != "" {
		return words[b.Kind] + " · " + b.Name
	}
	return words[b.Kind]
}

func cutHash(h string) string {
	if len(h) > 16 {
		return h[:16] + "…"
	}
	return h
}
