package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"holdfast/core/guard"
)

// errLocked says that another process holds the data folder.
var errLocked = errors.New("the data folder is locked")

// lockData takes the single-instance lock of the data folder: one process
// writes the ledger. The lock dies with the process; the file stays.
func lockData(p Paths) (*os.File, error) {
	f, err := os.OpenFile(p.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Runtime is runtime.json: how to reach the running process.
type Runtime struct {
	Addr      string    `json:"addr"`
	Inspector string    `json:"inspector"`
	PID       int       `json:"pid"`
	Instance  string    `json:"instance"`
	StartedAt time.Time `json:"started_at"`
}

func (r Runtime) write(p Paths) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(p.runtimeFile(), append(data, '\n'))
}

// readRuntime returns what the last process left; it may be gone.
func readRuntime(p Paths) (r Runtime, ok bool) {
	data, err := os.ReadFile(p.runtimeFile())
	return r, err == nil && json.Unmarshal(data, &r) == nil && r.Inspector != ""
}

// healthTimeout is generous: a loopback answer takes a millisecond, a machine
// that swaps takes longer.
const healthTimeout = 3 * time.Second

// healthBytes is more than health has to say.
const healthBytes = 4 << 10

// findRunning returns the process that serves this home. A runtime.json whose
// address answers as somebody else, or not at all, is a dead process's. Another
// user of the machine may have taken its port and know its instance, so it has
// to show that it has the token before anybody sends it. A token that cannot be
// read cannot be sent either.
func findRunning(ctx context.Context, p Paths) (r Runtime, ok bool) {
	r, ok = readRuntime(p)
	if !ok {
		return r, false
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Inspector+guard.HealthPath, nil)
	if err != nil {
		return r, false
	}
	nonce := guard.NewSecret()
	req.Header.Set(guard.ProveHeader, nonce)
	res, err := loopbackClient().Do(req)
	if err != nil {
		return r, false
	}
	defer res.Body.Close()
	token, err := os.ReadFile(p.tokenFile())
	if err == nil && !guard.Proved(res.Header, strings.TrimSpace(string(token)), nonce) {
		return r, false
	}
	var h struct{ Instance string }
	return r, json.NewDecoder(io.LimitReader(res.Body, healthBytes)).Decode(&h) == nil && h.Instance == r.Instance
}

// loopbackClient speaks to our own listeners: never through a proxy, never
// following a redirect to somewhere else, and without decoding what comes, so
// that replayed replies are those that were relayed.
func loopbackClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// lockFault is the fault of a command that wants the folder another one has, or
// that may not write there.
func lockFault(p Paths, err error) *Fault {
	if !errors.Is(err, errLocked) {
		return &Fault{Code: exitFailed, What: "the data folder cannot be locked", Err: err,
			Hint: "make " + p.lockFile() + " writable for the user that runs Holdfast"}
	}
	f := &Fault{Code: exitRefused, What: "another process holds " + p.Data, Err: errLocked,
		Hint: "wait for it to end, or use another HOLDFAST_HOME"}
	if r, ok := readRuntime(p); ok {
		f.What = fmt.Sprintf("Holdfast already runs here: process %d, proxy %s, inspector %s", r.PID, r.Addr, r.Inspector)
		f.Hint = "use that one, stop it first, or use another HOLDFAST_HOME"
	}
	return f
}
