package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// HopHeader marks requests that already went through a Holdfast, so that a
// second one in the path does not process them again. It is sent to loopback
// upstreams only.
const HopHeader = "X-Holdfast-Hop"

// envelopePrefix covers every header of ours: plugin handshake, message ids,
// the hop marker. None of them is for an upstream.
const envelopePrefix = "X-Holdfast-"

const (
	// dialTimeout: a local machine answers at once, a remote one in a second or
	// two; past this the client's own retry is the better choice.
	dialTimeout = 15 * time.Second
	// idleConns are kept per upstream; agents run a handful of calls at once.
	idleConns   = 32
	idleTimeout = 90 * time.Second
)

// Client sends requests upstream. The zero value is not usable; see NewClient.
type Client struct {
	// own returns the addresses of our listeners, which /via may not reach.
	own func() []string
	// sender answers for routes that travel in their own way; see Route.
	sender func(route string) Sender

	mu sync.Mutex
	// transports by proxy URL and guard; a handful at most.
	transports map[transportKey]*http.Transport
}

type transportKey struct {
	proxy   string
	guarded bool
}

// NewClient makes a client; own names our own listeners at call time.
func NewClient(own func() []string) *Client {
	return &Client{own: own, sender: func(string) Sender { return nil }, transports: map[transportKey]*http.Transport{}}
}

// Close drops idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// Send makes one round trip. The response is whatever the upstream said,
// redirects included; its body is still encoded. A body that the client frames
// badly is a Refusal: the fault is not the upstream's.
func (c *Client) Send(ctx context.Context, t *Target, method string, h http.Header, body io.Reader, size int64) (*http.Response, error) {
	tr, err := c.senderOf(t)
	if err != nil {
		return nil, err
	}
	source := &fromClient{Reader: body}
	if _, inMemory := body.(*bytes.Reader); !inMemory { // one in memory can be sent again
		body = source
	}
	reached := new(atomic.Bool)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, t.URL.String(), body)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	// Keep the client's exact spelling of the path: url.String may not.
	req.URL = t.URL
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.Header = Outbound(h, t.Loopback())
	resp, err := tr.RoundTrip(req)
	switch {
	case err != nil && source.broke.Load():
		return nil, badFraming()
	case err != nil && reached.Load():
		return nil, unanswered{err}
	case err != nil:
		return nil, err
	case resp.StatusCode < http.StatusOK:
		resp.Body.Close()
		return nil, unanswered{fmt.Errorf("upstream: final status %d is not one", resp.StatusCode)}
	}
	return resp, nil
}

// unanswered is the failure of a request that had its connection: somebody is
// there, and gave no answer that is one.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// fromClient is a body on its way through, which knows whether it broke off.
type fromClient struct {
	io.Reader
	broke atomic.Bool
}

func (f *fromClient) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	// A body is closed when nobody wants the rest: that is no break.
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		f.broke.Store(true)
	}
	return n, err
}

func (f *fromClient) Close() error {
	if c, ok := f.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// SendBytes is Send with a body in memory.
func (c *Client) SendBytes(ctx context.Context, t *Target, method string, h http.Header, body []byte) (*http.Response, error) {
	return c.Send(ctx, t, method, h, bytes.NewReader(body), int64(len(body)))
}

// senderOf is what carries the target's requests. What a request names itself
// (/via) is no route, whatever its name.
func (c *Client) senderOf(t *Target) (Sender, error) {
	if !t.Guarded {
		if s := c.sender(t.Route); s != nil {
			return s, nil
		}
	}
	return c.transport(t)
}

func (c *Client) transport(t *Target) (*http.Transport, error) {
	key := transportKey{t.Proxy, t.Guarded}
	c.mu.Lock()
	defer c.mu.Unlock()
	if tr, ok := c.transports[key]; ok {
		return tr, nil
	}
	tr := &http.Transport{
		DialContext:           c.dialer(t.Guarded).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   idleConns,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   dialTimeout,
		DisableCompression:    true, // the upstream's bytes are relayed as they are
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       32 << 10,
		ReadBufferSize:        32 << 10,
	}
	if t.Proxy != "" {
		u, err := url.Parse(t.Proxy)
		if err != nil {
			return nil, fmt.Errorf("upstream: proxy of route %s: %w", t.Route, err)
		}
		tr.Proxy = http.ProxyURL(u)
	}
	c.transports[key] = tr
	return tr, nil
}

// dialer checks guarded connections where it counts: after the name was
// resolved, on the very address that is dialled.
func (c *Client) dialer(guarded bool) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	d.Control = func(_, addr string, _ syscall.RawConn) error {
		if ownPort(addr, c.own()) {
			return fmt.Errorf("%w: %s is Holdfast itself", ErrForbidden, addr)
		}
		if !guarded {
			return nil
		}
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(host)
		if err != nil || forbidden(ip) {
			return fmt.Errorf("%w: %s", ErrForbidden, addr)
		}
		return nil
	}
	return d
}

