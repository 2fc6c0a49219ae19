package api

import (
	"net/http"

	agents "holdfast/core/client"
	"holdfast/core/guard"
)

// Desk is what the API offers the programs of its owner's desktop: the tray,
// the window, a second start, the installer.
type Desk struct {
	// NewCode makes a one-time code that signs a browser in.
	NewCode func() string
	// Activate brings the program forward; false when it has no desktop.
	Activate func() bool
	// Quit tells the program to drain and end; it does not wait.
	Quit func()
	// Clients are the agents that can be pointed here.
	Clients Clients
}

// Clients knows the agents of this machine and connects them by a line in their
// own settings, undone to the byte.
type Clients interface {
	List() ([]ClientView, error)
	Connect(id string) (ClientView, error)
	Disconnect(id string) (ClientView, error)
}

// ClientView is an agent as first run, settings and tray show it.
type ClientView struct {
	agents.Setup
	// Installed: its program is on the search path.
	Installed bool `json:"installed"`
	// File is the settings file that connecting changes, "" when it has none.
	File      string `json:"file,omitempty"`
	Connected bool   `json:"connected"`
	// Note says what connecting did or could not do.
	Note string `json:"note,omitempty"`
}

// LoginCode is the answer to a request for a one-time code.
type LoginCode struct {
	Code string `json:"code"`
	Post string `json:"post"` // where the code is posted, as form field code
}

func (a *API) registerDesk(mux *http.ServeMux) {
	for pattern, h := range map[string]handler{
		"POST /hf/v1/login-codes":             a.loginCode,
		"POST /hf/v1/activate":                a.activate,
		"POST /hf/v1/quit":                    a.quit,
		"GET /hf/v1/clients":                  a.clients,
		"POST /hf/v1/clients/{id}/connection": a.connect,
		"DELETE /hf/v1/clients/{id}/connection": func(w http.ResponseWriter, r *http.Request) error {
			return a.answer(w)(a.Desk.Clients.Disconnect(r.PathValue("id")))
		},
	} {
		mux.HandleFunc(pattern, a.serve(h))
	}
}

// loginCode is only for those who hold the token itself: a page that somehow
// acts with the cookie must not be able to hand the door on.
func (a *API) loginCode(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Authorization") == "" {
		return &guard.Problem{Status: http.StatusForbidden, Code: "bearer", Title: "A code is only given to the token.",
			Hint: "Run holdfast open."}
	}
	return writeJSON(w, LoginCode{Code: a.Desk.NewCode(), Post: "http://" + r.Host + guard.LoginPath})
}

func (a *API) activate(w http.ResponseWriter, _ *http.Request) error {
	if !a.Desk.Activate() {
		return &guard.Problem{Status: http.StatusConflict, Code: "no_desktop", Title: "This Holdfast runs without a desktop.",
			Hint: "Run holdfast open to see its inspector."}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) quit(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusAccepted)
	a.Desk.Quit()
	return nil
}

func (a *API) clients(w http.ResponseWriter, _ *http.Request) error {
	list, err := a.Desk.Clients.List()
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"clients": list})
}

func (a *API) connect(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w)(a.Desk.Clients.Connect(r.PathValue("id")))
}

// answer writes a view, or leaves the error to serve.
func (a *API) answer(w http.ResponseWriter) func(ClientView, error) error {
	return func(v ClientView, err error) error {
		if err != nil {
			return err
		}
		return writeJSON(w, v)
	}
}
