// Package demo is a scripted model and a coding session that talks to it: what
// `holdfast demo` plays, and the recording upstream real clients are tested
// against.
//
// The model is an http.Handler that speaks Anthropic Messages and OpenAI Chat
// Completions, streaming and not. It takes its lines from a Script, or, without
// one, from a directive in the newest user text that carries one:
//
//	STUB{"rounds":[[{"k":"bash","cmd":"ls"}]],"final":"done"}
//
// It invents nothing: ids, signatures and times derive from the request body,
// so the same request gets the same reply, byte for byte, on every path that
// leads to it. Every exchange is recorded as it came and as it left.
//
// With a Script it behaves as a real model behind a provider does: it uses the
// folding tools it is offered (mind.go), finds its place in a history that was
// folded (place.go), and reports the usage of a prompt cache that remembers the
// request before (bill.go). With Strict, with a Script or without one, it
// refuses what a strict provider would (strict.go). prefix.go judges what a fold
// left as it was.
package demo

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"holdfast/core/wire"
)

// Options configure a Model.
type Options struct {
	// Script is played when set, each request getting the turn it stands at; the
	// model then uses the folding tools it is offered, and reports what a
	// provider with a prompt cache would. Nil means directives.
	Script Script
	// Strict refuses what a strict provider would: reasoning that is not as it
	// was signed or not where, calls and results that do not go together,
	// messages out of order.
	Strict bool
	// Turns says where a strict model wants turns to alternate.
	Turns Alternation
	// Keep is how many exchanges of a label keep their bodies; 0 keeps all.
	Keep int
}

// Recording is one exchange as the model saw it.
type Recording struct {
	Method, Path, RawQuery string
	Header                 http.Header
	// RawBody is the body as it came, Body the same without its
	// Content-Encoding.
	RawBody, Body  []byte
	Status         int
	ResponseHeader http.Header
	// RawResponse is the response body as it left, Response the same without
	// its Content-Encoding.
	RawResponse, Response []byte
	// Cut says that the model broke the response off on purpose.
	Cut bool
	// Size is the length of Body, kept when Body is not.
	Size int64
	// Counts is the usage a scripted reply reports, Refused why the model
	// answered 400.
	Counts  wire.Counts
	Refused string
	// Own are the folding tools the reply calls.
	Own []string
}

// Model is the scripted model. Make one with NewModel.
type Model struct {
	opts Options

	// mu guards the rest; idle is signalled when an exchange ends.
	mu     sync.Mutex
	idle   *sync.Cond
	labels map[string]*labelled
}

// labelled is what the model keeps for one label.
type labelled struct {
	exchanges []*Recording
	underWay  int
	// failed counts the faults already played, by kind, so that a retry passes,
	// and the rounds of directives that ask for it, by their text.
	failed map[string]int
	meter  meter
}

// NewModel makes a model.
func NewModel(opts Options) *Model {
	m := &Model{opts: opts, labels: map[string]*labelled{}}
	m.idle = sync.NewCond(&m.mu)
	return m
}

// Recordings returns the exchanges under /c/<label>/ in the order they arrived
// (label "" is everything outside /c/). It waits for those under way.
func (m *Model) Recordings(label string) []Recording {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.label(label)
	for l.underWay > 0 {
		m.idle.Wait()
	}
	out := make([]Recording, len(l.exchanges))
	for i, r := range l.exchanges {
		out[i] = *r
	}
	return out
}

// label is called with mu held.
func (m *Model) label(name string) *labelled {
	l := m.labels[name]
	if l == nil {
		l = &labelled{failed: map[string]int{}}
		m.labels[name] = l
	}
	return l
}

// once reports whether a fault of this kind is still due: it happens the first
// n times.
func (m *Model) once(label, kind string, n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.label(label)
	l.failed[kind]++
	return l.failed[kind] <= n
}

// ServeHTTP answers one request and records the exchange.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	label, path := cutLabel(r.URL.Path)
	rec := &Recording{Method: r.Method, Path: r.URL.Path, RawQuery: r.URL.RawQuery, Header: r.Header.Clone()}
	m.begin(label, rec)
	defer m.end(label)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client left while it was still sending
	}
	rec.RawBody = raw
	out := &reply{w: w, r: r, rec: rec}
	defer out.close()
	if rec.Body, err = decoded(raw, r.Header.Get("Content-Encoding")); err != nil {
		out.json(http.StatusBadRequest, errorBody("invalid_request_error", err.Error()))
		return
	}
	rec.Size = int64(len(rec.Body))
	m.route(out, label, path)
}

