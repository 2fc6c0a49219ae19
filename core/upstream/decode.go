package upstream

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// MaxBody is the largest request body, as sent and after decompression. The
// largest real one (a million tokens with images) stays well below.
const MaxBody = 100 << 20

// growBody is the most room made on a client's word alone; past it the buffer
// grows with what really arrives, so that a declared length costs nothing.
const growBody = 4 << 20

// maxCodings bounds a list of content encodings: each decoder takes tens of
// kilobytes before it sees a byte, and one header can name 200,000. Nobody sends
// more than two.
const maxCodings = 4

// ErrEncoding: a content encoding nobody here knows; the body passes untouched.
var ErrEncoding = errors.New("upstream: unknown content encoding")

// ReadBody reads a request body of at most MaxBody bytes.
func ReadBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, tooLarge(r)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, growBody)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case n > MaxBody:
		return nil, tooLarge(r)
	case err != nil:
		return nil, badFraming()
	}
	return buf.Bytes(), nil
}

func badFraming() *Refusal {
	return &Refusal{http.StatusBadRequest, "bad_framing", "The request body ended early or is badly framed.", "Send the request again."}
}

// drainBody is how much of a body that is refused for its size is read and
// thrown away: clients read the answer only once they have written.
const drainBody = 4 * MaxBody

func tooLarge(r *http.Request) *Refusal {
	_, _ = io.CopyN(io.Discard, r.Body, drainBody)
	return errTooLarge()
}

func errTooLarge() *Refusal {
	return &Refusal{http.StatusRequestEntityTooLarge, "body_too_large", "The request body is larger than 100 MB.",
		"No model takes a request of that size. Start a new session, or remove large attachments."}
}

// Decode undoes a content encoding within MaxBody. Broken compression and
// bombs are refused; an encoding it does not know is ErrEncoding.
func Decode(body []byte, encoding string) ([]byte, error) {
	if encoding == "" || encoding == "identity" {
		return body, nil
	}
	out, err := unpack(body, encoding, MaxBody)
	switch {
	case errors.Is(err, ErrEncoding):
		return nil, err
	case errors.Is(err, errLong):
		return nil, errTooLarge()
	case err != nil:
		return nil, broken(encoding)
	}
	return out, nil
}

var errLong = errors.New("upstream: unpacks to more than is read")

// unpack undoes an encoding of at most limit bytes.
func unpack(body []byte, encoding string, limit int64) ([]byte, error) {
	r, err := decoder(bytes.NewReader(body), encoding)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out bytes.Buffer
	n, err := out.ReadFrom(io.LimitReader(r, limit+1))
	if n > limit {
		err = errLong
	}
	return out.Bytes(), err
}

func broken(encoding string) *Refusal {
	return &Refusal{http.StatusBadRequest, "broken_compression", fmt.Sprintf("The request body is not valid %s data.", encoding),
		"Send the request again; if it repeats, turn request compression off in the client."}
}

// Decoded is the body of a reply without its content encoding; closing it
// closes the reply. One that is not in the encoding it names, as far as its
// first byte tells, or in one nobody here knows, is an error and stays as it
// came: the client gets what the upstream sent.
func Decoded(resp *http.Response) (io.ReadCloser, error) {
	encoding := resp.Header.Get("Content-Encoding")
	if encoding == "" {
		return resp.Body, nil
	}
	begun := &opening{Reader: resp.Body}
	r, err := decoder(begun, encoding)
	if err != nil {
		rewind(resp, begun.kept, begun.err)
		return nil, err
	}
	first := bufio.NewReader(r)
	if _, err := first.Peek(1); err != nil && err != io.EOF {
		rewind(resp, begun.kept, begun.err)
		return nil, err
	}
	begun.done, begun.kept = true, nil
	return decoded{first, r, resp.Body}, nil
}

// Whole reads an encoded reply to its end and leaves it decoded. One that breaks
// off, does not decode to its last byte or has more than limit bytes either way
// is an error and stays as it came.
func Whole(resp *http.Response, limit int64) error {
	encoding := resp.Header.Get("Content-Encoding")
	if encoding == "" {
		return nil
	}
	raw, broke := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	plain, err := []byte(nil), broke
	switch {
	case err != nil:
	case int64(len(raw)) > limit:
		err = errLong
	default:
		plain, err = unpack(raw, encoding, limit)
	}
	if err != nil {
		rewind(resp, raw, broke)
		return err
	}
	rewind(resp, plain, io.EOF)
	resp.Header.Del("Content-Encoding")
	resp.Header.Set("Content-Length", fmt.Sprint(len(plain)))
	resp.ContentLength = int64(len(plain))
	return nil
}

// openingBytes bounds what is kept of a reply until its first byte is decoded:
// an encoding can go on for gigabytes and say nothing.
const openingBytes = 1 << 20

var errSilent = errors.New("upstream: an encoded reply that says nothing")

// opening keeps what is read of a body, and how reading ended, until done.
type opening struct {
	io.Reader
	kept []byte
	err  error
	done bool
}

func (o *opening) Read(p []byte) (int, error) {
	if o.done {
		return o.Reader.Read(p)
	}
	if len(o.kept) > openingBytes {
		return 0, errSilent
	}
	n, err := o.Reader.Read(p)
	o.kept, o.err = append(o.kept, p[:n]...), err
	return n, err
}

// rewind puts back what was read of a reply; err is how reading ended, nil when
// it has not.
func rewind(resp *http.Response, read []byte, err error) {
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = ended{err}
	}
	resp.Body = bodyOf{io.MultiReader(bytes.NewReader(read), rest), resp.Body}
}

type bodyOf struct {
	io.Reader
	io.Closer
}

// ended is the end of a body.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }

// decoded reads through a decoder and closes what is under it too.
type decoded struct {
	io.Reader
	decoder, under io.Closer
}

func (d decoded) Close() error { return errors.Join(d.decoder.Close(), d.under.Close()) }

// decoder undoes one encoding, or a comma-separated list of them, last first.
func decoder(r io.Reader, encoding string) (io.ReadCloser, error) {
	names := strings.Split(encoding, ",")
	if len(names) > maxCodings {
		return nil, fmt.Errorf("%w: a list of %d", ErrEncoding, len(names))
	}
	rc := io.NopCloser(r)
	for i := len(names) - 1; i >= 0; i-- {
		next, err := oneDecoder(r, strings.ToLower(strings.TrimSpace(names[i])))
		if err != nil {
			return nil, err
		}
		// A bomb in a bomb may come out empty: what passes between two of them is
		// bounded too.
		rc, r = next, io.LimitReader(next, MaxBody)
	}
	return rc, nil
}

func oneDecoder(r io.Reader, name string) (io.ReadCloser, error) {
	switch name {
	case "identity", "":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBody))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case "deflate":
		return deflate(r)
	}
	return nil, fmt.Errorf("%w %q", ErrEncoding, name)
}

// deflate is zlib by the standard and raw in some senders; the first byte
// tells.
func deflate(r io.Reader) (io.ReadCloser, error) {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return nil, err
	}
	r = io.MultiReader(bytes.NewReader(first[:]), r)
	if first[0]&0x0f == 8 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
