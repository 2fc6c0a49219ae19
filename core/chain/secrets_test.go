package chain_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
)

// logged collects what is logged.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}

// TestSecrets: no key of a client is ever in a file of the ledger or in the
// log, whatever becomes of its request; neither is what it wrote in the log.
func TestSecrets(t *testing.T) {
	g, f := faultyRig(t, config.On)
	var log logged
	options := g.options
	g.options = func(o *chain.Options) {
		options(o)
		o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	}
	g.restart()
	down := httptestDown(t)
	header := map[string]string{
		"Authorization": "Bearer SECRET-bearer", "X-Api-Key": "SECRET-xapikey", "X-Goog-Api-Key": "SECRET-goog", "Cookie": "k=SECRET-cookie",
		"Proxy-Authorization": "Basic SECRET-proxy", "X-Holdfast-Token": "SECRET-token", "Api-Key": "SECRET-azure", "Referer": "http://x/?k=SECRET-referer",
	}
	send := func(url string, body []byte, id string) {
		t.Helper()
		req, err := http.NewRequest("POST", url+"?beta=true&key=SECRET-query&access_token=SECRET-access", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range header {
			req.Header.Set(k, v)
		}
		if id != "" {
			req.Header.Set(sessionHeader, id)
		}
		resp, err := faultClient(t).Do(req)
		if err != nil {
			return // cut on purpose
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); bytes.Contains(b, []byte("SECRET")) {
			t.Errorf("%s answered %s", url, b)
		}
		g.settle()
	}
	prompt := user("PROMPT text")
	for _, id := range []string{"s", ""} {
		send(g.via(anthropicPath), anthropicBody(prompt), id)
		send(g.via(chatPath), anthropicBody(prompt, assistant("a"), user("b")), id)
		send(g.via("/v1/messages/count_tokens"), anthropicBody(prompt), id)
		send(g.via("/v1/models"), nil, id)
		send(g.via("/v1beta/models/g:generateContent"), []byte("{}"), id)
		send(g.via(anthropicPath), []byte("PROMPT not json"), id)
		send(g.via(anthropicPath), []byte(`{"messages":[{"role":"user","content":"PROMPT","PROMPT":1,"PROMPT":2}]}`), id)
		send(g.via(anthropicPath), []byte(`{"PROMPT":1,"PROMPT":2,"messages":[]}`), id)
		send(g.proxy.URL+"/via/"+down+anthropicPath, anthropicBody(prompt), id)
		send(g.proxy.URL+"/via/"+down+"/v1/models", nil, id)
		send(g.proxy.URL+"/via/http://SECRET-user:SECRET-password@127.0.0.1"+anthropicPath, anthropicBody(prompt), id)
		send(g.proxy.URL+"/via/http://169.254.169.254"+anthropicPath, anthropicBody(prompt), id)
		send(g.proxy.URL+"/unknown", anthropicBody(prompt), id)
		for _, boom := range []string{"Commit", "Heads", "Unsigned", "Finish", "Record"} {
			f.explode(boom)
			send(g.via(anthropicPath), anthropicBody(prompt, assistant(boom)), id)
		}
		f.failing(fmt.Errorf("planted"))
		send(g.via(anthropicPath), anthropicBody(prompt, assistant("x")), id)
		f.spoil(nil)
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
		send(g.via(anthropicPath), anthropicBody(prompt), id)
		g.setAnswer(nil)
		g.bypass(true)
		send(g.via(anthropicPath), anthropicBody(prompt), id)
		g.bypass(false)
	}
	g.settle()
	g.filesWithout("SECRET")
	g.close()
	g.filesWithout("SECRET")
	text := log.bytes()
	for _, word := range []string{"SECRET", "PROMPT"} {
		if i := bytes.Index(text, []byte(word)); i >= 0 {
			t.Errorf("the log has %s: …%s…", word, text[max(0, i-300):min(len(text), i+100)])
		}
	}
	if !bytes.Contains(text, []byte(`"level":"DEBUG"`)) || !bytes.Contains(text, []byte("could not be reached")) {
		t.Errorf("the log proves nothing: %s", text)
	}
}

// httptestDown is the address of a server that is not there any more.
func httptestDown(t *testing.T) string {
	t.Helper()
	g := newRig(t, config.Off)
	g.up.Close()
	return g.up.URL
}

// filesWithout asserts that no file beside the ledger holds a word.
func (g *rig) filesWithout(word string) {
	g.t.Helper()
	files, err := filepath.Glob(g.path + "*")
	if err != nil || len(files) == 0 {
		g.t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			g.t.Fatal(err)
		}
		if i := bytes.Index(b, []byte(word)); i >= 0 {
			g.t.Errorf("%s holds %q", filepath.Base(name), strings.ToValidUTF8(string(b[max(0, i-40):min(len(b), i+40)]), "."))
		}
	}
}
