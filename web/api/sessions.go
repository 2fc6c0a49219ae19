package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdfast/core/content"
	"holdfast/core/guard"
	"holdfast/core/session"
)

// Page sizes of lists: what a screen shows, and the most one answer carries.
const (
	pageSize    = 50
	maxPageSize = 500
)

// SessionList is a page of sessions, newest first.
type SessionList struct {
	Sessions []session.SessionView `json:"sessions"`
	Page
}

// TurnList is a page of turns, newest first.
type TurnList struct {
	Turns []session.TurnView `json:"turns"`
	Page
}

// Page says which part of a list this is.
type Page struct {
	Total int `json:"total"`
	Page  int `json:"page"` // from 1
	Size  int `json:"size"`
}

// Verification is the outcome of checking one ledger.
type Verification struct {
	Session  string   `json:"session"`
	Sound    bool     `json:"sound"`
	Elements int      `json:"elements"`
	Rows     int      `json:"rows"`
	Turns    int      `json:"turns"`
	NotKept  int      `json:"not_kept"` // sides of turns recorded by size and hash
	Served   string   `json:"served"`   // why the rows are not used at present, "" when they are
	Faults   []string `json:"faults"`
}

func (a *API) sessions(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r)
	if err != nil {
		return err
	}
	list, total, err := a.Sessions.Sessions(r.Context(), r.URL.Query().Get("q"), p.Page, p.Size)
	if err != nil {
		return err
	}
	p.Total = total
	return writeJSON(w, SessionList{orEmpty(list), p})
}

func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	s, err := a.Sessions.Session(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, s)
}

func (a *API) rows(w http.ResponseWriter, r *http.Request) error {
	rows, err := a.Sessions.RowViews(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, struct {
		Rows []session.RowView `json:"rows"`
	}{orEmpty(rows)})
}

func (a *API) coverage(w http.ResponseWriter, r *http.Request) error {
	c, err := a.Sessions.Coverage(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, c)
}

func (a *API) turns(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r)
	if err != nil {
		return err
	}
	list, total, err := a.Turns.Turns(r.Context(), r.PathValue("id"), p.Page, p.Size)
	if err != nil {
		return err
	}
	p.Total = total
	return writeJSON(w, TurnList{orEmpty(list), p})
}

func (a *API) verify(w http.ResponseWriter, r *http.Request) error {
	v, err := a.Verify(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, v)
}

func (a *API) deleteSession(w http.ResponseWriter, r *http.Request) error {
	if err := a.Sessions.Delete(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) export(w http.ResponseWriter, r *http.Request) error {
	var out bytes.Buffer
	x := Exporter{a.Sessions, a.Bytes}
	format := r.URL.Query().Get("format")
	switch format {
	case "", "jsonl":
		format = "jsonl"
		w.Header().Set("Content-Type", "application/jsonl")
	case "md":
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	default:
		return badRequest("format", "The format "+strconv.Quote(format)+" is not known.", "Use jsonl or md.")
	}
	if err := x.Export(r.Context(), &out, r.PathValue("id"), format); err != nil {
		w.Header().Del("Content-Type")
		return err
	}
	name := "holdfast-" + url.PathEscape(r.PathValue("id")) + "." + format
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	w.Write(out.Bytes())
	return nil
}

// pageOf reads ?page and ?size.
func pageOf(r *http.Request) (Page, error) {
	p := Page{Page: 1, Size: pageSize}
	for name, to := range map[string]*int{"page": &p.Page, "size": &p.Size} {
		s := r.URL.Query().Get(name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || name == "size" && n > maxPageSize {
			return p, badRequest("page", "The parameter "+name+" is not a page.",
				fmt.Sprintf("Pages count from 1, sizes go up to %d.", maxPageSize))
		}
		*to = n
	}
	return p, nil
}

func badRequest(code, title, hint string) error {
	return &guard.Problem{Status: http.StatusBadRequest, Code: code, Title: title, Hint: hint}
}

// orEmpty makes an empty list [] in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// parseHash reads the hash of a row view.
func parseHash(s string) (content.ID, bool) {
	id, err := content.Parse(s)
	return id, err == nil
}

// asJSON returns raw when it is JSON, else as a JSON string.
func asJSON(raw []byte) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if err != nil {
		panic("api: internal error: a string does not encode: " + err.Error())
	}
	return quoted
}
