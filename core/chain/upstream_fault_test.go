package chain_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/core/wire/sse"
)

// faultClient neither decodes, follows nor keeps connections.
func faultClient(t testing.TB) *http.Client {
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// via is the proxy's URL for a path of the rig's upstream.
func (g *rig) via(path string) string { return g.proxy.URL + cmp.Or(g.route, "/via/"+g.up.URL) + path }

// request makes a request through the proxy to the rig's upstream.
func (g *rig) request(ctx context.Context, method, path string, body []byte, header ...string) *http.Request {
	g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, g.via(path), bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// do sends and reads all of the reply; err is that of the body.
func (g *rig) do(req *http.Request) (*http.Response, []byte, error) {
	g.t.Helper()
	resp, err := faultClient(g.t).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	g.settle()
	return resp, b, err
}

func (g *rig) setAnswer(h http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = h
}

func (g *rig) lastSent() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bodies[len(g.bodies)-1]
}

// causes are the causes of all degrade events so far.
func (g *rig) causes() (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.degraded {
		out = append(out, d.Cause)
	}
	return out
}

// streamed is a whole Anthropic stream in events; the usage is 100 + 50 cached
// in, 7 out.
var streamed = []string{
	`event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5","usage":{"input_tokens":100,"cache_read_input_tokens":50,"output_tokens":1}}}` + "\n\n",
	`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
	"event: ping\ndata: {\"type\": \"ping\"}\n\n",
	`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h€llo"}}` + "\n\n",
	`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}` + "\n\n",
	`event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n",
}

var streamedUsage = usage.Usage{Input: 100, Cached: 50, Output: 7, Source: usage.Exact}

const firstTerminal = 4 // message_delta with a stop reason

func writeEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range events {
		io.WriteString(w, e)
		http.NewResponseController(w).Flush()
	}
}

// TestErrorsPass: what an upstream refuses with reaches the client as it came,
// and the session goes on.
func TestErrorsPass(t *testing.T) {
	g := newRig(t, config.On)
	body := anthropicBody(user("one"))
	for _, status := range []int{400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 529} {
		want := fmt.Sprintf("{\"type\":\"error\",\r\n \"error\":{\"type\":\"e%d\",\"message\":\"no\"}}", status)
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h.Set("Retry-After", "7")
			h.Set("Request-Id", "req_1")
			h.Set("X-Should-Retry", "true")
			h["Anthropic-Ratelimit-Tokens"] = []string{"1", "2"}
			w.WriteHeader(status)
			io.WriteString(w, want)
		})
		resp, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, body, sessionHeader, "e"))
		if err != nil || resp.StatusCode != status || string(got) != want {
			t.Errorf("%d: got %d %q, %v", status, resp.StatusCode, got, err)
		}
		for _, k := range []string{"Retry-After", "Request-Id", "X-Should-Retry", "Content-Type"} {
			if resp.Header.Get(k) == "" {
				t.Errorf("%d: header %s is gone", status, k)
			}
		}
		if !slices.Equal(resp.Header["Anthropic-Ratelimit-Tokens"], []string{"1", "2"}) {
			t.Errorf("%d: repeated header became %q", status, resp.Header["Anthropic-Ratelimit-Tokens"])
		}
		if turn := g.lastTurn(); turn.Status != status || turn.Gate != "" || turn.Error != "upstream_error" || turn.Truncated {
			t.Errorf("%d: turn %+v", status, turn)
		}
		if rec, err := g.db.Turn(t.Context(), g.lastTurn().ID); err != nil || rec.Done.Usage != (usage.Usage{Source: usage.Exact}) {
			t.Errorf("%d: an error was charged: %+v, %v", status, rec.Done, err)
		}
	}
	g.setAnswer(nil)
	if sent, resp := g.send(anthropicPath, anthropicBody(user("one"), assistant("a"), user("two")), sessionHeader, "e"); resp.StatusCode != 200 || len(sent) == 0 || g.lastTurn().Path != session.PathSnapshot {
		t.Errorf("after the errors: %d, %+v", resp.StatusCode, g.lastTurn())
	}
	if c := g.causes(); len(c) > 0 {
		t.Errorf("degraded: %v", c)
	}
}

// TestSandbox: what a browser might render never runs on our origin, and no
// type is invented for what has none.
func TestSandbox(t *testing.T) {
	g := newRig(t, config.Shadow)
	for _, c := range []struct {
		kind    []string
		sandbox bool
	}{
		{[]string{"text/html"}, true}, {[]string{"Text/HTML; charset=utf-8"}, true}, {[]string{" text/html"}, true}, {nil, true},
		{[]string{"application/xhtml+xml"}, true}, {[]string{"image/svg+xml"}, true}, {[]string{"text/xml"}, true},
		{[]string{"application/json", "text/html"}, true}, {[]string{"application/json, text/html"}, true}, {[]string{"text/html, application/json"}, true},
		{[]string{"*/*"}, true}, {[]string{"unknown/unknown"}, true}, {[]string{"nonsense"}, true}, {[]string{"text/xsl"}, true},
		{[]string{"multipart/x-mixed-replace; boundary=b"}, true}, {[]string{"image/svg+xml; a=json"}, true},
		{[]string{"application/json"}, false}, {[]string{"Application/Problem+JSON; charset=utf-8"}, false},
		{[]string{"text/event-stream"}, false}, {[]string{"text/plain"}, false},
	} {
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = c.kind
			w.WriteHeader(502)
			io.WriteString(w, "<!doctype html><script>alert(1)</script>")
		})
		for _, path := range []string{anthropicPath, "/v1/models"} {
			resp, got, _ := g.do(g.request(t.Context(), "POST", path, anthropicBody(user("x"))))
			if !strings.HasPrefix(string(got), "<!doctype") || resp.StatusCode != 502 {
				t.Errorf("%v: %d %q", c.kind, resp.StatusCode, got)
			}
			if (resp.Header.Get("Content-Security-Policy") == "sandbox") != c.sandbox || c.sandbox && resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %v: %v", path, c.kind, resp.Header)
			}
			if len(c.kind) == 0 && resp.Header["Content-Type"] != nil {
				t.Errorf("%s: a content type was invented: %q", path, resp.Header["Content-Type"])
			}
		}
	}
}

func TestGarbageStream(t *testing.T) {
	g := newRig(t, config.On)
	for i, garbage := range []string{"\x00\xff\xfe garbage", "data: {\n\ndata: [[[\n\n:\n\nevent\n\n", strings.Repeat("data: x", 100_000), "<html>not a stream", ""} {
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) { writeEvents(w, garbage) })
		resp, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user(fmt.Sprint("g", i))), sessionHeader, fmt.Sprint("g", i)))
		if err != nil || resp.StatusCode != 200 || string(got) != garbage {
			t.Errorf("garbage %d: %d, %d of %d bytes, %v", i, resp.StatusCode, len(got), len(garbage), err)
		}
		if turn := g.lastTurn(); !turn.Truncated || turn.Gate != "" || turn.Usage.Source != usage.Estimate {
			t.Errorf("garbage %d: %+v", i, turn)
		}
	}
}

// TestCut: a reply the upstream cuts is cut for the client, marked, and the
// next turn is an ordinary one.
func TestCut(t *testing.T) {
	g := newRig(t, config.On)
	for i, c := range []struct {
		name  string
		write func(http.ResponseWriter)
		want  string
		trunc bool
	}{
		{"in the stream", func(w http.ResponseWriter) { writeEvents(w, streamed[:3]...) }, strings.Join(streamed[:3], ""), true},
		{"inside a character", func(w http.ResponseWriter) {
			writeEvents(w, streamed[0], streamed[3][:strings.Index(streamed[3], "€")+1])
		}, streamed[0] + streamed[3][:strings.Index(streamed[3], "€")+1], true},
		{"behind the terminal event", func(w http.ResponseWriter) { writeEvents(w, streamed...) }, strings.Join(streamed, ""), false},
		{"short of its length", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"msg_1"`)
			http.NewResponseController(w).Flush()
		}, `{"id":"msg_1"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprint("cut", i)
			g.setAnswer(func(w http.ResponseWriter, r *http.Request) { c.write(w); panic(http.ErrAbortHandler) })
			_, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), sessionHeader, id))
			if err == nil || string(got) != c.want {
				t.Errorf("the client saw %q, %v", got, err)
			}
			turn := g.lastTurn()
			if turn.Truncated != c.trunc || (turn.Error == "upstream_cut") != c.trunc {
				t.Errorf("turn: truncated %t error %q", turn.Truncated, turn.Error)
			}
			if !c.trunc && turn.Usage != streamedUsage {
				t.Errorf("usage %+v", turn.Usage)
			}
			if b, err := chain.Replay(t.Context(), g.db, turn.ID, chain.Response); err != nil || string(b) != c.want {
				t.Errorf("replayed response %q, %v", b, err)
			}
			g.setAnswer(nil)
			// The client's retry, with its extra reminder block.
			retry := anthropicBody(`{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"reminder"}]}`)
			sent, _ := g.send(anthropicPath, retry, sessionHeader, id)
			if turn := g.lastTurn(); !bytes.Equal(sent, retry) || turn.Gate != "" || turn.Path == session.PathVerbatim {
				t.Errorf("retry: %+v", turn)
			}
		})
	}
	if c := g.causes(); len(c) > 0 {
		t.Errorf("degraded: %v", c)
	}
}

// TestDrip: every piece reaches the client before the next one is written. (A
// reply that may call our tools leaves in whole events: TestDripEvents.)
func TestDrip(t *testing.T) {
	g := newRig(t, config.On)
	whole := strings.Join(streamed, "")
	next := make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		for i := range len(whole) {
			writeEvents(w, whole[i:i+1])
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, toolless(anthropicBody(user("q"))), sessionHeader, "drip"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range len(whole) {
		var b [1]byte
		if _, err := io.ReadFull(resp.Body, b[:]); err != nil || b[0] != whole[i] {
			t.Fatalf("byte %d: %q, %v", i, b, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v", rest, err)
	}
	g.settle()
	if turn := g.lastTurn(); turn.Usage != streamedUsage || turn.Truncated {
		t.Errorf("%+v", turn)
	}
}

// TestDripEvents: every event of a reply that may call our tools reaches the
// client before the next one is written.
func TestDripEvents(t *testing.T) {
	g := newRig(t, config.On)
	next := make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		for _, e := range streamed {
			writeEvents(w, e)
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), sessionHeader, "drip"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i, e := range streamed {
		b := make([]byte, len(e))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != e {
			t.Fatalf("event %d: %q, %v", i, b, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v", rest, err)
	}
	g.settle()
	if turn := g.lastTurn(); turn.Usage != streamedUsage || turn.Truncated {
		t.Errorf("%+v", turn)
	}
}

// eventually waits for what another process or goroutine does, without a bar.
func eventually(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("never: %s", what)
	}
}

// TestClientLeaves: the upstream's request ends when the client goes, before
// the headers, in mid-stream, and on paths that are no model call.
func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name, path string
		events     []string
	}{
		{"before headers", anthropicPath, nil}, {"in mid-stream", anthropicPath, streamed[:2]},
		{"pass before headers", "/v1/models", nil}, {"pass in mid-stream", "/v1/models", streamed[:2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, config.On)
			begun, ended := make(chan struct{}), make(chan struct{})
			g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
				if len(c.events) > 0 {
					writeEvents(w, c.events...)
				}
				close(begun)
				<-r.Context().Done()
				close(ended)
			})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan struct{})
			go func() {
				defer close(got)
				resp, err := faultClient(t).Do(g.request(ctx, "POST", c.path, anthropicBody(user("q")), sessionHeader, "left"))
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			eventually(t, "the upstream has the request", begun)
			cancel()
			eventually(t, "the upstream's request is cancelled", ended)
			<-got
			if c.path != anthropicPath {
				return
			}
			g.setAnswer(nil)
			g.send(anthropicPath, anthropicBody(user("q")), sessionHeader, "left")
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, turn := range g.turns { // the first may finish second
				if left := turn.ID == 1; left != (turn.Error == "client_gone") || turn.Gate != "" || turn.Path != session.PathSnapshot {
					t.Errorf("%+v", turn)
				}
			}
			if len(g.turns) != 2 || len(g.degraded) > 0 {
				t.Errorf("%d turns, degraded %+v", len(g.turns), g.degraded)
			}
		})
	}
}

// TestLeavesAtTheEnd: a client that closes its socket at the terminal event has
// not cancelled; what the upstream says after it is still read and recorded.
func TestLeavesAtTheEnd(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		t.Run("coding "+coding, func(t *testing.T) {
			g := newRig(t, config.On)
			resume, ended := make(chan struct{}), make(chan struct{})
			g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				out := encoder(w, coding)
				for i, e := range streamed {
					io.WriteString(out, e)
					out.Flush()
					http.NewResponseController(w).Flush()
					if i == firstTerminal {
						<-resume
						select {
						case <-r.Context().Done(): // seen below
						case <-time.After(300 * time.Millisecond): // room for a cancel that must not come
						}
					}
				}
				select {
				case <-r.Context().Done():
					t.Error("the upstream was cancelled")
				default:
				}
				close(ended)
			})
			conn := g.dial()
			fmt.Fprint(conn, g.raw("POST", anthropicPath, anthropicBody(user("q")), sessionHeader+": end"))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := decoded(resp.Body, resp.Header.Get("Content-Encoding"))
			if err != nil {
				t.Fatal(err)
			}
			if err := readUntil(body, "end_turn"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			close(resume)
			eventually(t, "the upstream finishes", ended)
			g.settle()
			turn := g.lastTurn()
			if turn.Usage != streamedUsage || turn.Truncated || turn.Error != "" {
				t.Errorf("%+v", turn)
			}
		})
	}
}

// TestLeavesAtTheEndOfAHungStream: an upstream that never ends its stream is
// not waited for for ever.
func TestLeavesAtTheEndOfAHungStream(t *testing.T) {
	g := newRig(t, config.On)
	ended := make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		writeEvents(w, streamed...)
		<-r.Context().Done()
		close(ended)
	})
	conn := g.dial()
	fmt.Fprint(conn, g.raw("POST", anthropicPath, anthropicBody(user("q")), sessionHeader+": hung"))
	if err := readUntil(conn, "message_stop"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "the hung upstream is let go", ended)
	g.settle()
	if turn := g.lastTurn(); turn.Usage != streamedUsage || turn.Truncated || turn.Error != "" {
		t.Errorf("%+v", turn)
	}
}

func readUntil(r io.Reader, text string) error {
	var seen []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(seen, []byte(text)) {
		n, err := r.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil {
			return fmt.Errorf("after %q: %w", seen, err)
		}
	}
	return nil
}

// dial opens a bare connection to the proxy.
func (g *rig) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.proxy.Listener.Addr().String())
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

// raw is a request as text, through the proxy to the rig's upstream.
func (g *rig) raw(method, path string, body []byte, header ...string) string {
	return fmt.Sprintf("%s /via/%s%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%s\r\n\r\n%s", method, g.up.URL, path, len(body), strings.Join(header, "\r\n"), body)
}

type flushWriter interface {
	io.WriteCloser
	Flush() error
}

type plain struct{ io.Writer }

func (plain) Flush() error { return nil }
func (plain) Close() error { return nil }

// encoder starts a body in a content encoding and names it in the header.
func encoder(w http.ResponseWriter, coding string) flushWriter {
	if coding != "" {
		w.Header().Set("Content-Encoding", coding)
	}
	switch coding {
	case "gzip":
		return gzip.NewWriter(w)
	case "br":
		return brotli.NewWriter(w)
	case "zstd":
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return z
	}
	return plain{w}
}

func decoded(r io.Reader, coding string) (io.Reader, error) {
	if coding == "gzip" {
		return gzip.NewReader(r)
	}
	return r, nil
}

// TestEncodedReplies: a compressed reply is relayed as the very bytes, and its
// usage is read all the same; one in an unknown encoding passes unread.
func TestEncodedReplies(t *testing.T) {
	g := newRig(t, config.On)
	for _, coding := range []string{"", "gzip", "br", "zstd", "snappy"} {
		for _, stream := range []bool{true, false} {
			var wrote bytes.Buffer
			g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
				wrote.Reset()
				parts := streamed
				w.Header().Set("Content-Type", "text/event-stream")
				if !stream {
					parts = []string{`{"type":"message","model":"claude-sonnet-4-5","stop_reason":"end_turn",` + "\n", `"usage":{"input_tokens":100,"cache_read_input_tokens":50,"output_tokens":7}}`}
					w.Header().Set("Content-Type", "application/json")
				}
				out := encoder(teeWriter{w, &wrote}, coding)
				for _, p := range parts {
					io.WriteString(out, p)
					out.Flush()
				}
				out.Close()
			})
			resp, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, toolless(anthropicBody(user(fmt.Sprint(coding, stream)))), sessionHeader, "enc"+coding))
			if err != nil || !bytes.Equal(got, wrote.Bytes()) || resp.Header.Get("Content-Encoding") != coding {
				t.Errorf("%s stream %t: %d bytes of %d, encoding %q, %v", coding, stream, len(got), wrote.Len(), resp.Header.Get("Content-Encoding"), err)
			}
			turn := g.lastTurn()
			if coding != "snappy" && turn.Usage != streamedUsage || coding == "snappy" && turn.Usage.Source != usage.Estimate {
				t.Errorf("%s stream %t: usage %+v", coding, stream, turn.Usage)
			}
			if b, err := chain.Replay(t.Context(), g.db, turn.ID, chain.Response); err != nil || !bytes.Equal(b, wrote.Bytes()) {
				t.Errorf("%s stream %t: replay %d bytes of %d, %v", coding, stream, len(b), wrote.Len(), err)
			}
		}
	}
}

// teeWriter copies what is written.
type teeWriter struct {
	http.ResponseWriter
	copy *bytes.Buffer
}

func (t teeWriter) Write(p []byte) (int, error) {
	t.copy.Write(p)
	return t.ResponseWriter.Write(p)
}

// TestLongReply: past 8 MiB a reply is relayed whole and said to be not kept.
func TestLongReply(t *testing.T) {
	g := newRig(t, config.On)
	long := bytes.Repeat([]byte("data: {\"type\":\"ping\"}\n\n"), upstream.MaxRecord/20)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		writeEvents(w, streamed[0])
		w.Write(long)
		writeEvents(w, streamed[firstTerminal:]...)
	})
	_, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), sessionHeader, "long"))
	want := streamed[0] + string(long) + strings.Join(streamed[firstTerminal:], "")
	if err != nil || string(got) != want {
		t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
	}
	turn := g.lastTurn()
	if turn.Usage != streamedUsage || turn.Truncated {
		t.Errorf("%+v", turn)
	}
	if _, err := chain.Replay(t.Context(), g.db, turn.ID, chain.Response); !errors.Is(err, session.ErrNotKept) || !strings.Contains(err.Error(), "8 MiB") {
		t.Errorf("replay: %v", err)
	}
}

// TestHeldReplies: a reply that is read whole before it is passed on still
// passes whole when it cannot be: too long to be read, or not in the encoding
// it names.
func TestHeldReplies(t *testing.T) {
	g := newRig(t, config.On)
	long := `{"type":"message","pad":"` + strings.Repeat("x", sse.MaxReply) + `"}`
	sound := pack(t, "gzip", strings.NewReader(`{"type":"message"}`))
	broken := string(sound[:len(sound)/2])
	for name, c := range map[string]struct {
		coding, body string
		length       int64
	}{
		"short": {"", `{"type":"message"}`, 18}, "long": {"", long, -1},
		"not gzip": {"gzip", `{"type":"message"}`, 18}, "not zstd": {"zstd", `{"type":"message"}`, 18}, "not br": {"br", `{"type":"message"}`, 18},
		"broken gzip": {"gzip", broken, int64(len(broken))},
	} {
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if c.coding != "" {
				w.Header().Set("Content-Encoding", c.coding)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(c.body)))
			io.WriteString(w, c.body)
		})
		resp, got, err := g.do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), sessionHeader, "held"+name))
		if err != nil || string(got) != c.body || resp.ContentLength != c.length || resp.Header.Get("Content-Encoding") != c.coding {
			t.Errorf("%s: %d of %d bytes, length %d, encoding %q, %v", name, len(got), len(c.body), resp.ContentLength, resp.Header.Get("Content-Encoding"), err)
		}
		if turn := g.lastTurn(); (turn.Error == "reply_undecoded") != (c.coding != "") {
			t.Errorf("%s: the row says %q", name, turn.Error)
		}
	}
}

// TestHeadersBothWays: headers of a connection and headers of ours stay where
// they are; everything else passes, doubled ones and odd ones too.
func TestHeadersBothWays(t *testing.T) {
	g := newRig(t, config.On)
	var got http.Header
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Connection", "X-Back")
		for _, k := range []string{"X-Back", "Keep-Alive", "Proxy-Authenticate", "X-Holdfast-Token", "Trailer"} {
			h.Set(k, "X-Trail")
		}
		h.Set("X-Kept", "1")
		io.WriteString(w, "{}")
		h.Set("X-Trail", "t")
	})
	conn := g.dial()
	fmt.Fprint(conn, g.raw("POST", anthropicPath, anthropicBody(user("q")), "Connection: close, X-Foo", "X-Foo: 1", "Keep-Alive: timeout=5", "TE: trailers", "Trailer: X-T",
		"Proxy-Authorization: Basic eA==", "Proxy-Connection: keep-alive", "Upgrade: h2c", "x-holdfast-msgids: [1]", "X-HOLDFAST-TOKEN: t", "X-Kept: 1", "x-Kept: 2", "Accept-Encoding: br;q=0.5"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	want := map[string]string{"X-Kept": "1|2", "Accept-Encoding": "br;q=0.5", "X-Holdfast-Hop": "1", "Content-Length": fmt.Sprint(len(g.whole[len(g.whole)-1]))}
	for k, v := range got {
		if want[k] != strings.Join(v, "|") {
			t.Errorf("the upstream got %s: %q", k, v)
		}
		delete(want, k)
	}
	if len(want) > 0 {
		t.Errorf("the upstream missed %v, got %v", want, got)
	}
	for _, k := range []string{"X-Back", "Keep-Alive", "Proxy-Authenticate", "X-Holdfast-Token", "Trailer"} {
		if resp.Header.Get(k) != "" {
			t.Errorf("the client got %s", k)
		}
	}
	if resp.Header.Get("X-Kept") != "1" || len(resp.Trailer) > 0 {
		t.Errorf("the client got %v, trailers %v", resp.Header, resp.Trailer)
	}
}

// TestHopMarker: a request that went through a Holdfast already is not walked
// again.
func TestHopMarker(t *testing.T) {
	g := newRig(t, config.On)
	body := []byte("{\"messages\" : [ {\"role\":\"user\",\"content\":\"q\"} ]}")
	sent, resp := g.send(anthropicPath, body, sessionHeader, "hop", upstream.HopHeader, "1")
	turn := g.lastTurn()
	if resp.StatusCode != 200 || !bytes.Equal(sent, body) || turn.Home != session.HomePass || turn.Path != session.PathVerbatim || turn.Kept {
		t.Errorf("%d %s %+v", resp.StatusCode, sent, turn)
	}
	if ids := ledgersOf(t, g.path); len(ids) > 0 {
		t.Errorf("ledgers %v", ids)
	}
}

func TestRedirectPasses(t *testing.T) {
	g := newRig(t, config.On)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for _, path := range []string{anthropicPath, "/v1/models"} {
		resp, _, err := g.do(g.request(t.Context(), "POST", path, anthropicBody(user("q"))))
		if err != nil || resp.StatusCode != 307 || resp.Header.Get("Location") != "/elsewhere" {
			t.Errorf("%s: %d %v, %v", path, resp.StatusCode, resp.Header, err)
		}
	}
	if len(g.bodies) != 2 {
		t.Errorf("%d requests reached the upstream, want 2", len(g.bodies))
	}
}

func TestWebSocketRefused(t *testing.T) {
	g := newRig(t, config.On)
	conn := g.dial()
	fmt.Fprint(conn, "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, resp.ContentLength)
	io.ReadFull(resp.Body, b)
	if resp.StatusCode != 426 || resp.Header.Get("Content-Type") != "application/problem+json" || !bytes.Contains(b, []byte(`"code":"no_websocket"`)) || len(g.bodies) > 0 {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, b)
	}
}

// TestOtherCallsPass: what is no model call passes with method, query and body.
func TestOtherCallsPass(t *testing.T) {
	g := newRig(t, config.On)
	var seen string
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Method + " " + r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"data":[]}`)
	})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/models?limit=1000", ""}, {"HEAD", "/api/hello", ""}, {"HEAD", "/", ""}, {"DELETE", "/v1/files/a%2Fb", ""},
		{"POST", "/v1/embeddings", "not json"}, {"GET", "/v1/messages", ""}, {"POST", "/v1/responses", `{"input":[]}`}, {"OPTIONS", "/v1//x/../y", ""},
	} {
		resp, got, err := g.do(g.request(t.Context(), c.method, c.path, []byte(c.body), sessionHeader, "other"))
		if err != nil || resp.StatusCode != 200 || seen != c.method+" "+c.path || c.method != "HEAD" && string(got) != `{"data":[]}` {
			t.Errorf("%s %s: %d %q, upstream saw %q, %v", c.method, c.path, resp.StatusCode, got, seen, err)
		}
		if string(g.lastSent()) != c.body {
			t.Errorf("%s %s sent %q", c.method, c.path, g.lastSent())
		}
	}
	if n := counts(t, g.path); n["turn"] != 0 || n["session"] != 0 {
		t.Errorf("the ledger has %v", n)
	}
}

