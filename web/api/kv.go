package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"holdfast/core/guard"
	"holdfast/core/kv"
	"holdfast/core/tier"
)

// Tier is what the KV routes read and change.
type Tier interface {
	Status() kv.Status
	// Written is how many bytes were written today, and the day's cap.
	Written() (today, limit kv.Bytes)
	// Mismatch is in which fields of its identity an engine differed, the last
	// time that was why a prompt got nothing.
	Mismatch() (fields []string, at time.Time)
	Prune(ctx context.Context, r tier.PruneRequest) (tier.Pruned, error)
	Clear(ctx context.Context, model *kv.ModelIdentity, dryRun bool) (tier.Pruned, error)
	Verify(ctx context.Context, model *kv.ModelIdentity) (tier.Verification, error)
}

// KVChange is the body of the routes that delete: all of it may be left out.
// Clear takes no target.
type KVChange struct {
	TargetBytes   *kv.Bytes `json:"target_bytes,omitempty"`
	ModelIdentity *string   `json:"model_identity,omitempty"`
	DryRun        bool      `json:"dry_run,omitempty"`
}

// KVChanged answers prune and clear. With dry_run nothing was done, and
// FreedBytes is what would be.
type KVChanged struct {
	FreedBytes kv.Bytes  `json:"freed_bytes"`
	DryRun     bool      `json:"dry_run"`
	Plan       KVPlan    `json:"plan"`
	Status     kv.Status `json:"status"`
}

// KVPlan is what an eviction does, step by step.
type KVPlan struct {
	BeforeBytes kv.Bytes `json:"before_bytes"`
	AfterBytes  kv.Bytes `json:"after_bytes"`
	TargetBytes kv.Bytes `json:"target_bytes"`
	Reached     bool     `json:"reached"`
	Manifests   int      `json:"manifests"` // removed
	Steps       []KVStep `json:"steps"`
}

// KVStep is one step; UsedBytes is what the store takes after it.
type KVStep struct {
	Kind       kv.StepKind `json:"kind"`
	ID         string      `json:"id"` // of the manifest or the pack
	Tokens     kv.Tokens   `json:"tokens"`
	Session    string      `json:"session"`
	WriteBytes kv.Bytes    `json:"write_bytes"`
	FreedBytes kv.Bytes    `json:"freed_bytes"`
	UsedBytes  kv.Bytes    `json:"used_bytes"`
	Why        string      `json:"why"`
}

// NewKVPlan makes a plan readable.
func NewKVPlan(p kv.Plan) KVPlan {
	out := KVPlan{BeforeBytes: p.Before, AfterBytes: p.After, TargetBytes: p.Goal.Target, Reached: p.Reached,
		Manifests: p.Removed, Steps: []KVStep{}}
	for _, s := range p.Steps {
		id := s.Pack.String()
		if s.Kind == kv.RemoveManifest {
			id = s.Manifest.String()
		}
		out.Steps = append(out.Steps, KVStep{s.Kind, id, s.Tokens, s.Session, s.Writes, s.Frees, s.Used, s.Why})
	}
	return out
}

// KVVerification answers verify.
type KVVerification struct {
	Sound     bool     `json:"sound"`
	Packs     int      `json:"packs"`
	Blocks    int      `json:"blocks"`
	Bytes     kv.Bytes `json:"bytes"`
	BadBlocks int      `json:"bad_blocks"`
	Removed   int      `json:"removed"` // entries put aside because of them
	Entries   int      `json:"entries"` // that are left
}

func (a *API) registerKV(mux *http.ServeMux) {
	for pattern, h := range map[string]handler{
		"GET /hf/v1/kv":         a.kv,
		"DELETE /hf/v1/kv":      a.clearKV,
		"POST /hf/v1/kv/prune":  a.pruneKV,
		"POST /hf/v1/kv/verify": a.verifyKV,
	} {
		mux.HandleFunc(pattern, a.serve(h))
	}
}

func (a *API) kv(w http.ResponseWriter, _ *http.Request) error { return writeJSON(w, a.Tier.Status()) }

