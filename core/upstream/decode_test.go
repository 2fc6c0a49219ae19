package upstream

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packers write each encoding; "raw" is deflate without its zlib frame.
var packers = map[string]func(io.Writer) io.WriteCloser{
	"gzip": func(w io.Writer) io.WriteCloser {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		return z
	},
	"br": func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 0) },
	"deflate": func(w io.Writer) io.WriteCloser {
		z, _ := zlib.NewWriterLevel(w, zlib.BestSpeed)
		return z
	},
	"raw": func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, flate.BestSpeed)
		return f
	},
	"zstd": func(w io.Writer) io.WriteCloser {
		z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		return z
	},
}

func name(packer string) string {
	if packer == "raw" {
		return "deflate"
	}
	return packer
}

func pack(t testing.TB, packer string, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := packers[packer](&b)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecode(t *testing.T) {
	body := []byte(strings.Repeat(`{"messages":[]} `, 500))
	for p := range packers {
		packed := pack(t, p, bytes.NewReader(body))
		for _, spelled := range []string{name(p), strings.ToUpper(name(p)), " " + name(p) + " ", "identity, " + name(p)} {
			if got, err := Decode(packed, spelled); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s as %q: %d bytes, %v", p, spelled, len(got), err)
			}
		}
		for _, n := range []int{0, 1, len(packed) / 2, len(packed) - 1} {
			if p == "zstd" && n == 0 {
				continue // no frame at all is valid
			}
			var refusal *Refusal
			if _, err := Decode(packed[:n], name(p)); !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest {
				t.Errorf("%s cut to %d of %d bytes: %v, want 400", p, n, len(packed), err)
			}
		}
		garbled := bytes.Clone(packed)
		for i := len(garbled) / 3; i < len(garbled)/3+8 && i < len(garbled); i++ {
			garbled[i] ^= 0xA5
		}
		if got, err := Decode(garbled, name(p)); err == nil && bytes.Equal(got, body) {
			t.Errorf("%s: damage unseen", p)
		}
	}
	twice := pack(t, "br", bytes.NewReader(pack(t, "gzip", bytes.NewReader(body))))
	if got, err := Decode(twice, "gzip, br"); err != nil || !bytes.Equal(got, body) {
		t.Errorf("two encodings: %v", err)
	}
}

func TestDecodeUnknown(t *testing.T) {
	for _, e := range []string{"snappy", "gzip, snappy", "gzip;q=1", strings.Repeat("br,", 100_000) + "br", "br,br,br,br,br"} {
		if _, err := Decode([]byte("x"), e); !errors.Is(err, ErrEncoding) {
			t.Errorf("%.40s: %v, want ErrEncoding", e, err)
		}
	}
	for _, e := range []string{"", "identity"} {
		if got, err := Decode([]byte("x"), e); err != nil || string(got) != "x" {
			t.Errorf("%q: %q, %v", e, got, err)
		}
	}
}

// zeros reads as n zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestDecodeLimits(t *testing.T) {
	for p := range packers {
		bomb := pack(t, p, zeros(MaxBody+1))
		var refusal *Refusal
		if _, err := Decode(bomb, name(p)); !errors.As(err, &refusal) || refusal.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s bomb of %d bytes: %v, want 413", p, len(bomb), err)
		}
	}
	if got, err := Decode(pack(t, "gzip", zeros(MaxBody)), "gzip"); err != nil || len(got) != MaxBody {
		t.Errorf("exactly %d bytes: %d, %v", MaxBody, len(got), err)
	}
	// The same in one zstd frame that declares its size, as one-shot encoders do.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	if _, err := Decode(enc.EncodeAll(make([]byte, MaxBody+1), nil), "zstd"); !errors.As(err, &refusal) || refusal.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("zstd bomb that declares its size: %v, want 413", err)
	}
}

// TestDecodeHollowBomb: what unpacks to more than a body and then to nothing, so
// that no limit on the result is ever met. Three such layers are hours of work.
func TestDecodeHollowBomb(t *testing.T) {
	skipped := []byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0x80, 6} // a frame of 104 MiB that zstd readers skip
	bomb := pack(t, "gzip", io.MultiReader(bytes.NewReader(skipped), zeros(104<<20)))
	if out, err := Decode(bomb, "zstd, gzip"); err == nil {
		t.Errorf("%d bytes that unpack to 104 MiB between two encodings came out as %d", len(bomb), len(out))
	}
}

func TestReadBody(t *testing.T) {
	request := func(r io.Reader, length int64) *http.Request {
		req := httptest.NewRequest("POST", "/", r)
		req.ContentLength = length
		return req
	}
	for _, c := range []struct {
		what   string
		r      io.Reader
		length int64
		status int
		n      int
	}{
		{"declared too large, nothing sent", strings.NewReader(""), MaxBody + 1, 413, 0},
		{"too large in chunks", zeros(MaxBody + 1), -1, 413, 0},
		{"exactly the limit", zeros(MaxBody), MaxBody, 0, MaxBody},
		{"empty", strings.NewReader(""), 0, 0, 0},
		{"chunks", strings.NewReader("abc"), -1, 0, 3},
		{"more than declared at first", zeros(growBody + 7), growBody + 7, 0, growBody + 7},
		{"broken off", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF)), 10, 400, 0},
	} {
		b, err := ReadBody(request(c.r, c.length))
		var refusal *Refusal
		errors.As(err, &refusal)
		if c.status == 0 && (err != nil || len(b) != c.n) || c.status != 0 && (refusal == nil || refusal.Status != c.status) {
			t.Errorf("%s: %d bytes, %v", c.what, len(b), err)
		}
	}
	if b, err := ReadBody(request(iotest.ErrReader(fmt.Errorf("gone")), MaxBody)); err == nil || cap(b) > 0 {
		t.Errorf("a length alone: %v", err)
	}
}
