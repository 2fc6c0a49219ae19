package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"holdfast/core/wire"
)

// PlayOptions say how the session is played.
type PlayOptions struct {
	// Turns is the number of model calls; 0 means DefaultTurns. The model on the
	// other side needs the script of the same session.
	Turns int
	// Pace is the pause between two turns.
	Pace time.Duration
	// Gzip sends compressed request bodies.
	Gzip bool
	// Wire is the one the agent talks, Anthropic when empty.
	Wire wire.Family
}

// TurnResult is what the client saw of one turn.
type TurnResult struct {
	// Turn counts from 1.
	Turn int
	// Elements is the number of messages sent.
	Elements int
	// Sent and Received are body bytes, before any compression.
	Sent, Received int
	FirstByte      time.Duration
	Total          time.Duration
	Counts         wire.Counts
	// Said is the reply without ids: text, and calls with their arguments.
	Said string
	// Body is the request as it was sent, before any compression.
	Body []byte
}

// Summary is a whole session.
type Summary struct {
	Turns, Elements int
	Sent, Received  int64
	// LastBody is the size of the last request.
	LastBody int
	Counts   wire.Counts
	Took     time.Duration
}

// SessionID is the id the session carries in its header and metadata.
const SessionID = "7f1d0000-0000-4000-8000-00000000cafe"

// Play sends the bundled session to baseURL as a coding agent does: the whole
// history each turn, cache markers on the newest message, tool results in the
// next user message. It calls onTurn after each reply and stops at the first
// that is not a good one.
func Play(ctx context.Context, baseURL string, client *http.Client, opts PlayOptions, onTurn func(TurnResult)) (Summary, error) {
	if opts.Turns == 0 {
		opts.Turns = DefaultTurns
	}
	a := &agent{speaker: claude{}, client: client, url: baseURL, gzip: opts.Gzip}
	if opts.Wire == wire.OpenAI {
		a.speaker = chatter{}
	}
	start := time.Now()
	var sum Summary
	for i, beat := range Session(opts.Turns) {
		res, err := a.turn(ctx, beat)
		if err != nil {
			return sum, fmt.Errorf("turn %d: %w", i+1, err)
		}
		res.Turn = i + 1
		sum.add(res)
		onTurn(res)
		if err := rest(ctx, opts.Pace); err != nil {
			return sum, err
		}
	}
	sum.Took = time.Since(start)
	return sum, nil
}

func (s *Summary) add(r TurnResult) {
	s.Turns, s.Elements, s.LastBody = r.Turn, r.Elements, r.Sent
	s.Sent += int64(r.Sent)
	s.Received += int64(r.Received)
	s.Counts.Input += r.Counts.Input
	s.Counts.Cached += r.Counts.Cached
	s.Counts.CacheWrite += r.Counts.CacheWrite
	s.Counts.Output += r.Counts.Output
	s.Counts.Seen = s.Counts.Seen || r.Counts.Seen
}

func rest(ctx context.Context, pace time.Duration) error {
	if pace == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// agent is the client's side: it owns the history.
type agent struct {
	speaker
	client  *http.Client
	url     string
	gzip    bool
	history []message
}

// turn plays one beat: prompt, request, reply, tool results.
func (a *agent) turn(ctx context.Context, beat Beat) (TurnResult, error) {
	if beat.Prompt != "" {
		a.history = append(a.history, message{role: "user", blocks: []object{{{"type", "text"}, {"text", beat.Prompt}}}})
	}
	request := a.body(a.history)
	body := mustEncode(request)
	res := TurnResult{Elements: request.elements(), Sent: len(body), Body: body}
	said, err := a.send(ctx, body, &res)
	if err != nil {
		return res, err
	}
	res.Said = said.describe()
	a.history = append(a.history, said)
	if len(said.calls) != len(beat.Results) {
		return res, fmt.Errorf("the model made %d calls, the session expects %d", len(said.calls), len(beat.Results))
	}
	if len(said.calls) > 0 {
		a.history = append(a.history, a.results(said, beat.Results)...)
	}
	return res, nil
}

// elements is how many messages a request holds.
func (o object) elements() int {
	for _, m := range o {
		if list, ok := m.value.([]object); ok && m.key == listName {
			return len(list)
		}
	}
	return 0
}

func (a *agent) send(ctx context.Context, body []byte, res *TurnResult) (said message, err error) {
	req, err := a.request(ctx, body)
	if err != nil {
		return message{}, err
	}
	start := time.Now()
	resp, err := a.client.Do(req)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return message{}, fmt.Errorf("status %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	in := &counted{r: resp.Body, start: start}
	said, err = a.reply(in, &res.Counts)
	res.Received, res.FirstByte, res.Total = in.n, in.first, time.Since(start)
	return said, err
}

func (a *agent) request(ctx context.Context, body []byte) (*http.Request, error) {
	encoding := ""
	if a.gzip {
		encoding = "gzip"
		body = zipped(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+a.path(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "holdfast-demo/1")
	a.session(h)
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	return req, nil
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	enc := newEncoder("gzip", &b)
	if _, err := enc.Write(body); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	if err := enc.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// counted counts what is read and notes when the first byte came.
type counted struct {
	r     io.Reader
	start time.Time
	n     int
	first time.Duration
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n == 0 && n > 0 {
		c.first = time.Since(c.start)
	}
	c.n += n
	return n, err
}
