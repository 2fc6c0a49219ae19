package demo

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden responses")

// TestGolden compares whole responses with testdata/*.txtar.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			section := map[string]*txtar.File{}
			for i := range ar.Files {
				section[ar.Files[i].Name] = &ar.Files[i]
			}
			got := answer(t, strings.TrimSpace(string(section["path"].Data)), section["request"])
			if *update {
				section["response"].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(section["response"].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func answer(t *testing.T, path string, request *txtar.File) string {
	t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if request != nil {
		method, body = http.MethodPost, bytes.TrimSpace(request.Data)
	}
	w := httptest.NewRecorder()
	NewModel(Options{}).ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
	return strings.TrimRight(w.Body.String(), "\n") + "\n"
}

// ask posts a directive to a model behind a real server and returns the status,
// headers and body of the response.
func ask(t *testing.T, server *httptest.Server, directive, accept string) (*http.Response, []byte, error) {
	t.Helper()
	body := mustEncode(object{{"model", "m"}, {"stream", true},
		{"tools", []object{{{"name", "bash"}, {"input_schema", object{{"type", "object"}}}}}},
		{"messages", []object{{{"role", "user"}, {"content", directive}}}}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, BaseURL(server.URL, "x")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", accept)
	resp, err := server.Client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, got, err
}

// TestFaultsHappenOnce: each fault shows in the first response and is gone
// from the second, so a client that tries again gets through.
func TestFaultsHappenOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		directive string
		shows     func(resp *http.Response, body []byte, err error) bool
	}{
		"status": {`STUB{"err":529}`, func(resp *http.Response, body []byte, _ error) bool {
			return resp != nil && resp.StatusCode == 529 && bytes.Contains(body, []byte("overloaded_error"))
		}},
		"cut": {`STUB{"cut":true}`, func(_ *http.Response, body []byte, err error) bool {
			return err != nil && bytes.Contains(body, []byte("text_delta"))
		}},
		"error event": {`STUB{"midErr":true}`, func(_ *http.Response, body []byte, err error) bool {
			return err == nil && bytes.Contains(body, []byte("event: error")) && !bytes.Contains(body, []byte("message_stop"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			model := NewModel(Options{})
			server := httptest.NewServer(model)
			defer server.Close()
			resp, body, err := ask(t, server, tc.directive, "")
			if !tc.shows(resp, body, err) {
				t.Fatalf("first: %q, %v", body, err)
			}
			resp, body, err = ask(t, server, tc.directive, "")
			if tc.shows(resp, body, err) || err != nil || !bytes.Contains(body, []byte("message_stop")) {
				t.Fatalf("second: %q, %v", body, err)
			}
			recs := model.Recordings("x")
			if len(recs) != 2 || recs[0].Cut != (name == "cut") || recs[1].Cut {
				t.Fatalf("recorded %d exchanges, cut %v", len(recs), recs[0].Cut)
			}
		})
	}
}

// TestEncodings: what left and what it says are both recorded, and an encoding
// the client does not take is not used.
func TestEncodings(t *testing.T) {
	for _, encoding := range []string{"gzip", "zstd", "br", "deflate"} {
		t.Run(encoding, func(t *testing.T) {
			model := NewModel(Options{})
			server := httptest.NewServer(model)
			defer server.Close()
			directive := `STUB{"encoding":"` + encoding + `"}`
			resp, raw, err := ask(t, server, directive, encoding)
			if err != nil || resp.Header.Get("Content-Encoding") != encoding {
				t.Fatalf("%v, headers %v", err, resp.Header)
			}
			_, plain, err := ask(t, server, directive, "identity")
			if err != nil {
				t.Fatal(err)
			}
			text, err := decoded(raw, encoding)
			if err != nil || !bytes.Equal(text, plain) || bytes.Equal(raw, plain) {
				t.Fatalf("%d bytes say %q, %v; want %q", len(raw), text, err, plain)
			}
			rec := model.Recordings("x")[0]
			if !bytes.Equal(rec.RawResponse, raw) || !bytes.Equal(rec.Response, plain) {
				t.Fatal("the recording differs from what the client got")
			}
		})
	}
}

// TestRequestEncodings: compressed requests are read, broken ones refused.
func TestRequestEncodings(t *testing.T) {
	text := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	for _, encoding := range []string{"gzip", "zstd", "br", "deflate"} {
		var packed bytes.Buffer
		enc := newEncoder(encoding, &packed)
		if _, err := enc.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			body   []byte
			status int
		}{"whole": {packed.Bytes(), 200}, "cut": {packed.Bytes()[:packed.Len()/2], 400}} {
			model := NewModel(Options{})
			req := httptest.NewRequest(http.MethodPost, "/c/x/v1/messages", bytes.NewReader(tc.body))
			req.Header.Set("Content-Encoding", encoding)
			w := httptest.NewRecorder()
			model.ServeHTTP(w, req)
			if w.Code != tc.status {
				t.Errorf("%s, %s: status %d, want %d", encoding, name, w.Code, tc.status)
			}
			if name == "whole" && !bytes.Equal(model.Recordings("x")[0].Body, text) {
				t.Errorf("%s: recorded %q", encoding, model.Recordings("x")[0].Body)
			}
		}
	}
}

// TestHangEndsWithTheClient: a model that holds its answer back lets go when
// the client does.
func TestHangEndsWithTheClient(t *testing.T) {
	model := NewModel(Options{})
	server := httptest.NewServer(model)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	body := strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"STUB{\"hang\":true}"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/messages", body)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := server.Client().Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	for !model.busy("") {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("the hung request was answered")
	}
	if recs := model.Recordings(""); len(recs) != 1 || recs[0].Status != 0 {
		t.Fatalf("recorded %+v", recs)
	}
}

func (m *Model) busy(label string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.label(label).underWay > 0
}
