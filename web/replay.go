package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/core/session"
	"holdfast/web/layout"
	"holdfast/web/sessions"
)

// Bounds of a replay: how long it may take, and how much of the reply is shown.
const (
	replayTime  = 2 * time.Minute
	replayBytes = 64 << 10
)

// replayRoutes are the routes a turn can be sent to again: those whose key
// stands in the environment. Keys of clients are never stored.
func (s *site) replayRoutes() (names []string) {
	c, _, _ := s.API.Settings.Config()
	for _, name := range slices.Sorted(maps.Keys(c.Routes)) {
		if env := c.Routes[name].KeyEnv; env != "" && os.Getenv(env) != "" {
			names = append(names, name)
		}
	}
	return names
}

// replay sends a turn's outbound bytes to a route once more and shows what came
// back. It passes the chain by, so nothing of it is recorded.
func (s *site) replay(ss *sessions.Pages) view {
	return func(r *http.Request) (layout.Page, error) {
		name := r.PostFormValue("route")
		if !slices.Contains(s.replayRoutes(), name) {
			return layout.Page{}, &guard.Problem{Status: http.StatusUnprocessableEntity, Code: "no_key", Title: "This route has no key to replay with.",
				Hint: "Name an environment variable in routes." + name + ".key_env, set it where Holdfast starts, and start it anew."}
		}
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			return layout.Page{}, session.ErrUnknown
		}
		turn, err := s.Ledger.TurnView(r.Context(), id)
		if err != nil {
			return layout.Page{}, err
		}
		body, _, err := sessionSource{s.Ledger, s.API.Bytes}.Plain(r.Context(), id, "outbound")
		if err != nil {
			return layout.Page{}, err
		}
		c, _, _ := s.API.Settings.Config()
		return ss.Replayed(turn, name, s.send(r.Context(), c.Routes[name], turn, body)), nil
	}
}

// send makes the one request. What goes wrong is the answer.
func (s *site) send(ctx context.Context, route config.Route, turn session.TurnView, body []byte) sessions.Reply {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(route.URL, "/")+sessions.Endpoint(turn), bytes.NewReader(body))
	if err != nil {
		return sessions.Reply{Fault: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	setKey(req.Header, turn.WireOut, os.Getenv(route.KeyEnv))
	start := s.Now()
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return sessions.Reply{Fault: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, replayBytes))
	out := sessions.Reply{Status: res.StatusCode, Ms: float64(s.Now().Sub(start).Microseconds()) / 1000, Text: string(text)}
	if err != nil {
		out.Fault = fmt.Sprintf("the reply broke off: %v", err)
	}
	return out
}

// setKey puts a key where its wire looks for it.
func setKey(h http.Header, wire, key string) {
	switch wire {
	case "anthropic":
		h.Set("X-Api-Key", key)
		h.Set("Anthropic-Version", "2023-06-01")
	case "google":
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}
