package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"holdfast/core/session"
	"holdfast/core/upstream"
)

// send makes the upstream call and relays its reply as it comes. The client's
// departure cancels the upstream, unless the wire's terminal event has passed.
func (c *Chain) send(w http.ResponseWriter, x *Exchange) {
	if x.codec == nil {
		c.pass(w, x)
		return
	}
	c.started(x)
	if refusal := c.outgrown(x); refusal != nil {
		x.done.Error = refusal.Code
		writeRefusal(w, refusal)
		return
	}
	ctx, cancel := context.WithCancel(upstream.WithCall(x.ctx, x.call()))
	defer cancel()
	stop := context.AfterFunc(x.r.Context(), cancel)
	begun := time.Now()
	body, header := x.outbound()
	interim, answered := upstream.Interim(ctx, w, x.r)
	resp, err := c.upstream.SendBytes(interim, &x.target, x.r.Method, header, body)
	answered()
	if err != nil {
		c.unreachable(w, x, err)
		return
	}
	x.overlong = tooLongFor(resp)
	if resp.StatusCode == http.StatusBadRequest && !x.overlong && x.thinksPrivately() {
		if resp, err = c.unthought(ctx, x, resp); err != nil {
			c.unreachable(w, x, err)
			return
		}
	}
	defer resp.Body.Close()
	if looped := c.looped(ctx, x, resp); looped != nil {
		resp = looped
	}
	stop() // from here on a departure is judged by what has been relayed
	c.relay(w, x, resp, begun, cancel)
}

// tooLong are what upstreams call a request that passes the window.
var tooLong = regexp.MustCompile(`(?i)prompt is too long|context_length_exceeded|maximum context length|exceeds? the (context|available context)|input length and .max_tokens. exceed|longer than the model.s context length|exceeds? the maximum allowed (context )?length`)

// refusalRead is how much of a refusal is read for its reason.
const refusalRead = 64 << 10

// tooLongFor reports whether the upstream refused a request for its length. The
// reply is left as it came.
func tooLongFor(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusRequestEntityTooLarge {
		return false
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, refusalRead))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(said), rest), resp.Body}
	if plain, err := upstream.Decode(said, resp.Header.Get("Content-Encoding")); err == nil {
		said = plain
	}
	return tooLong.Match(said)
}

// unthought sends a refused request once more without the reasoning of private
// rounds: the provider may not take it back. The client's own is the client's
// affair. When that is refused too, the client gets the answer it would have
// got without us.
func (c *Chain) unthought(ctx context.Context, x *Exchange, refused *http.Response) (*http.Response, error) {
	x.world.mu.Lock()
	x.unthink = true
	out, err := c.rendered(x, x.plan.Next, x.view)
	x.world.mu.Unlock()
	if err != nil {
		c.log.Error("a refused request could not be rendered again", "turn", x.id, "err", err)
		return refused, nil
	}
	refused.Body.Close()
	c.degrade(x, session.Decision{Cause: session.CauseSignature, Scope: "turn"}, "an earlier turn")
	x.out = out
	body, header := x.outbound()
	return c.upstream.SendBytes(ctx, &x.target, x.r.Method, header, body)
}

// outbound is the body as it leaves and its headers: the client's compressed
// bytes while they still say what is sent, plain bytes otherwise.
func (x *Exchange) outbound() ([]byte, http.Header) {
	if sameBytes(x.out, x.raw) {
		return x.arrived, x.r.Header
	}
	h := x.r.Header.Clone()
	h.Del("Content-Encoding")
	return x.out, h
}

func (c *Chain) relay(w http.ResponseWriter, x *Exchange, resp *http.Response, begun time.Time, cancel func()) {
	upstream.Inbound(w.Header(), resp.Header)
	sandbox(w.Header())
	x.done.Status = resp.StatusCode
	x.done.ResponseEncoding = resp.Header.Get("Content-Encoding")
	x.done.ResponseType = resp.Header.Get("Content-Type")
	stream := strings.HasPrefix(strings.ToLower(x.done.ResponseType), "text/event-stream")
	x.reply = &lockedReply{reply: x.codec.Reply(stream)}
	if stream && x.world != nil {
		x.reply.ends = func() { x.world.land(x.flight) }
	}
	x.tap = upstream.NewTap(begun, x.done.ResponseEncoding, x.reply)
	w.WriteHeader(resp.StatusCode)
	first := func() { c.publish("turn.first_token", x.turnEvent()) }
	terminal := func() bool { return x.reply.info().Terminal }
	stop := context.AfterFunc(x.r.Context(), func() { x.tap.Left(terminal, cancel) })
	defer stop()
	out := upstream.Relay(w, resp, x.tap, first, terminal, cancel)
	x.tap.Close()
	if !out.First.IsZero() {
		x.ms.UpstreamFirst = ms(out.First.Sub(begun))
		x.ms.Stream = msSince(out.First)
	}
	if out.UpstreamErr != nil {
		cut(w)
	}
	x.ended(out, stream && resp.StatusCode == http.StatusOK)
}

