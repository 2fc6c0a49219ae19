package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/web/api"
	"holdfast/web/layout"
	"holdfast/web/overview"
	"holdfast/web/sessions"
)

// sessionSource is the ledger with the sides of a turn as plain bytes.
type sessionSource struct {
	Ledger
	bytes api.Bytes
}

// Plain undoes a reply's content encoding. One that nobody here knows stays as
// it is: the page shows what there is.
func (s sessionSource) Plain(ctx context.Context, turn int64, part string) ([]byte, string, error) {
	b, err := s.bytes.Body(ctx, turn, part)
	if err != nil {
		return nil, "", err
	}
	if raw, err := upstream.Decode(b.Bytes, b.Encoding); err == nil {
		return raw, b.Type, nil
	}
	return b.Bytes, b.Type, nil
}

// overviewSource is the ledger with the state of the process.
type overviewSource struct{ *site }

func (s overviewSource) TotalsByClient(ctx context.Context) ([]session.GroupTotals, error) {
	return s.Ledger.TotalsByClient(ctx)
}

func (s overviewSource) TurnPoints(ctx context.Context, id string, limit int) ([]session.TurnPoint, error) {
	return s.Ledger.TurnPoints(ctx, id, limit)
}

func (s overviewSource) FindSessions(ctx context.Context, q session.SessionQuery) ([]session.SessionView, int, error) {
	return s.Ledger.FindSessions(ctx, q)
}

func (s overviewSource) DegradeCounts(ctx context.Context, since int64) (session.DegradeCounts, error) {
	return s.Ledger.DegradeCounts(ctx, since)
}

// Now is the status object as the overview shows it.
func (s overviewSource) Now(ctx context.Context) (overview.Now, error) {
	st, err := s.API.Status(ctx)
	if err != nil {
		return overview.Now{}, err
	}
	trip := st.Chain.Tripwire
	return overview.Now{
		UptimeS: st.UptimeS, Mode: string(st.Rollout.Mode), Percent: st.Rollout.Percent, Bypass: st.Bypass,
		Seen: st.Traffic.Seen, Decrypted: st.Traffic.Decrypted, Folded: st.Traffic.Folded, InFlight: st.Traffic.InFlight,
		Failed: st.Traffic.FailedRecent, Skipped: st.Traffic.Skipped, Evidence: st.Rollout.Evidence, Gates: st.Chain.Gates,
		BreakerOpen: st.Chain.Breaker.State == session.BreakerOpen, BreakerUntil: st.Chain.Breaker.Until,
		Sampled: trip.Sampled, Equal: trip.Equal, Drift: trip.Drift, Diff: trip.Diff,
		CommitP50: st.Chain.CommitMs.P50, CommitP95: st.Chain.CommitMs.P95,
		LedgerBytes: st.Ledger.Bytes, LedgerBudget: st.Ledger.BudgetBytes, Sessions: st.Ledger.Sessions, Memory: st.MemoryBytes,
		KVState: st.KV.State, KVUsed: st.KV.UsedBytes, KVBudget: st.KV.BudgetBytes, BaseURL: s.BaseURL(),
	}, nil
}

// deleteSession removes a session for good.
func (s *site) deleteSession(r *http.Request) (string, error) {
	return "/ui/sessions", s.API.Sessions.Delete(r.Context(), r.PathValue("id"))
}

// verify checks one ledger and shows what was found.
func (s *site) verify(ss *sessions.Pages) view {
	return func(r *http.Request) (layout.Page, error) {
		v, err := s.API.Verify(r.Context(), r.PathValue("id"))
		if err != nil {
			return layout.Page{}, err
		}
		return ss.Check(r, sessions.Verified{Sound: v.Sound, Elements: v.Elements, Rows: v.Rows, Turns: v.Turns, NotKept: v.NotKept, Served: v.Served, Faults: v.Faults})
	}
}

// setRollout turns the rollout flag.
func (s *site) setRollout(r *http.Request) (string, error) {
	return back(r), s.API.Settings.Change(r.Context(), map[string]string{"rollout.mode": r.PostFormValue("mode")})
}

// setBypass turns the kill switch. Where sessions would outgrow their window
// without their folds the owner is asked first.
func (s *site) setBypass(r *http.Request) (string, error) {
	on := r.PostFormValue("on") == "true"
	if on && r.PostFormValue("confirm") != "true" {
		if err := s.API.MayBypass(r.Context()); err != nil {
			return "", &doubt{err, map[string]string{"on": "true", "confirm": "true", "back": back(r)}}
		}
	}
	return back(r), s.API.Settings.Change(r.Context(), map[string]string{"bypass": strconv.FormatBool(on)})
}

// doubt is a change the owner is asked about first: why, and what the form says
// that makes it all the same.
type doubt struct {
	error
	again map[string]string
}

func (d *doubt) Unwrap() error { return d.error }

// file answers with a download. It is whatever a client or model sent, so the
// browser must neither run nor sniff it.
func (s *site) file(make func(*http.Request) (sessions.File, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := make(r)
		if err != nil {
			s.show(func(*http.Request) (layout.Page, error) { return layout.Page{}, err })(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.Type)
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		h.Set("Content-Disposition", `attachment; filename="`+strings.ReplaceAll(f.Name, `"`, "")+`"`)
		w.Write(f.Data) // the reader may be gone; nothing to do about it
	}
}
