package chain

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

const (
	// maxRounds is how many model calls one reply may take. A model that has
	// not come to its answer by then is going in circles.
	maxRounds = 10
	// forcedRounds is the same where the request forces a tool: one call of ours
	// is answered, then the turn goes on.
	forcedRounds = 2
	// retries and retryPause are for an upstream that is busy in a later round:
	// the client cannot retry a round it knows nothing of.
	retries    = 3
	retryPause = 1500 * time.Millisecond
	// keepAlive is how long a client hears nothing while its reply is held.
	keepAlive = 15 * time.Second
	// lastWords is how long the end of a reply waits for the end of the
	// upstream's body: what was private in it is kept before the client can go
	// on.
	lastWords = time.Second
)

// emptyNote is what a user sees of a reply in which the model only tidied up.
const emptyNote = "The conversation history was tidied up."

// loop is one reply that takes as many rounds as the model calls our own tools
// in: own calls are answered here and never seen by the client. It is an
// io.Reader of the client's bytes, so that the relay is the same for every
// reply.
//
// As long as the first round holds nothing back, the relay itself reads it
// through the loop: most replies call no tool of ours, and a goroutine with a
// pipe between would cost each of their chunks two switches. From there on,
// when the client has to be kept awake, the rounds run in a goroutine of their
// own.
type loop struct {
	c      *Chain
	x      *Exchange
	ctx    context.Context
	stream bool

	// body is the round being read; reply what a later one has told so far, nil
	// in the first.
	body  io.ReadCloser
	reply wire.Reply
	buf   []byte

	// ready are bytes for the client that the relay has not taken yet, end how
	// the reply ended, nil before: the relay's own, until piped.
	ready bytes.Buffer
	end   error
	// piped gives the client's bytes once the rounds run by themselves; out is
	// its other end.
	piped *io.PipeReader
	out   *io.PipeWriter

	// mu guards wire and what is written to out, which the keep-alive shares.
	mu   sync.Mutex
	wire wire.Loop
	// spoke is when the client heard something last; held says that bytes came
	// since that it has not been given.
	spoke time.Time
	held  bool

	rounds []wire.Private
	// stuck counts rounds of nothing but calls that failed before.
	stuck int
	// unthought says that the private reasoning was left out, because the
	// upstream refused it.
	unthought bool
}

// looped starts the loop on a first reply that may hold calls of our own and
// returns the reply as the client gets it; nil when it can hold none. cancel
// ends the upstream calls.
func (c *Chain) looped(ctx context.Context, x *Exchange, resp *http.Response) *http.Response {
	codec, ok := x.codec.(wire.Looper)
	if !ok || !x.offers || resp.StatusCode != http.StatusOK {
		return nil
	}
	kind := strings.ToLower(resp.Header.Get("Content-Type"))
	stream := strings.HasPrefix(kind, "text/event-stream")
	if !stream && !strings.Contains(kind, "json") {
		return nil
	}
	if !stream && upstream.Whole(resp, sse.MaxReply) != nil {
		return nil
	}
	body, err := upstream.Decoded(resp)
	if err != nil {
		return nil
	}
	l := &loop{c: c, x: x, ctx: ctx, stream: stream, body: body, buf: make([]byte, 32<<10),
		wire: codec.Loop(stream, wire.LoopOptions{Own: x.ownTools(), Note: emptyNote})}
	x.loop = l
	return plainReply(resp, l, stream)
}

// plainReply is a reply whose body is r, of no known length and encoding. One
// that is not streamed comes at once and gets its length, unless it is too long
// to be read: a megabyte of gzip can be a gigabyte of reply.
func plainReply(resp *http.Response, r io.Reader, stream bool) *http.Response {
	out := *resp
	out.Header = resp.Header.Clone()
	out.Header.Del("Content-Encoding")
	out.Header.Del("Content-Length")
	out.Body, out.ContentLength = io.NopCloser(r), -1
	if !stream {
		b, err := io.ReadAll(io.LimitReader(r, sse.MaxReply))
		if err == nil && len(b) == sse.MaxReply {
			out.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b), r))
			return &out
		}
		out.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b), failing{err}))
		if err == nil {
			out.ContentLength = int64(len(b))
			out.Header.Set("Content-Length", fmt.Sprint(len(b)))
		}
	}
	return &out
}

// failing is the end of a body that broke off, or the plain end of one.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// Read gives the client's bytes as they come.
func (l *loop) Read(p []byte) (int, error) {
	for l.ready.Len() == 0 && l.end == nil && l.piped == nil {
		l.step()
	}
	switch {
	case l.ready.Len() > 0:
		return l.ready.Read(p)
	case l.end != nil:
		return 0, l.end
	}
	return l.piped.Read(p)
}