func (a *API) pruneKV(w http.ResponseWriter, r *http.Request) error {
	c, model, err := a.kvChange(w, r)
	if err != nil {
		return err
	}
	if c.TargetBytes != nil && *c.TargetBytes < 0 {
		return badRequest("target", "A target below zero is no size.", "Give the bytes to come down to.")
	}
	out, err := a.Tier.Prune(r.Context(), tier.PruneRequest{Target: c.TargetBytes, Model: model, DryRun: c.DryRun})
	return a.kvChanged(w, out, c.DryRun, err)
}

func (a *API) clearKV(w http.ResponseWriter, r *http.Request) error {
	c, model, err := a.kvChange(w, r)
	if err != nil {
		return err
	}
	if c.TargetBytes != nil {
		return badRequest("target", "Clear deletes everything, so it takes no target.", "Use prune to come down to a size.")
	}
	out, err := a.Tier.Clear(r.Context(), model, c.DryRun)
	return a.kvChanged(w, out, c.DryRun, err)
}

// kvChange reads the body of a change. The order of the checks is part of the
// contract: readable, then open, then the identity.
func (a *API) kvChange(w http.ResponseWriter, r *http.Request) (c KVChange, model *kv.ModelIdentity, err error) {
	if err := readOptionalJSON(w, r, &c); err != nil {
		return c, nil, err
	}
	if s := a.Tier.Status().Effective; s.State == kv.StateOff {
		return c, nil, kvProblem(tier.ErrNotActive)
	}
	if c.ModelIdentity == nil {
		return c, nil, nil
	}
	id, err := kv.ParseModelIdentity(*c.ModelIdentity)
	if err != nil {
		return c, nil, badRequest("model_identity", "This is not a model identity: "+strings.TrimPrefix(err.Error(), "kv: ")+".",
			"Copy one from the inventory of kv status, or leave it out to mean every model.")
	}
	return c, &id, nil
}

// readOptionalJSON is readJSON for a body that may be empty. One that did not
// arrive is not empty: to a clear that would mean everything.
func readOptionalJSON(w http.ResponseWriter, r *http.Request, to any) error {
	var head bytes.Buffer
	n, err := head.ReadFrom(http.MaxBytesReader(w, r.Body, controlBytes))
	if err != nil {
		return badRequest("body", "The body did not arrive whole, or is too long.", "Nothing was changed; send it again.")
	}
	if n == 0 {
		return nil
	}
	r.Body = readCloser{&head}
	return readJSON(w, r, to)
}

// readCloser is a body that was read already.
type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

func (a *API) kvChanged(w http.ResponseWriter, out tier.Pruned, dryRun bool, err error) error {
	if err != nil {
		return kvProblem(err)
	}
	answer := KVChanged{FreedBytes: out.Freed, DryRun: dryRun, Plan: NewKVPlan(out.Plan), Status: a.Tier.Status()}
	if dryRun {
		answer.FreedBytes = out.Plan.Before - out.Plan.After
	}
	return writeJSON(w, answer)
}

func (a *API) verifyKV(w http.ResponseWriter, r *http.Request) error {
	_, model, err := a.kvChange(w, r)
	if err != nil {
		return err
	}
	v, err := a.Tier.Verify(r.Context(), model)
	if err != nil {
		return kvProblem(err)
	}
	return writeJSON(w, KVVerification{Sound: v.Sound(), Packs: v.Packs, Blocks: v.Blocks, Bytes: v.Bytes,
		BadBlocks: v.Bad, Removed: v.Manifests, Entries: v.Entries})
}

// kvProblem is the answer for an error of the tier.
func kvProblem(err error) error {
	var refused *tier.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	p := &guard.Problem{Status: http.StatusConflict, Code: "kv_" + refused.Reason, Title: sentence(refused.What), Hint: sentence(refused.Hint)}
	if errors.Is(err, tier.ErrNoTarget) {
		p.Status = http.StatusBadRequest
	}
	return p
}

// sentence writes a text as one.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
