package guard

import (
	"net/http"
	"slices"
	"strings"
)

// Proxy is who may send model traffic. Agents carry their own keys for the
// upstream, so there is no token here; what is kept out is the browser.
type Proxy struct {
	// Origins are the pages that may call; they get CORS headers.
	Origins func() []string
	// Secret, when not empty, is the /p/<secret>/ segment every path must start
	// with.
	Secret func() string
	// Forward accepts requests in absolute form and CONNECT (interception).
	Forward func() bool
	// Wide is set for a listener beyond loopback: Host may be any address.
	Wide bool
	// Open are paths that need no secret.
	Open []string
	// Refused, when set, is told of every refusal.
	Refused func(*http.Request, *Problem)
}

// Wrap guards next. The order of the checks is from what no honest client does
// to what a misconfigured one may do.
func (p *Proxy) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bad := p.check(r); bad != nil {
			p.refuse(w, r, bad)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			w = &corsWriter{ResponseWriter: w, origin: origin}
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				preflight(w, r)
				return
			}
		}
		r, bad := p.unlock(r)
		if bad != nil {
			p.refuse(w, r, bad)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers without waiting long for a body that nobody will read.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, bad *Problem) {
	hurry(w, r)
	refuse(w, r, bad, p.Refused)
}

func refuse(w http.ResponseWriter, r *http.Request, bad *Problem, tell func(*http.Request, *Problem)) {
	if tell != nil {
		tell(r, bad)
	}
	bad.Write(w)
}

// check is the table of refusals of the proxy listener.
func (p *Proxy) check(r *http.Request) *Problem {
	forward := r.Method == http.MethodConnect || r.URL.IsAbs()
	origin := r.Header.Values("Origin")
	switch {
	case forward && !p.Forward():
		return forbid("not_a_forward_proxy", "Requests in absolute form and CONNECT are not accepted.",
			"Set the base URL of the client to this address instead of HTTP_PROXY, or turn mitm.enabled on.")
	case !forward && !Loopback(r.Host) && !(p.Wide && literal(r.Host)):
		return badHost()
	case slices.ContainsFunc(r.Header["Sec-Fetch-Mode"], func(v string) bool { return strings.EqualFold(v, "navigate") }):
		return forbid("navigation", "This address is for model traffic, not for a browser window.",
			"Open the inspector instead.")
	case len(origin) > 1 || len(origin) == 1 && !slices.Contains(p.Origins(), origin[0]):
		return badOrigin()
	case len(origin) == 0 && len(r.Header["Sec-Fetch-Site"]) > 0:
		return badOrigin()
	}
	return nil
}

func forbid(code, title, hint string) *Problem {
	return &Problem{Status: http.StatusForbidden, Code: code, Title: title, Hint: hint}
}

func badHost() *Problem {
	return forbid("host", "The Host header does not name this machine.",
		"Use 127.0.0.1, localhost or [::1] in the base URL.")
}

func badOrigin() *Problem {
	return forbid("origin", "A web page may not use this address.",
		"If the page is yours, add its origin to web.allowed_origins.")
}

// unlock checks and takes off the secret segment. The path may hold a whole
// URL behind /via/, so it is cut, never cleaned.
func (p *Proxy) unlock(r *http.Request) (*http.Request, *Problem) {
	secret := p.Secret()
	if secret == "" || slices.Contains(p.Open, r.URL.Path) {
		return r, nil
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/p/")
	given, _, found := strings.Cut(rest, "/")
	if !ok || !found || !same(given, secret) {
		return r, forbid("proxy_secret", "The path does not start with the proxy secret.",
			"web.proxy_secret is on: copy the base URL from holdfast status again.")
	}
	lead := "/p/" + given
	out := *r
	u := *r.URL
	u.Path, u.RawPath = strings.TrimPrefix(u.Path, lead), strings.TrimPrefix(u.RawPath, lead)
	out.URL, out.RequestURI = &u, strings.TrimPrefix(r.RequestURI, lead)
	return &out, nil
}

// preflight answers for the upstream, which never sees these.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" {
		h.Set("Access-Control-Allow-Headers", ask)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// corsWriter puts our CORS headers in place of the upstream's when the header
// is written; two of a kind would make the browser refuse the answer.
type corsWriter struct {
	http.ResponseWriter
	origin string
	wrote  bool
}

func (c *corsWriter) WriteHeader(status int) {
	if h := c.Header(); !c.wrote {
		c.wrote = status >= 200
		h.Set("Access-Control-Allow-Origin", c.origin)
		h.Set("Access-Control-Expose-Headers", "*")
		h.Del("Access-Control-Allow-Credentials")
		if !slices.Contains(h.Values("Vary"), "Origin") {
			h.Add("Vary", "Origin")
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *corsWriter) Write(b []byte) (int, error) {
	if !c.wrote {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(b)
}

// Flush keeps streaming working for handlers that ask for a Flusher.
func (c *corsWriter) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap serves http.ResponseController.
func (c *corsWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
