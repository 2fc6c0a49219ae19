package demo

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// reply writes one response and records it. Its handler owns it.
type reply struct {
	w   http.ResponseWriter
	r   *http.Request
	rec *Recording

	// breakOff and midError are due at the next piece of text.
	breakOff, midError bool
	encoding           string
	crlf               bool
	pause              time.Duration
	// sink is where decoded bytes go: the wire, or an encoder before it.
	sink io.Writer
	enc  encoder
}

// encoder is what the compressing writers have in common.
type encoder interface {
	io.WriteCloser
	Flush() error
}

// prepare carries out what a turn does before its first byte. It returns false
// when the reply is already given.
func (o *reply) prepare(t Turn) bool {
	o.crlf, o.pause = t.CRLF, time.Duration(t.PauseMS)*time.Millisecond
	if strings.Contains(o.r.Header.Get("Accept-Encoding"), t.Encoding) {
		o.encoding = t.Encoding
	}
	switch {
	case t.Hang:
		<-o.r.Context().Done()
		panic(http.ErrAbortHandler)
	case t.Garbage:
		o.text(http.StatusOK, "application/json", "<html>not what you asked for")
		return false
	}
	return true
}

// json answers with one JSON value.
func (o *reply) json(status int, v any) {
	o.header(status, "application/json")
	o.write(mustEncode(v))
}

func (o *reply) text(status int, kind, body string) {
	o.header(status, kind)
	o.write([]byte(body))
}

// header sends the status line and headers; the request id derives from the
// request like every other id.
func (o *reply) header(status int, kind string) {
	h := o.w.Header()
	h.Set("Content-Type", kind)
	id := (&idSource{seed: o.rec.Body, n: 1 << 16}).next("req_")
	h.Set("Request-Id", id)
	h.Set("X-Request-Id", id)
	o.sink = &tee{o}
	if o.encoding != "" {
		h.Set("Content-Encoding", o.encoding)
		o.enc = newEncoder(o.encoding, o.sink)
		o.sink = o.enc
	}
	o.rec.Status, o.rec.ResponseHeader = status, h.Clone()
	o.w.WriteHeader(status)
}

// tee is the end of the line: what it writes is what leaves.
type tee struct{ o *reply }

func (t *tee) Write(p []byte) (int, error) {
	t.o.rec.RawResponse = append(t.o.rec.RawResponse, p...)
	return t.o.w.Write(p)
}

// write sends decoded bytes. A client that left is no error of the model's: the
// rest is recorded and goes nowhere.
func (o *reply) write(p []byte) {
	o.rec.Response = append(o.rec.Response, p...)
	_, _ = o.sink.Write(p)
}

// flush pushes everything written so far onto the wire.
func (o *reply) flush() {
	if o.enc != nil {
		_ = o.enc.Flush()
	}
	_ = http.NewResponseController(o.w).Flush()
}

func (o *reply) close() {
	if o.enc != nil && !o.rec.Cut {
		_ = o.enc.Close()
	}
}

// event sends one event of a stream; name may be empty.
func (o *reply) event(name string, data any) {
	if o.sink == nil {
		o.header(http.StatusOK, "text/event-stream; charset=utf-8")
	}
	var b bytes.Buffer
	end := "\n"
	if o.crlf {
		end = "\r\n"
	}
	if name != "" {
		fmt.Fprintf(&b, "event: %s%s", name, end)
	}
	text, ok := data.(string)
	if !ok {
		text = string(mustEncode(data))
	}
	fmt.Fprintf(&b, "data: %s%s%s", text, end, end)
	o.write(b.Bytes())
	o.flush()
	if o.pause > 0 {
		o.wait()
	}
}

// wait pauses between events, shorter when the client leaves.
func (o *reply) wait() {
	select {
	case <-time.After(o.pause):
	case <-o.r.Context().Done():
	}
}

// interrupted plays a fault that is due in mid-stream: it breaks the connection
// off, or reports true after the wire's error event.
func (o *reply) interrupted(wire wireFormat) bool {
	if o.breakOff {
		o.rec.Cut = true
		panic(http.ErrAbortHandler)
	}
	if o.midError {
		wire.midFault(o)
	}
	return o.midError
}

func newEncoder(name string, w io.Writer) encoder {
	switch name {
	case "gzip":
		return gzip.NewWriter(w)
	case "br":
		return brotli.NewWriter(w)
	case "deflate":
		return zlib.NewWriter(w)
	case "zstd":
		enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // the options are constants
		}
		return enc
	}
	panic("demo: unknown encoding " + name)
}

// decoded undoes a Content-Encoding.
func decoded(raw []byte, encoding string) ([]byte, error) {
	in := bytes.NewReader(raw)
	switch encoding {
	case "", "identity":
		return raw, nil
	case "gzip":
		zr, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(zr)
	case "deflate":
		return inflate(raw)
	case "br":
		return io.ReadAll(brotli.NewReader(in))
	case "zstd":
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer dec.Close()
		return dec.DecodeAll(raw, nil)
	}
	return nil, fmt.Errorf("unknown content encoding %q", encoding)
}

// inflate reads deflate with its zlib frame or, as some clients send it, bare.
func inflate(raw []byte) ([]byte, error) {
	zr, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		return io.ReadAll(flate.NewReader(bytes.NewReader(raw)))
	}
	return io.ReadAll(zr)
}
