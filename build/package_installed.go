package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// installed is an installed program, used as a person does: by its commands,
// and through its proxy.
type installed struct {
	call  []string // the program, and before it what runs it
	env   []string
	state string // its home as this machine sees it
	out   io.Writer

	session, export string // the one session so far, and every byte of it
	schema          uint32 // of its ledger
}

// answerTime bounds a program that does not come up; nothing is judged by it.
const answerTime = 2 * time.Minute

// prepare makes the home with a route to a model. The folder is made by the
// program, as at a first start.
func (i *installed) prepare(model string) error {
	if said, err := i.run("status"); err == nil {
		return fmt.Errorf("something runs already:\n%s", said)
	}
	if said, err := i.run("config", "set", "routes.model.url", model); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	said, err := i.run("config", "set", "routes.model.default_for", "openai")
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

func (i *installed) command(args ...string) *exec.Cmd {
	args = append(slices.Clone(i.call[1:]), args...)
	cmd := exec.Command(i.call[0], args...)
	cmd.Env = append(os.Environ(), i.env...)
	return cmd
}

// run runs one command to its end and returns all it said.
func (i *installed) run(args ...string) (string, error) {
	out, err := i.command(args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("holdfast %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// serve starts the program, reports how long it took until it answered, has
// work done with its proxy, and sends it off by quit.
func (i *installed) serve(work func(addr string) error) error {
	cmd := i.command("serve", "--addr", "127.0.0.1:0", "--inspector-addr", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	addr, err := i.await(began, ended)
	if err == nil {
		fmt.Fprintf(i.out, "answered within %s of its start\n", round(time.Since(began)))
		err = work(addr)
	}
	text, quit := i.run("quit")
	if err = errors.Join(err, quit); err != nil {
		cmd.Process.Kill()
	}
	if err = errors.Join(err, <-ended); err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, text, said.String())
	}
	return err
}

// await waits until the proxy answers, and returns where.
func (i *installed) await(began time.Time, ended chan error) (addr string, err error) {
	for time.Since(began) < answerTime {
		select {
		case err := <-ended:
			ended <- nil
			return "", fmt.Errorf("it ended at once: %w", err)
		default:
		}
		var r struct{ Addr string }
		data, err := os.ReadFile(filepath.Join(i.state, "runtime.json"))
		if err == nil && json.Unmarshal(data, &r) == nil && alive(r.Addr) {
			return r.Addr, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return "", errors.New("it does not answer")
}

func alive(addr string) bool {
	res, err := http.Get("http://" + addr + "/hf/v1/health")
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// onlySession is the id of the one session, with as many turns as were sent,
// in a ledger without a fault.
func (i *installed) onlySession(turns int64) (string, error) {
	if said, err := i.run("sessions", "verify"); err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	said, err := i.run("sessions", "list", "--json")
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	var list struct {
		Sessions []struct {
			ID    string
			Turns int64
		}
	}
	// The first value counts: under wine the display's last words come behind it.
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&list); err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	if len(list.Sessions) != 1 || list.Sessions[0].Turns != turns {
		return "", fmt.Errorf("one session with %d turns was sent; there is:\n%s", turns, said)
	}
	return list.Sessions[0].ID, nil
}

// startModel is a model that always says the same.
func startModel() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)
	}))
}

// talk sends the n-th request of one session through a proxy.
func talk(addr string, n int) error {
	body := `{"model":"m","messages":[{"role":"user","content":"when is high water?"}`
	for i := range n - 1 {
		body += fmt.Sprintf(`,{"role":"assistant","content":"yes"},{"role":"user","content":"and %d hours later?"}`, i+1)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/chat/completions", strings.NewReader(body+"]}"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Affinity", "packages")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !bytes.Contains(said, []byte(`"content":"yes"`))) {
		err = fmt.Errorf("turn %d was answered with %s: %s", n, res.Status, said)
	}
	return err
}
