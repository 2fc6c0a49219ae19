// Package api is the JSON API of the inspector, version 1, and its event
// stream. Every reader (command line, tray, pages, tests) uses these objects.
//
// Handlers read through the small interfaces below and decide nothing: what is
// shown is the ledger's, what is changed is the settings'.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"holdfast/core/config"
	"holdfast/core/content"
	"holdfast/core/guard"
	"holdfast/core/session"
)

// Sessions is what the session routes read and delete. Pages count from 1; the
// total is that of all pages.
type Sessions interface {
	Sessions(ctx context.Context, query string, page, size int) ([]session.SessionView, int, error)
	Session(ctx context.Context, id string) (session.SessionView, error)
	RowViews(ctx context.Context, id string) ([]session.RowView, error)
	Coverage(ctx context.Context, id string) (session.CoverageView, error)
	Delete(ctx context.Context, id string) error
}

// Turns is what the turn routes read.
type Turns interface {
	Turns(ctx context.Context, sessionID string, page, size int) ([]session.TurnView, int, error)
	TurnView(ctx context.Context, id int64) (session.TurnView, error)
	Degrades(ctx context.Context, since int64) ([]session.DegradeView, error)
}

// Bytes gives back exact bytes: kept elements by hash, and the bodies of a turn
// ("inbound", "outbound" or "response"), rebuilt and checked.
type Bytes interface {
	Blob(ctx context.Context, id content.ID) ([]byte, error)
	Body(ctx context.Context, turn int64, part string) (Body, error)
}

// Body is one side of a turn. Encoding is the content encoding the bytes are
// still in, "" for none.
type Body struct {
	Bytes          []byte
	Type, Encoding string
}

// Settings is the configuration of the running process.
type Settings interface {
	// Config returns the settings in force, the file they come from, and what
	// is wrong with that file at present.
	Config() (c *config.Config, path string, broken error)
	// Change persists all values and takes them up, or does neither.
	Change(ctx context.Context, values map[string]string) error
}

// Options are the API's neighbours.
type Options struct {
	Sessions Sessions
	Turns    Turns
	Bytes    Bytes
	Settings Settings
	// Status makes the status object.
	Status func(context.Context) (Status, error)
	// Verify re-renders a ledger and checks every sum; nil error is sound.
	Verify func(ctx context.Context, id string) (Verification, error)
	Health func() Health
	// Long lists the live sessions that pass their window without their folds;
	// nil where nothing is served.
	Long func(context.Context) ([]session.LongView, error)
	Hub  *Hub
	Log  *slog.Logger
	// Tier is the disk KV tier; one that is off says so.
	Tier Tier
	// Desk is set where a process runs, nil where only its files are read.
	Desk *Desk
}

// Health is the answer of the one route without a token.
type Health struct {
	OK       bool   `json:"ok"`
	Version  string `json:"version"`
	Instance string `json:"instance"`
}

// API serves the routes of Register.
type API struct{ Options }

// New makes the API.
func New(o Options) *API { return &API{o} }

// Register adds the routes to the one table of the inspector.
func (a *API) Register(mux *http.ServeMux) {
	for pattern, h := range map[string]handler{
		"GET /hf/v1/status":                 a.status,
		"GET /hf/v1/sessions":               a.sessions,
		"GET /hf/v1/sessions/{id}":          a.session,
		"GET /hf/v1/sessions/{id}/rows":     a.rows,
		"GET /hf/v1/sessions/{id}/coverage": a.coverage,
		"GET /hf/v1/sessions/{id}/turns":    a.turns,
		"GET /hf/v1/sessions/{id}/export":   a.export,
		"POST /hf/v1/sessions/{id}/verify":  a.verify,
		"DELETE /hf/v1/sessions/{id}":       a.deleteSession,
		"GET /hf/v1/turns/{id}":             a.turn,
		"GET /hf/v1/turns/{id}/{part}":      a.body,
		"GET /hf/v1/degrades":               a.degrades,
		"GET /hf/v1/events":                 a.events,
		"GET /hf/v1/config":                 a.config,
		"PUT /hf/v1/config":                 a.putConfig,
		"PUT /hf/v1/rollout":                a.putRollout,
		"PUT /hf/v1/bypass":                 a.putBypass,
		"GET /metrics":                      a.metrics,
	} {
		mux.HandleFunc(pattern, a.serve(h))
	}
	a.registerKV(mux)
	if a.Desk != nil {
		a.registerDesk(mux)
	}
	mux.HandleFunc("GET "+guard.HealthPath, a.ServeHealth)
}

// ServeHealth answers on both listeners.
func (a *API) ServeHealth(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.Health()) }

// handler is a route that leaves errors to serve.
type handler func(http.ResponseWriter, *http.Request) error

// serve turns an error into the problem a person gets. What is not a known kind
// is ours to fix: it is logged here and shown without its text.
func (a *API) serve(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		p := ProblemOf(err)
		if p.Status >= http.StatusInternalServerError {
			a.Log.Error("a request to the inspector failed", "path", r.URL.Path, "error", err)
		}
		p.Write(w)
	}
}

// notKept is the reason alone, for a person.
func notKept(err error) string {
	_, why, known := strings.Cut(err.Error(), session.ErrNotKept.Error()+": ")
	if !known {
		return "These bytes were not kept."
	}
	return "These bytes were not kept: " + why + "."
}

// ErrOverridden is returned by Settings.Change for a field that the environment
// or a flag decides.
var ErrOverridden = errors.New("api: the environment or a flag decides this setting")

// ProblemOf is the answer for an error.
func ProblemOf(err error) *guard.Problem {
	var p *guard.Problem
	var setting *config.Error
	switch {
	case errors.As(err, &p), errors.As(kvProblem(err), &p):
		return p
	case errors.Is(err, session.ErrUnknown):
		return &guard.Problem{Status: http.StatusNotFound, Code: "unknown",
			Title: "What was asked for is not in the ledger.", Hint: "It was deleted, or the id is mistyped; list the sessions to see what there is."}
	case errors.Is(err, session.ErrNotKept):
		return &guard.Problem{Status: http.StatusGone, Code: "not_kept", Title: notKept(err),
			Hint: "Size and hash are still in the turn; the bytes cannot come back."}
	case errors.Is(err, ErrOverridden):
		return &guard.Problem{Status: http.StatusConflict, Code: "overridden", Title: err.Error(),
			Hint: "Unset it there and restart Holdfast to decide it here."}
	case errors.As(err, &setting):
		return &guard.Problem{Status: http.StatusUnprocessableEntity, Code: "setting", Title: err.Error(),
			Hint: "Nothing was changed; correct the value and try again."}
	}
	return &guard.Problem{Status: http.StatusInternalServerError, Code: "internal",
		Title: "Holdfast could not answer this.", Hint: "The log has the reason; run holdfast doctor."}
}

func writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n')) // the reader may be gone; nothing to do about it
	return nil
}

// NotFound answers every path there is not.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	(&guard.Problem{Status: http.StatusNotFound, Code: "no_such_path", Title: "There is nothing at this path.",
		Hint: "The routes are listed in the help; check the method too."}).Write(w)
}