// step takes the next bytes of the first round, or its end. A stream in which
// something is held is left to a goroutine.
func (l *loop) step() {
	defer func() {
		if p := recover(); p != nil {
			l.end = l.broken(p)
		}
	}()
	over, err := l.take()
	switch {
	case over:
		l.endFirst(err)
	case l.ready.Len() == 0 && l.stream:
		l.goOn(func() error { return l.walk(l.closeRound(l.feed())) })
	}
}

// endFirst ends the first round where it was read.
func (l *loop) endFirst(err error) {
	round, err := l.closeRound(err)
	if last, err := l.last(&round, err); last {
		l.end = cmp.Or(err, io.EOF)
		return
	}
	l.goOn(func() error { return l.walk(round, nil) })
}

// goOn runs the rest of the reply in a goroutine and closes it; a broken helper
// cuts it.
func (l *loop) goOn(rest func() error) {
	l.piped, l.out = io.Pipe()
	l.spoke, l.held = time.Now(), true
	go func() {
		stop := l.keepAwake()
		defer stop()
		defer func() {
			if p := recover(); p != nil {
				l.out.CloseWithError(l.broken(p))
			}
		}()
		l.out.CloseWithError(rest())
	}()
}

func (l *loop) broken(p any) error {
	l.c.log.Error("the tool loop failed", "turn", l.x.id, "panic", fmt.Sprint(p))
	return fmt.Errorf("internal: %T", p)
}

// walk goes on from a round that has ended, one round after the other. Its
// error is that the upstream broke off in the first: the client is to see that
// as it was.
func (l *loop) walk(round wire.Round, err error) error {
	for {
		if last, err := l.last(&round, err); last {
			return err
		}
		if !l.goesOn(round) {
			l.finish()
			return nil
		}
		l.next()
		if l.body = l.request(); l.body == nil {
			return nil
		}
		l.reply = l.x.codec.Reply(l.stream)
		round, err = l.closeRound(l.feed())
	}
}

// last reports whether a round whose body ended with err is the end of the
// reply.
func (l *loop) last(round *wire.Round, err error) (bool, error) {
	switch first := len(l.x.rounds) == 1; {
	case err != nil && first:
		return true, err
	case round.Cut && !first:
		l.fail("api_error", "the reply broke off")
	}
	return round.Cut || len(round.Own) == 0, nil
}

// feed passes one round's bytes through the wire's loop to the client. The
// bytes that end a later round are held until the body has ended, for a moment
// at most: what was private must be kept before the client can go on.
func (l *loop) feed() error {
	body, end := l.body, (*time.Timer)(nil)
	defer func() {
		if end != nil {
			end.Stop()
		}
	}()
	for {
		over, err := l.take()
		if end == nil && l.reply != nil && l.reply.Info().Terminal {
			end = time.AfterFunc(lastWords, func() { body.Close() })
		}
		switch {
		case over && err != nil && end != nil:
			return nil
		case over:
			return err
		}
	}
}

// take reads the round's next bytes and passes them on; over says that they
// were the last, err how the body broke off.
func (l *loop) take() (over bool, err error) {
	n, err := l.body.Read(l.buf)
	if n > 0 {
		if l.reply != nil {
			l.reply.Write(l.buf[:n])
		}
		l.pass(l.buf[:n])
	}
	if err == io.EOF {
		return true, nil
	}
	return err != nil, err
}

// pass feeds bytes and gives the client what comes out; a later round's last
// words wait for the end of it.
func (l *loop) pass(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.wire.Feed(p)
	l.held = len(out) == 0
	l.emit(out)
}

// emit writes to the client; mu is held. A client that left reads no more, and
// the relay cancels what is under way.
func (l *loop) emit(b []byte) {
	if len(b) == 0 {
		return
	}
	if l.out == nil {
		l.ready.Write(b)
		return
	}
	l.spoke = time.Now()
	_, _ = l.out.Write(b)
}

// closeRound ends a round whose body ended with err, takes its report into the
// books and hands err on.
func (l *loop) closeRound(err error) (wire.Round, error) {
	l.body.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	out, round := l.wire.Close()
	round = keptRound(round)
	l.x.rounds = append(l.x.rounds, round.Info)
	l.c.reported(l.x, round.Info, len(round.Own) == 0 || round.Client > 0)
	if len(l.rounds) > 0 && len(round.Own) == 0 && !round.Cut {
		l.keep(wire.Private{Assistant: round.Element})
	}
	l.emit(out)
	l.held = len(round.Own) > 0
	return round, err
}

// keptRound is a round whose bytes outlive the next call of the loop.
func keptRound(r wire.Round) wire.Round {
	r.Element = bytes.Clone(r.Element)
	for i := range r.Own {
		r.Own[i].Args = bytes.Clone(r.Own[i].Args)
	}
	return r
}

