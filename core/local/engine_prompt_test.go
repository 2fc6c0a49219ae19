//go:build engine

package local

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/core/upstream"
)

// TestEnginePromptAcrossARestart: with a real engine, a prompt is in its slot
// after the turn, on disk and in no slot after a restart, and in a slot again
// after the next turn.
func TestEnginePromptAcrossARestart(t *testing.T) {
	first, second := turns(300)
	at := home{t.TempDir()}
	s := settings(t, "tiny")
	x := open(t, at, s)
	x.chat(1, first...)
	x.settled()
	before, ok := x.driver.Prompt("c1")
	if !ok || before.Total < 300 || before.Resident != before.Total {
		t.Errorf("after a turn: %+v", before)
	}
	x.close()

	y := open(t, at, s)
	if p, ok := y.driver.Prompt("c1"); ok {
		t.Errorf("known before anybody asked: %+v", p)
	}
	y.driver.Recall(upstream.Call{Conversation: "c1"}, time.UnixMilli(1), "/v1/chat/completions", mustBody(t, first))
	until(t, "the prompt is rendered again", func() bool { _, ok := y.driver.Prompt("c1"); return ok })
	if p, _ := y.driver.Prompt("c1"); p.Total != before.Total || p.Resident >= 64 || p.Disk < before.Total*9/10 || p.Disk > p.Total {
		t.Errorf("after a restart %+v, before %+v", p, before)
	}
	y.chat(1, second...)
	y.settled()
	if p, ok := y.driver.Prompt("c1"); !ok || p.Total <= before.Total || p.Resident != p.Total {
		t.Errorf("after the next turn: %+v", p)
	}
}

// datedTemplate is a template that begins every prompt with a date: today's, unless one
// is given.
const datedTemplate = `{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif -%}
Today is {{ date_string }}.
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// TestEngineDatePinned: with a template that writes the date, a conversation keeps
// the date it began on. Another driver that is told the same finds its prompt on
// disk, and one that is told another day finds nothing.
func TestEngineDatePinned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dated.jinja")
	if err := os.WriteFile(file, []byte(datedTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	x, end := unmanaged(t, "tiny", "-np", "1", "--chat-template-file", file)
	defer end()
	began := time.Date(2020, time.February, 29, 12, 0, 0, 0, time.Local)
	first, second := turns(300)
	ask := func(h *house, since time.Time, talk []map[string]any) reply {
		t.Helper()
		body, err := marshal(map[string]any{"messages": talk, "max_tokens": 1, "temperature": 0})
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.tryAs(t.Context(), upstream.Call{Conversation: "c1", Since: since}, "/v1/chat/completions", body)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		return r
	}
	x.identified()
	ask(x, began, first)
	x.settled()
	before, ok := x.driver.Prompt("c1")
	if !ok || before.Resident != before.Total {
		t.Errorf("after a turn: %+v", before)
	}
	text, err := x.identified().client.Render(t.Context(), pin(mustBody(t, first), upstream.Call{Since: began}))
	if err != nil || !strings.HasPrefix(text, "Today is 29 Feb 2020.") {
		t.Errorf("%v %.60q", err, text)
	}
	x.driver.prompts.forget(x.driver.prompts.last["c1"]) // as after a start
	x.driver.Recall(upstream.Call{Conversation: "c1", Since: began}, time.UnixMilli(1), "/v1/chat/completions", mustBody(t, first))
	until(t, "the prompt is rendered again", func() bool { _, ok := x.driver.Prompt("c1"); return ok })
	if p, _ := x.driver.Prompt("c1"); p.Total != before.Total || p.Resident != before.Resident {
		t.Errorf("recalled %+v, before %+v", p, before)
	}
	if r := ask(x, began, second); r.receipt.Restored < before.Total-1 {
		t.Errorf("the same date: %+v", r.receipt)
	}
	if r := ask(x, began.AddDate(0, 0, 1), first); r.receipt.Restored != 0 {
		t.Errorf("another date reuses %d tokens: %+v", r.receipt.Restored, r.receipt)
	}
	x.detach()
}
