package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/a-h/templ"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/web/api"
	"holdfast/web/overview"
	"holdfast/web/settings"
)

// Agents are the clients of this machine, for first run.
func (s overviewSource) Agents() (out []overview.Agent, err error) {
	if s.API.Desk == nil || s.API.Desk.Clients == nil {
		return nil, nil
	}
	list, err := s.API.Desk.Clients.List()
	for _, c := range list {
		out = append(out, overview.Agent{ID: c.ID, Name: c.Name, Base: c.Base, Line: c.Line, Into: c.Into, Installed: c.Installed,
			Connected: c.Connected, File: c.File, Note: c.Note})
	}
	return out, err
}

// LocalEngine reports whether a route has one, and whether its cache is on.
func (s overviewSource) LocalEngine() (has, on bool) {
	c, _, _ := s.API.Settings.Config()
	for _, r := range c.Routes {
		has = has || r.Engine != ""
	}
	return has, c.KV.Disk.Mode != "off"
}

// setClient connects an agent for good, or undoes it.
func (s *site) setClient(r *http.Request) (string, error) {
	if s.API.Desk == nil || s.API.Desk.Clients == nil {
		return "", &guard.Problem{Status: http.StatusConflict, Code: "no_desk", Title: "Agents cannot be connected from here.", Hint: "Copy the line instead."}
	}
	change := s.API.Desk.Clients.Disconnect
	if r.PostFormValue("on") == "true" {
		change = s.API.Desk.Clients.Connect
	}
	_, err := change(r.PathValue("id"))
	return back(r), err
}

// setSetting changes one setting.
func (s *site) setSetting(r *http.Request) (string, error) {
	key := r.PostFormValue("key")
	if key == "bypass" {
		r.PostForm.Set("on", r.PostFormValue("value"))
		return s.setBypass(r)
	}
	if config.Starts(key) {
		return "", api.ForToken(key)
	}
	if err := s.API.Settings.Change(r.Context(), map[string]string{key: r.PostFormValue("value")}); err != nil {
		return "", err
	}
	next := back(r)
	if next == "/ui/settings" {
		next += "?saved=" + url.QueryEscape(key) + "#f-" + url.PathEscape(key)
	}
	return next, nil
}

// checkSetting judges a value as it is typed; nothing is changed.
func (s *site) checkSetting(r *http.Request) (templ.Component, error) {
	_, path, _ := s.API.Settings.Config()
	file, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return settings.Problem(settings.Check(file, r.PostFormValue("key"), r.PostFormValue("value"))), nil
}

// reachTime is how long a route may take to answer its test.
const reachTime = 5 * time.Second

// testRoute asks a route's upstream for its front page, without a key: any
// answer shows that it can be reached.
func (s *site) testRoute(r *http.Request) (templ.Component, error) {
	c, _, _ := s.API.Settings.Config()
	route, ok := c.Routes[r.PostFormValue("route")]
	if !ok {
		return settings.Tested("there is no such route", false), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reachTime)
	defer cancel()
	start := s.Now()
	status, err := reach(ctx, route)
	if err != nil {
		return settings.Tested("no answer: "+err.Error(), false), nil
	}
	return settings.Tested(fmt.Sprintf("answers (%d) in %d ms", status, s.Now().Sub(start).Milliseconds()), true), nil
}

func reach(ctx context.Context, route config.Route) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, route.URL, nil)
	if err != nil {
		return 0, err
	}
	t := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	if route.Proxy != "" {
		u, err := url.Parse(route.Proxy)
		if err != nil {
			return 0, err
		}
		t.Proxy = http.ProxyURL(u)
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.CopyN(io.Discard, res.Body, 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return res.StatusCode, err
}

// cacheSource is the KV tier with the settings around it.
type cacheSource struct{ *site }

// KV is the tier's status; a process without one says off.
func (s cacheSource) KV() kv.Status {
	if s.API.Tier == nil {
		return kv.Status{Version: kv.StatusVersion, Effective: kv.StatusEffective{State: kv.StateOff}}
	}
	return s.API.Tier.Status()
}

// Written is what was written today, and the day's cap.
func (s cacheSource) Written() (today, limit kv.Bytes) { return s.API.Tier.Written() }

// Mismatch is in what an engine differed from the one that stored a prompt.
func (s cacheSource) Mismatch() (fields []string, at time.Time) { return s.API.Tier.Mismatch() }

// Titles is what sessions are called.
func (s cacheSource) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	return s.Ledger.Titles(ctx, ids)
}

// Dry is what the next prune would do.
func (s cacheSource) Dry(ctx context.Context) (kv.Plan, error) {
	out, err := s.API.Tier.Prune(ctx, tier.PruneRequest{DryRun: true})
	return out.Plan, err
}

// Config is the settings in force.
func (s cacheSource) Config() *config.Config {
	c, _, _ := s.API.Settings.Config()
	return c
}

func (s *site) pruneCache(r *http.Request) (string, error) {
	if s.API.Tier == nil {
		return "", tier.ErrNotActive
	}
	_, err := s.API.Tier.Prune(r.Context(), tier.PruneRequest{})
	return "/ui/cache", err
}

func (s *site) clearCache(r *http.Request) (string, error) {
	if s.API.Tier == nil {
		return "", tier.ErrNotActive
	}
	_, err := s.API.Tier.Clear(r.Context(), nil, false)
	return "/ui/cache", err
}