// TestCountTokens: a count is a side request: a row with size and hash, no
// elements, and the session does not notice.
func TestCountTokens(t *testing.T) {
	g := newRig(t, config.On)
	g.send(anthropicPath, anthropicBody(user("q")), sessionHeader, "s")
	before := counts(t, g.path)
	body := anthropicBody(user("something else"))
	sent, _ := g.send("/v1/messages/count_tokens", body, sessionHeader, "s")
	turn := g.lastTurn()
	if !bytes.Equal(sent, body) || turn.Home != session.HomeSide || turn.Kept || turn.Gate != "" {
		t.Errorf("%+v", turn)
	}
	after := counts(t, g.path)
	if after["turn"] != before["turn"]+1 || after["element"] != before["element"] || after["session"] != 1 {
		t.Errorf("before %v after %v", before, after)
	}
}

func TestExpectContinue(t *testing.T) {
	g := newRig(t, config.On)
	var got http.Header
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone(); io.WriteString(w, "{}") })
	body := anthropicBody(user("q"))
	head, _, _ := strings.Cut(g.raw("POST", anthropicPath, body, "Expect: 100-continue", sessionHeader+": x"), "\r\n\r\n")
	conn := g.dial()
	fmt.Fprint(conn, head+"\r\n\r\n")
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	r.ReadString('\n')
	conn.Write(body)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 200 || got.Get("Expect") != "" || !bytes.Equal(g.lastSent(), body) {
		t.Errorf("%v %v, upstream got %v", resp, err, got)
	}
}