// hopByHop are headers of one connection, RFC 9110 section 7.6.1, plus those
// the transport sets itself.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Host": true, "Content-Length": true,
	// The body is here already, and the client was told so; asking the upstream
	// again would only delay it.
	"Expect": true,
}

// WebSocket reports whether a request offers to go on as a WebSocket, alone or
// among other protocols.
func WebSocket(h http.Header) bool {
	for _, v := range h["Upgrade"] {
		for _, offer := range strings.Split(v, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(offer), "/")
			if strings.EqualFold(name, "websocket") {
				return true
			}
		}
	}
	return false
}

// Outbound returns the headers that go upstream: the client's, without those
// of the connection and without any of ours.
func Outbound(h http.Header, loopback bool) http.Header {
	out := endToEnd(h)
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // keeps the transport from adding its own
	}
	if loopback {
		out.Set(HopHeader, "1")
	}
	return out
}

// Inbound copies the upstream's end-to-end headers to the client's response.
func Inbound(dst, src http.Header) {
	for k, v := range endToEnd(src) {
		dst[k] = v
	}
	if n := src.Get("Content-Length"); n != "" {
		dst.Set("Content-Length", n)
	}
}

func endToEnd(h http.Header) http.Header {
	named := map[string]bool{}
	for _, v := range h["Connection"] {
		for _, k := range strings.Split(v, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(k))] = true
		}
	}
	out := make(http.Header, len(h))
	for k, v := range h {
		if !hopByHop[k] && !named[k] && !strings.HasPrefix(k, envelopePrefix) {
			out[k] = v
		}
	}
	return out
}

// Unreachable turns a failed round trip into an answer a person can act on.
func Unreachable(t *Target, err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	if errors.Is(err, ErrForbidden) {
		return &Refusal{http.StatusForbidden, "via_refused", "This address cannot be reached through Holdfast.",
			"Link-local, metadata and Holdfast's own addresses are refused. If this really is a model API, add it as a route in config.toml."}
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return &Refusal{http.StatusGatewayTimeout, "upstream_timeout", fmt.Sprintf("%s did not answer in time.", t.URL.Host),
			"The request was not processed by Holdfast beyond forwarding it. Check the network, then try again."}
	}
	if errors.As(err, new(unanswered)) {
		return &Refusal{http.StatusBadGateway, "upstream_no_answer", fmt.Sprintf("%s was reached and gave no valid answer.", t.URL.Host),
			"It closed the connection, or what it sent is not HTTP. Try again; if it repeats, check that the address is that of a model API."}
	}
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return &Refusal{http.StatusBadGateway, "upstream_untrusted", fmt.Sprintf("The certificate of %s is not trusted on this machine.", t.URL.Host),
			"Check that the address is right. Where a company's proxy stands between, start Holdfast with SSL_CERT_FILE set to a file with its certificate."}
	}
	return &Refusal{http.StatusBadGateway, "upstream_unreachable", fmt.Sprintf("%s could not be reached.", t.URL.Host),
		"Check that the address is right and the server is running, then try again."}
}
