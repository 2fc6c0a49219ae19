package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"holdfast/core/config"
	"holdfast/core/guard"
)

// controlBytes bounds the body of a change.
const controlBytes = 64 << 10

// ConfigView is the configuration as the API shows it.
type ConfigView struct {
	Path   string         `json:"path"`
	Error  string         `json:"error,omitempty"` // what is wrong with the file at present
	Fields []config.Field `json:"fields"`
}

func (a *API) config(w http.ResponseWriter, _ *http.Request) error {
	c, path, broken := a.Settings.Config()
	return writeJSON(w, NewConfigView(c, path, broken))
}

// NewConfigView lists every field with its source.
func NewConfigView(c *config.Config, path string, broken error) ConfigView {
	v := ConfigView{Path: path, Fields: c.Fields()}
	if broken != nil {
		v.Error = broken.Error()
	}
	return v
}

// putConfig changes the settings named in a flat object of dotted keys.
func (a *API) putConfig(w http.ResponseWriter, r *http.Request) error {
	var body map[string]json.RawMessage
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	values := map[string]string{}
	for key, raw := range body {
		v, ok := plain(raw)
		if !ok {
			return badRequest("value", fmt.Sprintf("The value of %s is neither text, number, switch nor list.", key),
				"Send a flat object of dotted keys, such as {\"rollout.percent\": 50}.")
		}
		values[key] = v
	}
	// A request that names a token was let in by it alone, never by a cookie.
	if r.Header.Get("Authorization") == "" {
		for key := range values {
			if config.Starts(key) {
				return ForToken(key)
			}
		}
	}
	if err := a.change(r.Context(), values); err != nil {
		return err
	}
	return a.config(w, r)
}

// ForToken refuses a browser what needs the token: a page could otherwise be
// made to run anything.
func ForToken(key string) *guard.Problem {
	return &guard.Problem{Status: http.StatusForbidden, Code: "token_only",
		Title: key + " decides which program is run, so a browser may not change it.",
		Hint:  "Run holdfast config set " + key + " VALUE in a terminal, or edit config.toml."}
}

// plain is a JSON value as a person would type it for config set.
func plain(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) || raw[0] == '{' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	return string(raw), true
}

func (a *API) putRollout(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Mode    *string      `json:"mode"`
		Percent *json.Number `json:"percent"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	values := map[string]string{}
	if body.Mode != nil {
		values["rollout.mode"] = *body.Mode
	}
	if body.Percent != nil {
		values["rollout.percent"] = body.Percent.String()
	}
	if err := a.change(r.Context(), values); err != nil {
		return err
	}
	c, _, _ := a.Settings.Config()
	return writeJSON(w, struct {
		Mode    config.RolloutMode `json:"mode"`
		Percent float64            `json:"percent"`
	}{c.Rollout.Mode, c.Rollout.Percent})
}

func (a *API) putBypass(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		On      *bool `json:"on"`
		Confirm bool  `json:"confirm"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.On == nil {
		return badRequest("body", "The body does not say on or off.", `Send {"on": true} or {"on": false}.`)
	}
	if *body.On && !body.Confirm {
		if err := a.MayBypass(r.Context()); err != nil {
			return err
		}
	}
	if err := a.change(r.Context(), map[string]string{"bypass": fmt.Sprint(*body.On)}); err != nil {
		return err
	}
	c, _, _ := a.Settings.Config()
	return writeJSON(w, map[string]bool{"on": c.Bypass})
}

// MayBypass refuses a bypass that would have sessions refused by their
// providers, until it is confirmed.
func (a *API) MayBypass(ctx context.Context) error {
	if a.Long == nil {
		return nil
	}
	long, err := a.Long(ctx)
	if err != nil || len(long) == 0 {
		return err
	}
	first := long[0]
	return &guard.Problem{Status: http.StatusConflict, Code: "past_window",
		Title: fmt.Sprintf("%d of today's sessions are longer than their model's window without their folds, such as %q with %d of %d tokens.",
			len(long), first.Title, first.Raw, first.Window),
		Hint: `Their next request would be refused by the provider. To bypass all the same, run holdfast bypass on and say yes, or send {"on": true, "confirm": true}.`}
}

func (a *API) change(ctx context.Context, values map[string]string) error {
	if len(values) == 0 {
		return badRequest("body", "The body names nothing to change.", "Name at least one setting.")
	}
	return a.Settings.Change(ctx, values)
}

// readJSON reads one small JSON object and nothing else.
func readJSON(w http.ResponseWriter, r *http.Request, to any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBytes))
	if _, isMap := to.(*map[string]json.RawMessage); !isMap {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(to); err != nil || dec.More() {
		return badRequest("body", "The body is not the JSON object this route takes.", "See the contract for its fields.")
	}
	return nil
}

// Restart lists the keys among values that a running process takes up only
// after a restart.
func Restart(c *config.Config, values map[string]string) (keys []string) {
	for _, f := range c.Fields() {
		if _, ok := values[f.Key]; ok && f.Effect == config.Restart {
			keys = append(keys, f.Key)
		}
	}
	slices.Sort(keys)
	return keys
}
