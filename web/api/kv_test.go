package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/tier"
)

// store is a tier that remembers what it was asked.
type store struct {
	state kv.TierState
	asked string
	err   error
	plan  kv.Plan
}

func newStore() *store { return &store{state: kv.StateActive} }

func (s *store) Status() kv.Status {
	out := kv.Status{Version: 1, Inventory: []kv.StatusEntry{}}
	out.Effective.State = s.state
	out.Activity.Misses = map[kv.MissReason]int64{kv.MissNeverSeen: 4}
	out.Usage.UsedBytes = 1000
	return out
}

func (s *store) Written() (today, limit kv.Bytes) { return 0, 0 }

func (s *store) Mismatch() (fields []string, at time.Time) { return nil, time.Time{} }

func (s *store) Prune(_ context.Context, r tier.PruneRequest) (tier.Pruned, error) {
	s.asked = fmt.Sprint("prune dry=", r.DryRun)
	if r.Target != nil {
		s.asked += fmt.Sprint(" target=", *r.Target)
	}
	if r.Model != nil {
		s.asked += " model=" + r.Model.String()
	}
	return tier.Pruned{Plan: s.plan, Freed: 30}, s.err
}

func (s *store) Clear(_ context.Context, model *kv.ModelIdentity, dry bool) (tier.Pruned, error) {
	s.asked = fmt.Sprint("clear dry=", dry)
	if model != nil {
		s.asked += " model=" + model.String()
	}
	return tier.Pruned{Plan: s.plan, Freed: 70}, s.err
}

func (s *store) Verify(_ context.Context, model *kv.ModelIdentity) (tier.Verification, error) {
	s.asked = "verify"
	return tier.Verification{Blocks: 9, Bad: 1, Manifests: 1}, s.err
}

func TestKVRoutes(t *testing.T) {
	id := kv.ModelIdentity(content.Of([]byte("m"))).String()
	for _, c := range []struct {
		name, method, target, body string
		state                      kv.TierState
		err                        error
		status                     int
		has, asked                 string
	}{
		{"status", "GET", "/hf/v1/kv", "", "", nil, 200, `"state":"active"`, ""},
		{"status while off", "GET", "/hf/v1/kv", "", kv.StateOff, nil, 200, `"state":"off"`, ""},
		{"prune", "POST", "/hf/v1/kv/prune", "", "", nil, 200, `"freed_bytes":30,"dry_run":false`, "prune dry=false"},
		{"prune to a size", "POST", "/hf/v1/kv/prune", `{"target_bytes":500}`, "", nil, 200, `"status":{"version":1`, "prune dry=false target=500"},
		{"KV8 the identity is trimmed", "POST", "/hf/v1/kv/prune", `{"model_identity":"  ` + id + ` "}`, "", nil, 200, `"steps":[]`, "prune dry=false model=" + id},
		{"KV8 a blank identity", "POST", "/hf/v1/kv/prune", `{"model_identity":"  "}`, "", nil, 400, `"code":"model_identity"`, ""},
		{"half an identity", "DELETE", "/hf/v1/kv", `{"model_identity":"` + id[:20] + `"}`, "", nil, 400, `"code":"model_identity"`, ""},
		{"KV7 no target and no budget", "POST", "/hf/v1/kv/prune", "", "", tier.ErrNoTarget, 400, `use clear to delete everything`, "prune dry=false"},
		{"below zero", "POST", "/hf/v1/kv/prune", `{"target_bytes":-1}`, "", nil, 400, `"code":"target"`, ""},
		{"KV9 not JSON is a bad request, not an unknown command", "POST", "/hf/v1/kv/prune", `{`, "", nil, 400, `"code":"body"`, ""},
		{"unknown member", "DELETE", "/hf/v1/kv", `{"models":1}`, "", nil, 400, `"code":"body"`, ""},
		{"unreadable before off", "DELETE", "/hf/v1/kv", `[`, kv.StateOff, nil, 400, `"code":"body"`, ""},
		{"off before identity", "DELETE", "/hf/v1/kv", `{"model_identity":""}`, kv.StateOff, nil, 409, `"code":"kv_not_active"`, ""},
		{"not open", "DELETE", "/hf/v1/kv", "", "", tier.ErrNotActive, 409, `"code":"kv_not_active"`, "clear dry=false"},
		{"clear", "DELETE", "/hf/v1/kv", "", "", nil, 200, `"freed_bytes":70`, "clear dry=false"},
		{"clear one model, for show", "DELETE", "/hf/v1/kv", `{"model_identity":"` + id + `","dry_run":true}`, "", nil, 200, `"freed_bytes":600,"dry_run":true`, "clear dry=true model=" + id},
		{"clear takes no target", "DELETE", "/hf/v1/kv", `{"target_bytes":1}`, "", nil, 400, `"code":"target"`, ""},
		{"verify", "POST", "/hf/v1/kv/verify", "", "", nil, 200, `{"sound":false,"packs":0,"blocks":9,"bytes":0,"bad_blocks":1,"removed":1,"entries":0}`, "verify"},
		{"trouble", "POST", "/hf/v1/kv/verify", "", "", errors.New("the disk"), 500, `"code":"internal"`, "verify"},
		{"K16 metrics", "GET", "/metrics", "", "", nil, 200, "holdfast_kv_misses_total{reason=\"never_seen\"} 4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, h := newAPI(newShelf(), &knobs{})
			s := &store{state: kv.StateActive, err: c.err, plan: kv.Plan{Before: 1000, After: 400}}
			if c.state != "" {
				s.state = c.state
			}
			a.Tier = s
			w := do(h, c.method, c.target, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) || s.asked != c.asked {
				t.Errorf("%d %s\nasked %q, want %d %s %q", w.Code, w.Body, s.asked, c.status, c.has, c.asked)
			}
		})
	}
}

// A body that breaks off is no empty one, which would clear every model.
func TestKVBrokenBody(t *testing.T) {
	a, h := newAPI(&shelf{}, &knobs{})
	s := newStore()
	a.Tier = s
	for _, body := range []io.Reader{iotest.ErrReader(io.ErrUnexpectedEOF), strings.NewReader(strings.Repeat(" ", controlBytes+1))} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("DELETE", "/hf/v1/kv", body))
		if w.Code != 400 || s.asked != "" {
			t.Errorf("%d %s, the tier was asked %q", w.Code, w.Body, s.asked)
		}
	}
}

func TestKVPlanIsReadable(t *testing.T) {
	p := kv.Plan{Before: 10, After: 4, Manifests: 3, Removed: 1, Reached: true, Steps: []kv.Step{
		{Kind: kv.RemoveManifest, Manifest: kv.ManifestID{1}, Tokens: 64, Session: "s", Frees: 2, Used: 8, Why: "saves least for its bytes"},
		{Kind: kv.DeletePack, Pack: kv.PackID{2}, Frees: 4, Used: 4, Why: "nothing in it is named any more"},
	}}
	got, err := json.Marshal(NewKVPlan(p))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"remove","id":"01000000`, `"session":"s"`, `"kind":"delete","id":"02000000`, `"used_bytes":4`, `"reached":true,"manifests":1,`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}
