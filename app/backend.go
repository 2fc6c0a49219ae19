package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"holdfast/core/config"
	"holdfast/core/guard"
)

// backend is where a command gets its answers: the running process over its
// API, or, where nothing runs, the same API over the files themselves.
type backend struct {
	paths   Paths
	runtime Runtime // zero when nothing runs
	token   string
	send    func(*http.Request) (*http.Response, error)
	close   func() error
}

// running connects to the running process; nothing else will do for commands
// that change what it does.
func (c *cli) running(ctx context.Context) (*backend, error) {
	paths, err := pathsFrom(c.getenv)
	if err != nil {
		return nil, err
	}
	r, ok := findRunning(ctx, paths)
	if !ok {
		return nil, &Fault{Code: exitNotRunning, What: "Holdfast is not running here (" + paths.State + ")",
			Hint: "start it with holdfast serve; if it runs with another HOLDFAST_HOME, set that here too"}
	}
	return connect(paths, r)
}

func connect(p Paths, r Runtime) (*backend, error) {
	token, err := os.ReadFile(p.tokenFile())
	if err != nil {
		return nil, &Fault{Code: exitFailed, What: "the token of the running Holdfast cannot be read", Err: err,
			Hint: "run this as the user that runs Holdfast"}
	}
	return &backend{paths: p, runtime: r, token: strings.TrimSpace(string(token)),
		send: loopbackClient().Do, close: func() error { return nil }}, nil
}

// either connects to the running process, or opens the files under their lock.
func (c *cli) either(ctx context.Context) (*backend, error) {
	paths, err := pathsFrom(c.getenv)
	if err != nil {
		return nil, err
	}
	if r, ok := findRunning(ctx, paths); ok {
		return connect(paths, r)
	}
	if _, err := os.Stat(paths.ledgerFile()); errors.Is(err, os.ErrNotExist) {
		return nil, &Fault{Code: exitFailed, What: "there is no ledger yet at " + paths.ledgerFile(),
			Hint: "run holdfast serve and send a request through it, or set HOLDFAST_HOME"}
	}
	return c.openFiles(ctx, paths)
}

func (c *cli) openFiles(ctx context.Context, p Paths) (*backend, error) {
	lock, err := lockData(p)
	if err != nil {
		return nil, lockFault(p, err)
	}
	s, err := loadSettings(p.configFile(), c.getenv, nil)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	log := openLog(p, nil)
	e, err := openEngine(ctx, p, s, log, "", func() []string { return nil })
	if err != nil {
		return nil, errors.Join(err, log.Close(), lock.Close())
	}
	<-e.kv.tier.Ready() // it was opened for this command, which would only find it starting
	h := e.handler()
	return &backend{
		paths: p,
		send: func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result(), nil
		},
		close: func() error { return errors.Join(e.Close(), log.Close(), lock.Close()) },
	}, nil
}

// with runs f on a backend and closes it.
func with(b *backend, err error, f func(*backend) error) error {
	if err != nil {
		return err
	}
	return errors.Join(f(b), b.close())
}

// request makes a request of this backend, with the token.
func (b *backend) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(data)
	}
	host := b.runtime.Inspector
	if host == "" {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, in)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	return req, err
}

// call makes one request and returns the body of a good answer. A problem
// becomes the fault a person reads.
func (b *backend) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	req, err := b.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	res, err := b.send(req)
	if err != nil {
		return nil, &Fault{Code: exitFailed, What: "the running Holdfast does not answer", Err: err, Hint: "see " + b.paths.logFile()}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, refusal(res, data)
	}
	return data, nil
}

// refusal turns a problem into a fault: what the owner forbade or the settings
// do not allow is refused, the rest failed.
func refusal(res *http.Response, data []byte) *Fault {
	var p guard.Problem
	if json.Unmarshal(data, &p) != nil || p.Title == "" {
		return &Fault{Code: exitFailed, What: "the running Holdfast answered " + res.Status, Hint: "is it of the same version? holdfast version"}
	}
	f := &Fault{Code: exitFailed, What: p.Title, Hint: p.Hint, Problem: p.Code}
	switch p.Status {
	case http.StatusForbidden, http.StatusUnauthorized, http.StatusConflict, http.StatusUnprocessableEntity:
		f.Code = exitRefused
	}
	return f
}

// get reads one JSON object.
func (b *backend) get(ctx context.Context, path string, into any) error {
	data, err := b.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", path, err)
	}
	return nil
}

// offlineSettings reads the settings without a process.
func (c *cli) offlineSettings() (*Settings, Paths, error) {
	paths, err := pathsFrom(c.getenv)
	if err != nil {
		return nil, paths, err
	}
	s, err := loadSettings(paths.configFile(), c.getenv, nil)
	return s, paths, err
}

// base is the URL clients use, for a running process.
func (b *backend) base(c *config.Config) string { return baseURL(b.runtime, c, b.token) }
