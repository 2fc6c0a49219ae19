package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// turnPage is the view model of one turn.
type turnView struct {
	here    layout.Here
	now     int64
	turn    session.TurnView
	session session.SessionView // zero for traffic of no session
	beside  session.Neighbours
	side    string // diff, inbound, outbound or response
	view    string // talk, pretty or raw
	body    []byte
	gone    string // why there are no bytes
	changes []change
	more    int
	talk    []said // of this page
	pages   layout.Paging
	first   int // place of talk[0] in the body
	events  []event
	curl    string
	routes  []string // it can be sent to again
	form    string
}

// said is one entry of a body's conversation.
type said struct {
	role   string
	blocks []block
}

// Turn is the page of one turn.
func (p *Pages) Turn(r *http.Request) (layout.Page, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return layout.Page{}, session.ErrUnknown
	}
	v, err := p.turn(r.Context(), id)
	if err != nil {
		return layout.Page{}, err
	}
	v.here = layout.At(r.URL)
	v.side, v.view = oneOf(v.here.Get("side"), "diff", "inbound", "outbound", "response"), oneOf(v.here.Get("view"), "talk", "pretty", "raw")
	if err := p.read(r.Context(), v); err != nil {
		return layout.Page{}, err
	}
	page := layout.Page{Title: fmt.Sprintf("Turn %d", id), Section: "sessions", Body: turnPage(v), Crumbs: []layout.Link{{Text: "Sessions", URL: "/ui/sessions"}},
		Keys: []layout.Key{{Press: "d", Does: "what changed on the way out"}, {Press: "i", Does: "inbound"}, {Press: "u", Does: "outbound"}, {Press: "r", Does: "response"},
			{Press: "c", Does: "copy as curl"}, {Press: "[ ]", Does: "turn before and after"}}}
	if v.session.ID != "" {
		page.Crumbs = append(page.Crumbs, layout.Link{Text: name(v.session), URL: "/ui/sessions/" + v.session.ID}, layout.Link{Text: "Turns", URL: "/ui/sessions/" + v.session.ID + "/turns"})
	}
	return page, nil
}

func oneOf(s string, known ...string) string {
	for _, k := range known {
		if s == k {
			return s
		}
	}
	return known[0]
}

// turn reads everything but the bytes.
func (p *Pages) turn(ctx context.Context, id int64) (*turnView, error) {
	v := &turnView{now: p.now(), routes: p.Routes(), form: p.Form()}
	var err error
	if v.turn, err = p.Source.TurnView(ctx, id); err != nil {
		return nil, err
	}
	if v.turn.Session == "" {
		return v, nil
	}
	v.session, err = p.Source.Session(ctx, v.turn.Session)
	if err != nil && !errors.Is(err, session.ErrUnknown) && !errors.Is(err, session.ErrNotKept) {
		return nil, err
	}
	v.beside, err = p.Source.TurnNeighbours(ctx, v.turn.Session, id)
	return v, err
}

// read gets the bytes the chosen side shows. Bytes that are gone are no error:
// the page says why.
func (p *Pages) read(ctx context.Context, v *turnView) (err error) {
	part := v.side
	if part == "diff" {
		part = "outbound"
	}
	v.body, err = p.side(ctx, v, part)
	if err != nil || v.gone != "" {
		return err
	}
	switch v.side {
	case "diff":
		var in []byte
		if in, err = p.side(ctx, v, "inbound"); err == nil && v.gone == "" {
			v.changes, v.more = compare(in, v.body)
		}
	case "response":
		rec, err := p.Source.Turn(ctx, v.turn.ID)
		if err != nil {
			return err
		}
		if rec.Done != nil && rec.Done.ResponseEncoding == "" {
			v.events = eventsOf(v.body, rec.Done.Marks)
		} else {
			v.events = eventsOf(v.body, nil)
		}
	default:
		v.window(talkOf(v.body))
	}
	if v.side != "response" {
		v.curl = curlOf(p.BaseURL(), v.turn, v.body)
	}
	return err
}

