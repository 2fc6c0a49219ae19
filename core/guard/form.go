package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// FormField is the name of the hidden field that carries the form token, and
// FormHeader the header a script may send it in instead.
const (
	FormField  = "csrf"
	FormHeader = "X-Holdfast-Form"
)

// FormToken is what every form of a page carries. It follows from the cookie,
// so it dies with it, and does not reveal it.
func (g *Inspector) FormToken() string {
	m := hmac.New(sha256.New, []byte(g.cookie))
	m.Write([]byte("holdfast form"))
	return hex.EncodeToString(m.Sum(nil))
}

// CheckForm refuses a change whose form did not come from one of our pages.
// The Sec-Fetch-Site and Origin checks say the same; this one does not depend
// on what a browser sends. Programs that hold the token need no form.
func (g *Inspector) CheckForm(r *http.Request) *Problem {
	given := r.Header.Get(FormHeader)
	if given == "" {
		given = r.PostFormValue(FormField)
	}
	if g.hasToken(r) || same(given, g.FormToken()) {
		return nil
	}
	return forbid("form", "This form is from before Holdfast was restarted, or from elsewhere.", "Reload the page and try again.")
}

// asksForPage reports whether a person's browser wants to show the answer.
func asksForPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// innerPath is where a login leads: a path of our own pages and nothing else.
func innerPath(next string) string {
	if !strings.HasPrefix(next, "/ui/") || strings.ContainsAny(next, "\\\"'<>&\r\n\x00") || strings.Contains(next, "//") {
		return "/ui/"
	}
	return next
}
