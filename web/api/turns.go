package api

import (
	"net/http"
	"strconv"

	"holdfast/core/session"
)

func (a *API) turn(w http.ResponseWriter, r *http.Request) error {
	id, err := turnID(r)
	if err != nil {
		return err
	}
	t, err := a.Turns.TurnView(r.Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(w, t)
}

// body serves exact bytes. They are whatever a client or model sent, so the
// browser must not run or sniff them.
func (a *API) body(w http.ResponseWriter, r *http.Request) error {
	id, err := turnID(r)
	if err != nil {
		return err
	}
	part := r.PathValue("part")
	if part != "inbound" && part != "outbound" && part != "response" {
		NotFound(w, r)
		return nil
	}
	b, err := a.Bytes.Body(r.Context(), id, part)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if b.Type != "" {
		h.Set("Content-Type", b.Type)
	}
	if b.Encoding != "" {
		h.Set("Content-Encoding", b.Encoding)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Disposition", `attachment; filename="turn-`+strconv.FormatInt(id, 10)+"-"+part+`"`)
	w.Write(b.Bytes)
	return nil
}

func turnID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, session.ErrUnknown
	}
	return id, nil
}

func (a *API) degrades(w http.ResponseWriter, r *http.Request) error {
	var since int64
	if s := r.URL.Query().Get("since"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return badRequest("since", "The parameter since is not a time.", "Give unix milliseconds.")
		}
		since = n
	}
	list, err := a.Turns.Degrades(r.Context(), since)
	if err != nil {
		return err
	}
	return writeJSON(w, struct {
		Degrades []session.DegradeView `json:"degrades"`
	}{orEmpty(list)})
}
