package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestOutbound(t *testing.T) {
	in := http.Header{
		"Authorization": {"Bearer k"}, "X-Api-Key": {"k"}, "Anthropic-Beta": {"a", "b"}, "Content-Encoding": {"zstd"}, "Cookie": {"c=1"}, "User-Agent": {"ua"},
		"Connection": {"keep-alive, X-Foo", "x-bar"}, "X-Foo": {"1"}, "X-Bar": {"1"}, "Keep-Alive": {"timeout=5"}, "Te": {"trailers"}, "Trailer": {"X"},
		"Transfer-Encoding": {"chunked"}, "Upgrade": {"h2c"}, "Proxy-Authorization": {"p"}, "Proxy-Authenticate": {"p"}, "Proxy-Connection": {"p"},
		"Host": {"h"}, "Content-Length": {"3"}, "Expect": {"100-continue"},
		"X-Holdfast-Hop": {"1"}, "X-Holdfast-Msgids": {"m"}, "X-Holdfast-Token": {"t"},
	}
	want := http.Header{"Authorization": {"Bearer k"}, "X-Api-Key": {"k"}, "Anthropic-Beta": {"a", "b"}, "Content-Encoding": {"zstd"}, "Cookie": {"c=1"}, "User-Agent": {"ua"}}
	before := in.Clone()
	if got := Outbound(in, false); !reflect.DeepEqual(got, want) {
		t.Errorf("remote: %v\nwant %v", got, want)
	}
	want["X-Holdfast-Hop"] = []string{"1"}
	if got := Outbound(in, true); !reflect.DeepEqual(got, want) {
		t.Errorf("loopback: %v\nwant %v", got, want)
	}
	if !reflect.DeepEqual(in, before) {
		t.Error("the client's headers were changed")
	}
	if got := Outbound(http.Header{}, false)["User-Agent"]; len(got) != 1 || got[0] != "" {
		t.Errorf("a client without user agent sends %q", got)
	}
}

func TestInbound(t *testing.T) {
	dst := http.Header{}
	Inbound(dst, http.Header{"Content-Type": {"a/b"}, "Content-Length": {"5"}, "Content-Encoding": {"br"}, "Request-Id": {"r"}, "Set-Cookie": {"a", "b"}, "Retry-After": {"3"},
		"Connection": {"close, X-Foo"}, "X-Foo": {"1"}, "Keep-Alive": {"x"}, "Trailer": {"T"}, "Transfer-Encoding": {"chunked"}, "Proxy-Authenticate": {"p"},
		"Upgrade": {"u"}, "X-Holdfast-Hop": {"1"}, "X-Holdfast-Anything": {"1"}})
	want := http.Header{"Content-Type": {"a/b"}, "Content-Length": {"5"}, "Content-Encoding": {"br"}, "Request-Id": {"r"}, "Set-Cookie": {"a", "b"}, "Retry-After": {"3"}}
	if !reflect.DeepEqual(dst, want) {
		t.Errorf("%v\nwant %v", dst, want)
	}
}

// What the upstream's socket sees: the exact path, no header of ours or of the
// connection, none added.
func TestSendBytesOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		got <- string(buf[:n])
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}()
	u := &url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/a//b/x\r\nX-Evil: 1", RawPath: "/a//b/x%0d%0aX-Evil:%201", RawQuery: "k=%0d%0a"}
	c := NewClient(func() []string { return nil })
	defer c.Close()
	resp, err := c.SendBytes(context.Background(), &Target{URL: u}, "POST", http.Header{"X-Api-Key": {"k"}, "Expect": {"100-continue"}, "Te": {"trailers"}}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := "POST /a//b/x%0d%0aX-Evil:%201?k=%0d%0a HTTP/1.1\r\nHost: " + ln.Addr().String() + "\r\nContent-Length: 2\r\nX-Api-Key: k\r\nX-Holdfast-Hop: 1\r\n\r\n{}"
	if g := <-got; g != want {
		t.Errorf("sent %q\nwant %q", g, want)
	}
}

func TestSendKeepsRedirectsAndRefusesOddStatus(t *testing.T) {
	for status, ok := range map[string]bool{"307 Temporary Redirect": true, "299 Odd": true, "599 Odd": true, "042 No": false, "101 Switching Protocols": false} {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
			conn.Close()
		}))
		u, _ := url.Parse(up.URL)
		c := NewClient(func() []string { return nil })
		resp, err := c.SendBytes(context.Background(), &Target{URL: u}, "POST", http.Header{}, nil)
		if ok != (err == nil) {
			t.Errorf("%s: %v", status, err)
		}
		if err == nil {
			if !strings.HasPrefix(status, fmt.Sprint(resp.StatusCode)) {
				t.Errorf("%s became %d", status, resp.StatusCode)
			}
			resp.Body.Close()
		}
		c.Close()
		up.Close()
	}
}

func TestWebSocket(t *testing.T) {
	for offer, want := range map[string]bool{"websocket": true, "WebSocket": true, "foo, websocket": true, "websocket/13": true, "foo|websocket": true, "": false, "h2c": false, "websockets": false, "x-websocket/1": false} {
		if got := WebSocket(http.Header{"Upgrade": strings.Split(offer, "|")}); got != want {
			t.Errorf("%q: %v", offer, got)
		}
	}
}