func (m *Model) begin(label string, rec *Recording) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.label(label)
	l.exchanges = append(l.exchanges, rec)
	l.underWay++
	if old := len(l.exchanges) - m.opts.Keep - 1; m.opts.Keep > 0 && old >= 0 {
		r := l.exchanges[old]
		r.RawBody, r.Body, r.RawResponse, r.Response = nil, nil, nil, nil
	}
}

func (m *Model) end(label string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.label(label).underWay--
	m.idle.Broadcast()
}

// route picks the answer by the end of the path: clients disagree on what
// stands before it.
func (m *Model) route(out *reply, label, path string) {
	post := out.r.Method == http.MethodPost
	switch {
	case out.r.Header.Get("Upgrade") != "":
		out.json(http.StatusUpgradeRequired, errorBody("upgrade_required", "no WebSocket here"))
	case post && strings.HasSuffix(path, "/messages/count_tokens"):
		out.json(http.StatusOK, object{{"input_tokens", tokensOf(out.rec.Body)}})
	case post && strings.HasSuffix(path, "/messages"):
		m.converse(out, label, anthropicWire{})
	case post && strings.HasSuffix(path, "/chat/completions"):
		m.converse(out, label, chatWire{})
	case strings.HasSuffix(path, "/models"):
		out.json(http.StatusOK, modelList())
	case !post:
		out.text(http.StatusOK, "text/plain; charset=utf-8", "ok\n")
	default:
		out.json(http.StatusNotFound, errorBody("not_found_error", "no route "+path))
	}
}

// cutLabel splits /c/<label>/rest; a path without a label has the label "".
func cutLabel(path string) (label, rest string) {
	after, ok := strings.CutPrefix(path, "/c/")
	if !ok {
		return "", path
	}
	label, rest, _ = strings.Cut(after, "/")
	return label, "/" + rest
}

// BaseURL is the base URL a client is given to be recorded under label.
func BaseURL(server, label string) string { return server + "/c/" + url.PathEscape(label) }

func modelList() object {
	var data []any
	for _, id := range []string{"claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5.2", "stub-model"} {
		data = append(data, object{{"type", "model"}, {"id", id}, {"object", "model"}, {"display_name", id},
			{"created", created}, {"created_at", "2025-01-01T00:00:00Z"}, {"owned_by", "holdfast"}})
	}
	return object{{"object", "list"}, {"data", data}, {"has_more", false}}
}

func errorBody(kind, message string) object {
	return object{{"type", "error"}, {"error", object{{"type", kind}, {"message", message}}}}
}

// created is the creation time of everything, in unix seconds: a reply must
// not depend on the clock.
const created = 1_700_000_000

// tokensOf is the model's token count: four bytes each.
func tokensOf(body []byte) int { return (len(body) + 3) / 4 }

// A wireFormat reads one family's requests and writes its replies.
type wireFormat interface {
	// read refuses what is not a request of this family.
	read(body []byte) (request, error)
	whole(out *reply, q request, t Turn, ids *idSource)
	stream(out *reply, q request, t Turn, ids *idSource)
	// refuse answers 400 as the provider words it.
	refuse(out *reply, why error)
	fault(out *reply, status int)
	midFault(out *reply)
	// rules are a strict provider's.
	rules() rules
}

// converse answers a request for a reply.
func (m *Model) converse(out *reply, label string, format wireFormat) {
	q, err := format.read(out.rec.Body)
	if err == nil && m.opts.Strict {
		err = m.opts.Turns.of(format.rules()).judge(q.messages)
	}
	if err != nil {
		out.rec.Refused = err.Error()
		format.refuse(out, err)
		return
	}
	turn := m.plan(label, &q)
	if turn.Err != 0 && m.once(label, "err", max(turn.ErrN, 1)) {
		format.fault(out, turn.Err)
		return
	}
	if !out.prepare(turn) {
		return
	}
	out.breakOff = q.tools != nil && turn.Cut && m.once(label, "cut", 1)
	out.midError = q.tools != nil && turn.MidErr && m.once(label, "mid", 1)
	for _, c := range turn.Calls {
		if ownTool(c.Tool) {
			out.rec.Own = append(out.rec.Own, c.Tool)
		}
	}
	if q.billed != nil {
		out.rec.Counts = *q.billed
		out.rec.Counts.Output, out.rec.Counts.Seen = int64(turn.tokens()), true
	}
	ids := &idSource{seed: out.rec.Body}
	if q.stream {
		format.stream(out, q, turn, ids)
		return
	}
	format.whole(out, q, turn, ids)
}

