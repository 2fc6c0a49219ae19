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

// TestClientsFold: real clients finish a session in which the model folds
// twice. They never see a call of ours, and everything the model gets is what a
// strict provider takes.
func TestClientsFold(t *testing.T) {
	model := demo.NewModel(demo.Options{})
	server := httptest.NewServer(model)
	defer server.Close()
	program := buildProgram(t)
	for _, a := range realAgents() {
		if !strings.HasPrefix(a.name, "pi-") && a.name != "claude-code" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			h := startHoldfast(t, program, "on")
			tp := newTap(t, h.addr, nil)
			label := a.name + "-fold"
			in := newSandbox(t)
			for i, prompt := range foldPrompts() {
				shown := a.say(t, in, tp.url+"/via/"+demo.BaseURL(server.URL, label)+a.path, prompt, i > 0)
				if want := [2]string{"First part done.", "Second part done."}[i]; !strings.Contains(shown, want) {
					t.Errorf("run %d shows %s", i+1, shown)
				}
			}
			for i, ex := range tp.seen() {
				if bytes.Contains(ex.response, []byte("hf_compress")) || bytes.Contains(ex.body, []byte(`"hf_compress"`)) {
					t.Errorf("exchange %d: the client knows of our call", i)
				}
			}
			folds := folded(t, a, model.Recordings(label))
			if folds < 2 {
				t.Errorf("%d folds reached the model, want 2", folds)
			}
		})
	}
}

// folded judges what the model got and counts the carriers in its last request.
func folded(t *testing.T, a agent, recordings []demo.Recording) (folds int) {
	t.Helper()
	var codec wire.Codec = anthropic.Codec{}
	if a.path != "" {
		codec = openai.Codec{}
	}
	for i, r := range recordings {
		if !strings.HasSuffix(r.Path, "/messages") && !strings.HasSuffix(r.Path, "/chat/completions") {
			continue
		}
		if err := wiretest.Accept(codec, r.Body, false); err != nil {
			t.Errorf("request %d is refused: %v", i+1, err)
		}
		folds = max(folds, strings.Count(string(r.Body), "[fold b")-strings.Count(string(r.Body), `\"[fold b3\"`))
	}
	return folds
}
