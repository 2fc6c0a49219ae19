//go:build clients

package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/core/demo"
	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
	"holdfast/core/wire/wiretest"
)

// foldPrompts are a session in which the model folds twice, in two runs of the
// client.
func foldPrompts() [2]string {
	run := `[{"k":"bash","cmd":"seq 1 2500"}]`
	compress := func(from, to string) string {
		return fmt.Sprintf(`[{"name":"hf_compress","args":{"content":[{"startId":%q,"endId":%q,"summary":"Numbers were counted up to the ones that were asked for, and every one of them was there."}]}}]`, from, to)
	}
	return [2]string{
		`Count. STUB{"played":true,"rounds":[` + strings.Join([]string{run, run, run, run, run, run, compress("m00001", "m00006"), run}, ",") + `],"final":"First part done."}`,
		`Go on. STUB{"played":true,"rounds":[` + strings.Join([]string{run, run, run, run, run, compress("m00007", "m00012"), run}, ",") + `],"final":"Second part done."}`,
	}
}

// foldRuns are the clients that fold, and what is behind Holdfast: a provider
// that checks what it signed and how calls and results go together, and one
// that wants turns to alternate as well.
func foldRuns() (runs []foldRun) {
	for _, a := range realAgents() {
		if a.name == "claude-code" || strings.HasPrefix(a.name, "pi-") {
			runs = append(runs, foldRun{a, demo.AlternateNowhere})
		}
		if strings.HasPrefix(a.name, "pi-") {
			runs = append(runs, foldRun{a, demo.AlternateEverywhere})
		}
	}
	return runs
}

type foldRun struct {
	agent
	turns demo.Alternation
}

// strict says that the route is configured as one that wants turns to alternate.
func (r foldRun) strict() bool { return r.turns == demo.AlternateEverywhere }

func (r foldRun) label() string { return fmt.Sprintf("%s-strict_roles-%t", r.name, r.strict()) }

// TestClientsFold: real clients finish a session in which the model folds
// twice. They never see a call of ours, and a strict provider refuses nothing.
func TestClientsFold(t *testing.T) {
	program := buildProgram(t)
	for _, r := range foldRuns() {
		t.Run(r.label(), func(t *testing.T) {
			model := demo.NewModel(demo.Options{Strict: true, Turns: r.turns})
			server := httptest.NewServer(model)
			defer server.Close()
			route := fmt.Sprintf("[routes.model]\nurl = %q\nstrict_roles = %t\n", demo.BaseURL(server.URL, r.label()), r.strict())
			tp := newTap(t, startHoldfast(t, program, "on", route).addr, nil)
			in := newSandbox(t)
			for i, prompt := range foldPrompts() {
				shown := r.say(t, in, tp.url+"/r/model"+r.path, prompt, i > 0)
				if want := [2]string{"First part done.", "Second part done."}[i]; !strings.Contains(shown, want) {
					t.Errorf("run %d shows %s", i+1, shown)
				}
			}
			for i, ex := range tp.seen() {
				if bytes.Contains(ex.response, []byte("hf_compress")) || bytes.Contains(ex.body, []byte(`"hf_compress"`)) {
					t.Errorf("exchange %d: the client knows of our call", i)
				}
			}
			r.folded(t, model.Recordings(r.label()))
		})
	}
}

// folded judges what the model got: nothing it refused, both folds, and
// reasoning with its signatures where the client asks for any.
func (r foldRun) folded(t *testing.T, recordings []demo.Recording) {
	t.Helper()
	var codec wire.Codec = anthropic.Codec{}
	if r.path != "" {
		codec = openai.Codec{}
	}
	folds, signed := 0, 0
	for i, rec := range recordings {
		if !strings.HasSuffix(rec.Path, "/messages") && !strings.HasSuffix(rec.Path, "/chat/completions") {
			continue
		}
		if err := wiretest.Accept(codec, rec.Body, r.strict()); err != nil || rec.Refused != "" {
			t.Errorf("request %d is refused: %v, %s", i+1, err, rec.Refused)
		}
		folds = max(folds, bytes.Count(rec.Body, []byte("[fold b"))-bytes.Count(rec.Body, []byte(`\"[fold b3\"`)))
		signed = max(signed, bytes.Count(rec.Body, []byte(`"signature":"`)))
	}
	if folds < 2 {
		t.Errorf("%d folds reached the model, want 2", folds)
	}
	if thinks := r.name == "claude-code"; (signed > 0) != thinks {
		t.Errorf("%d signed blocks of reasoning reached the model", signed)
	}
}