// goesOn answers the calls of a round and reports whether the model is asked
// again.
func (l *loop) goesOn(r wire.Round) bool {
	results, stuck := l.c.answer(l.x.ctx, l.x, r.Own)
	l.rounds = append(l.rounds, wire.Private{Assistant: r.Element, Results: results})
	if l.x.cfg.Fold.MarkerLine {
		l.say(results)
	}
	if stuck {
		l.stuck++
	}
	most := maxRounds
	if l.x.frame.Choice != wire.ChoiceFree {
		most = forcedRounds
	}
	return r.Client == 0 && r.Element != nil && !cutShort(&r.Info, results) && l.stuck < 2 && len(l.x.rounds) < most && l.ctx.Err() == nil
}

// cutShort reports that the model's output ended in the middle of a call of
// ours, which therefore failed: another round would end there too.
func cutShort(info *wire.ReplyInfo, results []wire.Result) bool {
	return (info.StopReason == "max_tokens" || info.StopReason == "length") && results[len(results)-1].Failed
}

// say shows a marker line for each call that folded something.
func (l *loop) say(results []wire.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range results {
		if line, _, _ := strings.Cut(r.Text, "\n"); !r.Failed {
			l.emit(l.wire.Say("[" + line + "]\n"))
		}
	}
}

func (l *loop) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wire.Next()
}

// finish ends the reply after calls of ours that get no other round.
func (l *loop) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.wire.Finish() // what the client will send back has its note in it
	l.keep()
	l.emit(out)
}

// fail ends the reply with an error in the wire's own form.
func (l *loop) fail(kind, message string) {
	l.c.log.Warn("a later round failed", "turn", l.x.id, "round", len(l.rounds)+1, "kind", kind)
	l.x.done.Error = "later_round_failed"
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emit(l.wire.Fail(kind, message))
}

// keep stores what the model really produced, last being its final round, so
// that the next turn can render it. It is durable before the client has the
// end of the reply; mu is held.
func (l *loop) keep(last ...wire.Private) {
	all := append(l.rounds, last...)
	reply := l.wire.Reply()
	if reply == nil || all[len(all)-1].Assistant == nil {
		return
	}
	e := &echo{Wire: l.x.codec.Family(), Key: keyOf(l.x.codec, reply).String(), Rounds: roundsOf(all), turn: l.x.id}
	l.c.keepEcho(l.x, e)
}

// request makes the next model call and returns the body of its reply; nil when
// there is none, and the client was told.
func (l *loop) request() io.ReadCloser {
	resp, err := l.call()
	if err == nil && resp.StatusCode == http.StatusBadRequest && !tooLongFor(resp) && !l.unthought && thinks(l.x.codec, l.rounds) {
		resp.Body.Close()
		l.c.degrade(l.x, session.Decision{Cause: session.CauseSignature, Scope: "turn"}, fmt.Sprintf("round %d", len(l.rounds)+1))
		l.unthought = true
		resp, err = l.call()
	}
	if err != nil {
		l.fail("api_error", "the model could not be reached again")
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		l.fail(kindOf(resp.StatusCode), fmt.Sprintf("the model answered %d to a later round", resp.StatusCode))
		return nil
	}
	body, err := upstream.Decoded(resp)
	if err != nil {
		resp.Body.Close()
		l.fail("api_error", "a later round came in an unknown encoding")
		return nil
	}
	return body
}

// kindOf is the wires' own name for an upstream's refusal.
func kindOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == 529:
		return "overloaded_error"
	case status < http.StatusInternalServerError:
		return "invalid_request_error"
	}
	return "api_error"
}

// call sends the conversation with the rounds so far; a busy upstream is asked
// again a few times.
func (l *loop) call() (*http.Response, error) {
	body, err := l.c.nextBody(l.x, l.private())
	if err != nil {
		return nil, err
	}
	h := l.x.r.Header.Clone()
	h.Del("Content-Encoding")
	for try := 0; ; try++ {
		resp, err := l.c.upstream.SendBytes(l.ctx, &l.x.target, l.x.r.Method, h, body)
		busy := err == nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError)
		if err != nil || !busy || try == retries {
			return resp, err
		}
		resp.Body.Close()
		if err := l.c.pause(l.ctx, retryPause); err != nil {
			return nil, err
		}
	}
}

// private are the rounds so far, without their reasoning once it was refused.
func (l *loop) private() []wire.Private {
	if !l.unthought {
		return l.rounds
	}
	return withoutThought(l.x.codec, l.rounds)
}

// keepAwake pings the client while its reply is held.
func (l *loop) keepAwake() (stop func()) {
	tick, done := time.NewTicker(l.c.keepAlive), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				l.ping()
			case <-done:
				return
			}
		}
	}()
	return func() { tick.Stop(); close(done) }
}

func (l *loop) ping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held && time.Since(l.spoke) >= l.c.keepAlive {
		l.emit(l.wire.Ping())
	}
}
