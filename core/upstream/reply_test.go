package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// encoded is a reply of a body and how the connection ends behind it.
func encoded(coding string, body []byte, end error) *http.Response {
	r := io.Reader(bytes.NewReader(body))
	if end != nil {
		r = io.MultiReader(r, iotest.ErrReader(end))
	}
	return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(r)}
}

// untouched reads what the client of an encoded reply gets.
func untouched(t *testing.T, what, coding string, resp *http.Response, body []byte, end error) {
	t.Helper()
	got, err := io.ReadAll(resp.Body)
	if !bytes.Equal(got, body) || err != end || resp.Header.Get("Content-Encoding") != coding {
		t.Errorf("%s: %d of %d bytes, %v, encoding %q", what, len(got), len(body), err, resp.Header.Get("Content-Encoding"))
	}
}

var errCut = errors.New("cut")

// TestDecodedReplies: a reply is decoded as it comes, or it stays as it came,
// its end included.
func TestDecodedReplies(t *testing.T) {
	body := []byte(strings.Repeat("event: x\ndata: {}\n\n", 5000))
	for p := range packers {
		packed := pack(t, p, bytes.NewReader(body))
		d, err := Decoded(encoded(name(p), packed, nil))
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if got, err := io.ReadAll(iotest.OneByteReader(d)); err != nil || !bytes.Equal(got, body) || d.Close() != nil {
			t.Errorf("%s: %d bytes, %v", p, len(got), err)
		}
	}
	skipped := append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0x20, 0}, make([]byte, 2<<20)...) // a zstd frame that says nothing
	for _, c := range []struct {
		coding string
		body   []byte
	}{
		{"gzip", body}, {"br", body}, {"zstd", body}, {"deflate", []byte("\x78plain")}, {"zstd, br", body}, {"snappy", body},
		{"gzip", []byte("\x1f\x8b")}, {"gzip", nil}, {"br", nil}, {"zstd", skipped},
	} {
		for _, end := range []error{nil, errCut} {
			resp := encoded(c.coding, c.body, end)
			if d, err := Decoded(resp); err == nil {
				got, _ := io.ReadAll(d)
				t.Errorf("%s: %d bytes of %.10q came out as %d", c.coding, len(c.body), c.body, len(got))
				continue
			}
			untouched(t, fmt.Sprintf("%s of %.10q, end %v", c.coding, c.body, end), c.coding, resp, c.body, end)
		}
	}
}

// TestWholeReplies: a reply that is not streamed is decoded to its last byte
// before the client sees any of it, or the client gets what the upstream sent.
func TestWholeReplies(t *testing.T) {
	const limit = 64 << 10
	body := []byte(strings.Repeat(`{"type":"message"} `, 1000))
	for p := range packers {
		packed := pack(t, p, bytes.NewReader(body))
		resp := encoded(name(p), packed, nil)
		if err := Whole(resp, limit); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if resp.ContentLength != int64(len(body)) || resp.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("%s: length %d, %q", p, resp.ContentLength, resp.Header.Get("Content-Length"))
		}
		untouched(t, p+" decoded", "", resp, body, nil)
		long := pack(t, p, bytes.NewReader(make([]byte, limit+1)))
		for what, c := range map[string]struct {
			body []byte
			end  error
		}{
			"cut": {packed[:len(packed)/2], errCut}, "short": {packed[:len(packed)/2], nil}, "long": {long, nil},
			"cut at its end": {packed, errCut}, "longer than it says": {slices.Concat(packed, make([]byte, limit)), nil},
		} {
			resp := encoded(name(p), c.body, c.end)
			if err := Whole(resp, limit); err == nil {
				t.Errorf("%s %s: decoded", p, what)
			}
			untouched(t, p+" "+what, name(p), resp, c.body, c.end)
		}
	}
	plain := encoded("", body, errCut)
	if err := Whole(plain, 1); err != nil {
		t.Errorf("not encoded: %v", err)
	}
	untouched(t, "not encoded", "", plain, body, errCut)
}

// TestUnread: the tap says when its reader has not seen the reply.
func TestUnread(t *testing.T) {
	for coding, read := range map[string]bool{"": true, "identity": true, "zstd": false, "snappy": false, "br": false} {
		tap := NewTap(time.Now(), coding, io.Discard)
		tap.Write([]byte(`{"type":"message"}`))
		tap.Close()
		if (tap.Unread() == nil) != read || tap.Total() != 18 {
			t.Errorf("%q: %v after %d bytes", coding, tap.Unread(), tap.Total())
		}
	}
}

