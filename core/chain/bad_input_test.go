package chain_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/wire"
)

// counts are the rows of every table, settings apart.
func counts(t testing.TB, path string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var names []string
	rows, err := db.Query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'setting'")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	rows.Close()
	out := map[string]int{}
	for _, n := range names {
		var c int
		if err := db.QueryRow("SELECT count(*) FROM " + n).Scan(&c); err != nil {
			t.Fatal(err)
		}
		out[n] = c
	}
	return out
}

// unchanged asserts that a request left the session and every table alone, but
// for turn rows and degrade rows.
func (g *rig) unchanged(what, id string, turns, degrades int, f func()) {
	g.t.Helper()
	before, head := counts(g.t, g.path), g.head(id)
	state, err := g.db.Load(g.t.Context(), head.Ledger)
	if err != nil {
		g.t.Fatal(err)
	}
	f()
	after := counts(g.t, g.path)
	before["turn"] += turns
	before["degrade"] += degrades
	delete(before, "tally") // counters of the pages
	delete(after, "tally")
	if !maps.Equal(before, after) {
		g.t.Errorf("%s: the ledger has %v, want %v", what, after, before)
	}
	now, err := g.db.Load(g.t.Context(), head.Ledger)
	if err != nil || fmt.Sprint(now) != fmt.Sprint(state) {
		g.t.Errorf("%s: the session changed: %v\n%+v\n%+v", what, err, now, state)
	}
}

