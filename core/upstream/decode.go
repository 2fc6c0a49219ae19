package upstream

import (
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
		return nil, &Refusal{http.StatusBadRequest, "bad_framing", "The request body ended early or is badly framed.", "Send the request again."}
	}
	return buf.Bytes(), nil
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
	r, err := decoder(bytes.NewReader(body), encoding)
	if errors.Is(err, ErrEncoding) {
		return nil, err
	}
	if err != nil {
		return nil, broken(encoding)
	}
	defer r.Close()
	var out bytes.Buffer
	n, err := out.ReadFrom(io.LimitReader(r, MaxBody+1))
	switch {
	case n > MaxBody:
		return nil, errTooLarge()
	case err != nil:
		return nil, broken(encoding)
	}
	return out.Bytes(), nil
}

func broken(encoding string) *Refusal {
	return &Refusal{http.StatusBadRequest, "broken_compression", fmt.Sprintf("The request body is not valid %s data.", encoding),
		"Send the request again; if it repeats, turn request compression off in the client."}
}

// Decoded is the body of a reply without its content encoding; closing it
// closes the reply. One in an encoding nobody here knows is ErrEncoding.
func Decoded(resp *http.Response) (io.ReadCloser, error) {
	encoding := resp.Header.Get("Content-Encoding")
	if encoding == "" {
		return resp.Body, nil
	}
	r, err := decoder(resp.Body, encoding)
	if err != nil {
		return nil, err
	}
	return decoded{r, resp.Body}, nil
}

// decoded reads through a decoder and closes what is under it too.
type decoded struct {
	io.ReadCloser
	under io.Closer
}

func (d decoded) Close() error { return errors.Join(d.ReadCloser.Close(), d.under.Close()) }

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