// ended tells how the reply ended. One whose terminal event has passed is
// complete, however its connection ended; the client still sees a cut as one,
// also where it has closed its own side only.
func (x *Exchange) ended(out upstream.Outcome, stream bool) {
	info := x.reply.info()
	gone := out.ClientGone || out.UpstreamErr != nil && x.r.Context().Err() != nil
	x.abort = out.UpstreamErr != nil
	x.done.Truncated = !info.Terminal && (out.UpstreamErr != nil || stream && info.Err == "")
	switch {
	case info.Terminal:
	case gone:
		x.done.Error = "client_gone"
	case out.UpstreamErr != nil:
		x.done.Error = "upstream_cut"
	case x.tap.Unread() != nil:
		x.done.Error = "reply_undecoded"
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sandbox keeps what a browser might render from running anything on our
// origin. A reply without a type stays without one: net/http would guess.
func sandbox(h http.Header) {
	kinds := h["Content-Type"]
	if strings.TrimSpace(strings.Join(kinds, "")) == "" {
		h["Content-Type"] = nil
	}
	if len(kinds) != 1 || !inert(kinds[0]) { // of two types a browser takes the last
		h.Set("Content-Security-Policy", "sandbox")
		h.Set("X-Content-Type-Options", "nosniff")
	}
}

// inert reports a content type that browsers show as text or download. What is
// not known to be one may be sniffed, or hold parts of another type.
func inert(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch kind = strings.TrimSpace(kind); kind {
	case "text/plain", "text/event-stream", "application/octet-stream", "application/x-ndjson", "application/jsonl":
		return true
	}
	return strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "json") && !strings.Contains(kind, ",")
}

// pass forwards what is not a model call, streaming both ways.
func (c *Chain) pass(w http.ResponseWriter, x *Exchange) {
	interim, answered := upstream.Interim(x.r.Context(), w, x.r)
	resp, err := c.upstream.Send(interim, &x.target, x.r.Method, x.r.Header, x.r.Body, x.r.ContentLength)
	answered()
	if err != nil {
		c.unreachable(w, x, err)
		return
	}
	defer resp.Body.Close()
	upstream.Inbound(w.Header(), resp.Header)
	sandbox(w.Header())
	w.WriteHeader(resp.StatusCode)
	x.done.Status = resp.StatusCode
	if !upstream.Streams(resp.Header, resp.ContentLength) {
		_, err = io.Copy(w, resp.Body)
	} else {
		err = copyFlushing(w, resp.Body)
	}
	if err != nil {
		cut(w)
		x.abort = true
		return
	}
	upstream.Trail(w, resp)
}

// cut sends what is buffered of a reply that breaks off: the client is to see
// as much of it as came.
func cut(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func copyFlushing(w http.ResponseWriter, r io.Reader) error {
	flush := http.NewResponseController(w).Flush
	flush() // the header; the first bytes may be long in coming
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			flush()
		}
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// unreachable answers for an upstream that did not.
func (c *Chain) unreachable(w http.ResponseWriter, x *Exchange, err error) {
	if x.r.Context().Err() != nil {
		x.done.Error, x.abort = "client_gone", true // returning would answer 200
		return
	}
	refusal := upstream.Unreachable(&x.target, err)
	x.done.Error = refusal.Code
	c.metrics.failed(c.now())
	c.log.Warn("the upstream could not be reached", "turn", x.id, "host", x.target.URL.Host, "code", refusal.Code, "err", hostOnly(err))
	writeRefusal(w, refusal)
}

// hostOnly keeps URLs, which may carry keys, out of the log.
func hostOnly(err error) string {
	var inner error = err
	for u := errors.Unwrap(inner); u != nil; u = errors.Unwrap(inner) {
		inner = u
	}
	return inner.Error()
}

// refuse answers a request that goes nowhere.
func (c *Chain) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *upstream.Refusal
	if !errors.As(err, &refusal) {
		refusal = &upstream.Refusal{Status: http.StatusInternalServerError, Code: "internal", Title: "Holdfast could not handle the request.",
			Hint: "Please report it with: holdfast doctor --bundle."}
	}
	c.metrics.skip(refusal.Code)
	c.log.Info("refused", "code", refusal.Code, "method", r.Method)
	writeRefusal(w, refusal)
}

// writeRefusal writes a problem that both people and the clients' own error
// readers understand: problem+json with the error object of both wires in it.
func writeRefusal(w http.ResponseWriter, f *upstream.Refusal) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.Encode(map[string]any{
		"type": "error", "status": f.Status, "code": f.Code, "title": f.Title, "hint": f.Hint,
		"error": map[string]string{"type": f.Code, "code": f.Code, "message": f.Title + " " + f.Hint},
	})
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff") // titles repeat what the client asked for
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(f.Status)
	w.Write(buf.Bytes())
}