// inElement is a body whose second element holds a value.
func inElement(v string) string {
	return `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"user","content":[{"type":"x","v":` + v + `}]}]}`
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestUnheld: a body no codec can hold leaves as the very bytes it came in, is
// recorded by size and hash with its cause, and changes nothing else.
func TestUnheld(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("bad")
	k.say()
	k.say()
	for _, c := range []struct {
		name, body string
		cause      session.Cause
	}{
		{"empty", "", session.CauseNotJSON},
		{"white space", " \r\n", session.CauseNotJSON},
		{"text", "hello", session.CauseNotJSON},
		{"half", `{"messages":[{"role":"user","content":"q`, session.CauseNotJSON},
		{"half an escape", `{"messages":[{"role":"user","content":"q\`, session.CauseNotJSON},
		{"two values", `{"messages":[]}{"messages":[]}`, session.CauseNotJSON},
		{"byte order mark", "\ufeff" + `{"messages":[]}`, session.CauseNotJSON},
		{"NUL", "\x00", session.CauseNotJSON},
		{"bad frame value", `{"model":01,"messages":[]}`, session.CauseNotJSON},
		{"bad element", `{"messages":[{"role":"user","content":tru}]}`, session.CauseNotJSON},
		{"line break in a string", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\nb\"}]}", session.CauseNotJSON},
		{"array", `[{"messages":[]}]`, session.CauseShape},
		{"number", `7`, session.CauseShape},
		{"null", `null`, session.CauseShape},
		{"no messages", `{"model":"m"}`, session.CauseShape},
		{"messages a string", `{"messages":"hi"}`, session.CauseShape},
		{"messages null", `{"messages":null}`, session.CauseShape},
		{"messages an object", `{"messages":{}}`, session.CauseShape},
		{"element a number", `{"messages":[1]}`, session.CauseShape},
		{"element null", `{"messages":[null]}`, session.CauseShape},
		{"model a number", `{"model":7,"messages":[{"role":"user","content":"q"}]}`, session.CauseShape},
		{"tools an object", `{"tools":{},"messages":[{"role":"user","content":"q"}]}`, session.CauseShape},
		{"stream a string", `{"stream":"yes","messages":[{"role":"user","content":"q"}]}`, session.CauseShape},
		{"role a number", `{"messages":[{"role":1,"content":"q"}]}`, session.CauseShape},
		{"content a number", `{"messages":[{"role":"user","content":1}]}`, session.CauseShape},
		{"key twice", `{"model":"a","messages":[],"model":"b"}`, session.CauseDuplicateKey},
		{"list twice", `{"messages":[],"messages":[]}`, session.CauseDuplicateKey},
		{"key twice in an element", `{"messages":[{"role":"user","content":"q","role":"user"}]}`, session.CauseDuplicateKey},
		{"key twice deep in an element", inElement(`{"a":{"b":1,"\u0062":2}}`), session.CauseDuplicateKey},
		{"10,000 deep in an element", inElement(nested(10_000)), session.CauseTooDeep},
		{"200,000 deep in an element", inElement(nested(200_000)), session.CauseTooDeep},
		{"10,000 deep in a field", `{"x":` + nested(10_000) + `,"messages":[]}`, session.CauseTooDeep},
		{"200,000 deep", nested(200_000), session.CauseTooDeep},
		{"too many elements", `{"messages":[` + strings.Repeat(user("")+",", wire.MaxElements) + user("") + `]}`, session.CauseShape},
		{"too many fields", `{"messages":[]` + strings.Repeat(`,"x":1`, wire.MaxFields) + `}`, session.CauseShape},
		{"200,000 objects deep", strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000), session.CauseTooDeep},
	} {
		g.unchanged(c.name, k.id, 1, 1, func() {
			turn, sent := k.sendBody([]byte(c.body))
			if string(sent) != c.body {
				t.Errorf("%s: sent %.200q", c.name, sent)
			}
			if turn.Kept || turn.Status != 200 || turn.Home != session.HomeVerbatim {
				t.Errorf("%s: %+v", c.name, turn)
			}
			g.expect(c.name, turn, session.PathVerbatim, session.NoGate, c.cause)
			rec, err := g.db.Turn(t.Context(), turn.ID)
			if err != nil || rec.BytesIn != int64(len(c.body)) || rec.Ledger != "" {
				t.Errorf("%s: recorded %+v, %v", c.name, rec, err)
			}
		})
	}
	g.expect("afterwards", k.say(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// TestOddButHeld: strange bodies that are held all the same, byte for byte.
func TestOddButHeld(t *testing.T) {
	g := newRig(t, config.On)
	for i, body := range []string{
		`{"messages":[]}`,
		"\r\n\t {\n \"messages\" : [\n ]\n , \"x\" : 1e999 } \n",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe broken \xc3\"}]}",
		"{\"m\xff\":1,\"messages\":[{\"role\":\"\xffuser\",\"content\":\"q\"}]}",
		`{"messages":[{"role":"user","content":"\ud800 half a pair \u0000"}]}`,
		`{"messages":[{"role":"user","content":[]},{"role":"system","content":[]},{"role":"alien","content":"x","zz":[{}]}]}`,
		`{"messages":[{"role":"user","content":""},{"role":"user","content":""},{"role":"user","content":""}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"unheard","deep":` + nested(9_990) + `}]}]}`,
		`{"model":null,"tools":null,"messages":[{"role":"user","content":"q"}]}`,
		`{"messages":[{"role":"user","content":` + strings.Repeat(" ", 5000) + `"q"}]}`,
		`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 3<<20) + `"}]}`,
	} {
		k := g.convo(fmt.Sprint("odd", i))
		for range 2 { // and as a retry
			turn, sent := k.sendBody([]byte(body))
			if string(sent) != body {
				t.Errorf("%.80q: sent %.200q", body, sent)
			}
			g.expect(fmt.Sprintf("%.80q", body), turn, session.PathSnapshot, session.NoGate)
			for _, part := range []chain.Part{chain.Inbound, chain.Outbound} {
				if got, err := chain.Replay(t.Context(), g.db, turn.ID, part); err != nil || string(got) != body {
					t.Errorf("%.80q: replay of %s: %.200q, %v", body, part, got, err)
				}
			}
		}
	}
	g.restart()
	g.verifyAll()
}

// TestEmptyThenFull: a list that was empty goes on.
func TestEmptyThenFull(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("empty")
	k.send()
	for range 3 {
		g.expect("grown", k.say(), session.PathSnapshot, session.NoGate)
	}
	k.msgs = nil
	k.send()
	k.say()
	if c := g.takeCauses(); c != nil {
		t.Errorf("degraded: %v", c)
	}
	g.verifyAll()
}

