package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"holdfast/assets"
	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/web/api"
	"holdfast/web/layout"
)

// view makes one page; its error becomes the page a person gets.
type view func(*http.Request) (layout.Page, error)

// act changes something and says where to look next.
type act func(*http.Request) (next string, err error)

// show puts the shell around a view.
func (s *site) show(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := v(r)
		if err != nil {
			if r.Context().Err() != nil {
				return
			}
			p = s.failure(r, err)
		}
		s.write(w, r, max(p.Status, http.StatusOK), layout.Shell(s.frame(r), p))
	}
}

// part answers with a piece of a page.
func (s *site) part(make func(*http.Request) (templ.Component, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := make(r)
		if err != nil {
			p := s.failure(r, err)
			s.write(w, r, p.Status, p.Body)
			return
		}
		s.write(w, r, http.StatusOK, c)
	}
}

// write renders before the head is sent: half a page is worse than an error.
func (s *site) write(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
	var out bytes.Buffer
	if err := c.Render(r.Context(), &out); err != nil {
		s.API.Log.Error("a page could not be drawn", "path", r.URL.Path, "error", err)
		http.Error(w, "This page could not be drawn; the log has the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(out.Bytes()) // the reader may be gone; nothing to do about it
}

func (s *site) failure(r *http.Request, err error) layout.Page {
	p := api.ProblemOf(err)
	if p.Status >= http.StatusInternalServerError {
		s.API.Log.Error("a page failed", "path", r.URL.Path, "error", err)
	}
	return layout.Page{Title: p.Title, Status: p.Status, Body: layout.Failure(p.Title, p.Hint, p.Status)}
}

// notFound answers every path there is not: with a page for a person, with a
// problem for a program.
func (s *site) notFound(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/ui") {
		api.NotFound(w, r)
		return
	}
	s.show(func(*http.Request) (layout.Page, error) {
		return layout.Page{}, &guard.Problem{Status: http.StatusNotFound, Code: "no_such_page", Title: "There is no such page.",
			Hint: "It may have moved, or the address is mistyped."}
	})(w, r)
}

// formBytes bounds the body of a form.
const formBytes = 256 << 10

// checked lets a form through that came from one of our pages.
func (s *site) checked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, formBytes)
		if bad := s.Guard.CheckForm(r); bad != nil {
			s.show(func(*http.Request) (layout.Page, error) { return layout.Page{}, bad })(w, r)
			return
		}
		next(w, r)
	}
}

// do carries out an act and leads on.
func (s *site) do(a act) http.HandlerFunc {
	return s.checked(func(w http.ResponseWriter, r *http.Request) {
		next, err := a(r)
		var d *doubt
		if errors.As(err, &d) {
			p := s.failure(r, err)
			p.Body = layout.Question(s.Guard.FormToken(), p.Title, "/ui/bypass", d.again)
			s.write(w, r, p.Status, layout.Shell(s.frame(r), p))
			return
		}
		if err != nil {
			s.show(func(*http.Request) (layout.Page, error) { return layout.Page{}, err })(w, r)
			return
		}
		if t := r.PostFormValue("theme"); t != "" {
			http.SetCookie(w, themeCookie(t))
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

// themeName is the cookie of the owner's choice. It is not secret.
const themeName = "holdfast_theme"

func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeName); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

func themeCookie(theme string) *http.Cookie {
	c := &http.Cookie{Name: themeName, Value: theme, Path: "/ui/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode, HttpOnly: true}
	if theme != "light" && theme != "dark" {
		c.Value, c.MaxAge = "", -1
	}
	return c
}

func (s *site) theme(r *http.Request) (string, error) { return back(r), nil }

// back is the page a form was sent from.
func back(r *http.Request) string {
	b := r.PostFormValue("back")
	if !strings.HasPrefix(b, "/ui/") || strings.Contains(b, "//") || strings.Contains(b, `\`) {
		return "/ui/"
	}
	return b
}

// stateOf is the pill of the shell.
func stateOf(c *config.Config) layout.State {
	switch {
	case c.Bypass:
		return layout.State{Word: "Bypassed", Short: "Bypass", Tone: layout.Warn, Detail: "Every request is sent untouched."}
	case c.Rollout.Mode == config.On:
		return layout.State{Word: "Serving from snapshots", Short: "On", Tone: layout.Good, Detail: "Sessions with an id are served from their rows."}
	case c.Rollout.Mode == config.Shadow:
		return layout.State{Word: "Shadow", Short: "Shadow", Tone: layout.Info, Detail: "Rows are written and both paths compared; the client's own list is served."}
	}
	return layout.State{Word: "Recording only", Short: "Off", Tone: layout.Quiet, Detail: "The rollout is off: no rows are written."}
}

// Stranger is the page for a person who is not signed in, or whose link is
// spent.
func Stranger() func(*guard.Problem) []byte {
	set := assets.Open()
	return func(p *guard.Problem) []byte {
		title, hint := p.Title, p.Hint
		if p.Code == "token" {
			title, hint = "This inspector is yours, and locked", "It shows your conversations, so it opens only to a browser that you sent here."
		}
		var out bytes.Buffer
		// Rendering into memory cannot fail.
		_ = layout.Bare(set.URL, title, hint, "holdfast open").Render(context.Background(), &out)
		return out.Bytes()
	}
}
