package guard

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Paths of the inspector that are answered without a token.
const (
	HealthPath = "/hf/v1/health"
	LoginPath  = "/hf/v1/login"
)

// codeLife is how long a one-time code opens the door: long enough for a
// browser to start cold.
const codeLife = 60 * time.Second

// loginBytes bounds the body of a login; a code has 64 letters.
const loginBytes = 4 << 10

// Inspector is who may see what the proxy recorded: programs with the token of
// the token file, and a browser that was let in with a one-time code. The code
// is traded for a cookie that dies with this process, so no lasting secret
// stands in a URL, a process list or a browser's history.
type Inspector struct {
	token   string
	cookie  string
	origins func() []string
	wide    bool
	now     func() time.Time
	refused func(*http.Request, *Problem)
	open    []string
	page    func(*Problem) []byte

	mu    sync.Mutex           // guards codes
	codes map[string]time.Time // code -> when it dies
}

// InspectorOptions are what an Inspector is made of.
type InspectorOptions struct {
	Token   string
	Origins func() []string
	Wide    bool             // the listener reaches beyond loopback
	Now     func() time.Time // nil for the wall clock
	Refused func(*http.Request, *Problem)
	// Open are prefixes of paths that hold nothing of anyone's: style and script.
	Open []string
	// Page shows a refusal to a person's browser, nil for none.
	Page func(*Problem) []byte
}

// NewInspector makes the guard of one process; its cookie is new every time.
func NewInspector(o InspectorOptions) *Inspector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Inspector{
		token: o.Token, cookie: NewSecret(), origins: o.Origins, wide: o.Wide,
		now: o.Now, refused: o.Refused, open: o.Open, page: o.Page, codes: map[string]time.Time{},
	}
}

// NewCode returns a code that opens the door once within a minute.
func (g *Inspector) NewCode() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for c, dies := range g.codes {
		if !now.Before(dies) {
			delete(g.codes, c)
		}
	}
	code := NewSecret()
	g.codes[code] = now.Add(codeLife)
	return code
}

func (g *Inspector) takeCode(code string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	dies, ok := g.codes[code]
	delete(g.codes, code)
	return ok && g.now().Before(dies)
}

// Wrap guards next.
func (g *Inspector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		hurry(w, r)
		if bad := g.check(r); bad != nil {
			g.refuse(w, r, bad)
			return
		}
		if nonce := r.Header.Get(ProveHeader); nonce != "" {
			w.Header().Set(ProofHeader, Proof(g.token, nonce))
		}
		if r.URL.Path == LoginPath && r.Method == http.MethodPost {
			g.login(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bodyTime is how long a body may take to arrive: forms and small JSON, from
// this machine.
const bodyTime = 30 * time.Second

// hurry bounds how long the body may take to arrive, for strangers too: the
// server waits for the rest of one it has refused. The bound is lifted once the
// body is here, because a deadline that passes later ends what is done with it.
func hurry(w http.ResponseWriter, r *http.Request) {
	to := http.NewResponseController(w)
	if r.Body != nil && r.Body != http.NoBody && to.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
		r.Body = &hurried{r.Body, to}
	}
}

type hurried struct {
	io.ReadCloser
	to *http.ResponseController
}

func (h *hurried) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if err == io.EOF {
		h.to.SetReadDeadline(time.Time{}) // what could be set can be lifted
	}
	return n, err
}

// refuse answers a browser that may be shown a page with one.
func (g *Inspector) refuse(w http.ResponseWriter, r *http.Request, bad *Problem) {
	if g.page == nil || bad.Code == "host" || !asksForPage(r) && r.URL.Path != LoginPath {
		refuse(w, r, bad, g.refused)
		return
	}
	if g.refused != nil {
		g.refused(r, bad)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(bad.Status)
	w.Write(g.page(bad)) // the client may be gone; nothing to do about it
}

// secure sets what every answer of the inspector carries. Pages load nothing
// from elsewhere and run no inline script.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, a form of our own would send a null Origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// check is the table of refusals of the inspector listener. A login comes from
// a local file, whose Origin is null: there the code alone decides.
func (g *Inspector) check(r *http.Request) *Problem {
	login := r.URL.Path == LoginPath && r.Method == http.MethodPost
	switch {
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		return forbid("not_a_forward_proxy", "The inspector is not a proxy.", "Send model traffic to the proxy address.")
	case !Loopback(r.Host) && !(g.wide && literal(r.Host)):
		return badHost()
	case login:
		return nil
	case !g.originAllowed(r):
		return badOrigin()
	case r.URL.Path == HealthPath || g.isOpen(r.URL.Path) || g.hasToken(r) || g.hasCookie(r):
		return nil
	}
	return &Problem{
		Status: http.StatusUnauthorized, Code: "token", Title: "The inspector needs its token.",
		Hint: "Send it as Authorization: Bearer …; it stands in the token file in Holdfast's folder.",
	}
}

func (g *Inspector) originAllowed(r *http.Request) bool {
	origin := r.Header.Values("Origin")
	switch len(origin) {
	case 0:
		return true
	case 1:
		return origin[0] == "http://"+r.Host || slices.Contains(g.origins(), origin[0])
	}
	return false
}

func (g *Inspector) isOpen(path string) bool {
	return slices.ContainsFunc(g.open, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

func (g *Inspector) hasToken(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && g.token != "" && same(given, g.token)
}

// hasCookie accepts the cookie only on requests our own page or the address
// bar made. Who names a token is judged by it alone: routes that are for the
// token must not take a page's cookie beside a made-up one.
func (g *Inspector) hasCookie(r *http.Request) bool {
	if len(r.Header.Values("Authorization")) > 0 {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "same-origin" && site != "none" {
		return false
	}
	c, err := r.Cookie(cookieName(r))
	return err == nil && same(c.Value, g.cookie)
}

// cookieName holds the port: cookies are shared between the ports of a host,
// and two instances must not log each other out.
func cookieName(r *http.Request) string {
	port := "80"
	if _, p, err := net.SplitHostPort(r.Host); err == nil {
		port = p
	}
	return "holdfast_" + port
}

// welcome leads the browser on by a navigation that starts on our own page; a
// redirect would still count as coming from the file, without the cookie. The
// path needs no escaping: innerPath lets nothing through that does.
const welcome = `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=%[1]s"><link rel="icon" href="data:,"><title>Holdfast</title><a href="%[1]s">Open the inspector</a></html>`

func (g *Inspector) login(w http.ResponseWriter, r *http.Request) {
	code, next := loginOf(w, r)
	if !g.takeCode(code) {
		g.refuse(w, r, forbid("login", "This sign-in link was used or is older than a minute.",
			"Open the inspector from Holdfast again."))
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, welcome, innerPath(next))
}

// loginOf reads the code, and where to go, of a form or a JSON body.
func loginOf(w http.ResponseWriter, r *http.Request) (code, next string) {
	r.Body = http.MaxBytesReader(w, r.Body, loginBytes)
	if t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t == "application/json" {
		var body struct{ Code, Next string }
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			return "", ""
		}
		return body.Code, body.Next
	}
	return r.PostFormValue("code"), r.PostFormValue("next")
}