// TestRefusals: the only bodies that get an answer of ours. Nothing reaches the
// upstream, nothing the ledger, and the answer says what to do.
func TestRefusals(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("refused")
	k.say()
	g.mu.Lock()
	reached := len(g.bodies)
	g.mu.Unlock()
	zeros := func(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }
	packed := pack(t, "zstd", strings.NewReader(string(anthropicBody(user("q")))))
	type refusal struct {
		name, coding string
		body         io.Reader
		status       int
	}
	cases := []refusal{
		{"101 MB", "", zeros(101 << 20), 413},
		{"101 MB in chunks", "", io.MultiReader(zeros(101 << 20)), 413},
		{"zstd bomb", "zstd", bytes.NewReader(bomb(t, "zstd")), 413},
		{"bomb in a bomb", "gzip, gzip", bytes.NewReader(pack(t, "gzip", bytes.NewReader(bomb(t, "gzip")))), 413},
		{"truncated zstd", "zstd", bytes.NewReader(packed[:len(packed)-3]), 400},
		{"gzip that is not", "gzip", strings.NewReader("{}"), 400},
		{"br that is not", "br", strings.NewReader("{}"), 400},
		{"deflate that is not", "deflate", strings.NewReader("\xff{}"), 400},
		{"empty gzip", "gzip", strings.NewReader(""), 400},
	}
	if !raced { // a hundred megabytes in two more codings; the bound they meet is the same
		cases = append(cases, refusal{"gzip bomb", "gzip", bytes.NewReader(bomb(t, "gzip")), 413},
			refusal{"br bomb", "br", bytes.NewReader(pack(t, "br", zeros(upstream.MaxBody+1))), 413})
	}
	for _, c := range cases {
		g.unchanged(c.name, k.id, 0, 0, func() {
			req := g.request(t.Context(), "POST", anthropicPath, nil, sessionHeader, k.id)
			req.Body, req.ContentLength, req.GetBody = io.NopCloser(c.body), -1, nil
			if l, ok := c.body.(*io.LimitedReader); ok {
				req.ContentLength = l.N
			}
			if c.coding != "" {
				req.Header.Set("Content-Encoding", c.coding)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := faultClient(t).Do(req)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "application/problem+json" || !bytes.Contains(b, []byte(`"hint":"`)) {
				t.Errorf("%s: %d %v %s", c.name, resp.StatusCode, resp.Header, b)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 6*upstream.MaxBody {
				t.Errorf("%s: %d MB allocated", c.name, n>>20)
			}
			g.settle()
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.bodies) != reached || len(g.degraded) > 0 {
		t.Errorf("%d requests reached the upstream, degraded %+v", len(g.bodies)-reached, g.degraded)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// bomb is a megabyte of zeros packed and repeated until it passes MaxBody: a
// reader of these codings takes what follows for more of the same.
func bomb(t testing.TB, coding string) []byte {
	return bytes.Repeat(pack(t, coding, io.LimitReader(zeroReader{}, 1<<20)), upstream.MaxBody>>20+1)
}

// pack compresses.
func pack(t testing.TB, coding string, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := encoder(bufferWriter{&b, http.Header{}}, coding)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bufferWriter is a response writer into memory.
type bufferWriter struct {
	*bytes.Buffer
	header http.Header
}

func (b bufferWriter) Header() http.Header { return b.header }
func (bufferWriter) WriteHeader(int)       {}

// TestCompressedBodies: a compressed body is read, and leaves as the very bytes
// with its encoding, unless the view changed it: then it leaves plain.
func TestCompressedBodies(t *testing.T) {
	g := newRig(t, config.On)
	g.folding(false) // an armed session's bodies are never the client's own
	var header http.Header
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { header = r.Header.Clone(); io.WriteString(w, "{}") })
	for _, coding := range []string{"gzip", "br", "zstd"} {
		k := g.convo("packed " + coding)
		for range 4 {
			k.grow()
			body := pack(t, coding, bytes.NewReader(anthropicBody(k.msgs...)))
			sent, _ := g.send(anthropicPath, body, sessionHeader, k.id, "Content-Encoding", coding)
			if !bytes.Equal(sent, body) || header.Get("Content-Encoding") != coding {
				t.Errorf("%s: %d bytes of %d with encoding %q", coding, len(sent), len(body), header.Get("Content-Encoding"))
			}
			g.expect(coding, g.lastTurn(), session.PathSnapshot, session.NoGate)
		}
		whole := k.prune(2)
		body := pack(t, coding, bytes.NewReader(anthropicBody(k.msgs...)))
		sent, _ := g.send(anthropicPath, body, sessionHeader, k.id, "Content-Encoding", coding)
		if !bytes.Equal(sent, whole) || header["Content-Encoding"] != nil {
			t.Errorf("%s, pruned: %d bytes with encoding %q", coding, len(sent), header["Content-Encoding"])
		}
	}
	g.verifyAll()
}

// TestUnknownEncoding passes untouched.
func TestUnknownEncoding(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("snappy")
	k.say()
	var header http.Header
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { header = r.Header.Clone(); io.WriteString(w, "{}") })
	for _, coding := range []string{"snappy", "gzip, aes128gcm", "br,br,br,br,br,br"} {
		g.unchanged(coding, k.id, 1, 1, func() {
			body := "\x00\x01 anything \xff"
			sent, _ := g.send(anthropicPath, []byte(body), sessionHeader, k.id, "Content-Encoding", coding)
			if string(sent) != body || header.Get("Content-Encoding") != coding {
				t.Errorf("%s: sent %q with %q", coding, sent, header.Get("Content-Encoding"))
			}
			g.expect(coding, g.lastTurn(), session.PathVerbatim, session.NoGate, session.CauseEncoding)
		})
	}
}

// TestFraming: chunks are taken as one body; broken framing reaches nobody.
func TestFraming(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("framing")
	k.say()
	k.grow()
	body := string(anthropicBody(k.msgs...))
	head := fmt.Sprintf("POST /via/%s%s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: framing\r\n", g.up.URL, anthropicPath, sessionHeader)
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	half := len(body) / 2
	for _, c := range []struct {
		name, text string
		status     int
	}{
		{"bad chunk size", chunked + "zz\r\n" + body, 400},
		{"negative chunk size", chunked + "-1\r\n" + body, 400},
		{"huge chunk size", chunked + "ffffffffffffffffff\r\n" + body, 400},
		{"chunk without end", fmt.Sprintf("%s%x\r\n%s", chunked, len(body)+50, body), 400},
		{"no last chunk", fmt.Sprintf("%s%x\r\n%s\r\n", chunked, len(body), body), 400},
		{"shorter than said", fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body)+9, body), 400},
		{"two lengths", fmt.Sprintf("%sContent-Length: %d\r\nContent-Length: 3\r\n\r\n%s", head, len(body), body), 400},
		{"line break in a header", head + "X-A: b\rc\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"space in a header name", head + "X-A : b\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"two kinds of framing", fmt.Sprintf("%sTransfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body), 501},
	} {
		g.unchanged(c.name, k.id, 0, 0, func() {
			if status := g.speak(c.text, true); status != c.status {
				t.Errorf("%s: status %d, want %d", c.name, status, c.status)
			}
			g.settle()
		})
	}
	good := fmt.Sprintf("%s%x;ext=1\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Trailer: t\r\n\r\n", chunked, half, body[:half], len(body)-half, body[half:])
	if status := g.speak(good, false); status != 200 || string(g.lastSent()) != body {
		t.Errorf("chunks: %d, sent %s", status, g.lastSent())
	}
	g.settle()
	g.expect("chunks", g.lastTurn(), session.PathSnapshot, session.NoGate)
	if n := len(g.bodies); n != 2 {
		t.Errorf("%d requests reached the upstream, want 2", n)
	}
	// A client that closes its side is gone; it must not see an empty success.
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if status := g.speak(good, true); status != 0 {
		t.Errorf("a client that closed its side got %d", status)
	}
	g.settle()
	g.verifyAll()
}

// speak writes text to a connection of its own, may end its side, and returns
// the status that comes back, 0 for none.
func (g *rig) speak(text string, end bool) int {
	g.t.Helper()
	conn := g.dial()
	io.WriteString(conn, text)
	if end {
		conn.(*net.TCPConn).CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
