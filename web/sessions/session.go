package sessions

import (
	"context"
	"net/http"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// head is the top of every page of one session.
type head struct {
	view session.SessionView
	tab  string
	now  int64
	form string
	kin  []session.SessionView // branches, subagents, side calls
}

func (p *Pages) head(ctx context.Context, id, tab string) (head, error) {
	v, err := p.Source.Session(ctx, id)
	if err != nil {
		return head{}, err
	}
	kin, err := p.Source.SessionChildren(ctx, id)
	return head{view: v, tab: tab, now: p.now(), form: p.Form(), kin: kin}, err
}

func (h *head) page(title string) layout.Page {
	return layout.Page{Title: title + " · " + name(h.view), Section: "sessions", Crumbs: []layout.Link{{Text: "Sessions", URL: "/ui/sessions"}},
		Keys: []layout.Key{{Press: "1 2 3", Does: "ledger, coverage map, turns"}, {Press: "e", Does: "export as JSONL"}}}
}

func (h *head) url(tab string) string {
	u := "/ui/sessions/" + h.view.ID
	if tab != "" {
		u += "/" + tab
	}
	return u
}

func (h *head) tabs() []layout.Tab {
	return []layout.Tab{
		{Text: "Ledger", Note: layout.Count(h.view.Elements), URL: h.url(""), Press: "1", On: h.tab == ""},
		{Text: "Coverage map", Note: layout.Plural(h.view.Blocks, "fold", "folds"), URL: h.url("map"), Press: "2", On: h.tab == "map"},
		{Text: "Turns", Note: layout.Count(h.view.Turns), URL: h.url("turns"), Press: "3", On: h.tab == "turns"},
	}
}

// saved is what folding did to the bill, in words.
func saved(f float64) string {
	if f < 0 {
		return "≈ " + layout.Money(-f) + " not yet earned back"
	}
	return "≈ " + layout.Money(f) + " saved"
}

// cut is how much less the model read than the client asked it to.
func cut(t session.TokenView) string {
	if t.Inbound <= t.Outbound || t.Inbound == 0 {
		return ""
	}
	return layout.Percent(1-float64(t.Outbound)/float64(t.Inbound)) + " less"
}

// breaker is the state of the session's fault memory in words.
func (h *head) breaker() string {
	switch h.view.Breaker.Phase(h.now) {
	case session.BreakerOpen:
		return "Stays on the full path after repeated faults"
	case session.BreakerProbe:
		return "The next turn tries the snapshot path again"
	}
	return ""
}

// Verified is what checking a ledger found, for its page.
type Verified struct {
	Sound                          bool
	Elements, Rows, Turns, NotKept int
	Served                         string
	Faults                         []string
}

// Check shows the outcome of checking one ledger.
func (p *Pages) Check(r *http.Request, v Verified) (layout.Page, error) {
	h, err := p.head(r.Context(), r.PathValue("id"), "")
	if err != nil {
		return layout.Page{}, err
	}
	page := h.page("Verified")
	page.Body = checkPage(h, v)
	return page, nil
}

func folded(live, folded int64) string {
	if folded == 0 {
		return layout.Count(live) + " live"
	}
	return layout.Count(live) + " live, " + layout.Count(folded) + " folded"
}

func costNote(c session.CostView) string {
	if c.Saved == 0 {
		return "at list price"
	}
	return saved(c.Saved)
}
