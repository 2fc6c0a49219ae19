package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"holdfast/core/engine"
	"holdfast/core/upstream"
	"holdfast/core/wire"
)

// model answers one model call. An engine that dies before it has answered is
// asked once more, in its next life and without a restore.
func (e *Engine) model(r *http.Request, w clientWire) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	req, err := w.request(body)
	if err != nil {
		return answer(r, http.StatusBadRequest, w.refusal(http.StatusBadRequest, err.Error())), nil
	}
	call := upstream.CallOf(r.Context())
	resp, err := e.attempt(r, w, req, call, false)
	if engine.Gone(err) && r.Context().Err() == nil {
		e.log.Warn("the engine went away under a request, which is sent again", "err", err)
		resp, err = e.attempt(r, w, req, call, true)
	}
	return resp, err
}

// attempt sends a request to the engine's present life; cold leaves the disk out.
func (e *Engine) attempt(r *http.Request, w clientWire, req request, call upstream.Call, cold bool) (*http.Response, error) {
	ctx := r.Context()
	l, err := e.contact(ctx)
	if err != nil {
		return nil, err
	}
	if l.dated {
		req.body = pin(req.body, call)
	}
	t, err := e.place(ctx, l, req, call, cold)
	if err != nil {
		if engine.Gone(err) && ctx.Err() == nil {
			e.lost(l)
		}
		return nil, err
	}
	resp, err := l.client.Post(ctx, "/v1/chat/completions", forwarded(r.Header), t.body(req))
	if err != nil {
		t.abandon()
		if ctx.Err() == nil {
			e.lost(l)
		}
		return nil, &engine.Error{Op: "chat", Err: err}
	}
	kind := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode != http.StatusOK:
		return refused(resp, w, t)
	case strings.HasPrefix(kind, "text/event-stream"):
		return streamed(resp, w, req, t), nil
	}
	return whole(resp, w, t)
}

// bodyOf reads a request's body, unpacked: the engine takes plain bytes only.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return upstream.Decode(body, r.Header.Get("Content-Encoding"))
}

// forwarded are the headers that mean something to the engine.
func forwarded(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{"Authorization", "User-Agent"} {
		if v := h.Values(name); len(v) > 0 {
			out[name] = v
		}
	}
	if key := h.Get("X-Api-Key"); key != "" && len(out["Authorization"]) == 0 {
		out.Set("Authorization", "Bearer "+key) // how an engine reads what Anthropic's clients send
	}
	return out
}

// fields are the fields the engine is given with a chat body: the slot, whether
// what it holds is reused, and progress reports that say at once how much was.
// They stand last, where they win over a client's own of the same name.
func fields(body []byte, slot int, reuse, stream bool) []byte {
	end := bytes.LastIndexByte(body, '}')
	added := `"id_slot":` + strconv.Itoa(slot) + `,"cache_prompt":` + strconv.FormatBool(reuse)
	if stream {
		added += `,"return_progress":true`
	}
	if o, err := wire.ValueOf(body).Object(); err == nil && len(bytes.TrimSpace(o.Bytes())) > 2 && len(bytes.TrimSpace(body[1:end])) > 0 {
		added = "," + added
	}
	out := make([]byte, 0, len(body)+len(added))
	return append(append(append(out, body[:end]...), added...), body[end:]...)
}

// answer is a reply of ours.
func answer(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// maxReply bounds a reply that is read whole, in bytes.
const maxReply = 256 << 20

// refused hands on the engine's refusal in the client's words. It computed
// nothing, so the slot holds what it held.
func refused(resp *http.Response, w clientWire, t *ticket) (*http.Response, error) {
	defer resp.Body.Close()
	defer t.abandon()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, &engine.Error{Op: "chat", Err: err}
	}
	return answer(resp.Request, resp.StatusCode, w.failure(resp.StatusCode, body)), nil
}

// whole hands on a reply that came in one piece.
func whole(resp *http.Response, w clientWire, t *ticket) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		t.abandon()
		return nil, &engine.Error{Op: "chat", Err: err}
	}
	t.hear(body)
	out, err := w.whole(body)
	if err != nil {
		t.abandon()
		return nil, err
	}
	t.finish()
	return answer(resp.Request, http.StatusOK, out), nil
}

// streamed hands on a reply as it comes.
func streamed(resp *http.Response, w clientWire, req request, t *ticket) *http.Response {
	s := &stream{from: resp.Body, ticket: t, turn: w.stream(req.body)}
	s.split = splitter(s.turn, t.hear, &s.out)
	out := *resp
	out.Header = http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	out.Body, out.ContentLength = s, -1
	return &out
}

// stream is the body of a reply under way. It holds the slot until it ends.
type stream struct {
	from   io.ReadCloser
	split  io.Writer
	turn   turner
	ticket *ticket
	out    bytes.Buffer
	err    error
	buf    [16 << 10]byte
}

// Read gives what the turner wrote, reading on until there is something.
func (s *stream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 && s.err == nil {
		n, err := s.from.Read(s.buf[:])
		s.split.Write(s.buf[:n])
		if err != nil {
			s.err = err
			s.out.Write(s.turn.end(err == io.EOF && s.ticket.ended))
			s.close()
		}
	}
	if s.out.Len() > 0 {
		return s.out.Read(p)
	}
	return 0, s.err
}

// close settles the ticket, once.
func (s *stream) close() {
	if s.ticket.ended {
		s.ticket.finish()
	} else {
		s.ticket.abandon()
	}
}

// Close ends the reply; the engine stops generating for a client that left.
func (s *stream) Close() error {
	err := s.from.Close()
	s.close()
	return err
}

// count answers how many tokens a request would be, without computing it.
func (e *Engine) count(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	chat, _, err := toChat(body)
	if err != nil {
		return answer(r, http.StatusBadRequest, anthropicError(http.StatusBadRequest, err.Error())), nil
	}
	l, err := e.contact(r.Context())
	if err != nil {
		return nil, err
	}
	ids, err := promptOf(r.Context(), l.client, chat)
	if err != nil {
		var refused *engine.Error
		if errors.As(err, &refused) && refused.Status != 0 {
			return answer(r, http.StatusBadRequest, anthropicError(http.StatusBadRequest, refused.What)), nil
		}
		return nil, err
	}
	return answer(r, http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, len(ids))), nil
}

// pass sends on what is not a model call as it is.
func (e *Engine) pass(r *http.Request) (*http.Response, error) {
	run, err := e.o.Host.Running(r.Context())
	if err != nil {
		return nil, err
	}
	return run.Client.Pass(r)
}