// TestManySessions: a hundred sessions at once, three turns each, do not mix
// and fire nothing.
func TestManySessions(t *testing.T) {
	g := newRig(t, config.On)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { writeEvents(w, streamed...) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for s := range 100 {
		all.Go(func() {
			msgs := []string{user("the same first question")}
			for turn := range 3 {
				req := g.request(t.Context(), "POST", anthropicPath, anthropicBody(msgs...), sessionHeader, fmt.Sprint("many", s))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != strings.Join(streamed, "") {
					t.Errorf("session %d turn %d: %q, %v", s, turn, b, err)
				}
				resp.Body.Close()
				msgs = append(msgs, assistant(fmt.Sprint("answer ", s)), user(fmt.Sprint("question ", s, turn)))
			}
		})
	}
	all.Wait()
	g.settle()
	g.mu.Lock()
	for _, turn := range g.turns {
		if turn.Usage != streamedUsage {
			t.Errorf("turn %+v", turn)
		}
	}
	turns := len(g.turns)
	g.mu.Unlock()
	for _, cause := range g.causes() {
		t.Errorf("degraded: %s", cause)
	}
	if turns != 300 {
		t.Errorf("%d turns", turns)
	}
	if ids := ledgersOf(t, g.path); len(ids) != 100 {
		t.Errorf("%d ledgers", len(ids))
	}
	if n := g.chain.Status().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}
