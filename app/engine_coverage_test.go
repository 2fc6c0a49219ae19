//go:build clients && engine

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/session"
)

// chats sends a turn of a session to the local engine and waits for its reply.
// A reply of a few tokens would be a side request, which keeps no session.
func (h *holdfast) chats(t *testing.T, id string, texts ...string) {
	t.Helper()
	body := strings.Replace(talk(texts...), "{", `{"max_tokens":256,`, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Affinity", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", id, said, err, h.log.Bytes())
	}
}

// TestEngineCoverageOnDisk: what of a session lies only on disk is on its map.
// An engine with one slot reads a conversation, then another one takes the slot:
// the inventory lists what was kept of the first, and the coverage of the first
// says so over HTTP.
func TestEngineCoverageOnDisk(t *testing.T) {
	h := startHoldfast(t, buildProgram(t), "on", localRoute(t, "tiny", 1, 4096))
	h.chats(t, "zeroth", "Is anybody there?") // the engine is met and tried out
	h.proven(t)
	tide := strings.Repeat("The tide comes in and the tide goes out again. ", 10)
	h.chats(t, "first", "The harbour. "+tide, tide, "The pier. "+tide, tide, "The lock. "+tide, tide, "The quay. "+tide)
	first := h.newest(t, 2)
	h.chats(t, "second", "The tower. "+strings.Repeat("A light goes round and nobody sees it in the fog. ", 80))
	var status struct {
		Inventory []struct {
			Tokens   int64    `json:"tokens"`
			Sessions []string `json:"sessions"`
		} `json:"inventory"`
	}
	var c session.CoverageView
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		decode(t, h.get(t, "/hf/v1/kv"), &status)
		decode(t, h.get(t, "/hf/v1/sessions/"+first+"/coverage"), &c)
		onDisk := slices.IndexFunc(c.KV, func(v session.KVView) bool { return v.State == session.KVDisk })
		listed := 0
		for _, e := range status.Inventory {
			if slices.Contains(e.Sessions, first) {
				listed += int(e.Tokens)
			}
		}
		if onDisk >= 0 && listed > 0 {
			if v := c.KV[onDisk]; v.From != 0 || v.To <= v.From || v.To > c.PosHi {
				t.Errorf("on disk: %+v of %d positions", v, c.PosHi)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("on the map %+v, in the inventory %+v\n%s", c.KV, status.Inventory, h.log.Bytes())
		}
	}
}

// proven waits until the engine has been tried out: what is asked before that is
// not known token by token.
func (h *holdfast) proven(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(filepath.Join(h.home, "holdfast.log"))
		switch {
		case bytes.Contains(log, []byte("proven")):
			return
		case time.Now().After(end):
			t.Fatalf("not tried out: %v\n%s", err, log)
		}
	}
}

// newest waits for n sessions and is the one that was seen last.
func (h *holdfast) newest(t *testing.T, n int) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		switch ids := h.sessions(t); {
		case len(ids) == n:
			return ids[0]
		case time.Now().After(end):
			t.Fatalf("sessions %v\n%s", ids, h.log.Bytes())
		}
	}
}

func decode(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, data))
	}
}
