// Package web is the inspector's listener: the one route table, behind the
// guard. Pages live in packages of their own below it and are added here.
package web

import (
	"net/http"

	"holdfast/core/guard"
	"holdfast/web/api"
)

// Handler is everything the inspector's listener answers.
func Handler(g *guard.Inspector, a *api.API) http.Handler {
	mux := http.NewServeMux()
	a.Register(mux)
	mux.HandleFunc("/", api.NotFound)
	return g.Wrap(mux)
}

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
