package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"
)

// MaxRecord is how much of a reply is kept; the rest is only relayed.
const MaxRecord = 8 << 20

// Tap sees the bytes of a reply as they pass: it keeps them up to MaxRecord,
// hashes all of them, notes when each chunk came, and feeds a reader of the
// decoded reply. It never holds up the relay: decoding runs beside it.
type Tap struct {
	start time.Time
	hash  *blake3.Hasher
	kept  []byte
	total int64
	marks []byte
	last  time.Duration
	at    int64

	// decoded receives plain bytes; directly when the reply is not compressed,
	// else from the decoder goroutine behind pipe.
	decoded io.Writer
	pipe    *io.PipeWriter
	done    sync.WaitGroup
	// unread is how decoding failed; written by the goroutine, read after done.
	unread error
}

// NewTap starts a tap; times are counted from start. encoding is the reply's
// content encoding; one nobody knows leaves the reader without input.
func NewTap(start time.Time, encoding string, reader io.Writer) *Tap {
	t := &Tap{start: start, hash: blake3.New(), decoded: reader}
	if encoding == "" || encoding == "identity" {
		return t
	}
	pr, pw := io.Pipe()
	t.pipe = pw
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		// Whatever goes wrong in decoding is the client's to judge; the pipe
		// is drained so that the relay never waits.
		defer io.Copy(io.Discard, pr)
		d, err := decoder(pr, encoding)
		if err == nil {
			_, err = io.Copy(reader, d)
			d.Close()
		}
		t.unread = err
	}()
	return t
}

// Write takes the next chunk. It never fails.
func (t *Tap) Write(p []byte) (int, error) {
	t.hash.Write(p)
	t.total += int64(len(p))
	if room := MaxRecord - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(room, len(p))]...)
		t.mark()
	}
	if t.pipe != nil {
		t.pipe.Write(p)
	} else {
		t.decoded.Write(p)
	}
	return len(p), nil
}

// mark notes the chunk's end and time as two varint differences.
func (t *Tap) mark() {
	now := time.Since(t.start).Truncate(time.Millisecond)
	t.marks = binary.AppendUvarint(t.marks, uint64(t.total-t.at))
	t.marks = binary.AppendUvarint(t.marks, uint64((now-t.last)/time.Millisecond))
	t.at, t.last = t.total, now
}

// Close waits until the reader has seen everything.
func (t *Tap) Close() {
	if t.pipe != nil {
		t.pipe.Close()
		t.done.Wait()
	}
}

// Unread is why the reader did not see the whole reply: its encoding is broken
// or not known here. It is called after Close.
func (t *Tap) Unread() error { return t.unread }

// Kept returns the reply, or nil when it was longer than MaxRecord.
func (t *Tap) Kept() []byte {
	if t.total > int64(len(t.kept)) {
		return nil
	}
	return t.kept
}

// Total is the length of the reply as it came.
func (t *Tap) Total() int64 { return t.total }

// Marks are the chunk marks, see session.TurnDone.
func (t *Tap) Marks() []byte { return t.marks }

// Sum is the BLAKE3 digest of the whole reply.
func (t *Tap) Sum() (id [32]byte) {
	t.hash.Digest().Read(id[:])
	return id
}

// Outcome says how a relay ended.
type Outcome struct {
	// First is when the first byte of the body came.
	First time.Time
	// UpstreamErr is set when the upstream's body broke off.
	UpstreamErr error
	// ClientGone is set when the client stopped reading.
	ClientGone bool
}

// Streams reports whether a reply must be flushed chunk by chunk: an event
// stream, or one of unknown length.
func Streams(h http.Header, length int64) bool {
	return length < 0 || strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

// drainFor bounds how long an upstream is read on after its client left at
// the terminal event: usage and record are complete by then, the rest is form.
const drainFor = 5 * time.Second

// Relay copies the reply to the tap and to the client: the header of a stream
// at once, then its bytes as they come, last its trailers. The tap is first, so
// that whatever a client does about the terminal event, the event has been
// read by then. terminal says whether it has; first runs once the first bytes
// have left. A client that stops reading is handled by [Left].
func Relay(w http.ResponseWriter, resp *http.Response, tap *Tap, first func(), terminal func() bool, cancel func()) (out Outcome) {
	flush := func() error { return nil }
	if Streams(resp.Header, resp.ContentLength) {
		flush = http.NewResponseController(w).Flush
	}
	told := func(err error) {
		if err != nil && !out.ClientGone {
			out.ClientGone = true
			tap.Left(terminal, cancel)
		}
	}
	told(flush())
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			begins := out.First.IsZero()
			if begins {
				out.First = time.Now()
			}
			tap.Write(buf[:n])
			if !out.ClientGone {
				_, werr := w.Write(buf[:n])
				told(errors.Join(werr, flush()))
			}
			if begins {
				first()
			}
		}
		if err == io.EOF {
			Trail(w, resp)
			return out
		}
		if err != nil {
			out.UpstreamErr = err
			return out
		}
	}
}

// Trail passes on the trailers of a reply whose body has ended; before that
// nobody knows them.
func Trail(w http.ResponseWriter, resp *http.Response) {
	for k, v := range endToEnd(resp.Trailer) {
		w.Header()[http.TrailerPrefix+k] = v
	}
}

// Interim passes on what the upstream says before its answer (status 1xx,
// "early hints"), until done is called. 100 is left out: the server has told the
// client to go on, or the client did not ask.
func Interim(ctx context.Context, w http.ResponseWriter, r *http.Request) (told context.Context, done func()) {
	if !r.ProtoAtLeast(1, 1) {
		return ctx, func() {}
	}
	var mu sync.Mutex
	over := false
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		if over || code == http.StatusContinue {
			return nil
		}
		own := w.Header().Clone()
		Inbound(w.Header(), http.Header(h))
		w.WriteHeader(code)
		clear(w.Header())
		maps.Copy(w.Header(), own)
		return nil
	}}
	return httptrace.WithClientTrace(ctx, trace), func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

// lagFor bounds the wait for a decoder that runs beside the relay: the bytes of
// the terminal event have passed, their meaning may come a moment later.
const lagFor = 250 * time.Millisecond

// Left decides what a client's departure means: before the terminal event it
// cancels the upstream; after it the upstream may finish, for a while.
func (t *Tap) Left(terminal func() bool, cancel func()) {
	for end := time.Now().Add(lagFor); t.pipe != nil && !terminal() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if terminal() {
		time.AfterFunc(drainFor, cancel)
		return
	}
	cancel()
}
