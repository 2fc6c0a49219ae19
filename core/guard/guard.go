// Package guard decides who may speak to a loopback listener. A listener on
// 127.0.0.1 is reachable by every page in the user's browser and by every
// local program, so both listeners check what a browser cannot forge: the Host
// it connected to (DNS rebinding), the Origin and Sec-Fetch headers (foreign
// pages), and on the inspector a token.
//
// It is HTTP and values only: secrets are handed in, nothing is read from or
// written to disk.
package guard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"
)

// Problem is a refusal a person can act on, sent as application/problem+json.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Hint   string `json:"hint"`
}

// Error makes a Problem usable where an error is wanted.
func (p *Problem) Error() string { return p.Title + "; " + p.Hint }

// Write sends the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic("guard: internal error: a problem does not encode: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) // the client may be gone; nothing to do about it
}

// Limits of a listener. Bodies are bounded by their readers and answers may
// stream for an hour, so only the head of a request is timed here.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 128 << 10 // agents send turn metadata in headers, some KB of it
)

// Server is an http.Server with the limits of a guarded listener.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
	}
}

// NewSecret returns 256 random bits in hex.
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ProxySecret is the path segment that opens the proxy when web.proxy_secret is
// on. It follows from the token, so it needs no file of its own, and does not
// reveal it.
func ProxySecret(token string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("holdfast proxy path"))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// A program that is about to send the token asks first who listens: it sends
// ProveHeader with something new, and ProofHeader of the answer can only come
// from one that has the token. What health says can be learnt and repeated by
// whoever takes a dead process's port.
const (
	ProveHeader = "X-Holdfast-Prove"
	ProofHeader = "X-Holdfast-Proof"
)

// Proof shows that its maker has the token, and does not reveal it.
func Proof(token, nonce string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("holdfast proof " + nonce))
	return hex.EncodeToString(m.Sum(nil))
}

// Proved reports whether an answer to nonce came from a holder of the token.
func Proved(h http.Header, token, nonce string) bool {
	return same(h.Get(ProofHeader), Proof(token, nonce))
}

// same compares secrets in constant time, their lengths included.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
