package guard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestCheckForm(t *testing.T) {
	g := inspector(&clock{time.Unix(0, 0)})
	other := inspector(&clock{time.Unix(0, 0)})
	for name, c := range map[string]struct {
		field, header, bearer string
		ok                    bool
	}{
		"field":                     {field: g.FormToken(), ok: true},
		"header":                    {header: g.FormToken(), ok: true},
		"token of a program":        {bearer: "tok", ok: true},
		"nothing":                   {},
		"cut":                       {field: g.FormToken()[:63]},
		"of another process":        {field: other.FormToken()},
		"the cookie itself":         {field: g.cookie},
		"wrong header, right field": {field: g.FormToken(), header: "x"},
	} {
		r := httptest.NewRequest("POST", "/ui/bypass", strings.NewReader(url.Values{FormField: {c.field}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if c.header != "" {
			r.Header.Set(FormHeader, c.header)
		}
		if c.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		if bad := g.CheckForm(r); (bad == nil) != c.ok {
			t.Errorf("%s: %v", name, bad)
		}
	}
	if strings.Contains(g.FormToken(), g.cookie) {
		t.Error("the form token reveals the cookie")
	}
}

func TestInnerPath(t *testing.T) {
	for next, want := range map[string]string{
		"/ui/sessions/a1/map": "/ui/sessions/a1/map", "/ui/sessions?q=a": "/ui/sessions?q=a",
		"": "/ui/", "https://evil.example": "/ui/", "//evil.example": "/ui/", "/ui//evil.example": "/ui/", "/hf/v1/status": "/ui/",
		`/ui/"><script>`: "/ui/", "/ui/\\evil": "/ui/", "/ui/a\r\nSet-Cookie: x": "/ui/", "/ui/'": "/ui/",
	} {
		if got := innerPath(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

// A person without a cookie gets a page, a program the problem, and a rebound
// name never a page; what is open holds nothing of anyone's.
func TestPageForStrangers(t *testing.T) {
	g := NewInspector(InspectorOptions{Token: "tok", Origins: func() []string { return nil }, Open: []string{"/ui/assets/"},
		Page: func(p *Problem) []byte { return []byte("page " + p.Code) }})
	h := g.Wrap(yes(t))
	for _, c := range []struct {
		method, target, accept, host string
		status                       int
		page                         string
	}{
		{"GET", "/ui/", "text/html,*/*", "127.0.0.1:1", 401, "page token"},
		{"GET", "/ui/", "application/json", "127.0.0.1:1", 401, ""},
		{"GET", "/ui/", "text/html", "evil.example", 403, ""},
		{"POST", "/ui/bypass", "text/html", "127.0.0.1:1", 401, ""},
		{"POST", LoginPath, "text/html", "127.0.0.1:1", 403, "page login"},
		{"GET", "/ui/assets/app.css", "", "127.0.0.1:1", 200, "ok"},
		{"GET", "/ui/assetsx", "", "127.0.0.1:1", 401, ""},
		{"GET", "/ui/assets/app.css", "", "evil.example", 403, ""},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		r.Host = c.host
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || c.page != "" && string(body) != c.page || c.page == "" && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s for %q at %s: %d %s", c.method, c.target, c.accept, c.host, w.Code, body)
		}
		if w.Code >= http.StatusBadRequest && w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s: no policy", c.method, c.target)
		}
	}
}