// talkSize is how many entries of a body one page shows; the last page is where
// the turn went on.
const talkSize = 30

func (v *turnView) window(all []said) {
	v.pages = layout.Paging{Here: v.here, Size: talkSize, Total: len(all), What: "messages"}
	v.pages.Page = min(v.here.Int("page", v.pages.Pages()), v.pages.Pages())
	v.pages.Page = max(1, v.pages.Page)
	v.first = (v.pages.Page - 1) * talkSize
	v.talk = all[v.first:min(v.first+talkSize, len(all))]
}

func (p *Pages) side(ctx context.Context, v *turnView, part string) ([]byte, error) {
	raw, _, err := p.Source.Plain(ctx, v.turn.ID, part)
	if errors.Is(err, session.ErrNotKept) || errors.Is(err, session.ErrUnknown) {
		v.gone = err.Error()
		return nil, nil
	}
	return raw, err
}

// talkOf reads a request as a conversation: its system prompt and its list.
func talkOf(body []byte) (out []said) {
	var b struct {
		System            json.RawMessage
		Instructions      json.RawMessage
		SystemInstruction json.RawMessage `json:"systemInstruction"`
		Messages          []json.RawMessage
		Contents          []json.RawMessage
		Input             json.RawMessage
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	for _, s := range []json.RawMessage{b.System, b.Instructions} {
		if len(s) > 0 {
			out = append(out, said{"system", list(s)})
		}
	}
	if len(b.SystemInstruction) > 0 {
		out = append(out, said{"system", blocksOf(append([]byte(`{"role":"system",`), bytes.TrimLeft(b.SystemInstruction, " \n\t{")...))})
	}
	items := append(b.Messages, b.Contents...)
	var more []json.RawMessage
	if json.Unmarshal(b.Input, &more) == nil {
		items = append(items, more...)
	} else if len(b.Input) > 0 {
		out = append(out, said{"user", list(b.Input)})
	}
	for _, it := range items {
		var m struct{ Role, Type string }
		_ = json.Unmarshal(it, &m) // what does not read is shown as data
		out = append(out, said{layout.Or(m.Role, layout.Words(m.Type)), blocksOf(it)})
	}
	return out
}

// event is one event of a streamed reply.
type event struct {
	Name string
	Data string
	Ms   int64 // since the first byte; −1 where it is not known
}

// eventsOf cuts a streamed reply into its events and, by the marks of its
// chunks, says when each ended.
func eventsOf(body, marks []byte) (out []event) {
	if !bytes.HasPrefix(body, []byte("event:")) && !bytes.HasPrefix(body, []byte("data:")) && !bytes.HasPrefix(body, []byte(":")) {
		return nil
	}
	at := 0
	for _, raw := range bytes.SplitAfter(body, []byte("\n\n")) {
		at += len(raw)
		e := event{Ms: when(marks, int64(at))}
		for line := range strings.SplitSeq(string(raw), "\n") {
			if v, ok := strings.CutPrefix(line, "event:"); ok {
				e.Name = strings.TrimSpace(v)
			} else if v, ok := strings.CutPrefix(line, "data:"); ok {
				e.Data += strings.TrimSpace(v)
			}
		}
		if e.Name != "" || e.Data != "" {
			out = append(out, e)
		}
	}
	return out
}

// when is the time of the chunk that holds the byte before offset end.
func when(marks []byte, end int64) int64 {
	var at, ms int64
	for len(marks) > 0 {
		d, n := binary.Uvarint(marks)
		if n <= 0 {
			break
		}
		t, m := binary.Uvarint(marks[n:])
		if m <= 0 {
			break
		}
		marks, at, ms = marks[n+m:], at+int64(d), ms+int64(t)
		if at >= end {
			return ms
		}
	}
	return -1
}

// inlineCurl is the longest body that goes into a curl line itself; a longer
// one is downloaded and named.
const inlineCurl = 16 << 10

// curlOf is the request as a line for a terminal. Keys are never stored, so the
// line names the variable that holds one.
func curlOf(base string, t session.TurnView, body []byte) string {
	path, key := endpoint(t)
	data := "--data-binary @turn-" + strconv.FormatInt(t.ID, 10) + "-outbound.json"
	if len(body) <= inlineCurl {
		data = "--data-binary " + quoteShell(string(body))
	}
	return strings.Join([]string{"curl " + quoteShell(base+path), "-H 'content-type: application/json'", key, data}, " \\\n  ")
}

// endpoint is the path of a turn's wire and how its key is sent.
func endpoint(t session.TurnView) (path, key string) {
	switch t.WireOut {
	case "anthropic":
		return "/v1/messages", `-H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01'`
	case "responses":
		return "/v1/responses", `-H "authorization: Bearer $OPENAI_API_KEY"`
	case "google":
		return "/v1beta/models/" + t.Model + ":generateContent", `-H "x-goog-api-key: $GEMINI_API_KEY"`
	}
	return "/v1/chat/completions", `-H "authorization: Bearer $OPENAI_API_KEY"`
}

func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// cost is what a first change cost: what was read again though it had been sent
// before.
func (v *turnView) cost() string {
	t := v.turn
	if t.Change == nil || t.Bytes.Out == 0 {
		return ""
	}
	again := t.Bytes.Out - t.Bytes.PrefixSame
	return fmt.Sprintf("%s of %s sent stand behind the change and cannot come from the cache; %s tokens were read outside the cache.",
		layout.Bytes(again), layout.Bytes(t.Bytes.Out), layout.Count(int64(t.Usage.Input+t.Usage.CacheWrite)))
}

// doing says whose doing a change was.
func doing(by string) string {
	switch by {
	case "holdfast":
		return "Holdfast's doing"
	case "client":
		return "the client's doing"
	case "time":
		return "time went by"
	}
	return by
}

// shownEvents bounds the table; the download has all of them.
func (v *turnView) shownEvents() []event { return v.events[:min(len(v.events), 500)] }

func (v *turnView) tabs() []layout.Tab {
	tab := func(text, side, press string) layout.Tab {
		return layout.Tab{Text: text, URL: v.here.With("side", side, "view", "", "page", ""), Press: press, On: v.side == side}
	}
	return []layout.Tab{tab("In → out", "diff", "d"), tab("Inbound", "inbound", "i"), tab("Outbound", "outbound", "u"), tab("Response", "response", "r")}
}

func (v *turnView) viewOptions() []layout.Option {
	if v.side == "response" {
		return []layout.Option{{Value: "talk", Text: "Events"}, {Value: "raw", Text: "Raw"}}
	}
	return []layout.Option{{Value: "talk", Text: "Conversation"}, {Value: "pretty", Text: "Indented"}, {Value: "raw", Text: "Raw"}}
}

func (v *turnView) download() string {
	file := map[string]string{"inbound": "inbound.json", "outbound": "outbound.json", "response": "response.txt"}[v.side]
	return fmt.Sprintf("/ui/turns/%d/%s", v.turn.ID, file)
}

func wires(t session.TurnView) string {
	if t.WireIn == t.WireOut || t.WireOut == "" {
		return layout.Or(t.WireIn, "no wire")
	}
	return t.WireIn + " → " + t.WireOut
}

func comparedTone(v session.Verdict) string {
	switch v {
	case session.ByteEqual:
		return layout.Good
	case session.Different:
		return layout.Bad
	}
	return layout.Warn
}

func changeTone(kind string) string {
	switch kind {
	case "added":
		return layout.Good
	case "removed":
		return layout.Bad
	}
	return layout.Warn
}
