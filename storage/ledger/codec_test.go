package ledger

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
)

func TestPack(t *testing.T) {
	p, err := newPacker()
	must(t, err)
	defer p.close()
	noise := make([]byte, 5000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for _, b := range [][]byte{{}, []byte("short"), []byte(strings.Repeat("long ", 1000)), noise, noise[:packMin-1],
		noise[:packMin]} {
		packed := p.pack(b)
		if len(packed) > len(b)+1 {
			t.Errorf("%d bytes became %d", len(b), len(packed))
		}
		if got, err := p.unpack(packed); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes came back as %d, %v", len(b), len(got), err)
		}
	}
	if n := len(p.pack([]byte(strings.Repeat("long ", 1000)))); n > 100 {
		t.Errorf("5000 bytes of one word take %d", n)
	}
	for _, bad := range [][]byte{{9}, {packZstd}, {packZstd, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 2},
		p.pack([]byte(strings.Repeat("long ", 1000)))[:20]} {
		if _, err := p.unpack(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v, want ErrCorrupt", bad, err)
		}
	}
}

func TestLists(t *testing.T) {
	id := content.Of([]byte("x"))
	items := []session.ListItem{{N: 1, Raw: id}, {N: 1 << 40, Raw: content.Of(nil)}}
	if got, err := getItems(putItems(items)); err != nil || !reflect.DeepEqual(got, items) {
		t.Errorf("items %v, %v", got, err)
	}
	fs := []field{{"system", id, true}, {"tools", id, false}}
	if got, err := getFields(putFields(fs)); err != nil || !reflect.DeepEqual(got, fs) {
		t.Errorf("fields %v, %v", got, err)
	}
	cores := []session.CoreRef{{Kind: chat.Text, Canon: chat.CanonID{1}, Repeat: 3}, {Kind: chat.Media, Repeat: 1}}
	if got, err := getCores(putCores(cores)); err != nil || !reflect.DeepEqual(got, cores) {
		t.Errorf("cores %v, %v", got, err)
	}
	view := []session.ViewRun{{From: 0, To: 3}, {N: 7, Blob: id}, {From: 3, To: 9}}
	if got, err := getView(putView(view)); err != nil || !reflect.DeepEqual(got, view) {
		t.Errorf("view %v, %v", got, err)
	}
	for _, err := range []error{second(getItems([]byte{1, 2})), second(getFields([]byte{9, 1})),
		second(getCores([]byte{200})), second(getView([]byte{1, 1, 1})), second(getMedia([]byte{1}))} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut short: %v, want ErrCorrupt", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// FuzzDecode: whatever a damaged file holds, decoding ends without a panic and
// what it accepts it can write again.
func FuzzDecode(f *testing.F) {
	f.Add(putItems([]session.ListItem{{N: 1}}))
	f.Add(putFields([]field{{"system", content.ID{}, true}}))
	f.Add(putCores([]session.CoreRef{{Kind: chat.Text}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	p, err := newPacker()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if items, err := getItems(b); err == nil {
			if again, err := getItems(putItems(items)); err != nil || !reflect.DeepEqual(again, items) {
				t.Errorf("items %v, %v", again, err)
			}
		}
		_, _ = getFields(b)
		_, _ = getCores(b)
		_, _ = getView(b)
		if ms, err := getMedia(b); err == nil {
			_ = putMedia(ms)
		}
		_, _ = p.unpack(b)
	})
}

// TestCut: only what encodes back to the same text is kept as binary.
func TestCut(t *testing.T) {
	for text, decoded := range map[string]bool{"aGVsbG8=": true, "aGVsbG8": false, "aGVsbG9=": false,
		"aGVs\nbG8=": false, `aGVs\/8=`: false, "": true, "_-_-": false} {
		if p := cut(0, []byte(text)); p.decoded != decoded {
			t.Errorf("%q: decoded %v", text, p.decoded)
		}
	}
	if err := validMedia(&session.Blob{Raw: []byte("abc"), Media: []chat.Span{{Start: 1, End: 4}}}); err == nil {
		t.Error("a span outside the bytes")
	}
}