// plan chooses the turn to play.
func (m *Model) plan(label string, q *request) Turn {
	if m.opts.Script != nil {
		return m.perform(label, q)
	}
	d := q.directive()
	if d.Played && len(q.tools) > 0 {
		q.rounds = m.played(label, q.text)
	}
	return d.turn(*q)
}

// played is how often the directive in a text was played before under a label.
func (m *Model) played(label, text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.label(label)
	l.failed[text]++
	return l.failed[text] - 1
}

// request is what the model needs to know of a request, on either wire.
type request struct {
	model  string
	stream bool
	// think asks for a thinking block (Anthropic), omit for one without its text;
	// usage asks for a usage chunk (chat).
	think, omit, usage bool
	tools              []tool
	// format is the JSON schema the answer must follow, nil when free.
	format *schema
	// text is the newest user text that holds a directive; rounds counts the
	// assistant messages with calls after it, assistants all of them.
	text       string
	rounds     int
	assistants int
	tokens     int
	// messages and prompt are the request as a scripted model reads it, billed
	// the input classes its provider reports.
	messages []heard
	prompt   []piece
	billed   *wire.Counts
	// marked wires say up to where a prompt is cached, for lifetime.
	marked   bool
	lifetime time.Duration
}

// hear reads the messages with a wire's reader.
func (q *request) hear(body wire.Object, read func(wire.Object) []heard) {
	q.messages = read(body)
	q.prompt = promptOf(body, q.messages)
	for _, h := range q.messages {
		var texts []string
		calls := 0
		for _, p := range h.parts {
			switch p.kind {
			case partText:
				texts = append(texts, p.text)
			case partCall:
				calls++
			}
		}
		q.said(h.role, strings.Join(texts, "\n"), calls)
	}
}

// said feeds one message, in order.
func (q *request) said(role, text string, calls int) {
	switch {
	case role == "user" && strings.Contains(text, mark):
		q.text, q.rounds = text, 0
	case role == "assistant":
		q.assistants++
		if calls > 0 {
			q.rounds++
		}
	}
}

// counts are a reply's token counts: most of a request that has a history is
// said to be cached, a little newly written to the cache.
func (q *request) counts(t Turn) (input, cached, written, output int) {
	if q.billed != nil {
		return int(q.billed.Input), int(q.billed.Cached), int(q.billed.CacheWrite), t.tokens()
	}
	total := q.tokens
	if t.Usage.In > 0 {
		total = t.Usage.In
	}
	if q.assistants > 0 {
		cached = total * 8 / 10
	}
	written = total / 20
	output = t.Usage.Out
	if output == 0 {
		output = 20 + len(t.Text)/4
	}
	return total - cached - written, cached, written, output
}

// idSource derives ids from the request, in order.
type idSource struct {
	seed []byte
	n    int
}

func (s *idSource) next(prefix string) string {
	s.n++
	sum := hashOf(s.seed, s.n)
	return fmt.Sprintf("%s%x", prefix, sum[:12])
}

// call is the id of a call: the end of a scripted one's is its mark.
func (s *idSource) call(prefix string, c *Call) string {
	id := s.next(prefix)
	return id[:len(id)-len(c.mark)] + c.mark
}

// parts cuts a text into about n pieces, between characters.
func parts(s string, n int) (out []string) {
	step := max(1, (len(s)+n-1)/n)
	for len(s) > 0 {
		cut := min(step, len(s))
		for cut < len(s) && s[cut]&0xC0 == 0x80 {
			cut++
		}
		out = append(out, s[:cut])
		s = s[cut:]
	}
	if out == nil {
		return []string{""}
	}
	return out
}
