package engine

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/core/content"
)

// answering is a server that gives one answer and remembers the request.
func answering(t *testing.T, status int, body string) (*Client, *http.Request, *string) {
	t.Helper()
	var seen http.Request
	var sent string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		seen, sent = *r, string(data)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return NewClient(srv.URL, "k"), &seen, &sent
}

func TestSaveAndRestore(t *testing.T) {
	c, seen, sent := answering(t, 200, `{"id_slot":1,"filename":"x","n_saved":12,"n_written":345}`)
	s, err := c.Save(t.Context(), 1, "x")
	if err != nil || s.Tokens != 12 || s.Bytes != 345 || seen.URL.RequestURI() != "/slots/1?action=save" || *sent != `{"filename":"x"}` {
		t.Errorf("%+v %v %s %s", s, err, seen.URL, *sent)
	}
	if seen.Header.Get("Authorization") != "Bearer k" {
		t.Error("no key")
	}
	if _, err := c.Restore(t.Context(), -1, "x"); !errors.Is(err, ErrSlot) {
		t.Errorf("a slot below zero would wrap around: %v", err)
	}
}

// An engine that says it saved nothing has failed, whatever the status.
func TestK7_K10_KV19_SaveOfNothing(t *testing.T) {
	c, _, _ := answering(t, 200, `{"n_saved":0,"n_written":0}`)
	_, err := c.Save(t.Context(), 0, "x")
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "-no-kvu") {
		t.Errorf("%v", err)
	}
}

// A refusal carries the engine's words and, where one is known, what to
// do.
func TestK8_K16_Refusal(t *testing.T) {
	c, _, _ := answering(t, 501, `{"error":{"code":501,"message":"This server does not support slots action.","type":"not_supported_error"}}`)
	err := c.Erase(t.Context(), 0)
	var e *Error
	if !errors.As(err, &e) || e.Status != 501 || !strings.Contains(e.Hint, "--slot-save-path") || Gone(err) {
		t.Errorf("%v", err)
	}
}

func TestGone(t *testing.T) {
	c := NewClient("http://127.0.0.1:1", "")
	if _, err := c.Props(t.Context()); !Gone(err) || Refused(err) {
		t.Errorf("%v", err)
	}
}

// A model is known by its bytes; its digest is worked out once, and again
// when the file changes.
func TestKV20_Weights(t *testing.T) {
	dir := t.TempDir()
	file, memory := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "models.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	w := OpenWeights(memory)
	if w.Known(file) {
		t.Error("known before it was read")
	}
	id, err := w.Of(file)
	if err != nil || id != content.Of([]byte("one")) || !OpenWeights(memory).Known(file) {
		t.Fatalf("%v %v", id, err)
	}
	write("other")
	if id, err = OpenWeights(memory).Of(file); err != nil || id != content.Of([]byte("other")) {
		t.Errorf("a replaced file: %v %v", id, err)
	}
	if err := os.WriteFile(memory, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err = OpenWeights(memory).Of(file); err != nil || id != content.Of([]byte("other")) {
		t.Errorf("with a damaged memory: %v %v", id, err)
	}
	if _, err := w.Of(dir + "/absent"); err == nil {
		t.Error("a file that is not there has a digest")
	}
}

func TestHandover(t *testing.T) {
	home := t.TempDir()
	dir, err := Handover(home)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", st.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "left.slot"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Handover(home)
	if err != nil || again != dir {
		t.Fatalf("%s %v", again, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a crash left %v, and it is still there", left)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckHandover(dir); !errors.Is(err, ErrHandover) {
		t.Errorf("a folder others can read: %v", err)
	}
	for _, bad := range []string{"relative", "/absent/folder", os.Args[0]} {
		if CheckHandover(bad) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// A connection that the engine closes at rest costs nothing: the request is sent
// on another.
func TestClosedAtRest(t *testing.T) {
	served := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"tokens":[1,2]}`)
	}))
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			c.Close()
			served <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	c := NewClient(srv.URL, "")
	for range 20 {
		if _, err := c.Tokenize(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		<-served
	}
}

// An engine may close a connection right after a reply. The next request must
// not fail for it, whoever made it, and has its whole body when it goes again.
func TestPassSurvivesAClosedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan string, 4)
	go closing(l, seen)
	c := NewClient("http://"+l.Addr().String(), "")
	defer c.Close()
	for _, want := range []string{"one", "two"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://local/x", io.NopCloser(strings.NewReader(want)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Pass(r)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if got := <-seen; got != want {
			t.Errorf("the engine read %q, want %q", got, want)
		}
	}
}

// closing answers one request on each connection as if more could follow, and
// closes it once the next has begun.
func closing(l net.Listener, seen chan<- string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(conn)
		if r, err := http.ReadRequest(in); err == nil {
			body, _ := io.ReadAll(r.Body)
			seen <- string(body)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			in.Peek(1)
		}
		conn.Close()
	}
}