// relayed serves a reply through Relay.
func relayed(t *testing.T, resp *http.Response) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Inbound(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		never := func() bool { return false }
		Relay(w, resp, NewTap(time.Now(), "", io.Discard), func() {}, never, func() {})
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestHeadOfAStream: the header does not wait for the first event, which a model
// may take a minute for; trailers come last.
func TestHeadOfAStream(t *testing.T) {
	body, events := io.Pipe()
	srv := relayed(t, &http.Response{StatusCode: 200, ContentLength: -1, Body: body,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Trailer: http.Header{"X-T": {"1"}, "X-Holdfast-T": {"1"}, "Content-Length": {"3"}}})
	resp, err := http.Get(srv.URL) // returns with the header
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	go func() {
		io.WriteString(events, "data: x\n\n")
		events.Close()
	}()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != "data: x\n\n" || len(resp.Trailer) != 1 || resp.Trailer.Get("X-T") != "1" {
		t.Errorf("%q, %v, trailers %v", got, err, resp.Trailer)
	}
}

// TestInterim: early hints reach the client before the answer and leave nothing
// in it; 100, old clients and late ones get none.
func TestInterim(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Step", "2")
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusContinue)
		clear(w.Header())
		io.WriteString(w, "answer")
	}))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(func() []string { return nil })
	defer c.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Own", "1")
		if r.Header.Get("X-Old") != "" {
			r.ProtoMinor = 0
		}
		ctx, done := Interim(r.Context(), w, r)
		if r.Header.Get("X-Late") != "" {
			done()
		}
		resp, err := c.Send(ctx, &Target{URL: u}, "GET", http.Header{}, http.NoBody, 0)
		done()
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	}))
	defer proxy.Close()
	for header, want := range map[string]string{"": "103 </a>, 102 </a>2", "X-Old": "", "X-Late": ""} {
		var got []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			got = append(got, fmt.Sprint(code, " ", h.Get("Link"), h.Get("X-Step")))
			return nil
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", proxy.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set(header, "1")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Join(got, ", ") != want || err != nil || string(body) != "answer" || resp.Header.Get("Link") != "" || resp.Header.Get("X-Own") != "1" {
			t.Errorf("%q: %q, want %q; %q %v %v", header, got, want, body, resp.Header, err)
		}
	}
}

// TestBadlyFramedBody: a body that the client breaks off is not the upstream's
// fault, and no "check the address" helps; one that is closed because nobody
// wants the rest of it is not the client's.
func TestBadlyFramedBody(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(func() []string { return nil })
	defer c.Close()
	target := &Target{URL: u}
	for end, want := range map[error]string{errCut: "bad_framing", http.ErrBodyReadAfterClose: "upstream_no_answer"} {
		_, err := c.Send(context.Background(), target, "POST", http.Header{}, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(end)), -1)
		if f := Unreachable(target, err); f.Code != want {
			t.Errorf("%v: %v", end, f)
		}
	}
}

// TestWhoseFault: who cannot be reached, who cannot be trusted and who gives no
// answer are told apart, for each wants another remedy.
func TestWhoseFault(t *testing.T) {
	answers := func(text string) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				conn.Read(make([]byte, 4096))
				io.WriteString(conn, text)
				conn.Close()
			}
		}()
		return "http://" + ln.Addr().String()
	}
	foreign := httptest.NewUnstartedServer(http.NotFoundHandler())
	foreign.Config.ErrorLog = log.New(io.Discard, "", 0)
	foreign.StartTLS()
	defer foreign.Close()
	c := NewClient(func() []string { return nil })
	defer c.Close()
	for _, x := range []struct{ what, url, code string }{
		{"closes", answers(""), "upstream_no_answer"},
		{"garbage", answers("hello\r\n\r\n"), "upstream_no_answer"},
		{"half a head", answers("HTTP/1.1 200 OK\r\nContent-Ty"), "upstream_no_answer"},
		{"no status", answers("HTTP/1.1 042 No\r\nContent-Length: 0\r\n\r\n"), "upstream_no_answer"},
		{"nobody", "http://127.0.0.1:1", "upstream_unreachable"},
		{"a foreign certificate", foreign.URL, "upstream_untrusted"},
	} {
		u, err := url.Parse(x.url)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.SendBytes(t.Context(), &Target{URL: u}, "POST", http.Header{}, []byte("{}"))
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: %d", x.what, resp.StatusCode)
			continue
		}
		if f := Unreachable(&Target{URL: u}, err); f.Code != x.code || f.Status != http.StatusBadGateway {
			t.Errorf("%s: %v, want %s (%v)", x.what, f, x.code, err)
		}
	}
}
