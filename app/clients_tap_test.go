//go:build clients

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// exchange is one request and response as a client sent and received them.
type exchange struct {
	method, uri string
	header      http.Header
	body        []byte
	status      int
	got         http.Header
	response    []byte
}

// tap stands between a client and what it talks to and keeps every byte that
// passes. It opens one connection per client connection and copies nothing but
// whole messages, so that neither side sees more than a slower network. A client
// leaves at the last event it needs; the tap reads on to the end, so that what is
// compared does not depend on who was faster.
type tap struct {
	url string

	// mu guards the rest; idle is signalled when an exchange ends.
	mu        sync.Mutex
	idle      *sync.Cond
	exchanges []*exchange
	underWay  int
}

// newTap starts a tap in front of target, a host:port.
func newTap(t *testing.T, target string, hop http.Header) *tap {
	t.Helper()
	tp := &tap{}
	tp.idle = sync.NewCond(&tp.mu)
	transport := &http.Transport{DisableCompression: true, DialContext: (&net.Dialer{}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tp.update(func() { tp.underWay++ })
		defer tp.update(func() { tp.underWay--; tp.idle.Broadcast() })
		if err := tp.pass(w, r, transport, target, hop); err != nil {
			panic(http.ErrAbortHandler) // the client sees the cut its upstream made
		}
	}))
	t.Cleanup(server.Close)
	tp.url = server.URL
	return tp
}

// pass forwards one exchange: the client's headers as they are, and the hop
// headers a careless client might add, which must go no further.
func (tp *tap) pass(w http.ResponseWriter, r *http.Request, via http.RoundTripper, target string, hop http.Header) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	ex := &exchange{method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), body: body}
	tp.add(ex)
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.RequestURI, out.URL = "", &url.URL{Scheme: "http", Host: target, Opaque: r.RequestURI}
	out.Host = target
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for name, values := range hop {
		out.Header[name] = values
	}
	resp, err := via.RoundTrip(out)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return tp.back(w, resp, ex)
}

func (tp *tap) back(w http.ResponseWriter, resp *http.Response, ex *exchange) error {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	tp.update(func() { ex.status, ex.got = resp.StatusCode, resp.Header.Clone() })
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		tp.update(func() { ex.response = append(ex.response, buf[:n]...) })
		if _, werr := w.Write(buf[:n]); werr == nil {
			_ = http.NewResponseController(w).Flush() // a client that left early still gets its bytes recorded
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("response body: %w", err)
		}
	}
}

func (tp *tap) add(ex *exchange) { tp.update(func() { tp.exchanges = append(tp.exchanges, ex) }) }

func (tp *tap) update(do func()) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	do()
}

// seen returns what has passed. It waits for what is under way.
func (tp *tap) seen() (out []exchange) {
	tp.update(func() {
		for tp.underWay > 0 {
			tp.idle.Wait()
		}
		for _, ex := range tp.exchanges {
			out = append(out, *ex)
		}
	})
	return out
}
