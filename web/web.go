// Package web is the inspector's listener: the one route table, behind the
// guard, and the shell around every page. Pages live in packages of their own
// below it, read through an interface of their own, and are added here.
//
// Changes are made by forms that carry a token bound to the cookie, and end in
// a redirect to the page that shows what they did.
package web

import (
	"context"
	"net/http"
	"time"

	"holdfast/assets"
	"holdfast/core/guard"
	"holdfast/core/session"
	"holdfast/web/api"
	"holdfast/web/cache"
	"holdfast/web/degrades"
	"holdfast/web/help"
	"holdfast/web/layout"
	"holdfast/web/overview"
	"holdfast/web/sessions"
	"holdfast/web/settings"
)

// Ledger is what the pages read beside what the API serves.
type Ledger interface {
	sessions.Ledger
	TotalsByClient(ctx context.Context) ([]session.GroupTotals, error)
	DegradesPage(ctx context.Context, q session.DegradeQuery) ([]session.DegradeView, int, error)
	DegradeCounts(ctx context.Context, since int64) (session.DegradeCounts, error)
	Titles(ctx context.Context, ids []string) (map[string]string, error)
}

// Options are the listener's neighbours.
type Options struct {
	Guard  *guard.Inspector
	API    *api.API
	Ledger Ledger
	// BaseURL is what clients are pointed at.
	BaseURL func() string
	Now     func() time.Time // nil for the wall clock
}

// Inspector is everything the inspector's listener answers.
func Inspector(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &site{Options: o, assets: assets.Open()}
	mux := http.NewServeMux()
	o.API.Register(mux)
	s.register(mux)
	mux.HandleFunc("/", s.notFound)
	return o.Guard.Wrap(mux)
}

// Open are the paths that need no sign-in: style and script, the same for
// everyone.
func Open() []string { return []string{assets.Prefix} }

// ProxyHandler is everything the proxy's listener answers: health, nothing else
// of ours, and the chain. It looks at the raw path before any mux would: a mux
// rewrites the double slashes of /via/https://….
func ProxyHandler(g *guard.Proxy, a *api.API, chain http.Handler) http.Handler {
	return g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodConnect && !r.URL.IsAbs() && r.URL.Path == guard.HealthPath:
			a.ServeHealth(w, r)
		case ours(r.URL.Path):
			api.NotFound(w, r)
		default:
			chain.ServeHTTP(w, r)
		}
	}))
}

// ours reports whether a path belongs to the inspector, which no proxied
// request may reach.
func ours(path string) bool {
	for _, p := range []string{"/hf", "/ui"} {
		if path == p || len(path) > len(p) && path[:len(p)+1] == p+"/" {
			return true
		}
	}
	return false
}

// site is the pages with what they read.
type site struct {
	Options
	assets *assets.Set
}

// register is the table of pages. A view is read, an act changes something.
func (s *site) register(mux *http.ServeMux) {
	ss := &sessions.Pages{Source: sessionSource{s.Ledger, s.API.Bytes}, Now: s.Now, Form: s.Guard.FormToken, BaseURL: s.BaseURL, Routes: s.replayRoutes}
	ov := &overview.Pages{Source: overviewSource{s}, Now: s.Now, Form: s.Guard.FormToken}
	dg := &degrades.Pages{Source: s.Ledger, Now: s.Now}
	fr := &overview.First{Desk: overviewSource{s}, Base: ov}
	ca := &cache.Pages{Source: cacheSource{s}, Now: s.Now, Form: s.Guard.FormToken}
	st := &settings.Pages{Source: s.API.Settings, Form: s.Guard.FormToken}
	he := &help.Pages{Read: assets.Help}
	for pattern, v := range map[string]view{
		"GET /ui/{$}":                 ov.Overview,
		"GET /ui/connect":             fr.Connect,
		"GET /ui/sessions":            ss.List,
		"GET /ui/sessions/{id}":       ss.Ledger,
		"GET /ui/sessions/{id}/map":   ss.Map,
		"GET /ui/sessions/{id}/turns": ss.Turns,
		"GET /ui/turns/{id}":          ss.Turn,
		"GET /ui/degrades":            dg.List,
		"GET /ui/cache":               ca.Cache,
		"GET /ui/settings":            st.Settings,
		"GET /ui/help":                he.Help,
		"GET /ui/help/{name}":         he.Help,
	} {
		mux.HandleFunc(pattern, s.show(v))
	}
	for pattern, a := range map[string]act{
		"POST /ui/theme":                s.theme,
		"POST /ui/rollout":              s.setRollout,
		"POST /ui/bypass":               s.setBypass,
		"POST /ui/settings":             s.setSetting,
		"POST /ui/connect/{id}":         s.setClient,
		"POST /ui/cache/prune":          s.pruneCache,
		"POST /ui/cache/clear":          s.clearCache,
		"POST /ui/sessions/{id}/delete": s.deleteSession,
	} {
		mux.HandleFunc(pattern, s.do(a))
	}
	mux.HandleFunc("POST /ui/settings/check", s.checked(s.part(s.checkSetting)))
	mux.HandleFunc("POST /ui/settings/test", s.checked(s.part(s.testRoute)))
	mux.HandleFunc("POST /ui/sessions/{id}/verify", s.checked(s.show(s.verify(ss))))
	mux.HandleFunc("POST /ui/turns/{id}/replay", s.checked(s.show(s.replay(ss))))
	mux.HandleFunc("GET /ui/elements/{hash}", s.part(ss.Element))
	mux.HandleFunc("GET /ui/turns/{id}/{file}", s.file(ss.File))
	mux.Handle("GET "+assets.Prefix, s.assets)
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusSeeOther))
}

// frame is what stands around every page.
func (s *site) frame(r *http.Request) layout.Frame {
	f := layout.Frame{Theme: themeOf(r), Form: s.Guard.FormToken(), Version: s.API.Health().Version, Asset: s.assets.URL, Here: layout.At(r.URL)}
	c, _, broken := s.API.Settings.Config()
	f.State = stateOf(c)
	if broken != nil {
		f.Notices = append(f.Notices, layout.Notice{Tone: layout.Bad, Link: "/ui/settings", LinkText: "Settings",
			Text: "config.toml is broken; the last good settings stay in force. " + broken.Error()})
	}
	if c.Bypass {
		f.Notices = append(f.Notices, layout.Notice{Tone: layout.Warn, Link: "/ui/settings#rollout", LinkText: "Turn it off",
			Text: "Bypass is on: every request is sent untouched and nothing is folded."})
	}
	return f
}
